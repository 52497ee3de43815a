"""The reference cases and their turns, event by event, for the literal detector and for the engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentlens.detect import rules as engine_rules
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables
from tests.oracle import rules
from tests.oracle.frames import frame, read_expected, read_native
from tests.oracle.lanes import lanes
from tests.oracle.verdicts import findings, run_verdict

if TYPE_CHECKING:
    from tests.oracle.lanes import Event

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
CASES = FIXTURES / "cases.ndjson"
MODES = {"lap": "verdict", "constant": "constant"}
SHARED_MODES = {"lap": "verdict", "constant": "verdict_constant_evidence"}
SIX = {
    "invoice-pages": "working",
    "upload-backs-off": "retrying",
    "same-lookup": "stuck_loop",
    "open-and-grep": "stuck_loop",
    "signature-wait": "waiting",
    "withheld-results": "uncertain",
}


def expected() -> list[dict]:
    """The answers, worked out by hand."""
    return [json.loads(line) for line in (FIXTURES / "cases.expected.ndjson").read_text("utf-8").splitlines()]


def literal(events: list[Event], mode: str) -> list[dict]:
    """What the literal detector says, as rows."""
    return [
        {"run_id": event.run_id, "agent": event.agent, "seq": event.seq, **vars(found)}
        for lane in lanes(events).values()
        for event, found in zip(lane, findings(lane, rules.laps(evidence=mode)), strict=True)
    ]


def engine(events: list[Event], mode: str) -> list[dict]:
    """What the engine says, as rows."""
    loops = pytest.importorskip("agentlens.detect.loops").loops
    return loops(frame(events).lazy(), engine_rules.laps(evidence=mode)).collect().to_dicts()


BOTH = pytest.mark.parametrize("judge", [literal, engine])


@BOTH
@pytest.mark.parametrize("mode", MODES)
def test_every_event_of_the_cases(judge, mode):
    """Verdict, reason and period of every event are those worked out by hand, in both evidence modes."""
    found = {(r["run_id"], r["agent"], r["seq"]): r for r in judge(read_native(CASES), mode)}
    wanted = expected()
    assert len(found) == len(wanted)
    for row in wanted:
        got = found[row["run_id"], row["agent"], row["seq"]]
        assert (got["verdict"], got["period"], got["reason"]) == (
            row[MODES[mode]],
            row["period"],
            row["reason"],
        ), row


@BOTH
@pytest.mark.parametrize("mode", MODES)
def test_every_event_of_the_reference_cases(judge, mode, shared):
    """The reference records give the expected verdict at every event, in both evidence modes."""
    found = judge(read_native(shared / "cases" / "events.ndjson"), mode)
    wanted = read_expected(shared / "cases" / "events.expected.ndjson", SHARED_MODES[mode])
    assert {(r["run_id"], r["seq"]): r["verdict"] for r in found} == wanted


@pytest.mark.parametrize("short_starts", [True, False])
def test_the_six_cases_hold_under_full_windows_of_constant_evidence(short_starts):
    """Windows of four events with unchanged evidence end the six cases in the same verdicts."""
    rule = rules.full_window(6 if short_starts else 4, short_starts=short_starts, evidence="constant")
    for (run, _), lane in lanes(e for e in read_native(CASES) if e.run_id in SIX).items():
        assert run_verdict([findings(lane, rule)[-1].verdict]) == SIX[run], run


@BOTH
def test_paging_that_brings_nothing_is_seen_as_stalled(judge):
    """The verdict stays working while ``stalled_events`` grows by one an event."""
    rows = [r for r in judge(read_native(CASES), "lap") if r["run_id"] == "pages-without-invoices"]
    assert [r["stalled_events"] for r in rows] == list(range(len(rows)))


@BOTH
def test_laps_and_suspicion_of_a_pair(judge):
    """A pair is suspect one lap before it is a loop; laps count whole pairs."""
    rows = [r for r in judge(read_native(CASES), "lap") if r["run_id"] == "open-and-grep"]
    assert [r["laps"] for r in rows] == [None, None, None, 2, 2, 3, 3, 4]
    assert [r["suspect"] for r in rows] == [False, False, False, True, True, False, False, False]


@pytest.mark.parametrize("mode", MODES)
def test_the_cases_read_as_native_records(mode):
    """The file of cases through reader, normaliser and assembly gives the same verdict at every event."""
    read_file = pytest.importorskip("agentlens.lake.direct").read_file
    loops = pytest.importorskip("agentlens.detect.loops").loops
    normaliser = Normaliser(key=Key.public_demo(), tables=Tables.load())
    events, _, _, report = read_file(CASES, normaliser)
    assert not report.faults
    rows = loops(events, engine_rules.laps(evidence=mode)).collect().to_dicts()
    found = {(r["run_id"], r["agent"], r["seq"]): (r["verdict"], r["period"], r["reason"]) for r in rows}
    columns = (MODES[mode], "period", "reason")
    assert found == {
        (row["run_id"], row["agent"], row["seq"]): tuple(row[c] for c in columns) for row in expected()
    }
