"""Planted runs as native records and as canonical events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentlens.model.raw import ABSENT, RawEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import polars as pl

    from agentlens.datasets.story import PlantedRun, Step

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stamp(ms: int) -> str:
    """Milliseconds since 1970 as RFC 3339 text in UTC.

    >>> stamp(1_793_606_400_000)
    '2026-11-02T08:00:00.000Z'
    """
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def native_events(run: PlantedRun) -> Iterator[dict[str, Any]]:
    """Yield the run as native event records, `seq` being the position in the story.

    A human turn has no record of its own: it is ``external_input`` on the next action. A claim has none either.
    """
    given = any(step.call and step.call.evidence is not None for step in run.steps)
    turn = False
    for seq, step in enumerate(run.steps):
        if step.call is None:
            turn = turn or step.kind == "turn"
            continue
        yield _native(run, step, seq, given=given, turn=turn)
        turn = False


def _native(run: PlantedRun, step: Step, seq: int, *, given: bool, turn: bool) -> dict[str, Any]:
    call = step.call
    assert call is not None
    record: dict[str, Any] = {
        "run_id": run.run_id,
        "agent": step.agent or run.agent,
        "seq": seq,
        "at": stamp(run.start_ms + step.start_ms),
        "ended_at": stamp(run.start_ms + step.end_ms),
        "tool": call.tool,
        "args": dict(call.args),
    }
    if call.result is not None:
        record["result"] = call.result
    if given:
        record["progress_fingerprint"] = call.evidence
    if call.error is not None:
        record["error_class"] = call.error
    if turn:
        record["external_input"] = True
    for name, value in step.facts.items():
        record[name] = _lease(value, run) if name == "lease" else value
    tokens_in, tokens_out = tokens(seq, step)
    record |= {"workflow": run.workflow, "model": run.model, "agent_version": run.agent_version}
    return record | {
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "cost_usd": cost(tokens_in, tokens_out),
    }


def _lease(lease: Mapping[str, Any], run: PlantedRun) -> dict[str, Any]:
    rest = {name: value for name, value in lease.items() if name != "deadline_ms"}
    return {**rest, "deadline": stamp(run.start_ms + lease["deadline_ms"])}


def tokens(seq: int, step: Step) -> tuple[int, int]:
    """Tokens in and out of the model call before a step: the history grows, so does what is read."""
    return 900 + 410 * seq, 40 + (step.end_ms - step.start_ms) % 211


def cost(tokens_in: int, tokens_out: int) -> float:
    """US dollars at a made-up price, exact to the micro-dollar."""
    return (tokens_in * 3 + tokens_out * 15) / 10_000_000


def canonical_events(runs: Iterable[PlantedRun]) -> pl.DataFrame:
    """Return the runs in the schema of `EVENTS`, digested with the public demo key."""
    from agentlens.normalise.assemble import assemble
    from agentlens.normalise.digest import Key
    from agentlens.normalise.rows import Normaliser
    from agentlens.normalise.tables import Tables

    normaliser = Normaliser(key=Key.public_demo(), tables=Tables.load())
    raw = [_raw(record, i) for i, record in enumerate(r for run in runs for r in native_events(run))]
    records = normaliser.frame(raw, source="planted", source_id="planted", reader="planted/1", reader_rank=50)
    return assemble(records.lazy()).collect()


def _raw(record: dict[str, Any], position: int) -> RawEvent:
    lease = record.get("lease")
    if lease is not None:
        lease = {**lease, "deadline": _micros(lease["deadline"])}
    same = ("run_id", "agent", "seq", "tool", "args", "progress_fingerprint", "error_class", "attempt")
    more = (
        "retry_policy",
        "external_input",
        "workflow",
        "model",
        "agent_version",
        "tokens_in",
        "tokens_out",
        "cost_usd",
    )
    return RawEvent(
        **{name: record[name] for name in (*same, *more) if name in record},
        at=_micros(record["at"]),
        ended_at=_micros(record["ended_at"]),
        result=record.get("result", ABSENT),
        has_fingerprint="progress_fingerprint" in record,
        lease=lease,
        position=(position, 0),
    )


def _micros(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
