"""LangGraph: SQLite checkpoints, dumps of the state history, and the debug stream. One run a thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import decode
from agentlens.readers.base import Format
from agentlens.readers.blocks import text_of
from agentlens.readers.documents import stem_of
from agentlens.readers.graph_steps import Checkpoint, Graph, Task
from agentlens.readers.langgraph_sqlite import is_checkpoints, read_database
from agentlens.readers.message_pack import plain
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_TASK: Final = ("id", "name", "path", "error", "interrupts", "state", "result")
_CHUNKS: Final = frozenset({"checkpoint", "task", "task_result"})
_LISTS: Final = ("history", "states", "events")
_SNAPSHOT: Final = (
    "values",
    "next",
    "config",
    "metadata",
    "created_at",
    "parent_config",
    "tasks",
    "interrupts",
)


def claim(head: Head) -> int:
    """Claim a database with checkpoint tables, snapshots with a config, and chunks of the debug stream."""
    if head.magic == "sqlite":
        return 95 if is_checkpoints(head.path) else 0
    rows = (row for value in head.values for row in _inside(value))
    return 95 if any(_snapshot(row) or _chunk(row) for row in rows) else 0


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every thread, whichever of the three exports it is."""
    if source.head().magic == "sqlite":
        yield from read_database(source, report)
        return
    stream, snapshots = _Stream(stem_of(source)), []
    unit: Literal["line", "record"] = "line" if source.is_lines() else "record"
    for number, row in _rows(source, report):
        if chunk := _chunk(row):
            yield from stream.chunk(*chunk, number)
        elif snapshot := _snapshot(row):
            snapshots.append((number, snapshot))
        else:
            report.quarantine(number, "no snapshot of a state and no chunk of a debug stream", unit)
    yield from stream.rest()
    yield from _history(snapshots, stem_of(source))


def _rows(source: Source, report: Report) -> Iterator[tuple[int, Any]]:
    """Yield snapshots and chunks with their line or index; those of a document in one line follow one another."""
    if source.is_lines():
        for number, line in source.lines(report):
            row = decode.loads(line, report, number)
            if row is not ABSENT:
                inside = _inside(row)
                yield from (
                    ((number, row) for row in inside) if len(inside) == 1 else enumerate(inside, number)
                )
        return
    document = source.document(report, ("", *_LISTS))
    if document is not ABSENT:
        yield from enumerate(_inside(document))


def _inside(value: Any) -> list[Any]:
    """Return the rows of a document, or the one row it is."""
    if isinstance(value, dict):
        return next((value[name] for name in _LISTS if isinstance(value.get(name), list)), [value])
    if isinstance(value, list) and not _chunk(value) and not _snapshot(value):
        return value
    return [value]


def _snapshot(row: Any) -> dict[str, Any]:
    """Return a snapshot as an object ({} for anything else); a named tuple is dumped as an array."""
    if isinstance(row, list) and 6 <= len(row) <= len(_SNAPSHOT):
        row = dict(zip(_SNAPSHOT, row, strict=False))
    if not isinstance(row, dict) or not {"values", "metadata"} <= row.keys():
        return {}
    return row if _configured(row.get("config")) or _configured(row.get("checkpoint")) else {}


