"""LangGraph checkpoints in SQLite: opened read-only as they stand, nothing unpickled, no class looked up."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.blocks import text_of
from agentlens.readers.databases import DAMAGE, columns, connect, opened
from agentlens.readers.graph_steps import SENDS, Checkpoint, Graph, Task
from agentlens.readers.message_pack import PackedError, plain, unpack
from agentlens.readers.source import DOCUMENT_LIMIT
from agentlens.readers.stamps import moment

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from agentlens.model.raw import RawEvent
    from agentlens.readers.base import Report
    from agentlens.readers.source import Source

_NEEDED: Final = {
    "checkpoints": {"thread_id", "checkpoint_id", "parent_checkpoint_id", "checkpoint"},
    "writes": {"thread_id", "checkpoint_id", "task_id", "idx", "channel", "value"},
}
_NOBODY: Final = "00000000-0000-0000-0000-000000000000"
_PUSHED = re.compile(r"~?__pregel_push, (\d{1,12})\b")


def is_checkpoints(path: Path | None) -> bool:
    """Say whether a file is a SQLite database with the two tables; any other answer is no."""
    if path is None:
        return False
    try:
        with closing(connect(path)) as database:
            return all(needed <= columns(database, table) for table, needed in _NEEDED.items())
    except (OSError, *DAMAGE):
        return False


def read_database(source: Source, report: Report) -> Iterator[RawEvent]:
    """Yield the events of all threads; a value that cannot be decoded costs only itself."""
    if source.size() > DOCUMENT_LIMIT:
        report.quarantine(0, f"a database of more than {DOCUMENT_LIMIT >> 30} GiB is not opened", "byte")
        return
    log = source.path.with_name(source.path.name + "-wal")
    if log.is_file() and log.stat().st_size:
        report.repaired["write-ahead log beside the database left unread: checkpoint it first"] += 1
    number = 0
    try:
        with opened(source) as database:
            for table, needed in _NEEDED.items():
                if missing := needed - columns(database, table):
                    report.quarantine(0, f"table {table} lacks {', '.join(sorted(missing))}", "byte")
                    return
            reader = _Database(database, report)
            for number, saved in enumerate(reader.checkpoints(), 1):
                yield from reader.events(saved, number)
    except DAMAGE as error:
        report.quarantine(number, f"the database is damaged: {error}", "row")


_NO_NODES: Final = frozenset({"__input__", "__interrupt__"})


class _Database:
    """The checkpoints of a database and, of each, the writes of its tasks."""

    def __init__(self, database: sqlite3.Connection, report: Report) -> None:
        self.database = database
        self.report = report
        self.graph = Graph()
        self.parents: set[tuple[str, str, str]] = set()
        self.own, self.write = columns(database, "checkpoints"), columns(database, "writes")

    def _column(self, name: str, columns: set[str], absent: str = "NULL") -> str:
        return name if name in columns else f"{absent} AS {name}"

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Yield the checkpoints, thread by thread, oldest first: their ids begin with the time."""
        ns = self._column("checkpoint_ns", self.own, "''")
        self.parents = {
            (text_of(thread), text_of(space), text_of(parent))
            for thread, space, parent in self.database.execute(
                f"SELECT thread_id, {ns}, parent_checkpoint_id FROM checkpoints"  # noqa: S608 - our own names
            )
        }
        for _, space, _ in self.parents:
            self.graph.holds(space)
        rows = self.database.execute(
            f"SELECT thread_id, {ns}, checkpoint_id, parent_checkpoint_id, "  # noqa: S608 - our own names
            f"{self._column('type', self.own)}, checkpoint, {self._column('metadata', self.own)} "
            "FROM checkpoints ORDER BY thread_id, checkpoint_id, checkpoint_ns"
        )
        for number, (thread, space, key, parent, kind, state, told) in enumerate(rows, 1):
            saved = self._decoded(kind, state, number)
            metadata = self._metadata(told)
            values = saved.get("channel_values") if isinstance(saved, dict) else None
            yield Checkpoint(
                run_id=text_of(thread) or "thread",
                ns=text_of(space),
                id=text_of(key),
                parent=text_of(parent) or None,
                at=moment(saved.get("ts")) if isinstance(saved, dict) else None,
                source=text_of(metadata.get("source")),
                workflow=text_of(metadata.get("graph_id")) or None,
                values=values if isinstance(values, dict) else {},
            )

    def events(self, saved: Checkpoint, number: int) -> Iterator[RawEvent]:
        """Yield the events of a checkpoint and of the tasks that ran from it."""
        yield from self.graph.checkpoint(saved, number)
        order = 3
        for task in self._tasks(saved, number):
            events = self.graph.task(saved, task, number, order)
            order += len(events)
            yield from events

    def _tasks(self, saved: Checkpoint, number: int) -> list[Task]:
        tasks: dict[str, Task] = {}
        path = self._column("task_path", self.write, "''")
        ns = "checkpoint_ns = ?" if "checkpoint_ns" in self.write else "? IS NOT NULL"
        rows = self.database.execute(
            f"SELECT task_id, {path}, channel, {self._column('type', self.write)}, value FROM writes "  # noqa: S608 - our own names
            f"WHERE thread_id = ? AND {ns} AND checkpoint_id = ? ORDER BY task_id, idx",
            (saved.run_id, saved.ns, saved.id),
        )
        for key, told, channel, kind, value in rows:
            if text_of(key) == _NOBODY:
                continue  # an answer to whoever asks: the task that took it has its own
            task = tasks.setdefault(text_of(key), self._task(saved, text_of(key), text_of(told)))
            self._written(task, text_of(channel), self._decoded(kind, value, number))
        for task in tasks.values():
            if not task.name:
                task.name = self._node_of(saved, len(tasks), number)
            followed = (saved.run_id, saved.ns, saved.id) in self.parents
            task.done = task.error is None and (followed or bool(task.writes))
            task.resumed = task.resumed and bool(task.interrupts)
        return list(tasks.values())

    def _node_of(self, saved: Checkpoint, tasks: int, number: int) -> str:
        """Name the one node that was to run, where older databases keep no path; else "node"."""
        due = [name.removeprefix("branch:to:") for name in saved.values if name.startswith("branch:to:")]
        due = due if len(due) == 1 else self._ran(saved, number)
        return due[0] if len(due) == 1 and tasks == 1 else "node"

    def _ran(self, saved: Checkpoint, number: int) -> list[str]:
        """Name the nodes that the checkpoints after this one have seen more of: they ran in between."""
        ns = "checkpoint_ns = ?" if "checkpoint_ns" in self.own else "? IS NOT NULL"
        query = (
            f"SELECT {self._column('type', self.own)}, checkpoint FROM checkpoints "  # noqa: S608 - our own names
            f"WHERE thread_id = ? AND {ns} AND "
        )
        at = (saved.run_id, saved.ns, saved.id)
        before, later = (
            [
                told
                for kind, state in self.database.execute(f"{query}{which} = ?", at)
                for told in self._seen(kind, state, number).items()
            ]
            for which in ("checkpoint_id", "parent_checkpoint_id")
        )
        changed = {name for name, versions in later if (name, versions) not in before}
        return sorted(changed - _NO_NODES)

    def _seen(self, kind: Any, state: Any, number: int) -> dict[str, Any]:
        """Return, of a checkpoint, the versions of the state that each node has seen."""
        decoded = self._decoded(kind, state, number)
        seen = decoded.get("versions_seen") if isinstance(decoded, dict) else None
        return {text_of(name): told for name, told in seen.items()} if isinstance(seen, dict) else {}

    def _task(self, saved: Checkpoint, key: str, path: str) -> Task:
        """Build the task of a path: ``~__pregel_pull, node`` read the state, ``~__pregel_push, 2`` was sent."""
        pushed = _PUSHED.match(path)
        if pushed is None:
            return Task(id=key, name=path.rpartition(", ")[2], at=saved.at)
        sends, index = saved.values.get(SENDS), int(pushed[1])
        sent = sends[index] if isinstance(sends, list) and index < len(sends) else None
        known = sent if isinstance(sent, dict) else {}
        return Task(
            id=key,
            name=text_of(known.get("node")),
            at=saved.at,
            given=known.get("arg", ABSENT),
            pushed=True,
        )

    def _written(self, task: Task, channel: str, value: Any) -> None:
        if channel == "__interrupt__":
            task.interrupts += value if isinstance(value, list) else [value]
        elif channel == "__resume__":
            task.resumed = True
        elif channel == "__error__":
            task.error = text_of(value) or (value if isinstance(value, dict) else "unknown")
        else:
            task.writes.append((channel, None if value is ABSENT else value))

    def _decoded(self, kind: Any, value: Any, number: int) -> Any:
        """Decode a stored value by its kind; ``ABSENT`` for one that is not opened, which is counted."""
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        name = text_of(kind) or "msgpack"
        if name in {"null", "empty"} or data is None:
            return None
        if not isinstance(data, bytes):
            return ABSENT
        if name == "msgpack":
            try:
                return unpack(data)
            except PackedError as error:
                self.report.quarantine(number, f"a value that cannot be decoded: {error}", "row")
                return ABSENT
        if name == "json":
            found = decode.attempt(data)
            return found if found is ABSENT else plain(found)
        if name in {"bytes", "bytearray"}:
            return data.decode("utf-8", "replace")
        self.report.unknown[f"value stored as {name[:40]}, not opened"] += 1
        return ABSENT

    def _metadata(self, told: Any) -> dict[str, Any]:
        if isinstance(told, bytes):
            found = decode.attempt(told)
            if found is ABSENT:
                try:
                    found = unpack(told)
                except PackedError:
                    found = {}
        else:
            found = decode.attempt(told) if isinstance(told, str) else told
        return found if isinstance(found, dict) else {}
