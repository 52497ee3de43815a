"""The chance floor: how often a rule would alarm on actions that repeat by coincidence alone (CALIBRATION 3.7).

A window of n events is p-periodic by chance with a probability that has a closed form, for independent actions and
for a Markov chain. Moebius inversion leaves the windows whose shortest period is exactly p. Observed false alarms far
above the floor are structure (polling, retries): a matter of evidence or exemptions, not of thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np
import polars as pl

from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from agentlens.detect.rules import Evidence, Rule

    Floats: TypeAlias = NDArray[np.float64]

STRUCTURED: Final = 3.0
"""Observed over chance above this (a rule of thumb): structured repetition."""
_SUMS_TO_ONE: Final = 1e-9
_LAGS: Final = (1, 2, 3)


def moebius(n: int) -> int:
    """The Moebius function: 0 if a square divides n, else 1 or -1 by the number of its prime factors.

    Examples
    --------
    >>> [moebius(n) for n in range(1, 13)]
    [1, -1, -1, 0, -1, 1, -1, 0, 0, 1, -1, 0]
    """
    sign, factor = 1, 2
    while factor * factor <= n:
        if n % factor == 0:
            n //= factor
            if n % factor == 0:
                return 0
            sign = -sign
        factor += 1
    return -sign if n > 1 else sign


@dataclass(frozen=True, eq=False)
class Model:
    """How healthy actions come: ``pi`` (frequencies, shape (c,)) and, for a Markov chain, ``q`` (rows sum to 1).

    ``rare``: the last action of a chain may stand for many; these are their shares of it. Which of them it is, is
    drawn anew each time, so that two of them are seldom the same action.

    Raises
    ------
    SettingsError
        When these are no probabilities, or do not fit each other.
    """

    pi: Floats
    q: Floats | None = None
    rare: Floats | None = None

    def __post_init__(self) -> None:
        """Refuse what are no probabilities."""
        _probabilities("pi", self.pi[None, :])
        if self.q is not None:
            if self.q.shape != (self.pi.size, self.pi.size):
                raise SettingsError.value("q", self.q.shape, f"a square matrix of {self.pi.size} rows")
            _probabilities("q", self.q)
        if self.rare is not None:
            if self.q is None:
                raise SettingsError.value("rare", self.rare.shape, "a chain (q)")
            _probabilities("rare", self.rare[None, :])

    @cached_property
    def effective(self) -> float:
        """Number of equally likely actions with the same chance that one step repeats another (c_eff).

        The inverse of the probability that two independent draws agree; for a chain, that a step agrees with the
        one before it.
        """
        same = self.again(1)
        return 1 / same if same > 0 else float("inf")

    def again(self, p: int) -> float:
        """Probability that an action is the one p before it."""
        if self.q is None:
            return float((self.pi**2).sum())
        same = np.diag(np.linalg.matrix_power(self.q, p)).copy()
        same[-1] *= self._all_one(2)
        return float(self.pi @ same)

    def _all_one(self, times: int) -> float:
        """Probability, over the last action's ``rare`` ones, that so many draws are one: ``sum_a r_a^times``."""
        return 1.0 if self.rare is None else float((self.rare**times).sum())

    def periodic(self, p: int, n: int) -> float:
        """A_p(n): probability that n consecutive actions are p-periodic; 1 while n <= p.

        Independent: ``prod`` over the p residue classes of ``sum_a pi_a^size``. Markov, with n - 1 = k p + r:
        ``tr(diag(pi) (Q^o(k+1))^r (Q^ok)^(p-r))``, o the elementwise power, because a p-periodic word makes r of its
        p transitions k + 1 times and the others k times, and the last of them closes the cycle. Where the last
        action stands for ``rare`` ones, a place of the cycle that comes m times must be one and the same m times.
        """
        if n <= p:
            return 1.0
        if (p, n) not in self._found:
            self._found[p, n] = self._periodic(p, n)
        return self._found[p, n]

    @cached_property
    def _found(self) -> dict[tuple[int, int], float]:
        """A_p(n) so far: many rules ask for the same ones."""
        return {}

    def _periodic(self, p: int, n: int) -> float:
        if self.q is None:
            k, r = divmod(n, p)
            return float((self.pi ** (k + 1)).sum() ** r * (self.pi**k).sum() ** (p - r))
        k, r = divmod(n - 1, p)
        rest = np.linalg.matrix_power(self._repeated(k), p - r)
        if r:
            often = np.linalg.matrix_power(self._repeated(k + 1), r)
            closed = (often * rest.T).sum(axis=1)  # the diagonal of the product, without the product
        else:
            closed = np.diag(rest).copy()
        entered = self._all_one(k)
        # the first place came once more than it was entered
        closed[-1] *= self._all_one(k + 1) / entered if entered else 0.0
        return float(self.pi @ closed)

    def _repeated(self, times: int) -> Floats:
        """Each transition made so many times, each time into the same action."""
        made = cast("Floats", self.q) ** times
        made[:, -1] *= self._all_one(times)
        return made


