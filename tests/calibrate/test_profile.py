"""The profile file and the ledger of openings."""

from __future__ import annotations

import tomllib

import pytest

from agentlens.calibrate.ledger import entries, opening, run_marks
from agentlens.calibrate.profile import check_profile, load_profile, rule_table, settings_of, to_toml
from agentlens.detect.policies import Policies
from agentlens.detect.profile_rules import RuleBook
from agentlens.detect.rules import full_window, laps
from agentlens.errors import InputError, LakeError, SettingsError

VERSIONS = {"normaliser_version": "n1", "fingerprint_version": "f1", "key_id": "k1"}


@pytest.mark.parametrize(
    "rule", [laps((4, 2, 2), max_gap_s=2.5), full_window(7, 3, 2, confirm=2), laps(evidence="constant")]
)
def test_a_rule_comes_back_from_its_profile_as_it_was(tmp_path, rule):
    """The table [default] gives the same detector, heads, gaps and evidence included."""
    path = tmp_path / "profile.toml"
    path.write_text(
        to_toml(
            {"profile": {"status": "CERTIFIED"}, "default": rule_table(rule, "mine"), "versions": VERSIONS}
        )
    )
    book = RuleBook.load(path)
    assert book.digest == rule.digest
    assert book.name == "mine"


def test_any_text_survives_toml():
    """Quotes, control characters, other scripts and odd keys are written so that they are read back."""
    table = {
        "a": 'x"\\\n\t\x7f\x01é😀',
        "odd key": 1,
        "n": [1, 2.5, "y"],
        "b": True,
        "none": None,
        "t": {"p q": 3.0},
    }
    back = tomllib.loads(to_toml({"t": table}))["t"]
    assert back == {key: value for key, value in table.items() if value is not None}


def test_a_profile_is_void_for_other_versions(tmp_path):
    """Another normaliser, fingerprint or key is refused, unless it is asked for; unknown versions are not compared."""
    path = tmp_path / "profile.toml"
    path.write_text(to_toml({"default": {"rule": "laps"}, "versions": VERSIONS}))
    check_profile(path, VERSIONS)
    check_profile(path, {})
    for name in VERSIONS:
        with pytest.raises(
            SettingsError, match=f"made for {name} .1, the data have other; accepted: .*--any-version"
        ):
            check_profile(path, {**VERSIONS, name: "other"})
        check_profile(path, {**VERSIONS, name: "other"}, any_version=True)


def test_a_rule_file_without_versions_is_let_through(tmp_path):
    """Plain rule files say nothing of versions; what is no TOML is one line."""
    path = tmp_path / "rule.toml"
    path.write_text('[default]\nrule = "laps"\n')
    check_profile(path, VERSIONS)
    assert load_profile(path) is None
    path.write_text("[default\n")
    with pytest.raises(InputError, match="cannot be read as TOML"):
        check_profile(path, VERSIONS)


def test_an_infeasible_profile_holds_no_rule_and_says_so(tmp_path):
    """It is refused even with any version."""
    path = tmp_path / "profile.toml"
    path.write_text(to_toml({"profile": {"status": "INFEASIBLE"}, "versions": VERSIONS}))
    with pytest.raises(SettingsError, match="found no rule"):
        check_profile(path, VERSIONS, any_version=True)


def test_each_different_look_at_the_test_split_is_counted_once(tmp_path):
    """The same look again is the same opening; another rule or question on the same runs is another."""
    folder = tmp_path / "labels"
    look = {"test_split": "t", "labels": "l", "plan": "p", "rule": "r"}
    assert opening(folder, look) == 1
    assert opening(folder, look) == 1
    assert opening(folder, {**look, "rule": "s"}) == 2
    assert opening(folder, {**look, "test_split": "u"}) == 1
    assert len(entries(folder)) == 3


def test_the_same_runs_are_the_same_test_split_under_any_name(tmp_path):
    """A further label or task name splits anew; who has seen one of the runs has opened it, others have not."""
    folder = tmp_path / "labels"
    look = {"labels": "l", "plan": "p", "rule": "r"}
    assert opening(folder, {**look, "test_split": "t", "runs": run_marks(["a", "b", "c"])}) == 1
    assert opening(folder, {**look, "test_split": "u", "labels": "m", "runs": run_marks(["c", "d"])}) == 2
    assert opening(folder, {**look, "test_split": "v", "runs": run_marks(["x", "y"])}) == 1
    assert opening(folder, {**look, "test_split": "w", "runs": run_marks(["d", "y"])}) == 3
    assert opening(folder, {**look, "test_split": "t", "runs": run_marks(["c", "b", "a"])}) == 2


