"""Numbers as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.plural import plural as plural  # noqa: PLC0414 - where pages look for it

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

ABSENT = "–"


def count(value: int | None) -> str:
    """Group the digits; a dash where there is no number.

    >>> count(12345), count(None)
    ('12,345', '–')
    """
    return ABSENT if value is None else f"{value:,}"


def money(value: float | None) -> str:
    """US dollars, with four digits below a cent's worth.

    >>> money(1.5), money(0.0042), money(None)
    ('$1.50', '$0.0042', '–')
    """
    if value is None:
        return ABSENT
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.4f}"


def duration(micros: int | None) -> str:
    """Microseconds in the two largest units that matter.

    >>> duration(3_723_000_000), duration(45_200_000), duration(900_000), duration(None)
    ('1 h 2 min', '45 s', '0.9 s', '–')
    """
    if micros is None:
        return ABSENT
    if 0 < micros < 10_000_000:
        return f"{micros / 1e6:.1f} s"
    seconds = micros // 1_000_000
    hours, minutes, rest = seconds // 3600, seconds % 3600 // 60, seconds % 60
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def moment(value: datetime | None) -> str:
    """UTC to the second; a dash where the export has no times."""
    return ABSENT if value is None else value.strftime("%Y-%m-%d %H:%M:%S")


def listed(parts: Sequence[str], last: str = "and") -> str:
    """Join words as a sentence does.

    >>> listed(["a", "b", "c"]), listed(["a", "b"], "or"), listed(["a"])
    ('a, b and c', 'a or b', 'a')
    """
    *most, end = parts
    return f"{', '.join(most)} {last} {end}" if most else end


def shortened(text: str, limit: int) -> str:
    """Cut the middle out of a long identifier: its two ends tell more than its start.

    >>> shortened("01bfe100-8c23-4ed1-a9d7-538d74b0e912", 13)
    '01bfe1…b0e912'
    """
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"
