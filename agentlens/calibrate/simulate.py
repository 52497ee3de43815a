"""Does the certificate keep its promise? Made-up run scores whose true false-alarm rate is known exactly.

A run enters a calibration as one number a chain, its score Z: it alarms at threshold T iff Z >= T (CALIBRATION 3.4).
So whole calibrations can be drawn in milliseconds, thousands of times, and the share of certified rules whose true
rate exceeds the limit be counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import polars as pl
from scipy import stats

from agentlens.calibrate.certificate import Status, check_limits, groups_needed, p_bet, p_binomial, walk_chain
from agentlens.calibrate.intervals import upper_bound
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

Method = Literal["certificate", "one_run_a_group", "runs_as_units", "empirical_best"]
METHODS: Final = ("certificate", "one_run_a_group", "runs_as_units", "empirical_best")
"""How a rule is chosen. ``certificate``: the mixture bet on all runs of a group; ``one_run_a_group``: the exact
binomial test; both along one chain that explore chose. The others are what not to do: ``runs_as_units`` treats runs of
a task as independent, ``empirical_best`` takes the loosest rule that looks fine."""

THRESHOLDS: Final = tuple(range(40, 1, -1))


@dataclass(frozen=True, kw_only=True)
class World:
    """A population of healthy task groups and of incidents.

    ``groups``: healthy groups in all, of which ``explore_share`` explores and the rest certifies. ``runs_per_group``.
    ``alike``: correlation of runs of one group on the Gaussian scale (0: independent). ``scales``: per chain, how
    fast healthy scores fall: P(Z >= T) = ``share`` exp(-(T - 2) / scale). ``reach``: per chain, mean score of an
    incident. ``incidents``: how many explore sees. ``mislabelled``: share of the runs labelled healthy that are
    incidents, which alarm nearly always: what is certified then is the rate on runs *labelled* healthy.
    ``thresholds``: the rules of every chain, strict to loose.
    """

    groups: int = 800
    explore_share: float = 0.25
    runs_per_group: int = 3
    alike: float = 0.25
    share: float = 0.5
    scales: tuple[float, ...] = (3.0, 4.0, 5.0)
    reach: tuple[float, ...] = (14.0, 16.0, 18.0)
    incidents: int = 60
    mislabelled: float = 0.0
    thresholds: tuple[int, ...] = THRESHOLDS

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        if self.groups < 2 or self.runs_per_group < 1 or self.incidents < 1:
            raise SettingsError.value(
                "groups, runs_per_group, incidents",
                (self.groups, self.runs_per_group, self.incidents),
                "at least 2, 1 and 1",
            )
        for name in ("alike", "share", "mislabelled"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError.value(name, getattr(self, name), "a share from 0 to 1")
        if not self.thresholds or list(self.thresholds) != sorted(set(self.thresholds), reverse=True):
            raise SettingsError.value("thresholds", self.thresholds, "thresholds that fall, at least one")
        if not 0 < self.explore_share < 1:
            raise SettingsError.value("explore_share", self.explore_share, "a share above 0 and below 1")
        if not self.scales or len(self.scales) != len(self.reach) or min(*self.scales, *self.reach) <= 0:
            raise SettingsError.value(
                "scales, reach", (self.scales, self.reach), "one number above 0 a chain, each"
            )

    def true_rate(self, chain: int, threshold: float) -> float:
        """Exact probability that a run labelled healthy alarms."""
        clean = self.share * float(np.exp(-(threshold - 2) / self.scales[chain]))
        return (1 - self.mislabelled) * clean + self.mislabelled * self.detection(chain, threshold)

    def detection(self, chain: int, threshold: float) -> float:
        """Exact probability that an incident is detected."""
        return float(np.exp(-((threshold / self.reach[chain]) ** 2)))

    def scores(self, rng: np.random.Generator, groups: int) -> Floats:
        """Healthy scores, shape (groups, runs_per_group, chains)."""
        shape = (groups, self.runs_per_group, len(self.scales))
        shared = rng.standard_normal((groups, 1, 1))
        normal = np.sqrt(self.alike) * shared + np.sqrt(1 - self.alike) * rng.standard_normal(shape)
        tail = (
            np.clip(stats.norm.sf(normal), 1e-300, None) / self.share if self.share else np.full(shape, 2.0)
        )
        healthy = np.where(tail <= 1, 2 - np.array(self.scales) * np.log(np.minimum(tail, 1)), 0.0)
        wrong = rng.random(shape[:2]) < self.mislabelled
        return np.where(wrong[:, :, None], self.incident_scores(rng, shape[:2]), healthy)

    def incident_scores(self, rng: np.random.Generator, shape: Sequence[int]) -> Floats:
        """Scores of incidents, one a chain."""
        return np.array(self.reach) * np.sqrt(rng.exponential(1.0, (*shape, len(self.reach))))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One simulated calibration. ``threshold`` is None unless certified; ``rate``: the true one of that rule."""

    status: Status
    chain: int
    threshold: int | None
    rate: float | None
    detection: float | None
    more_groups: int