def _chunk(row: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the namespace and the chunk of a debug stream, bare or beside its namespace and mode."""
    ns, parts = "", None
    if isinstance(row, list) and 2 <= len(row) <= 3 and isinstance(row[-1], dict):
        parts, row = row[0], row[-1]
    elif isinstance(row, dict) and row.get("type") == "debug" and isinstance(row.get("data"), dict):
        parts, row = row.get("ns"), row["data"]
    if isinstance(parts, list):
        ns = "|".join(part for part in parts if isinstance(part, str))
    if (
        not isinstance(row, dict)
        or text_of(row.get("type")) not in _CHUNKS
        or not isinstance(row.get("payload"), dict)
    ):
        return None
    return (ns, row) if "step" in row or "timestamp" in row else None


def _configured(config: Any) -> dict[str, Any]:
    """Return what a config configures: thread, namespace and checkpoint; also the older flat form."""
    if not isinstance(config, dict):
        return {}
    inner = config.get("configurable", config)
    return inner if isinstance(inner, dict) and {"thread_id", "checkpoint_id"} & inner.keys() else {}


def _saved(state: dict[str, Any], at: int | None, stem: str, ns: str = "") -> Checkpoint:
    """Build a checkpoint out of a snapshot, or of the payload of a chunk."""
    config = _configured(state.get("config")) or _configured(state.get("checkpoint"))
    parent = _configured(state.get("parent_config")) or _configured(state.get("parent_checkpoint"))
    metadata, values = state.get("metadata"), state.get("values")
    about = metadata if isinstance(metadata, dict) else {}
    return Checkpoint(
        run_id=text_of(config.get("thread_id")) or stem,
        ns=text_of(config.get("checkpoint_ns")) or ns,
        id=text_of(config.get("checkpoint_id")) or f"step {text_of(about.get('step'))}",
        parent=text_of(parent.get("checkpoint_id")) or None,
        at=at,
        source=text_of(about.get("source")),
        workflow=text_of(about.get("graph_id")) or None,
        values={name: plain(value) for name, value in values.items()} if isinstance(values, dict) else {},
    )


def _writes(result: Any) -> list[tuple[str, Any]]:
    """Return what a node wrote, channel by channel; older versions give pairs."""
    if isinstance(result, dict):
        return [(name, plain(value)) for name, value in result.items()]
    pairs = result if isinstance(result, list) else []
    return [
        (pair[0], plain(pair[1]))
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
    ]


def _asked(told: Any) -> list[Any]:
    return [plain(one) for one in told] if isinstance(told, list) else []


def _history(snapshots: list[tuple[int, dict[str, Any]]], stem: str) -> Iterator[RawEvent]:
    """Yield the events of snapshots, which are dumped newest first, oldest first."""
    graph = Graph()
    saved = [
        (_saved(state, moment(state.get("created_at")), stem), number, state) for number, state in snapshots
    ]
    saved.sort(key=lambda one: (one[0].run_id, one[0].at is None, one[0].at or 0, one[0].id, -one[1]))
    parents = {(one.run_id, one.ns, one.parent) for one, _, _ in saved}
    for checkpoint, number, state in saved:
        yield from graph.checkpoint(checkpoint, number)
        tasks = state.get("tasks")
        followed = (checkpoint.run_id, checkpoint.ns, checkpoint.id) in parents
        order = 3
        for item in tasks if isinstance(tasks, list) else ():
            # a named tuple is dumped as an array
            told = dict(zip(_TASK, item, strict=False)) if isinstance(item, list) else item
            if isinstance(told, dict):
                events = graph.task(
                    checkpoint, _snapshot_task(told, checkpoint, followed=followed), number, order
                )
                order += len(events)
                yield from events


def _snapshot_task(told: dict[str, Any], saved: Checkpoint, *, followed: bool) -> Task:
    path, asked = told.get("path"), _asked(told.get("interrupts"))
    pushed = isinstance(path, list) and bool(path) and path[0] == "__pregel_push"
    done = told.get("result") is not None or (followed and told.get("error") is None)
    return Task(
        id=text_of(told.get("id")) or f"{saved.id}/{text_of(told.get('name'))}",
        name=text_of(told.get("name")),
        at=saved.at,
        pushed=pushed,
        writes=_writes(told.get("result")),
        error=told.get("error"),
        interrupts=asked,
        resumed=bool(asked) and done,
        done=done,
    )


@dataclass(slots=True)
class _Stream:
    """A debug stream: tasks begin and end in chunks of their own, which name no thread."""

    stem: str
    graph: Graph = field(default_factory=Graph)
    tasks: dict[str, tuple[Checkpoint, Task, int]] = field(default_factory=dict)
    planned: dict[str, Checkpoint] = field(default_factory=dict)  # task id -> the checkpoint it starts from
    last: dict[str, Checkpoint] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def chunk(self, ns: str, chunk: dict[str, Any], line: int) -> Iterator[RawEvent]:
        at, payload = moment(chunk.get("timestamp")), chunk["payload"]
        if chunk["type"] == "checkpoint":
            saved = _saved(payload, at, self.stem, ns)
            yield from self.graph.checkpoint(saved, line)
            self.last[saved.ns] = self.last[""] = saved
            tasks = payload.get("tasks")
            for told in tasks if isinstance(tasks, list) else ():
                if isinstance(told, dict):
                    self.planned[text_of(told.get("id"))] = saved
        elif chunk["type"] == "task":
            self._begin(ns, payload, at, line)
        else:
            yield from self._end(ns, payload, at, line)

    def _begin(self, ns: str, payload: dict[str, Any], at: int | None, line: int) -> None:
        key = text_of(payload.get("id"))
        if key in self.done:
            return  # told again as the graph goes on; it does not run again
        if key in self.tasks:  # it goes on after a question
            task = self.tasks[key][1]
            task.resumed, task.resumed_at = bool(task.interrupts), at
            return
        triggers = payload.get("triggers")
        pushed = isinstance(triggers, list) and "__pregel_push" in triggers
        task = Task(
            id=key,
            name=text_of(payload.get("name")),
            at=at,
            given=plain(payload.get("input", ABSENT)),
            pushed=pushed,
        )
        self.tasks[key] = (self._place(key, ns), task, line)

    def _end(self, ns: str, payload: dict[str, Any], at: int | None, line: int) -> Iterator[RawEvent]:
        key = text_of(payload.get("id"))
        unseen = Task(id=key, name=text_of(payload.get("name")), pushed=True)
        saved, task, begun = self.tasks.get(key) or (self._place(key, ns), unseen, line)
        asked = _asked(payload.get("interrupts"))
        if asked:
            task.interrupts, task.waited_at = asked, at
            self.tasks[key] = (saved, task, begun)
            return
        task.ended_at, task.error = at, payload.get("error")
        task.writes, task.done = _writes(payload.get("result")), task.error is None
        self.tasks.pop(key, None)
        self.done.add(key)
        yield from self.graph.task(saved, task, line)

    def _place(self, key: str, ns: str) -> Checkpoint:
        found = self.planned.pop(key, None) or self.last.get(ns) or self.last.get("")
        return found or Checkpoint(run_id=self.stem, ns=ns, id="")

    def rest(self) -> Iterator[RawEvent]:
        """Yield what never ended."""
        for saved, task, line in self.tasks.values():
            yield from self.graph.task(saved, task, line)


FORMAT = Format(
    name="langgraph",
    version=2,
    title="LangGraph: SQLite checkpoints, state history, debug stream",
    recognised_by="tables checkpoints and writes; snapshots with values and config.configurable; debug chunks",
    proved_on="a graph with a question, two lost retries and a fork, exported in all three ways",
    claim=claim,
    read=read,
    rank=45,
)
