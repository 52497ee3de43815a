"""Resets where the runs themselves are at hand: effects in the trace, comparison, repetitions, bare commands."""

from __future__ import annotations

import polars as pl
import pytest

from agentlens.detect.lineage import standing
from agentlens.detect.reset_effects import compared, effect_rows, repeated_effects
from agentlens.detect.reset_tables import unreceipted_resets
from agentlens.detect.resets import resets
from agentlens.detect.state_keys import StateKeys
from agentlens.model.branch import branches_frame
from agentlens.model.event import EVENTS
from agentlens.model.raw import RawBranch
from agentlens.model.reset import COMPARISON, EFFECTS, REPEATED_EFFECTS, UNRECEIPTED
from tests.detect.test_resets import READY, RUNNING, changed


def typed(*branches):
    return branches_frame(
        [RawBranch(fields=b, position=(at, 0)) for at, b in enumerate(branches, 1)], source="b"
    ).frame.lazy()


def events(*rows):
    """Events of the lane "" of the parent ``run`` unless told otherwise, numbered in order."""
    full = [
        {"run_id": "run", "agent": "", "seq": at, "kind": "tool", "tool": "mail", "source": f"t:{at}", **row}
        for at, row in enumerate(rows)
    ]
    return pl.DataFrame(full, schema=EVENTS).lazy()


CHECKPOINT = {"kind": "checkpoint", "tool": "", "target": "c2"}
SENT = {"external": True, "call_id": "call-1", "action_signature": "sig-1", "open": False}
EMPTY = {**READY, "effects": []}


def state(branch, rows):
    row = resets(typed(branch), events=rows).collect().row(0, named=True)
    return row["state"], row["reason"], row["unlisted_effects"]


@pytest.mark.parametrize(
    ("branch", "rows", "expected"),
    [
        (EMPTY, [CHECKPOINT, {"external": False}], ("ready_to_resume", None, 0)),
        (EMPTY, [SENT, CHECKPOINT, {}], ("ready_to_resume", None, 0)),
        (EMPTY, [CHECKPOINT, SENT], ("effects_unreconciled", "unlisted_effect", 1)),
        (EMPTY, [CHECKPOINT, {**SENT, "open": True}], ("effects_unreconciled", "open_call", 1)),
        (EMPTY, [SENT], ("effects_unreconciled", "effect_time_unknown", 0)),
        (
            EMPTY,
            [CHECKPOINT, {**SENT, "agent": "helper"}],
            ("effects_unreconciled", "effect_time_unknown", 0),
        ),
        (EMPTY, [{}], ("ready_to_resume", None, 0)),
        (EMPTY, [{"run_id": "elsewhere"}], ("effects_unreconciled", "no_trace_of_parent", None)),
        (READY, [CHECKPOINT, SENT], ("ready_to_resume", None, 0)),
        (READY, [CHECKPOINT, {**SENT, "tool": "Send_Email"}], ("ready_to_resume", None, 0)),
        (READY, [CHECKPOINT, {**SENT, "tool": "book"}], ("effects_unreconciled", "unlisted_effect", 1)),
        (
            changed(READY, "effects.0.kind", "il"),
            [CHECKPOINT, SENT],
            ("effects_unreconciled", "unlisted_effect", 1),
        ),
        (
            changed(READY, "effects.0.kind", None),
            [CHECKPOINT, SENT],
            ("effects_unreconciled", "unlisted_effect", 1),
        ),
        (
            READY,
            [CHECKPOINT, SENT, {**SENT, "agent": "helper"}],
            ("effects_unreconciled", "effect_time_unknown", 0),
        ),
        (
            READY,
            [CHECKPOINT, SENT, {**SENT, "call_id": "call-2"}],
            ("effects_unreconciled", "unlisted_effect", 1),
        ),
    ],
)
def test_effects_in_the_trace_of_the_parent(branch, rows, expected):
    """An empty list needs a silent trace; calls beyond those a receipt can mean are missing from it."""
    assert state(branch, events(*rows)) == expected


