"""What a world of made-up work must be able to say, whatever is planted in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentlens.datasets.draws import Draws
    from agentlens.datasets.story import Call


class World(Protocol):
    """One made-up workplace: its tools, and calls that fit each part of a scenario.

    A method returns the call in the state asked for; the same draws give the same call. Each world knows its
    own export format only by name: what is planted does not depend on how it is written.
    """

    name: str
    format: str
    workflow: str
    agent: str
    helper_agent: str
    models: tuple[str, ...]
    versions: tuple[str, ...]
    tasks: tuple[str, ...]

    def work(self, draws: Draws, i: int) -> Call:
        """Return the i-th step of ordinary work: new arguments, new evidence."""
        ...

    def probe(self, draws: Draws) -> Call:
        """Return a call that finds nothing and will find nothing however often it is made."""
        ...

    def ring(self, draws: Draws, period: int) -> list[Call]:
        """Return that many different calls that each see the same whenever they are repeated."""
        ...

    def undo(self, draws: Draws) -> list[Call]:
        """Return a change and the change that takes it back."""
        ...

    def poll(self, shown: str) -> Call:
        """Return a look at a running job that shows the given state."""
        ...

    def page(self, draws: Draws, i: int) -> Call:
        """Return the i-th page of a list."""
        ...

    def refused(self, error: str) -> Call:
        """Return a call that a provider turned down with the given error class."""
        ...

    def served(self, draws: Draws) -> Call:
        """Return the same call as `refused`, answered."""
        ...

    def wander(self, draws: Draws, i: int) -> Call:
        """Return the i-th of many different calls that all see the same."""
        ...

    def write(self, draws: Draws) -> Call:
        """Return a repeated write whose result an exporter may hide."""
        ...

    def look(self, draws: Draws, i: int) -> Call:
        """Return one and the same question whose answer is new at every i."""
        ...

    def check(self, draws: Draws, *, passed: bool) -> Call:
        """Return a check of the work, passed or failed."""
        ...

    def delegate(self, draws: Draws) -> Call:
        """Return the call that hands work to the helper agent."""
        ...
