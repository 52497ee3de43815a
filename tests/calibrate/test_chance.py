"""The chance floor equals exhaustive enumeration, the design page's table and a simulation."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import polars as pl
import pytest

from agentlens.calibrate.chance import (
    CHANCE,
    Model,
    any_period,
    chance_table,
    estimate,
    floor,
    full_window_rate,
    primitive,
    profile_rate,
    stationary,
    uniform,
)
from agentlens.detect.rules import Rule, full_window, laps, same_call
from agentlens.errors import SettingsError

PI = np.array([0.5, 0.3, 0.2])
Q = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.4, 0.1, 0.5]])
MODELS = {"independent": Model(PI), "markov": Model(stationary(Q), Q)}


def probability(word: tuple[int, ...], model: Model) -> float:
    """The probability of one word, letter by letter."""
    if model.q is None:
        return float(np.prod(model.pi[list(word)]))
    steps = [model.q[a, b] for a, b in pairwise(word)]
    return float(model.pi[word[0]] * np.prod(steps))


def shortest_period(word: tuple[int, ...]) -> int:
    return next(p for p in range(1, len(word) + 1) if word[p:] == word[: len(word) - p])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("n", [2, 4, 5, 6, 7, 8])
def test_windows_of_each_shortest_period_equal_enumeration(kind: str, n: int) -> None:
    """Every word of n letters over three: sums of probabilities by shortest period."""
    model = MODELS[kind]
    words = list(product(range(3), repeat=n))
    for p in range(1, n // 2 + 1):
        literal = sum(probability(w, model) for w in words if shortest_period(w) == p)
        assert primitive(model, p, n) == pytest.approx(literal, abs=1e-12)
        repeats = sum(probability(w, model) for w in words if w[p:] == w[: n - p])
        assert model.periodic(p, n) == pytest.approx(repeats, abs=1e-12)
    some = sum(probability(w, model) for w in words if shortest_period(w) <= n // 2)
    assert any_period(model, n // 2, n) == pytest.approx(some, abs=1e-12)


@pytest.mark.parametrize("kind", MODELS)
def test_new_alarms_equal_enumeration(kind: str) -> None:
    """An alarm is new when the last T letters repeat and the last T + 1 do not."""
    model, t, q = MODELS[kind], 6, 3
    literal = sum(
        probability(w, model)
        for w in product(range(3), repeat=t + 1)
        if shortest_period(w[1:]) <= q and not shortest_period(w) <= q
    )
    assert full_window_rate(model, q, t) == pytest.approx(literal, abs=1e-12)


@pytest.mark.parametrize(
    ("c", "row"),
    [
        (5, (7.4, 1.5, 1.3, 0.26, 1.5, 0.063)),
        (12, (0.57, 0.048, 0.044, 0.0037, 0.048, 0.0003)),
        (40, (0.016, 0.0004, 0.0004, 1e-5, 0.0004, 2e-7)),
    ],
)
def test_the_table_of_the_design_page(c: int, row: tuple[float, ...]) -> None:
    """False alarms per 1,000 independent, equally likely actions, to the digits printed."""
    settings = ((6, 3, 2, 1), (6, 3, 2, 2), (6, 2, 3, 1), (6, 2, 3, 2), (8, 4, 2, 1), (12, 6, 2, 1))
    for (w, p, r, h), printed in zip(settings, row, strict=True):
        rate = 1000 * full_window_rate(uniform(c), min(p, w // r), w + h - 1)
        digits = 1 if printed in {0.0004, 1e-5, 2e-7, 0.0003} else 2
        assert float(f"{rate:.{digits}g}") == pytest.approx(printed, rel=1e-9)


def test_a_run_of_200_on_twelve_actions() -> None:
    """About .11 chance alarms for six events and two repetitions; .0007 with one more of each, without period 3."""
    loose, strict = (floor(uniform(12), t, 200).expected for t in ((6, 6, 6), (7, 7)))
    assert loose == pytest.approx(0.11, abs=0.005)
    assert strict == pytest.approx(0.0007, abs=0.00005)


def test_sticky_actions_alarm_far_more_often() -> None:
    """Eight states that mostly stay alarm five times as often as eight independent ones."""
    q = np.full((8, 8), 0.5 / 7)
    np.fill_diagonal(q, 0.5)
    sticky = full_window_rate(Model(np.full(8, 1 / 8), q), 3, 6)
    assert sticky > 5 * full_window_rate(uniform(8), 3, 6)


def alarms(symbols: np.ndarray, same: np.ndarray, thresholds: tuple[int, ...]) -> int:
    """Rising edges of "some period reaches its threshold", literally, evidence constant over the stretch."""
    before, count = False, 0
    run = dict.fromkeys(range(1, len(thresholds) + 1), 0)
    still = 0
    for i in range(len(symbols)):
        still = still + 1 if i and same[i] else 1
        now = False
        for p, t in enumerate(thresholds, 1):
            run[p] = run[p] + 1 if i >= p and symbols[i] == symbols[i - p] else 0
            now |= min(i + 1, p + run[p], still) >= t
        count += now and not before
        before = now
    return count


@pytest.mark.parametrize("u", [1.0, 0.8])
def test_a_simulation_agrees(u: float) -> None:
    """120,000 seeded steps of the chain: within four standard errors of the closed form."""
    rng = np.random.default_rng(12)
    n = 120_000
    cumulative = Q.cumsum(axis=1)
    draws = rng.random(n)
    symbols = np.zeros(n, dtype=np.int64)
    for i in range(1, n):
        symbols[i] = np.searchsorted(cumulative[symbols[i - 1]], draws[i])
    same = rng.random(n) < u
    expected = n * full_window_rate(MODELS["markov"], 3, 8, u=u)
    seen = alarms(symbols, same, (8, 8, 8))
    # alarms of a chain come in clumps; their variance is a few times a Poisson's
    assert abs(seen - expected) < 4 * (3 * expected) ** 0.5


def test_a_profile_is_bounded_by_its_terms() -> None:
    """Equal thresholds: the sum over periods is the full window's exact rate; unequal ones are dearer or equal."""
    model = MODELS["markov"]
    assert profile_rate(model, (8, 8, 8)) == pytest.approx(full_window_rate(model, 3, 8))
    assert profile_rate(model, (4, 6, 8)) > profile_rate(model, (8, 8, 8))


