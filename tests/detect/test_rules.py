"""Rules, rule books and policies: what is accepted, what is refused, what decides."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.detect import rules
from agentlens.detect.loops import loops
from agentlens.detect.policies import Policies, RetryPolicy, WaitingTool
from agentlens.detect.profile_rules import Override, RuleBook
from agentlens.detect.rules import Rule
from agentlens.errors import SchemaError, SettingsError


@pytest.mark.parametrize(
    ("rule", "thresholds"),
    [
        (rules.laps(), (4, 6, 6)),
        (rules.laps((2, 2), confirm=3), (4, 6)),
        (rules.full_window(), (6, 6, 6)),
        (rules.full_window(5, 4, 2, confirm=2), (6, 6)),
        (rules.equal_surprise(3, 4), (4, 5, 6, 8)),
        (rules.openhands(), (4, 6)),
        (rules.gemini_cli(), (5, 10, 15, 20, 25)),
        (rules.same_call(3), (3,)),
    ],
)
def test_named_rules_build_these_profiles(rule, thresholds):
    """Each named rule is the profile of the contract."""
    assert rule.thresholds == thresholds


@pytest.mark.parametrize(
    "settings",
    [
        {"thresholds": ()},
        {"thresholds": (1,)},
        {"thresholds": (4, 3)},
        {"thresholds": (6, 5)},
        {"thresholds": (4, 6.0)},
        {"thresholds": (True,)},
        {"thresholds": [4]},
        {"thresholds": (4,), "evidence": "vibes"},
        {"thresholds": (4,), "max_gap_s": 0},
        {"thresholds": (4,), "max_gap_s": float("nan")},
        {"thresholds": (4,), "confirm": 0},
        {"thresholds": (4,), "window": 4},
        {"thresholds": (2**31,)},
        {"thresholds": (10**20,)},
        {"thresholds": (5_000,) * 1_001},
        {"thresholds": (4,), "max_gap_s": 1e300},
        {"thresholds": (4,), "confirm": 2**40},
    ],
)
def test_a_profile_below_two_laps_or_falling_is_refused(settings):
    """A threshold is at least two laps and never falls as the period grows; settings stay in range."""
    with pytest.raises(SettingsError):
        Rule(**settings)


def test_a_falling_profile_of_laps_is_refused():
    """Laps that would make a longer period easier are refused with the profile named."""
    with pytest.raises(SettingsError, match="never fall"):
        rules.laps((5, 2))


@pytest.mark.parametrize(
    ("builder", "given", "says"),
    [
        (rules.laps, {"laps": (10**20,)}, "laps = 1000"),
        (rules.equal_surprise, {"k": 1, "max_period": 10**9}, "max_period = 1000000000"),
        (rules.full_window, {"window": 2**29, "max_period": 2**28}, "max_period = 268435456"),
        (rules.same_call, {"n": 10**20}, "same_call|n = 1000|thresholds"),
    ],
)
def test_absurd_sizes_are_refused_before_anything_is_built(builder, given, says):
    """Sizes that no lane has and that would fill memory, or no column takes, are one line."""
    with pytest.raises(SettingsError, match=says):
        builder(**given)


def test_a_wide_window_of_short_periods_is_a_rule():
    """Only the periods looked for are limited to a thousand, not how long a stretch must be."""
    assert rules.full_window(5_000, 3, 2).thresholds == (5_000, 5_000, 5_000)


def test_the_digest_follows_settings_and_not_the_name():
    """Two rules of one setting are the same detector, whatever they are called."""
    assert rules.laps().digest == Rule(thresholds=(4, 6, 6), name="mine").digest
    assert rules.laps().digest != rules.laps(evidence="constant").digest
    assert RuleBook(default=rules.laps()).digest == rules.laps().digest
    assert (
        RuleBook(default=rules.laps(), overrides=(Override(rule=rules.laps(), tool="t"),)).digest
        != rules.laps().digest
    )


def test_a_rule_file_holds_a_default_and_overrides(tmp_path):
    """TOML tables map one to one onto rules."""
    path = tmp_path / "rules.toml"
    path.write_text(
        '[default]\nrule = "laps"\nlaps = [5, 3]\nevidence = "constant"\n'
        '[[override]]\ntool = "poll"\nrule = "same_call"\nn = 9\n'
        '[[override]]\nworkflow = "w"\nthresholds = [8, 8]\nmax_gap_s = 60\n'
    )
    book = RuleBook.load(path)
    assert [rule.thresholds for rule in book.rules] == [(5, 6), (9,), (8, 8)]
    assert (book.default.evidence, book.rules[2].max_gap_s) == ("constant", 60)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[default", "TOML"),
        ('[default]\nrule = "lap"\n', "did you mean 'laps'"),
        ('[default]\nrule = "laps"\nn = 3\n', "arguments of laps"),
        ("[default]\nthresholds = [1]\n", "from 2"),
        ('[[override]]\nrule = "laps"\n', "workflow, agent, tool"),
        ('[other]\nrule = "laps"\n', r"\[default\]"),
        ("override = 3\n", "override"),
    ],
)
def test_a_bad_rule_file_says_what_would_be_accepted(tmp_path, text, says):
    """Every mistake in a rule file is one clear line that names the file."""
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=says) as caught:
        RuleBook.load(path)
    assert "rules.toml" in str(caught.value)


def test_a_missing_rule_file_is_no_traceback(tmp_path):
    """A file that is not there is a settings error."""
    with pytest.raises(SettingsError, match="readable file"):
        RuleBook.load(tmp_path / "none.toml")


def lane(n: int, **columns: object) -> pl.LazyFrame:
    """Return ``n`` equal calls of one tool with equal results."""
    base = {"run_id": "r", "tool": "poll", "action_signature": "a", "progress_fingerprint": "f", **columns}
    return pl.LazyFrame({"seq": range(n)}).with_columns(
        pl.lit(value).alias(name) if not isinstance(value, list) else pl.Series(name, value)
        for name, value in base.items()
    )


def test_the_rule_of_the_events_tool_judges_that_event():
    """A tool override judges the events of its tool on the whole lane; the others keep the default."""
    book = RuleBook(default=rules.laps(), overrides=(Override(rule=rules.same_call(9), tool="poll"),))
    mixed = lane(5, tool=["poll", "poll", "poll", "poll", "read"])
    found = loops(mixed, book).collect()["verdict"].to_list()
    assert found == ["working", "working", "working", "working", "stuck_loop"]


def test_more_names_win_then_tool_over_agent_over_workflow():
    """The most specific override judges; among equals the first in the file."""
    overrides = (
        Override(rule=rules.same_call(2), workflow="w"),
        Override(rule=rules.same_call(3), agent=""),
        Override(rule=rules.same_call(4), tool="poll"),
        Override(rule=rules.same_call(5), tool="poll", workflow="w"),
        Override(rule=rules.same_call(6), workflow="w", tool="poll"),
    )
    events = lane(6, workflow="w")
    for known, first in ((5, 4), (3, 3), (2, 2), (1, 1)):
        found = loops(events, RuleBook(default=rules.laps(), overrides=overrides[:known])).collect()
        assert found["verdict"].to_list().index("stuck_loop") == first


def test_policies_are_read_and_checked(tmp_path):
    """A policies file names retry policies, waiting tools and sleeping tools."""
    path = tmp_path / "policies.toml"
    path.write_text(
        'sleeping_tools = ["nap"]\n'
        '[[retry]]\nerrors = ["*"]\ninterval_s = 1\nmax_attempts = 3\ntool = "search"\n'
        '[[wait]]\ntool = "approval"\nowner = "ops"\nlongest_wait_s = 60\n'
    )
    assert Policies.load(path) == Policies(
        retries=(RetryPolicy(errors=("*",), interval_s=1, max_attempts=3, tool="search"),),
        waits=(WaitingTool(tool="approval", owner="ops", longest_wait_s=60),),
        sleeping_tools=("nap",),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[retries]]\n", "did you mean 'retry'"),
        ('[[retry]]\nerrors = "*"\ninterval_s = 1\nmax_attempts = 3\n', "errors"),
        ('[[retry]]\nerrors = ["*"]\ninterval_s = 1\n', "max_attempts"),
        ('[[retry]]\nerrors = ["*"]\ninterval_s = 1\nmax_attempts = 0\n', "max_attempts"),
        ('[[retry]]\nerrors = ["*"]\ninterval_s = -1\nmax_attempts = 3\n', "interval_s"),
        ('[[retry]]\nerrors = ["*"]\ninterval_s = 1\nmax_attempts = 3\njitter = 2\n', "from 0 to 1"),
        ('[[wait]]\ntool = "t"\nlongest_wait_s = 1\n', "owner"),
        ('[[wait]]\ntool = "t"\nowner = "o"\nlongest_wait_s = 1\nlimit = 2\n', "limit"),
        ("sleeping_tools = 3\n", "list of tool names"),
    ],
)
def test_a_policy_without_a_bound_is_refused(tmp_path, text, says):
    """Every mistake in a policies file is one clear line that names the file."""
    path = tmp_path / "policies.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=says) as caught:
        Policies.load(path)
    assert "policies.toml" in str(caught.value)


def test_columns_that_are_not_there_are_unknown_and_a_lane_needs_its_key():
    """Verdicts need run, seq and tool; every other absent column counts as unknown."""
    bare = pl.LazyFrame({"run_id": ["r"] * 4, "seq": range(4), "tool": ["t"] * 4})
    found = loops(bare, rules.laps()).collect()
    assert found["verdict"].to_list() == ["working", "working", "working", "uncertain"]
    with pytest.raises(SchemaError, match="'tool'"):
        loops(bare.drop("tool"), rules.laps())
    with pytest.raises(SettingsError, match="kind of action"):
        loops(bare, rules.laps(), actions=("tools",))