@pytest.mark.parametrize("name", ["call_id", "span_id", "action_signature"])
def test_an_effect_is_listed_by_any_id_of_its_call(name):
    """The operation id of an effect may be call id, span id or signature; the other effect stays spare."""
    listed = changed(READY, "effects.0.operation_id", "the-id")
    call = {**SENT, name: "the-id"}
    assert state(listed, events(CHECKPOINT, call)) == ("ready_to_resume", None, 0)
    assert state(listed, events(CHECKPOINT, call, {**SENT, "call_id": "z"})) == (
        "effects_unreconciled",
        "unlisted_effect",
        1,
    )


def test_fork_point_may_be_the_id_of_a_message_or_call():
    """Where no checkpoint has the id, the action with that span or call id is the fork."""
    for name in ("span_id", "call_id"):
        assert state(EMPTY, events(SENT, {name: "c2"}))[0] == "ready_to_resume"
        assert state(EMPTY, events({name: "c2"}, SENT))[1] == "unlisted_effect"


def test_time_places_calls_of_other_lanes():
    """Across lanes the clock decides what lies after the fork."""
    at = [pl.datetime(2026, 1, 1, second, time_zone="UTC") for second in (1, 2, 3)]
    times = pl.select(*[t.alias(str(i)) for i, t in enumerate(at)]).row(0)
    before = {**SENT, "agent": "helper", "at": times[0]}
    after = {**SENT, "agent": "helper", "at": times[2]}
    fork = {**CHECKPOINT, "at": times[1]}
    assert state(EMPTY, events(fork, before))[0] == "ready_to_resume"
    assert state(EMPTY, events(fork, after))[1] == "unlisted_effect"


def test_effect_table_has_listed_and_unlisted_effects():
    """Effects of the receipt come first, then calls only the trace shows, with their place."""
    calls = events(CHECKPOINT, {**SENT, "tool": "post", "open": True})
    table = effect_rows(standing(typed(READY)), calls).collect()
    assert table.select("operation_id", "listed", "gate", "reason", "seq").rows() == [
        ("mail-1", True, "pass", None, None),
        ("call-1", False, "fail", "open_call", 1),
    ]
    assert table.schema == EFFECTS
    assert effect_rows(standing(typed(READY))).collect().height == 1


OWN_IDS = [
    {"operation_id": "x1", "kind": "mail", "status": "reconciled"},
    {"operation_id": "x2", "kind": "mail", "status": "reverted"},
    {"operation_id": "x2", "kind": "mail", "status": "reverted"},
]


@pytest.mark.parametrize(
    "effects", [[], OWN_IDS[:1], OWN_IDS[:2], OWN_IDS[1:], [{**OWN_IDS[0], "kind": "sms"}]]
)
@pytest.mark.parametrize("tools", [["mail"], ["mail", "send_email"], ["mail", "book"], ["sms_mail", "mail"]])
def test_gate_count_and_table_agree_on_what_is_unlisted(effects, tools):
    """The number of a branch is the number of calls in its table, and the gate fails where there are some."""
    branch = {**READY, "effects": effects}
    calls = [{**SENT, "tool": tool, "call_id": f"call-{at}"} for at, tool in enumerate(tools)]
    rows = events(CHECKPOINT, *calls)
    judged = resets(typed(branch), events=rows).collect().row(0, named=True)
    table = effect_rows(standing(typed(branch)), rows).collect()
    assert judged["unlisted_effects"] == table.filter(~pl.col("listed")).height
    assert (judged["gate_3"] == "pass") == (table["gate"] == "pass").all()


