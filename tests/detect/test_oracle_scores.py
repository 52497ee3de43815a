"""The scores that thresholds are compared with are the literal stretches, at least and at most."""

from __future__ import annotations

import pytest

from tests.oracle import cycles, generate
from tests.oracle.frames import frame
from tests.oracle.lanes import actions, lanes
from tests.oracle.rules import Profile

scores = pytest.importorskip("agentlens.detect.loops").scores


@pytest.mark.parametrize("evidence", ["lap", "constant", "none"])
@pytest.mark.parametrize("max_gap_s", [None, 2.0])
def test_scores_are_the_literal_stretches(evidence, max_gap_s):
    """``s_lo_p`` and ``s_hi_p`` of every event of twelve lanes are found by trying every suffix."""
    events = [e for k in range(12) for e in generate.lane(f"scores {evidence} {k}", run_id=f"r{k:02d}")]
    periods = range(1, 7)
    rule = Profile(thresholds=tuple(2 * p for p in periods), evidence=evidence, max_gap_s=max_gap_s)
    table = scores(frame(events).lazy(), 6, evidence, max_gap_s=max_gap_s).collect()
    found = {(row["run_id"], row["seq"]): row for row in table.to_dicts()}
    unknown = 0
    for lane in map(actions, lanes(events).values()):
        for i, event in enumerate(lane):
            row = found.pop((event.run_id, event.seq))
            for p in periods:
                low, high = (of(lane, i, p, rule) for of in (cycles.stretch_lo, cycles.stretch_hi))
                assert (row[f"s_lo_{p}"], row[f"s_hi_{p}"]) == (low, high), (event, p)
                unknown += low != high
    assert not found
    assert unknown > 0
