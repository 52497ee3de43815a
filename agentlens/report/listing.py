"""Frames as tables to be read: each column by what it holds, numbers sortable, the rest counted in a note."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentlens.report.document import Amount, Badge, Column, Link, Table
from agentlens.report.palette import COLOURS
from agentlens.report.words import ABSENT, count, duration, moment, money

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from agentlens.report.document import Cell

LISTED: Final = 200
"""Rows of a table that a page lists; all of them are in its Parquet twin."""


def _amount(said: Callable[[Any], str], scale: float = 1.0) -> Callable[[Any], Cell]:
    return lambda value: Amount(text=said(value), value=None if value is None else _plain(value * scale))


def _plain(value: float) -> float:
    """Return a whole number as one, so that it is saved as one."""
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def share(value: float | None) -> str:
    """Say a share in per cent, with a digit more where it is small.

    >>> share(0.25), share(0.004), share(None)
    ('25.0 %', '0.40 %', '–')
    """
    if value is None:
        return ABSENT
    return f"{100 * value:.1f} %" if value >= 0.01 or value == 0 else f"{100 * value:.2f} %"


def number(value: float | None) -> str:
    """Four significant digits, without an exponent where it can be helped.

    >>> number(17849.6), number(0.25), number(1.5e-05)
    ('17,850', '0.25', '1.5e-05')
    """
    if value is None:
        return ABSENT
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"


def chance(value: float | None) -> str:
    """Say a p-value; what is below one in ten thousand is only said to be.

    >>> chance(0.03434), chance(1e-286), chance(1.0)
    ('0.034', '< 0.0001', '1')
    """
    if value is None:
        return ABSENT
    return "< 0.0001" if value < 0.0001 else f"{value:.2g}"


def _word(value: Any) -> Cell:
    if value is None or value == "":
        return ABSENT
    return Badge(word=value) if value in COLOURS else str(value)


def _text(value: Any) -> Cell:
    if value is None or value == "":
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " → ".join("?" if item is None else str(item) for item in value) or ABSENT
    return str(value)


def _link(url: Any) -> Cell:
    return ABSENT if url is None else Link(text="open in your trace viewer", url=url)


_KINDS: Final[dict[str, tuple[bool, Callable[[Any], Cell]]]] = {
    "text": (False, _text),
    "verdict": (False, _word),
    "count": (True, _amount(count)),
    "money": (True, _amount(money)),
    "time": (True, _amount(duration, 1e-6)),
    "share": (True, _amount(share)),
    "number": (True, _amount(number)),
    "p": (True, _amount(chance)),
    "moment": (False, moment),
    "link": (False, _link),
}


def listing(
    frame: pl.DataFrame,
    columns: Sequence[tuple[str, str, str]],
    *,
    caption: str,
    note: str = "",
    limit: int = LISTED,
) -> Table:
    """Make a table of the first rows of a frame.

    Parameters
    ----------
    frame
        In the order in which it is to be read.
    columns
        Column of the frame, its heading, and its kind: ``text``, ``verdict``, ``count``, ``money``, ``time``
        (microseconds), ``share`` (0 to 1), ``number``, ``p``, ``moment`` or ``link`` (a
        checked web address).
    note
        Stands below, before the count of rows left out.

    Examples
    --------
    >>> import polars as pl
    >>> table = listing(pl.DataFrame({"n": [1234]}), [("n", "runs", "count")], caption="c")
    >>> table.rows[0][0].text
    '1,234'
    """
    shown = frame.head(limit)
    makers = [_KINDS[kind][1] for _, _, kind in columns]
    picked = shown.select(name for name, _, _ in columns)
    rows = tuple(
        tuple(make(value) for make, value in zip(makers, row, strict=True)) for row in picked.iter_rows()
    )
    if shown.height < frame.height:
        note = f"{note} The first {count(shown.height)} of {count(frame.height)} are listed.".strip()
    heads = tuple(Column(title=title, numeric=_KINDS[kind][0]) for _, title, kind in columns)
    return Table(caption=caption, columns=heads, rows=rows, note=note)