def test_an_effect_of_another_kind_accounts_for_no_call():
    """Two settled calendar entries do not hide two messages; two messages under ids of their own do."""
    sent = [{**SENT, "tool": "send_email", "call_id": name} for name in ("c2", "c4")]
    calendar = [{**effect, "kind": "calendar"} for effect in OWN_IDS[:2]]
    assert state({**READY, "effects": calendar}, events(CHECKPOINT, *sent)) == (
        "effects_unreconciled",
        "unlisted_effect",
        2,
    )
    assert state({**READY, "effects": OWN_IDS[:2]}, events(CHECKPOINT, *sent)) == ("ready_to_resume", None, 0)


def test_workflow_of_the_runs_selects_required_keys():
    """Keys of a workflow count where the branch's or the parent's run says it is of that workflow."""
    keys = StateKeys(required={"web": ("route",)})
    plain = resets(typed(READY), events=events({"workflow": "cli"}), state_keys=keys).collect()
    assert plain.select("state", "workflow").row(0) == ("ready_to_resume", "cli")
    web = resets(typed(READY), events=events({"workflow": "web"}), state_keys=keys).collect()
    assert web.select("state", "subject").row(0) == ("restore_uncertain", "route")


def test_the_same_effect_on_parent_and_branch_is_listed():
    """Same tool and signature after the fork on both sides is a pair; one call copied into both files is not."""
    rows = events(
        {**SENT, "call_id": "old"},
        CHECKPOINT,
        SENT,
        {**SENT, "run_id": "b", "call_id": "call-9"},
        {**SENT, "run_id": "b", "call_id": "call-1"},
        {**SENT, "run_id": "b", "call_id": "call-8", "action_signature": "other"},
    )
    pairs = repeated_effects(standing(typed(RUNNING)), rows).collect()
    assert pairs.select("branch_id", "parent_id", "tool", "parent_seq", "branch_seq").rows() == [
        ("b", "run", "mail", 2, 3)
    ]
    assert pairs.schema == REPEATED_EFFECTS


def test_branch_and_parent_are_compared_where_both_are_at_hand():
    """Events after the fork, external effects, verdicts and outcomes stand side by side."""
    rows = events(
        {},
        CHECKPOINT,
        SENT,
        {"kind": "verdict", "outcome": "failed"},
        {"run_id": "b"},
        {"run_id": "b", "external": True},
        {"run_id": "b", "kind": "verdict", "outcome": "passed"},
    )
    runs = pl.LazyFrame({"run_id": ["run", "b"], "verdict": ["stuck_loop", "working"]})
    table = compared(standing(typed(RUNNING)), rows, runs).collect()
    assert table.schema == COMPARISON
    assert table.row(0) == ("b", "run", True, 1, 2, 1, 1, "stuck_loop", "working", "failed", "passed")
    assert compared(standing(typed(RUNNING)), rows.filter(pl.col("run_id") == "b")).collect().height == 0
    lost = compared(standing(typed(changed(RUNNING, "fork_point", "c9"))), rows).collect().row(0, named=True)
    assert (lost["fork_found"], lost["parent_events_after_fork"], lost["parent_verdict"]) == (
        False,
        None,
        None,
    )


def test_destructive_commands_without_receipt_are_listed():
    """A command is receipted only when a native branch forks at that very call."""
    rows = events(
        {"tool": "bash", "reset": "git_reset_hard", "call_id": "c2"},
        {"tool": "bash", "reset": "rm_rf", "run_id": "other"},
        {"tool": "bash"},
    )
    bare = unreceipted_resets(rows).collect()
    assert bare.select("run_id", "reset", "run_has_branch").rows() == [
        ("other", "rm_rf", False),
        ("run", "git_reset_hard", False),
    ]
    assert bare.schema == UNRECEIPTED
    receipted = unreceipted_resets(rows, typed(READY)).collect()
    assert receipted["run_id"].to_list() == ["other"]
    beside = unreceipted_resets(rows, typed(changed(READY, "fork_point", "c1"))).collect()
    assert beside.select("run_id", "run_has_branch").rows() == [("other", False), ("run", True)]
