"""Columns from Python values."""

from __future__ import annotations

from agentlens.model.native import FIRST_US, LAST_US
from agentlens.model.record import RECORDS
from agentlens.normalise.columns import column


def test_times_that_have_no_date_are_null_and_the_borders_are_kept():
    """Whatever a reader hands over, a stored time can be shown."""
    times = column("at", [FIRST_US - 1, FIRST_US, None, LAST_US, LAST_US + 1, 2**70])
    assert times.dtype == RECORDS["at"]
    assert times.is_null().to_list() == [True, False, True, False, True, True]
    assert [time.year for time in times.drop_nulls()] == [1, 9999]