def test_comparing_by_lap_asks_less_of_evidence() -> None:
    """Fewer comparisons, more chance alarms; none asked, most."""
    rates = [profile_rate(uniform(6), (4, 6, 6), u=0.5, evidence=e) for e in ("constant", "lap", "none")]
    assert rates == sorted(rates)


def test_effective_alphabet() -> None:
    """Twelve equally likely actions count as twelve; skewed ones as fewer."""
    assert uniform(12).effective == pytest.approx(12)
    assert Model(np.array([0.9, 0.05, 0.05])).effective < 1.3


def healthy(runs: list[list[str]], seen: list[list[str | None]] | None = None) -> pl.DataFrame:
    rows = [
        (f"r{r}", "", i, a, seen[r][i] if seen else str(i))
        for r, run in enumerate(runs)
        for i, a in enumerate(run)
    ]
    names = ["run_id", "agent", "seq", "action_signature", "progress_fingerprint"]
    return pl.DataFrame(rows, schema=names, orient="row")


def test_estimates_never_join_two_runs() -> None:
    """Transitions are counted inside a lane only, and smoothed by overall frequency."""
    found = estimate(healthy([["a", "b"], ["b", "a"]]), pseudo=0.0001)
    assert found.chain.q is not None
    np.testing.assert_allclose(found.chain.q, [[0, 1], [1, 0]], atol=1e-3)
    assert (found.symbols, found.events, found.runs) == (2, 4, 2)


def test_unchanged_evidence_is_counted_where_it_is_known() -> None:
    """Two of three comparisons equal; of three repeats of an action one saw the same; half a count is added."""
    found = estimate(healthy([["a", "a", "b", "a"]], [["x", "x", "x", "y"]]))
    assert found.u == pytest.approx(2.5 / 4)
    assert found.u_lap == pytest.approx(1.5 / 4)
    assert estimate(healthy([["a", "a"]], [["x", None]])).u == 1.0


