"""Rules fixed beforehand: the whole chance of error for the first, the next where it passed."""

from __future__ import annotations

import pytest

from agentlens.api import rule_book
from agentlens.calibrate.calibrate import ONLY, Plan, calibrate_loops
from agentlens.calibrate.certificate import Status
from agentlens.calibrate.chains import chains, loosened
from agentlens.calibrate.grid import (
    Setting,
    baselines,
    full_windows,
    key_of,
    lap_profiles,
    lap_settings,
    surprises,
)
from agentlens.calibrate.recommend import Goal
from agentlens.detect.rules import laps, same_call
from agentlens.errors import SettingsError
from tests.calibrate.test_recommend import failing_runs

STRICT, LOOSE = laps((6, 5, 4)), laps((2, 2, 2))


def given(*rules) -> tuple[Setting, ...]:
    return tuple(Setting(family="given", text=f"mine {n}", rule=rule) for n, rule in enumerate(rules))


def answer(*rules, **more):
    events, told = failing_runs(120)
    goal = Goal(objective="share", max_fpr=0.05)
    return calibrate_loops([events.lazy()], told, Plan(goal=goal, grid=False, only=given(*rules), **more))


def test_only_the_rules_that_were_given_are_tested():
    """All groups certify, no other rule is walked, and the answer says who chose."""
    found = answer(STRICT)
    assert found.answer.status is Status.CERTIFIED
    assert found.answer.certificate["rule"].to_list() == ["mine 0"]
    assert found.answer.certificate["groups"].to_list() == [120]
    assert (found.answer.chain, found.answer.chain_from) == (ONLY, "given beforehand")
    assert found.splits.frame["split"].unique().to_list() == ["certify"]


def test_the_order_given_is_the_order_of_the_tests():
    """A rule that fails closes the way for what was named after it, though that alone would pass."""
    found = answer(LOOSE, STRICT)
    assert found.answer.certificate.select("rule", "tested", "certified").rows() == [
        ("mine 0", True, False),
        ("mine 1", False, False),
    ]
    assert found.answer.status is not Status.CERTIFIED
    assert answer(STRICT, LOOSE).answer.certificate["certified"].to_list() == [True, False]


def test_another_rule_is_another_question():
    """The plan's digest names the rules, so the ledger tells the looks apart."""
    assert (
        len({Plan(only=given(rule)).digest for rule in (STRICT, LOOSE, same_call(3))} | {Plan().digest}) == 4
    )


def test_an_explore_share_beside_given_rules_chooses_nothing():
    """The chain stays the one that was given."""
    assert answer(STRICT, shares=(0.2, 0.8, 0.0)).answer.chain_from == "given beforehand"


def test_folds_beside_given_rules_or_shares_are_refused():
    """Nested cross-validation judges a choice; where nothing is chosen there is none to judge."""
    with pytest.raises(SettingsError, match=r"folds = 3 .*neither shares nor given rules"):
        Plan(folds=3, only=given(STRICT))
    with pytest.raises(SettingsError, match="folds = 3"):
        Plan(folds=3, shares=(0, 1, 0))
    with pytest.raises(SettingsError, match=r"folds = 1 .*at least 2"):
        Plan(folds=1)


@pytest.mark.parametrize("text", ["laps(4, 2, 2, 2, 2)", "laps((4, 2, 2, 2, 2))"])
def test_a_rule_can_be_typed_with_its_arguments(text):
    """As the tables print it."""
    assert rule_book(text).default.digest == laps((4, 2, 2, 2, 2)).digest


def test_every_rule_of_the_grid_reads_back_from_what_it_is_called():
    """What a table prints can be typed: it is the same detector."""
    shown = [*baselines(), *lap_settings(lap_profiles()), *surprises(), *surprises(evidence="constant")]
    shown += full_windows((4, 6, 9), (1, 3), (2, 3), (1, 2)) + full_windows((6,), (3,), short_starts=True)
    shown += [setting for chain in [*chains(), loosened(baselines()[0])] for setting in chain.settings]
    assert [s.text for s in shown if key_of(rule_book(s.text).default) != key_of(s.rule)] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("laps(1, 2)", "laps = 1"),
        ("lapps(4)", "unknown rule 'lapps'"),
        ("laps(open('x'))", "a rule with plain arguments"),
        ("laps(**{'confirm': 2})", "a rule with plain arguments"),
        ("full_window(6, 3, 2, 1)", "at most 3 arguments"),
        ("a.b(3)", "a rule with plain arguments"),
        ("laps(4)(5)", "a rule with plain arguments"),
    ],
)
def test_a_rule_that_can_not_be_read_is_one_line(text, said):
    """Nothing is evaluated; what would do is said."""
    with pytest.raises(SettingsError, match="accepted:") as error:
        rule_book(text)
    assert said in str(error.value)
