"""The order of lines that carry times and name the line they hang on, whatever order they stand in.

A file may be put together from parts, sorted by something else, or written by several processes. A line is
read behind the one it hangs on, then by time; only what neither tells is left to the place in the file.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NOWHERE = -1


@dataclass(slots=True, kw_only=True)
class Mark:
    """What a line tells of its place.

    ``at``: its time in microseconds. ``own`` and ``parent``: its id and that of the line it hangs on, "" where
    it has none. ``digest``: of its text, which orders lines that nothing else tells apart. ``asks``: what it
    starts chains with; ``answers``: what started the chain, where it is the first of one.
    """

    number: int
    digest: bytes
    at: int | None = None
    own: str = ""
    parent: str = ""
    asks: tuple[bytes, ...] = ()
    answers: bytes = b""


@dataclass(slots=True)
class _Forest:
    """Lines in a fixed order, and of each the one it hangs on; no circles."""

    marks: list[Mark]
    up: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)  # each behind the one it hangs on
    times: list[int | None] = field(default_factory=list)


def ordered(marks: Iterable[Mark]) -> list[int]:
    """Return the line numbers in the order in which the lines are to be read.

    A line follows the one it hangs on, however late that one claims to be, then its time, then its id. A line
    without a time has that of the first line that hangs on it, else of the one it hangs on. One that has
    neither keeps its place where the other lines are in order; in a file out of order it is read first.

    >>> late = Mark(number=1, digest=b"", at=7, own="b", parent="a")
    >>> ordered([late, Mark(number=2, digest=b"", at=7, own="a")])
    [2, 1]
    """
    forest = _Forest(sorted(marks, key=_fixed))
    _link(forest)
    _time(forest)
    keys = _keys(forest)
    placed = sorted(keys, key=lambda at: (*keys[at], at))
    numbers = [forest.marks[at].number for at in placed]
    lost = [forest.marks[at].number for at in forest.down if at not in keys]
    if not lost:
        return numbers
    if not _in_file_order(forest, keys):
        return [*lost, *numbers]
    return _inserted(numbers, sorted(lost))


def places(order: list[int]) -> dict[int, int]:
    """Return, for each line that stands elsewhere, the number of the line in whose place it is read."""
    return {number: place for number, place in zip(order, sorted(order), strict=True) if number != place}


def rearranged(lines: Iterable[tuple[int, bytes]], order: list[int]) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines in ``order``, holding back only those that come too early.

    Lines that are not in ``order`` (broken, or written since) are yielded where they stand.
    """
    known, early = set(order), dict[int, bytes]()
    turn = 0
    for number, line in lines:
        if number not in known:
            yield number, line
            continue
        early[number] = line
        while turn < len(order) and (text := early.pop(order[turn], None)) is not None:
            yield order[turn], text
            turn += 1
    for number in order[turn:]:  # a file cut while it was read
        if number in early:
            yield number, early[number]


def _fixed(mark: Mark) -> tuple[bool, int, str, bytes, int]:
    return mark.at is None, mark.at or 0, mark.own, mark.digest, mark.number


def _link(forest: _Forest) -> None:
    """Find what each line hangs on; a circle is cut at the line that comes first in the fixed order."""
    named: dict[str, int] = {}
    asked: dict[bytes, list[int]] = {}
    for at, mark in enumerate(forest.marks):
        if mark.own:
            named.setdefault(mark.own, at)
        for what in mark.asks:
            asked.setdefault(what, []).append(at)
    forest.up = [named.get(mark.parent, _NOWHERE) if mark.parent else _NOWHERE for mark in forest.marks]
    for at, mark in enumerate(forest.marks):
        if mark.answers and forest.up[at] == _NOWHERE:
            forest.up[at] = _last_before(asked.get(mark.answers, []), at, forest.marks)
    state = bytearray(len(forest.marks))  # 1 on the way up, 2 done
    for start in range(len(forest.marks)):
        path, at = [], start
        while at != _NOWHERE and not state[at]:
            state[at] = 1
            path.append(at)
            at = forest.up[at]
        if at != _NOWHERE and state[at] == 1:
            forest.up[path[-1]] = _NOWHERE
        for done in reversed(path):
            state[done] = 2
            forest.down.append(done)


def _last_before(asked: list[int], at: int, marks: list[Mark]) -> int:
    """Return the last line that asked for this chain before or when it began, else the first that did."""
    if not asked:
        return _NOWHERE
    mine = marks[at].at
    if mine is None:
        return asked[0]
    behind = bisect_right([marks[one].at or 0 for one in asked if marks[one].at is not None], mine)
    return asked[max(behind - 1, 0)]


def _time(forest: _Forest) -> None:
    """Give lines without a time that of the first line below, else of the one above."""
    times = [mark.at for mark in forest.marks]
    given = [at is not None for at in times]
    for at in reversed(forest.down):
        over, mine = forest.up[at], times[at]
        if over != _NOWHERE and mine is not None and not given[over]:
            before = times[over]
            times[over] = mine if before is None else min(before, mine)
    for at in forest.down:
        over = forest.up[at]
        if over != _NOWHERE and times[at] is None:
            times[at] = times[over]
    forest.times = times


def _keys(forest: _Forest) -> Mapping[int, tuple[int, int]]:
    """Return, of each line that has a place: the newest time down to it, and how far down it is."""
    keys: dict[int, tuple[int, int]] = {}
    for at in forest.down:
        mine = forest.times[at]
        over = keys.get(forest.up[at])
        if mine is not None:
            keys[at] = (mine, 0) if over is None else (max(mine, over[0]), over[1] + 1)
    return keys


def _in_file_order(forest: _Forest, keys: Mapping[int, tuple[int, int]]) -> bool:
    """Say whether the lines with an id stand in order; what has none may be written again later."""
    numbers = [mark.number for mark in forest.marks]
    firsts = {mark.own: at for at, mark in reversed([*enumerate(forest.marks)]) if mark.own}
    told = sorted(firsts.values(), key=lambda at: numbers[at])
    rising = all(one <= other for one, other in pairwise(keys[at][0] for at in told if at in keys))
    return rising and all(forest.up[at] == _NOWHERE or numbers[forest.up[at]] < numbers[at] for at in told)


def _inserted(numbers: list[int], lost: list[int]) -> list[int]:
    """Put each lost line behind the line that it stands behind in the file."""
    behind: dict[int, list[int]] = {}
    sure = sorted(numbers)
    for number in lost:
        at = bisect_right(sure, number)
        behind.setdefault(sure[at - 1] if at else 0, []).append(number)
    found = behind.pop(0, [])
    for number in numbers:
        found.append(number)
        found.extend(behind.pop(number, ()))
    return found
