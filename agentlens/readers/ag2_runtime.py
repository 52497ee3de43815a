"""AG2 runtime logs: the SQLite tables and the file that ``runtime_logging`` writes. One run a session.

Functions that ran are recorded by themselves; messages are recorded where they were received, so that one message to a
group is there once a member.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers import prompts
from agentlens.readers.base import Format
from agentlens.readers.blocks import count_of, number_of, text_of
from agentlens.readers.databases import DAMAGE, columns, connect, opened
from agentlens.readers.decode import attempt, loads
from agentlens.readers.documents import stem_of
from agentlens.readers.messages import Call, Reply, failure_of
from agentlens.readers.source import DOCUMENT_LIMIT
from agentlens.readers.stamps import moment
from agentlens.readers.transcript import Turn, group_chat, turn_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_NEEDED: Final = {
    "chat_completions": {"invocation_id", "request", "response"},
    "events": {"event_name", "json_state", "source_name"},
}
_ORDER: Final = ("agents", "chat_completions", "function_calls", "events")
_STARTED: Final = re.compile(rb"Started new session with Session ID: ([0-9a-f-]{36})")
_HEARD: Final = "received_message"


def claim(head: Head) -> int:
    """Claim a database with both tables, and lines that the file logger writes."""
    if head.magic == "sqlite":
        return 95 if _is_runtime(head) else 0
    return 92 if any(_table_of(value) for value in head.values) or _STARTED.match(head.data) else 0


def _is_runtime(head: Head) -> bool:
    if head.path is None:
        return False
    try:
        with closing(connect(head.path)) as database:
            return all(needed <= columns(database, table) for table, needed in _NEEDED.items())
    except (OSError, *DAMAGE):
        return False


def _table_of(row: Any) -> str:
    """Name the table that a line of the file would be a row of; "" for anything else."""
    names = row.keys() if isinstance(row, dict) else set()
    if {"event_name", "json_state"} <= names:
        return "events"
    if {"invocation_id", "wrapper_id", "request"} <= names:
        return "chat_completions"
    if {"input_args", "returns"} <= names:
        return "function_calls"
    return "agents" if {"agent_name", "agent_type", "session_id"} <= names else ""


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of every session."""
    runtime = _Runtime(report, stem_of(source))
    if source.head().magic == "sqlite":
        _read_tables(source, runtime, report)
    else:
        for number, line in source.lines(report):
            if begun := _STARTED.search(line):
                runtime.session = begun[1].decode()
                continue
            row = loads(line, report, number) if line[:1] == b"{" else ABSENT
            if isinstance(row, dict) and (table := _table_of(row)):
                runtime.take(table, row, number)
            else:
                report.unknown["line of plain text" if row is ABSENT else "other record"] += 1
    yield from runtime.events()


def _read_tables(source: Source, runtime: _Runtime, report: Report) -> None:
    if source.size() > DOCUMENT_LIMIT:
        report.quarantine(0, f"a database of more than {DOCUMENT_LIMIT >> 30} GiB is not opened", "byte")
        return
    number = 0
    try:
        with opened(source) as database:
            for table in _ORDER:
                names = sorted(columns(database, table))
                listed = ", ".join(f'"{name}"' for name in names if name.isidentifier())
                if not listed:
                    continue
                found = database.execute(f"SELECT {listed} FROM {table}")  # noqa: S608 - names of its own columns
                for row in found:
                    number += 1
                    told = dict(zip((name for name in names if name.isidentifier()), row, strict=True))
                    runtime.take(table, told, number)
    except DAMAGE as error:
        report.quarantine(number, f"the database is damaged: {error}", "row")


