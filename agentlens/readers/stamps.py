"""Times as exports write them, as integer microseconds since 1970 UTC."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentlens.model.native import FIRST_US, LAST_US

if TYPE_CHECKING:
    from agentlens.readers.base import Report

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


def moment(value: Any, report: Report | None = None) -> int | None:
    """Return the microseconds of an ISO 8601 text, None for anything else.

    A time without a zone is read as UTC, so that gaps inside one file stay right, and counted. One that in UTC
    is not in the years 1 to 9999 is no time, and counted.

    >>> moment("1970-01-01T00:00:01.5Z")
    1500000
    >>> moment("yesterday") is None
    True
    """
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
        if report is not None:
            report.repaired["time without a zone, read as UTC"] += 1
    at = (parsed - _EPOCH) // _US
    if FIRST_US <= at <= LAST_US:
        return at
    if report is not None:
        report.repaired["unreadable time left out"] += 1
    return None


def epoch(value: Any, per_second: int = 1) -> int | None:
    """Return the microseconds of a number of seconds (``per_second`` 1000: milliseconds) since 1970 UTC.

    The unit is the format's, never guessed. None for anything that is no number of a time after 1970.

    >>> epoch(1.5), epoch(1500, 1000), epoch("1.5")
    (1500000, 1500000, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    if not 0 < value < per_second << 38:
        return None
    scaled = value * 1_000_000
    at = scaled // per_second if isinstance(scaled, int) else round(scaled / per_second)
    return at if at <= LAST_US else None
