"""Times as exports write them: what has a date in UTC, and what is no time."""

from __future__ import annotations

import pytest

from agentlens.model.native import FIRST_US, LAST_US
from agentlens.readers.base import Report
from agentlens.readers.ids import micros
from agentlens.readers.stamps import epoch, moment


@pytest.mark.parametrize("value", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_has_no_date_in_utc_is_left_out_and_counted(value):
    """A zone may carry the first or last year out of those that can be shown."""
    report = Report()
    assert moment(value, report) is None
    assert report.repaired["unreadable time left out"] == 1


def test_the_first_and_last_times_are_kept():
    """The border belongs to the years 1 to 9999."""
    assert moment("0001-01-01T00:00:00Z") == FIRST_US
    assert moment("9999-12-31T23:59:59.999999Z") == LAST_US
    assert epoch(253_402_300_799) == LAST_US - 999_999
    assert micros(LAST_US * 1000, Report()) == LAST_US


def test_numbers_past_the_last_year_are_no_time():
    """Seconds, milliseconds and nanoseconds alike."""
    report = Report()
    assert epoch(253_402_300_800) is None
    assert epoch(253_402_300_800.0) is None
    assert epoch(253_402_300_800_000, 1000) is None
    assert micros((LAST_US + 1) * 1000, report) is None
    assert report.repaired["unreadable time left out"] == 1