@dataclass(slots=True)
class _Session:
    turns: list[Turn] = field(default_factory=list)
    times: dict[int, int | None] = field(default_factory=dict)
    told: list[RawEvent] = field(default_factory=list)
    ran: bool = False  # functions are recorded by themselves
    heard: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class _Runtime:
    """What the rows of one log say, session by session."""

    report: Report
    session: str  # of rows that do not say of which
    sessions: dict[str, _Session] = field(default_factory=dict)
    of_agent: dict[str, str] = field(default_factory=dict)  # id of an agent -> its session

    def take(self, table: str, row: dict[str, Any], number: int) -> None:
        name = text_of(row.get("session_id")) or self.of_agent.get(text_of(row.get("source_id")), "")
        if table == "agents":
            if name:
                self.session = name
                self.of_agent[text_of(row.get("agent_id", row.get("id")))] = name
            return
        found = self.sessions.setdefault(name or self.session, _Session())
        about = RawEvent(run_id=name or self.session, agent=text_of(row.get("source_name")))
        about.position = (number, 0)
        if table == "chat_completions":
            found.told += self._answer(row, about)
        elif table == "function_calls":
            found.ran = True
            found.told.append(self._ran(row, about))
        elif row.get("event_name") == _HEARD:
            self._heard(row, number, found)

    def _answer(self, row: dict[str, Any], about: RawEvent) -> Iterator[RawEvent]:
        request, answer = _opened(row.get("request")), _opened(row.get("response"))
        asked, got = (value if isinstance(value, dict) else {} for value in (request, answer))
        usage = got.get("usage") if isinstance(got.get("usage"), dict) else {}
        own = text_of(row.get("invocation_id"))
        began, ended = moment(row.get("start_time")), moment(row.get("end_time"))
        cached = row.get("is_cached") == 1
        yield replace(
            about, kind="model", at=began, ended_at=ended, model=text_of(asked.get("model")) or None,
            tokens_in=None if cached else count_of((usage or {}).get("prompt_tokens")),
            tokens_out=None if cached else count_of((usage or {}).get("completion_tokens")),
            cost_usd=number_of(row.get("cost")), identity=f"invocation/{own}" if own else None,
            error_class=failure_of(answer) if answer and not got else None,
        )  # fmt: skip
        calls, replies = prompts.told({"output": got, "input": asked})
        steps: list[Call | Reply] = [*replies, *calls]
        for order, step in enumerate(steps, 1):
            is_call = isinstance(step, Call)
            yield replace(
                about, kind="log", position=(about.position[0], order), at=ended if is_call else None,
                ended_at=None if is_call else began, tool=step.name if is_call else "", open=is_call,
                args=step.args if isinstance(step, Call) else ABSENT, result=step.result, error_class=step.error,
                call_id=step.call_id or None, identity=f"asked:{step.call_id or f'{own}/{order}'}",
            )  # fmt: skip

    @staticmethod
    def _ran(row: dict[str, Any], about: RawEvent) -> RawEvent:
        returns = _opened(row.get("returns"))
        args = _opened(row.get("args", row.get("input_args")))
        at = moment(row.get("timestamp"))
        return replace(
            about, kind="tool", tool=text_of(row.get("function_name")) or "function", at=at, ended_at=at,
            args=ABSENT if args is None else args,
            result=ABSENT if returns is None else returns, error_class=failure_of(returns), open=False,
        )  # fmt: skip

    def _heard(self, row: dict[str, Any], number: int, found: _Session) -> None:
        """Keep a message, the first time that somebody received it."""
        state = _opened(row.get("json_state"))
        state = state if isinstance(state, dict) else {}
        message, sender = state.get("message"), text_of(state.get("sender"))
        message = {"content": message} if isinstance(message, str) else message
        if not isinstance(message, dict):
            return
        known = blake2b(
            repr((sender, sorted(message.items(), key=str))).encode("utf-8", "replace"), digest_size=16
        )
        if known.digest() in found.heard:
            return
        found.heard.add(known.digest())
        turn = turn_of(
            number,
            {**message, "name": sender or message.get("name"), "role": message.get("role", "assistant")},
        )
        if turn is not None:
            found.turns.append(turn)
            found.times[number] = moment(row.get("timestamp"))

    def events(self) -> Iterator[RawEvent]:
        for name, found in self.sessions.items():
            yield from found.told
            asking = any(event.identity for event in found.told if event.kind == "log")
            for event in group_chat(found.turns, name):
                if event.call_id and (found.ran or asking):
                    continue  # what ran, and what models asked for, is told by rows of its own
                at = found.times.get(event.position[0])
                event.at = (
                    None if event.result is not ABSENT and event.kind != "message" and event.call_id else at
                )
                event.position = (event.position[0], event.position[1] + 32)
                yield event


def _opened(value: Any) -> Any:
    """Return what a text of JSON holds; the text itself where it is none."""
    if not isinstance(value, str):
        return value
    found = attempt(value)
    return value if found is ABSENT else found


FORMAT = Format(
    name="ag2-runtime",
    version=1,
    title="AG2 runtime logs (SQLite tables, or the lines of the file logger)",
    recognised_by="tables chat_completions and events; lines with event_name and json_state, or invocation_id",
    proved_on="made-up rows after the source; no public log is known",
    claim=claim,
    read=read,
    rank=45,
)