def test_the_estimate_recovers_the_chain() -> None:
    """From 30,000 simulated steps the floor comes out within a tenth."""
    rng = np.random.default_rng(4)
    cumulative = Q.cumsum(axis=1)
    state, names = 0, []
    for draw in rng.random(30_000):
        state = int(np.searchsorted(cumulative[state], draw))
        names.append("abc"[state])
    found = estimate(healthy([names]))
    truth = full_window_rate(MODELS["markov"], 3, 6)
    assert full_window_rate(found.chain, 3, 6) == pytest.approx(truth, rel=0.1)


def test_rare_actions_share_a_row_and_stay_different() -> None:
    """A chain whose last action stands for three says what the chain of all five, written out, says."""
    rare = np.array([0.5, 0.3, 0.2])
    whole = np.hstack([Q[:, :2], Q[:, 2:] * rare])[[0, 1, 2, 2, 2]]
    short, long = Model(stationary(Q), Q, rare), Model(stationary(whole), whole)
    for p, n in product(range(1, 6), range(1, 14)):
        assert short.periodic(p, n) == pytest.approx(long.periodic(p, n), rel=1e-9), (p, n)
    for p in range(1, 5):
        assert short.again(p) == pytest.approx(long.again(p), rel=1e-9)


def test_a_thousand_actions_that_never_recur_give_next_to_no_floor() -> None:
    """Beyond 200 actions the rest are not one action that is always repeated."""
    runs = [[f"{run}/{step}" for step in range(25)] for run in range(40)]
    runs[0][5:8] = ["poll"] * 3
    found = estimate(healthy(runs))
    assert found.symbols == 998
    assert found.independent.pi.size == 998
    assert found.chain.pi.size == 201
    for model in (found.independent, found.chain):
        assert 1000 * profile_rate(model, (4, 6, 6)) < 0.1
    assert found.chain.effective > 100


def test_actions_that_come_again_keep_a_row_of_their_own() -> None:
    """An action of one burst is sticky, however many others are more frequent."""
    often = [f"t{k % 40}" for k in range(400)]
    small = estimate(healthy([[*often, "poll", "poll", "poll", "poll"]]), largest=10)
    assert small.chain.q is not None
    assert small.chain.q.shape == (11, 11)
    assert small.chain.q[0, 0] > 0.6


def test_the_table_sets_observed_beside_chance() -> None:
    """Far above chance is structure; without an observation there is no ratio."""
    found = estimate(healthy([list("abcabdacbd" * 20)]))
    table = chance_table(
        found,
        [laps(), full_window(short_starts=False), same_call(3)],
        events=200,
        observed_per_1000={"laps": 900.0},
    )
    assert table.schema == CHANCE
    assert table.filter(pl.col("rule") == "laps")["structured"].to_list() == [True, True]
    assert table.filter(pl.col("rule") == "full_window")["ratio"].null_count() == 2
    assert table["rule"].is_sorted()


def test_a_run_shorter_than_the_threshold_cannot_alarm() -> None:
    """Nothing to add up."""
    assert floor(uniform(3), (4, 6), 3).expected == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Model(np.array([0.5, 0.6])),
        lambda: Model(np.array([1.0]), np.ones((2, 2)) / 2),
        lambda: Model(PI, Q, np.array([0.5, 0.6])),
        lambda: Model(PI, rare=np.array([0.5, 0.5])),
        lambda: uniform(0),
        lambda: primitive(uniform(3), 3, 5),
        lambda: full_window_rate(uniform(3), 2, 6, u=1.5),
        lambda: floor(uniform(3), (4,), 0),
        lambda: estimate(healthy([["a"]])),
    ],
)
def test_what_is_no_chance_model_is_refused(wrong) -> None:
    """One clear line for each."""
    with pytest.raises(SettingsError):
        wrong()


def test_rules_of_the_engine_are_profiles() -> None:
    """The default rule is read by its thresholds and its way of comparing evidence."""
    rule: Rule = laps()
    found = estimate(healthy([list("abcd" * 30)]))
    table = chance_table(found, [rule], events=100)
    by_hand = floor(found.chain, rule.thresholds, 100, u=found.u_lap, evidence="lap")
    assert table.filter(pl.col("model") == "markov")["expected"].item() == pytest.approx(by_hand.expected)
