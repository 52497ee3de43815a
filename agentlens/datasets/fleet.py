"""A fleet: many planted runs of several workplaces, with their truth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from agentlens.datasets.code_world import CodeWorld
from agentlens.datasets.desk_world import DeskWorld
from agentlens.datasets.draws import Draws
from agentlens.datasets.press_world import PressWorld
from agentlens.datasets.records import canonical_events, native_events
from agentlens.datasets.scenarios import SCENARIOS, Scenario
from agentlens.datasets.story import PlantedRun, Script
from agentlens.errors import SettingsError
from agentlens.model.event import TIME
from agentlens.model.label import LABELS as LABEL_COLUMNS

if TYPE_CHECKING:
    from typing import Any

    from agentlens.datasets.worlds import World

WORLDS: tuple[World, ...] = (CodeWorld(), DeskWorld(), PressWorld())
SEED = 20_261
RUNS = 120
START_MS = 1_793_606_400_000  # 2026-11-02T08:00:00Z

_NEVER_PLANTED = ("observed_until", "label_version", "reviewer", "found_by")
LABELS = pl.Schema((name, dtype) for name, dtype in LABEL_COLUMNS.items() if name not in _NEVER_PLANTED)
"""Labels as SPEC section 8 has them; columns that planted truth never fills are left out."""

TRUTH = pl.Schema(
    {
        "run_id": pl.String(),
        "world": pl.String(),
        "scenario": pl.String(),
        "label": pl.String(),
        "alerts": pl.Boolean(),
        "verdict": pl.String(),
        "task_group": pl.String(),
    }
)
"""What was planted, and what the default rule should make of it: ``alerts`` or not, ``verdict`` seen somewhere."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Planted runs with their labels (which may carry noise) and their truth (which never does).

    ``labels``: schema `LABELS`, one row a run, sorted by run. ``truth``: schema `TRUTH`, likewise.
    """

    seed: int
    runs: tuple[PlantedRun, ...]
    labels: pl.DataFrame
    truth: pl.DataFrame

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """All runs as native event records (SPEC section 8), whatever world they are from."""
        return [record for run in self.runs for record in native_events(run)]

    @cached_property
    def events(self) -> pl.DataFrame:
        """All runs as canonical events (`agentlens.model.event.EVENTS`), digested with the public demo key."""
        return canonical_events(self.runs)


def fleet(
    *,
    seed: int = SEED,
    runs: int = RUNS,
    runs_per_task: int = 3,
    label_noise: float = 0.0,
    noise: float = 0.0,
    worlds: tuple[str, ...] = ("code", "desk", "press"),
    scenarios: tuple[str, ...] | None = None,
) -> Fleet:
    """Plant a fleet of finished runs; the same arguments give the same fleet on every machine.

    Parameters
    ----------
    seed
        Any integer.
    runs
        How many runs, dealt evenly over the worlds.
    runs_per_task
        How many runs in a row share a task, and so a ``task_group``.
    label_noise
        Probability that a run's label says the opposite of the truth, onset and end removed or made up.
    noise
        Probability of a stray step before each step of a planted loop but its first. What ``truth`` says of alerts
        holds without it.
    worlds
        Which workplaces: ``code``, ``desk``, ``press``.
    scenarios
        Only these (default all); names as in `SCENARIOS`.

    Raises
    ------
    SettingsError
        For counts below 1, a probability outside [0, 1], or an unknown world or scenario.

    Examples
    --------
    >>> planted = fleet(seed=1, runs=6)
    >>> planted.labels["label"].len(), len(planted.runs)
    (6, 6)
    """
    _check(runs=runs, runs_per_task=runs_per_task, label_noise=label_noise, noise=noise)
    chosen = [_world(name) for name in worlds]
    if not chosen:
        raise SettingsError.value("worlds", worlds, "at least one of code, desk, press")
    wanted = _scenarios(scenarios)
    rows: list[PlantedRun] = []
    for w, world in enumerate(chosen):
        count = runs // len(chosen) + (w < runs % len(chosen))
        deck = _deck(world, wanted, Draws(seed, world.name, "deck"), count)
        rows += [_plant(seed, world, i, scenario, runs_per_task, noise) for i, scenario in enumerate(deck)]
    rows.sort(key=lambda run: (run.start_ms, run.run_id))
    by_run = {run.run_id: run for run in rows}
    truth = pl.DataFrame([_truth_row(run) for run in by_run.values()], schema=TRUTH).sort("run_id")
    labels = pl.DataFrame([_label_row(run, seed, label_noise) for run in rows], schema=_LABELS_IN_MS)
    cast = [pl.col(name).cast(pl.Datetime("ms", "UTC")).cast(TIME) for name in ("onset_at", "end_at")]
    return Fleet(seed=seed, runs=tuple(rows), labels=labels.with_columns(cast).sort("run_id"), truth=truth)


_LABELS_IN_MS = pl.Schema({**LABELS, "onset_at": pl.Int64(), "end_at": pl.Int64()})


def _check(*, runs: int, runs_per_task: int, label_noise: float, noise: float) -> None:
    for name, value in (("runs", runs), ("runs_per_task", runs_per_task)):
        if value < 1:
            raise SettingsError.value(name, value, "an integer of at least 1")
    for name, share in (("label_noise", label_noise), ("noise", noise)):
        if not 0 <= share <= 1:
            raise SettingsError.value(name, share, "a probability from 0 to 1")


def _world(name: str) -> World:
    known = {world.name: world for world in WORLDS}
    if name not in known:
        raise SettingsError.unknown("world", name, known)
    return known[name]


def _scenarios(names: tuple[str, ...] | None) -> tuple[Scenario, ...]:
    known = {scenario.name: scenario for scenario in SCENARIOS}
    for name in names or ():
        if name not in known:
            raise SettingsError.unknown("scenario", name, known)
    return SCENARIOS if names is None else tuple(known[name] for name in names)


def _deck(world: World, scenarios: tuple[Scenario, ...], draws: Draws, count: int) -> list[Scenario]:
    """Deal whole decks, each shuffled: every scenario comes before any comes too often."""
    cards = [s for s in scenarios if world.name in s.worlds for _ in range(s.weight)]
    if not cards:
        raise SettingsError.value(
            "scenarios", [s.name for s in scenarios], f"one that world {world.name!r} can hold"
        )
    firsts = list(dict.fromkeys(cards))
    dealt = draws.shuffled(firsts)
    while len(dealt) < count:
        dealt += draws.shuffled(cards)
    return draws.shuffled(dealt[:count])


def _plant(
    seed: int, world: World, i: int, scenario: Scenario, runs_per_task: int, noise: float
) -> PlantedRun:
    draws = Draws(seed, world.name, i)
    task = (i // runs_per_task) % len(world.tasks)
    turn = i // (runs_per_task * len(world.tasks))  # the same task asked again later is another group
    script = Script(draws.child("steps"), noise)
    truth = scenario.plant(script, world)
    start = START_MS + i * 5_400_000 + draws.between(0, 3_600_000)
    return PlantedRun(
        run_id=_run_id(world, i, draws.child("id")),
        world=world.name,
        scenario=scenario.name,
        workflow=world.workflow,
        task_group=f"{world.name}-{task}" + (f"-{turn}" if turn else ""),
        model=draws.pick(world.models),
        agent_version=world.versions[int(draws.chance(0.4))],
        agent=world.agent,
        prompt=world.tasks[task],
        start_ms=start,
        steps=tuple(script.steps),
        truth=truth,
    )


def _run_id(world: World, i: int, draws: Draws) -> str:
    if world.format == "claude_code":
        return draws.uuid()
    return f"{world.workflow}-{i:04d}-{draws.hex(4)}"


def _truth_row(run: PlantedRun) -> dict[str, Any]:
    scenario = next(s for s in SCENARIOS if s.name == run.scenario)
    return {
        "run_id": run.run_id,
        "world": run.world,
        "scenario": run.scenario,
        "label": run.truth.label,
        "alerts": scenario.alerts,
        "verdict": scenario.verdict,
        "task_group": run.task_group,
    }


def _label_row(run: PlantedRun, seed: int, noise: float) -> dict[str, Any]:
    draws = Draws(seed, "label", run.run_id)
    label, onset, end = run.truth.label, run.truth.onset, run.truth.end
    if draws.chance(noise):
        label = "healthy" if label == "incident" else "incident"
        onset = None if label == "healthy" else draws.below(len(run.steps))
        end = None if onset is None else len(run.steps) - 1
    interval = onset is not None and end is not None
    return {
        "run_id": run.run_id,
        "scope": "interval" if interval else "run",
        "onset_seq": onset,
        "end_seq": end,
        "onset_at": None if onset is None else run.start_ms + run.steps[onset].start_ms,
        "end_at": None if end is None else run.start_ms + run.steps[end].end_ms,
        "label": label,
        "kind": run.scenario,
        "source": "planted",
        "task_group": run.task_group,
    }