def calibrate_once(
    world: World,
    rng: np.random.Generator,
    *,
    alpha: float = 0.01,
    delta: float = 0.05,
    method: Method = "certificate",
) -> Outcome:
    """Draw one calibration: explore picks the chain, certify tests it from the strict end."""
    check_limits(alpha, delta)
    explored = max(1, min(world.groups - 1, round(world.groups * world.explore_share)))
    healthy = world.scores(rng, world.groups)
    found = world.incident_scores(rng, (world.incidents,))
    chain = _best_chain(healthy[:explored], found, alpha, world.thresholds)
    certify = healthy[explored:, :, chain]
    if method == "empirical_best":
        return _empirical(world, healthy, chain, alpha)
    p_values = [_p_value(certify >= t, alpha, method) for t in world.thresholds]
    certified = [step.index for step in walk_chain(p_values, delta) if step.certified]
    if certified:
        return _outcome(world, chain, world.thresholds[certified[-1]])
    strict = float((certify >= world.thresholds[0]).mean())
    status = Status.PROVISIONAL if strict < alpha else Status.INFEASIBLE
    more = max(0, groups_needed(0, alpha, delta) - len(certify)) if status is Status.PROVISIONAL else 0
    return Outcome(status=status, chain=chain, threshold=None, rate=None, detection=None, more_groups=more)


def _outcome(world: World, chain: int, threshold: int) -> Outcome:
    return Outcome(
        status=Status.CERTIFIED,
        chain=chain,
        threshold=threshold,
        rate=world.true_rate(chain, threshold),
        detection=world.detection(chain, threshold),
        more_groups=0,
    )


def _p_value(alarms: NDArray[np.bool_], alpha: float, method: Method) -> float:
    if method == "one_run_a_group":
        return p_binomial(int(alarms[:, 0].sum()), len(alarms), alpha)
    if method == "runs_as_units":
        return p_binomial(int(alarms.sum()), alarms.size, alpha)
    if alarms.shape[1] == 1:
        return p_binomial(int(alarms.sum()), len(alarms), alpha)
    return p_bet(alarms.mean(axis=1), alpha)


def _best_chain(healthy: Floats, found: Floats, alpha: float, thresholds: Sequence[int]) -> int:
    """The chain that detects most at the loosest threshold which looks fine on explore."""
    detected = []
    for chain in range(healthy.shape[2]):
        fine = [t for t in thresholds if (healthy[:, :, chain] >= t).mean() <= alpha]
        detected.append(float((found[:, chain] >= min(fine)).mean()) if fine else -1.0)
    return int(np.argmax(detected))


def _empirical(world: World, healthy: Floats, chain: int, alpha: float) -> Outcome:
    """The loosest threshold within the limit on all the data, which is then reported on the same data."""
    fine = [t for t in world.thresholds if (healthy[:, :, chain] >= t).mean() <= alpha]
    if fine:
        return _outcome(world, chain, min(fine))
    return Outcome(
        status=Status.INFEASIBLE, chain=chain, threshold=None, rate=None, detection=None, more_groups=0
    )


PROMISE = pl.Schema(
    {
        "method": pl.String(),
        "repetitions": pl.Int64(),
        "certified": pl.Int64(),
        "refused": pl.Int64(),
        "broken": pl.Int64(),
        "broken_share": pl.Float64(),
        "broken_high": pl.Float64(),
        "detection": pl.Float64(),
        "max_fpr": pl.Float64(),
        "delta": pl.Float64(),
    }
)
"""One row a method, in the order given. ``broken``: calibrations whose certified rule has a true rate above the limit;
``broken_high``: one-sided 95 % upper limit of their share. ``detection``: mean true detection, a refusal counting 0."""


def promise(
    world: World,
    *,
    repetitions: int = 500,
    alpha: float = 0.01,
    delta: float = 0.05,
    methods: Sequence[Method] = ("certificate",),
    seed: int = 0,
) -> pl.DataFrame:
    """Repeat whole calibrations and count how often the promise was broken (`PROMISE`).

    Parameters
    ----------
    world
        What is drawn.
    repetitions
        Calibrations a method; all methods see the same draws.
    alpha, delta
        Limit and allowed share of broken promises.

    Raises
    ------
    SettingsError
        For a limit of 0 or 1, an unknown method, or no repetitions.

    Examples
    --------
    >>> promise(World(groups=40, scales=(3.0,), reach=(14.0,)), repetitions=20)["refused"].item()
    20
    """
    if repetitions < 1:
        raise SettingsError.value("repetitions", repetitions, "at least 1")
    rows = []
    for method in methods:
        if method not in METHODS:
            raise SettingsError.unknown("method", method, METHODS)
        streams = np.random.SeedSequence(seed).spawn(repetitions)
        outcomes = [
            calibrate_once(world, np.random.default_rng(stream), alpha=alpha, delta=delta, method=method)
            for stream in streams
        ]
        certified = [one for one in outcomes if one.status is Status.CERTIFIED]
        broken = sum(one.rate is not None and one.rate > alpha for one in certified)
        rows.append(
            {
                "method": method,
                "repetitions": repetitions,
                "certified": len(certified),
                "refused": repetitions - len(certified),
                "broken": broken,
                "broken_share": broken / repetitions,
                "broken_high": upper_bound(broken, repetitions),
                "detection": sum(one.detection or 0.0 for one in certified) / repetitions,
                "max_fpr": alpha,
                "delta": delta,
            }
        )
    return pl.DataFrame(rows, schema=PROMISE)
