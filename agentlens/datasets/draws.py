"""Seeded choices that come out the same on every supported Python."""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class Draws:
    """A stream of choices named by a path, such as ``Draws(7, "code", 12)``.

    Only `random.Random.random` is used below it: its values are promised to stay the same between Python
    versions, those of ``choice`` or ``shuffle`` are not. Streams of different paths are independent, so
    one more scenario never moves the runs of another.

    Examples
    --------
    >>> Draws(7, "code").below(100) == Draws(7, "code").below(100)
    True
    """

    def __init__(self, *path: object) -> None:
        self._path = path
        seed = blake2b("/".join(map(str, path)).encode(), digest_size=16).digest()
        self._random = Random(int.from_bytes(seed))  # noqa: S311  made-up data, no secret

    def child(self, *path: object) -> Draws:
        """Return an independent stream below this one, unmoved by what was drawn before."""
        return Draws(*self._path, *path)

    def unit(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()

    def below(self, n: int) -> int:
        """Return an integer in 0..n-1."""
        return int(self.unit() * n)

    def between(self, low: int, high: int) -> int:
        """Return an integer in low..high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.unit() < probability

    def pick(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return values[self.below(len(values))]

    def several(self, values: Sequence[T], n: int) -> list[T]:
        """Return n different positions' values, in random order."""
        return self.shuffled(values)[:n]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """Return all values in random order."""
        order = list(values)
        for i in range(len(order) - 1, 0, -1):
            j = self.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return order

    def hex(self, digits: int) -> str:
        """Return that many lower-case hex digits."""
        return "".join("0123456789abcdef"[self.below(16)] for _ in range(digits))

    def uuid(self) -> str:
        """Return text of the shape of a random UUID."""
        h = self.hex(32)
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
