"""What a planted run is made of, before it is written in any export format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.datasets.draws import Draws

Label = Literal["incident", "healthy"]


@dataclass(frozen=True)
class Call:
    """One tool call: what was asked and what came back. ``result`` None: the export carries none."""

    tool: str
    args: Mapping[str, Any]
    result: Any = None
    error: str | None = None
    evidence: str | None = None  # progress fingerprint, for exports that carry one


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a run. Times are milliseconds since the start of the run.

    ``turn``: a human message. ``claim``: the agent's last word, that it is done. ``handoff``: a call that
    gives work to the agent named in ``to``. ``facts`` are native fields (lease, retry_policy, attempt, ...).
    """

    kind: Literal["call", "turn", "claim", "handoff"] = "call"
    call: Call | None = None
    text: str = ""
    agent: str = ""
    to: str = ""
    start_ms: int = 0
    end_ms: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What was planted in one run. Steps are positions in `Script.steps`; None where nothing was."""

    label: Label
    onset: int | None = None
    end: int | None = None


@dataclass(frozen=True, kw_only=True)
class PlantedRun:
    """One finished run with its truth. ``start_ms`` is milliseconds since 1970 UTC."""

    run_id: str
    world: str
    scenario: str
    workflow: str
    task_group: str
    model: str
    agent_version: str
    agent: str
    prompt: str
    start_ms: int
    steps: tuple[Step, ...]
    truth: Truth


class Script:
    """Writes the steps of one run and keeps the clock. ``noise``: chance of a stray step inside what is planted.

    >>> from agentlens.datasets.draws import Draws
    >>> script = Script(Draws(1))
    >>> script.do(Call("search", {"q": "tide"}, "nothing"), gap_ms=2_000, lasts_ms=500)
    0
    >>> script.steps[0].start_ms, script.now
    (2000, 2500)
    """

    def __init__(self, draws: Draws, noise: float = 0.0) -> None:
        self.draws = draws
        self.noise = noise
        self.now = 0
        self.steps: list[Step] = []
        self.agent = ""

    def __len__(self) -> int:
        return len(self.steps)

    def do(self, call: Call, *, gap_ms: int | None = None, lasts_ms: int | None = None, **facts: Any) -> int:
        """Add one call after a pause; return its position."""
        start = self._after(gap_ms)
        lasts = self.draws.between(300, 3_000) if lasts_ms is None else lasts_ms
        return self._add(Step(call=call, agent=self.agent, start_ms=start, end_ms=start + lasts, facts=facts))

    def strays(self) -> bool:
        """Whether a stray step comes next; without noise nothing is drawn, so that fleets without it stay the same."""
        return self.noise > 0 and self.draws.chance(self.noise)

    def say(self, text: str, *, gap_ms: int | None = None) -> int:
        """Add a human turn; return its position."""
        start = self._after(self.draws.between(40_000, 300_000) if gap_ms is None else gap_ms)
        return self._add(Step(kind="turn", text=text, start_ms=start, end_ms=start))

    def claim(self, text: str) -> int:
        """Add the agent's own word that it is done; return its position."""
        start = self._after(None)
        return self._add(Step(kind="claim", text=text, agent=self.agent, start_ms=start, end_ms=start + 900))

    def hand_over(self, call: Call, to: str) -> int:
        """Give work to another agent; what follows is its lane until `give_back`."""
        start = self._after(None)
        step = Step(kind="handoff", call=call, agent=self.agent, to=to, start_ms=start, end_ms=start + 400)
        position = self._add(step)
        self.agent = to
        return position

    def give_back(self) -> None:
        """Return to the first lane."""
        self.agent = ""

    def _after(self, gap_ms: int | None) -> int:
        return self.now + (self.draws.between(800, 9_000) if gap_ms is None else gap_ms)

    def _add(self, step: Step) -> int:
        self.now = step.end_ms
        self.steps.append(step)
        return len(self.steps) - 1