def _probabilities(name: str, rows: Floats) -> None:
    if not rows.size or np.any(rows < 0) or np.any(np.abs(rows.sum(axis=1) - 1) > _SUMS_TO_ONE):
        raise SettingsError.value(name, rows.shape, "numbers from 0 that sum to 1 (each row)")


def uniform(c: int) -> Model:
    """Independent, equally likely actions."""
    if c < 1:
        raise SettingsError.value("c", c, "at least one action")
    return Model(np.full(c, 1 / c))


def primitive(model: Model, p: int, n: int) -> float:
    """B_p(n): probability that the shortest period of n actions is exactly p (for n >= 2p).

    Examples
    --------
    >>> round(primitive(uniform(2), 2, 4), 4)
    0.125
    """
    _enough(p, n)
    return sum(moebius(p // d) * model.periodic(d, n) for d in range(1, p + 1) if p % d == 0)


def any_period(model: Model, q: int, n: int) -> float:
    """Phi_q(n): probability that n actions have some period up to q; exact, not a union bound (n >= 2q)."""
    return sum(primitive(model, p, n) for p in range(1, q + 1))


def _enough(p: int, n: int) -> None:
    if p < 1 or n < 2 * p:
        raise SettingsError.value("n", n, f"at least two laps of a period of at least 1 (2 * {p})")


def full_window_rate(model: Model, q: int, threshold: int, *, u: float = 1.0) -> float:
    """New false alarms per event of the rule "some period up to q over ``threshold`` events".

    ``u``: probability that evidence does not change from one event to the next, taken to be independent of the
    actions; 1 ignores evidence. ``Phi_q(T) u^(T-1) - Phi_q(T+1) u^T``.

    Examples
    --------
    >>> round(1000 * full_window_rate(uniform(12), 3, 6), 2)
    0.57
    """
    _share(u)
    now = any_period(model, q, threshold) * u ** (threshold - 1)
    return now - any_period(model, q, threshold + 1) * u**threshold


def _compared(evidence: Evidence, p: int, n: int) -> int:
    """How many comparisons of evidence n events of period p must pass."""
    return {"none": 0, "constant": n - 1, "lap": n - p}[evidence]


def _chance(model: Model, p: int, n: int, u: float, evidence: Evidence) -> float:
    return primitive(model, p, n) * u ** _compared(evidence, p, n)


def profile_rate(
    model: Model, thresholds: Sequence[int], *, u: float = 1.0, evidence: Evidence = "constant"
) -> float:
    """Upper bound of the new alarms per event of a threshold profile ``T_1..T_P``: one term a period, summed.

    ``u``: probability that one comparison of evidence finds no change, taken to be independent; it is asked
    ``n - 1`` times of n events where evidence must be constant, ``n - p`` times where it is compared by lap.
    """
    _share(u)
    return sum(
        _chance(model, p, t, u, evidence) - _chance(model, p, t + 1, u, evidence)
        for p, t in enumerate(thresholds, 1)
    )


def _share(u: float) -> None:
    if not 0 <= u <= 1:
        raise SettingsError.value("u", u, "a probability from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Chance alarms of a rule: per event, expected in a run of ``events``, and the chance of at least one."""

    per_event: float
    events: int
    expected: float
    at_least_one: float


def floor(
    model: Model,
    thresholds: Sequence[int],
    events: int,
    *,
    u: float = 1.0,
    evidence: Evidence = "constant",
) -> Floor:
    """Chance alarms of a profile in a healthy run of ``events`` events.

    ``E = sum_p B_p(T_p) u^c + sum_p (N - T_p) rate_p``, c comparisons of evidence as in `profile_rate`;
    ``P(at least one) ~ 1 - exp(-E)``. Equal thresholds are a full window, for which the sum is exact.

    Examples
    --------
    >>> round(floor(uniform(12), (6, 6, 6), 200).expected, 2)
    0.11
    """
    _share(u)
    if events < 1:
        raise SettingsError.value("events", events, "at least one event")
    expected = 0.0
    for p, t in enumerate(thresholds, 1):
        if events < t:
            continue
        first = _chance(model, p, t, u, evidence)
        expected += first + (events - t) * (first - _chance(model, p, t + 1, u, evidence))
    rate = profile_rate(model, thresholds, u=u, evidence=evidence)
    return Floor(per_event=rate, events=events, expected=expected, at_least_one=float(-np.expm1(-expected)))


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """What healthy runs say of chance.

    ``u``: share of events whose evidence is that of the event before. ``u_lap``: share of events that repeat the
    action of one, two or three events before and see what that one saw. ``events``, ``runs``: how much was read;
    ``symbols``: how many actions.
    """

    independent: Model
    chain: Model
    u: float
    u_lap: float
    symbols: int
    events: int
    runs: int

    def unchanged(self, evidence: Evidence) -> float:
        """Return the u that belongs to a rule's way of comparing evidence."""
        return {"none": 1.0, "constant": self.u, "lap": self.u_lap}[evidence]


def estimate(events: pl.DataFrame, *, pseudo: float = 0.5, largest: int = 200) -> Estimated:
    """Estimate frequencies, transitions and the share of unchanged evidence from healthy runs.

    Parameters
    ----------
    events
        ``run_id, agent, seq, action_signature, progress_fingerprint`` of healthy runs of one agent, from the explore
        split. Unknown actions and comparisons with unknown evidence are left out.
    pseudo
        Count added to every transition, shared out by overall frequency (so that rare actions stay rare).
    largest
        So many actions have transitions of their own: those that come again soonest, then the most frequent. The rest
        share theirs (`Model.rare`), so that the matrix stays small: they follow each other as often as they did,
        each drawn by its frequency.

    Raises
    ------
    SettingsError
        When no healthy run has two known actions in a row.

    Notes
    -----
    The chain's ``pi`` are the smoothed chain's own stationary frequencies, so that both closed forms speak of a
    stationary window.
    """
    lanes = events.sort("run_id", "agent", "seq").with_columns(
        pl.col("action_signature").shift(1).over("run_id", "agent").alias("_before"),
        *(_equal("progress_fingerprint", p).alias(f"_same_{p}") for p in _LAGS),
        *(_equal("action_signature", p).alias(f"_again_{p}") for p in _LAGS),
    )
    pairs = lanes.filter(pl.col("action_signature").is_not_null() & pl.col("_before").is_not_null())
    if not pairs.height:
        raise SettingsError.value(
            "healthy runs", lanes["run_id"].n_unique(), "runs with two known actions in a row"
        )
    known = lanes.filter(pl.col("action_signature").is_not_null())
    soon = pl.sum_horizontal(pl.col(f"_again_{p}").fill_null(value=False).cast(pl.Int64) for p in _LAGS)
    counts = (
        known.group_by("action_signature")
        .agg(pl.len(), soon.sum().alias("soon"))
        .sort("soon", "len", "action_signature", descending=[True, True, False])
    )
    names, often = counts["action_signature"].to_list(), counts["len"].to_numpy() / known.height
    code = {name: min(place, largest) for place, name in enumerate(names)}
    size = min(len(names), largest + 1)
    before, now = (
        pairs[c].replace_strict(code, return_dtype=pl.Int64).to_numpy()
        for c in ("_before", "action_signature")
    )
    seen = np.zeros((size, size))
    np.add.at(seen, (before, now), 1.0)
    all_codes = known["action_signature"].replace_strict(code, return_dtype=pl.Int64).to_numpy()
    pi = np.bincount(all_codes, minlength=size) / known.height
    smooth = seen + pseudo * pi[None, :]
    q = smooth / smooth.sum(axis=1, keepdims=True)
    laps = pl.concat([lanes.filter(f"_again_{p}")[f"_same_{p}"].alias("same") for p in _LAGS])
    rest = often[largest:]
    return Estimated(
        independent=Model(often),
        chain=Model(stationary(q), q, rest / rest.sum() if rest.size > 1 else None),
        u=_share_true(lanes["_same_1"]),
        u_lap=_share_true(laps),
        symbols=len(names),
        events=known.height,
        runs=known["run_id"].n_unique(),
    )


def _equal(name: str, p: int) -> pl.Expr:
    """Whether a value equals the one p events before in its lane; null where either is not known."""
    return (pl.col(name) == pl.col(name).shift(p)).over("run_id", "agent")


def _share_true(answers: pl.Series) -> float:
    """Share of comparisons that found no change, half a count added to either answer so that it is never 0.

    It is 1 where no comparison could be made, which can only raise the floor.
    """
    known = answers.drop_nulls()
    return (int(known.sum()) + 0.5) / (known.len() + 1) if known.len() else 1.0


def stationary(q: Floats) -> Floats:
    """Frequencies that the chain keeps: the left eigenvector of eigenvalue 1, summing to 1."""
    size = q.shape[0]
    system = np.vstack([q.T - np.eye(size), np.ones(size)])
    solution = np.linalg.lstsq(system, np.concatenate([np.zeros(size), [1.0]]), rcond=None)[0]
    clipped = np.clip(solution, 0, None)
    return np.asarray(clipped / clipped.sum(), dtype=np.float64)


CHANCE = pl.Schema(
    {
        "rule": pl.String(),
        "model": pl.String(),
        "per_1000_events": pl.Float64(),
        "events": pl.Int64(),
        "expected": pl.Float64(),
        "at_least_one": pl.Float64(),
        "observed_per_1000": pl.Float64(),
        "ratio": pl.Float64(),
        "structured": pl.Boolean(),
    }
)
"""One row a rule and model (``independent``, ``markov``): chance alarms per 1,000 healthy events and in a run of
``events``; beside them the observed rate, their ratio (null without a floor), and whether it exceeds `STRUCTURED`."""


def chance_table(
    found: Estimated,
    rules: Sequence[Rule],
    *,
    events: int,
    observed_per_1000: dict[str, float] | None = None,
) -> pl.DataFrame:
    """Chance floor of several rules (`CHANCE`, sorted).

    Parameters
    ----------
    found
        From `estimate`.
    rules
        Rules of different names; each is read as its threshold profile (short starts are left out).
    events
        Length of the reference run.
    observed_per_1000
        Observed false alarms per 1,000 healthy events, by rule name.
    """
    rows = []
    for rule in rules:
        seen = (observed_per_1000 or {}).get(rule.name)
        for kind, model in (("independent", found.independent), ("markov", found.chain)):
            u = found.unchanged(rule.evidence)
            of = floor(model, rule.thresholds, events, u=u, evidence=rule.evidence)
            ratio = None if seen is None or of.per_event <= 0 else seen / (1000 * of.per_event)
            rows.append(
                {
                    "rule": rule.name,
                    "model": kind,
                    "per_1000_events": 1000 * of.per_event,
                    "events": events,
                    "expected": of.expected,
                    "at_least_one": of.at_least_one,
                    "observed_per_1000": seen,
                    "ratio": ratio,
                    "structured": None if seen is None else seen > STRUCTURED * 1000 * of.per_event,
                }
            )
    return pl.DataFrame(rows, schema=CHANCE).sort("rule", "model")