def test_a_look_without_its_runs_is_known_by_its_split(tmp_path):
    """What was written before runs were kept still counts for the same split."""
    folder = tmp_path / "labels"
    assert opening(folder, {"test_split": "t", "rule": "r"}) == 1
    assert opening(folder, {"test_split": "t", "rule": "s", "runs": run_marks(["a"])}) == 2
    assert opening(folder, {"test_split": "u", "rule": "s", "runs": run_marks(["b"])}) == 1


def test_a_damaged_ledger_keeps_the_split_closed(tmp_path):
    """Nobody can say how often it was opened, so it is not opened."""
    (tmp_path / "openings.ndjson").write_text('{"test_split": "t"}\n{"te')
    with pytest.raises(LakeError, match="ledger of openings cannot be read"):
        opening(tmp_path, {"test_split": "t"})


def test_a_certificate_that_does_not_say_what_it_holds_for_is_refused(tmp_path):
    """A profile whose versions were taken out, all or one, is void; asked for, it is used."""
    path = tmp_path / "profile.toml"
    whole = {"profile": {"status": "CERTIFIED"}, "default": {"rule": "laps"}}
    path.write_text(to_toml(whole))
    with pytest.raises(
        SettingsError, match="does not say which normaliser_version, fingerprint_version, key_id"
    ):
        check_profile(path, VERSIONS)
    check_profile(path, VERSIONS, any_version=True)
    for name in VERSIONS:
        path.write_text(to_toml({**whole, "versions": {**VERSIONS, name: None}}))
        with pytest.raises(SettingsError, match=f"does not say which {name} it was made for"):
            check_profile(path, VERSIONS)
        with pytest.raises(SettingsError, match="made for"):
            check_profile(path, {**VERSIONS, **dict.fromkeys(set(VERSIONS) - {name}, "other")})
    # frames without versions make profiles without, which are used on such frames
    path.write_text(to_toml({**whole, "versions": dict.fromkeys(VERSIONS, "")}))
    check_profile(path, dict.fromkeys(VERSIONS, ""))
    path.write_text(to_toml({**whole, "versions": VERSIONS}))
    check_profile(path, VERSIONS)


@pytest.mark.parametrize(
    ("made", "here", "said"),
    [
        (
            {"actions": ["tool"]},
            settings_of(["tool", "handoff"], None),
            "made with actions tool, here handoff,tool",
        ),
        (
            {"actions": ["tool"]},
            settings_of(["tool"], Policies()),
            "made with policies none, here [0-9a-f]{32}",
        ),
        (
            {"actions": ["tool"], "policies": "d1"},
            settings_of(["tool"], None),
            "made with policies d1, here none; accepted: the same --policies",
        ),
    ],
)
def test_a_profile_is_void_for_other_actions_or_policies(tmp_path, made, here, said):
    """They decide which events are alarms, as the versions do."""
    path = tmp_path / "profile.toml"
    path.write_text(to_toml({"default": {"rule": "laps"}, "versions": VERSIONS, "made": made}))
    with pytest.raises(SettingsError, match=said):
        check_profile(path, {**VERSIONS, **here})
    check_profile(path, {**VERSIONS, **here}, any_version=True)
    check_profile(path, VERSIONS)
    check_profile(path, {**VERSIONS, "actions": "tool", "policies": made.get("policies", "none")})


def test_limits_of_handoffs_need_no_loop_rule(tmp_path):
    """A refused certificate says nothing of acknowledgements; versions are compared all the same."""
    path = tmp_path / "profile.toml"
    path.write_text(to_toml({"profile": {"status": "INFEASIBLE"}, "versions": VERSIONS}))
    check_profile(path, VERSIONS, needs_rule=False)
    with pytest.raises(SettingsError, match="made for key_id"):
        check_profile(path, {**VERSIONS, "key_id": "other"}, needs_rule=False)
