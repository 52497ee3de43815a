"""One branch per state, and for each the one field that moves it; gates, lineage, tables."""

from __future__ import annotations

import copy
import json
import random
from itertools import pairwise

import polars as pl
import pytest

from agentlens.detect.lineage import lineage, standing
from agentlens.detect.reset_tables import families, funnel
from agentlens.detect.resets import in_lineage, resets
from agentlens.detect.state_keys import StateKeys, state_key_rows, with_required
from agentlens.errors import SettingsError
from agentlens.model.branch import BRANCHES, branches_frame
from agentlens.model.raw import RawBranch
from agentlens.model.reset import FAMILIES, FUNNEL, RESETS, STATE_KEYS, BranchState


def key(name, result="exact", before="d1", restored="d1"):
    return {"key": name, "before": before, "restored": restored, "result": result}


READY = {
    "branch_id": "b",
    "parent_id": "run",
    "at": 10,
    "fork_point": "c2",
    "required_state": ["memory", "workspace"],
    "state": [key("memory"), key("workspace")],
    "effects": [{"operation_id": "mail-1", "kind": "mail", "status": "reconciled"}],
    "edit_class": "plan",
    "local": True,
    "authority": {"operator": "me", "decision_id": None, "approved": None},
    "config": {"parent_digest": "c", "branch_digest": "c", "pinned": True, "delta": []},
    "resumed": False,
    "final_answer": False,
    "outcome": None,
}
RUNNING = {**READY, "resumed": True}
FLUENT = {**RUNNING, "final_answer": True, "outcome": {"receipt_id": "o1", "verified": False}}
VERIFIED = {**FLUENT, "outcome": {"receipt_id": "o1", "verified": True}}


def changed(branch, path, value):
    """The same receipt with one field changed; ``...`` removes it."""
    branch = copy.deepcopy(branch)
    *way, last = path.split(".")
    inner = branch
    for step in way:
        inner = inner[int(step) if step.isdigit() else step]
    if value is ...:
        del inner[last]
    else:
        inner[int(last) if last.isdigit() else last] = value
    return branch


def typed(*branches):
    found = branches_frame(
        [RawBranch(fields=b, position=(at, 0)) for at, b in enumerate(branches, 1)], source="b"
    )
    assert found.faults == []
    return found.frame.lazy()


def judged(*branches, **more):
    return resets(typed(*branches), **more).collect()


def state(branch, **more):
    row = judged(branch, **more).filter(pl.col("branch_id") == branch["branch_id"]).row(0, named=True)
    return row["state"], row["reason"]


@pytest.mark.parametrize(
    ("branch", "expected"),
    [(READY, "ready_to_resume"), (RUNNING, "resumed"), (FLUENT, "false_success"), (VERIFIED, "verified")],
)
def test_states_past_the_gates(branch, expected):
    """A branch past five gates is ready, resumed, a false success, or verified: never two of them."""
    row = judged(branch).row(0, named=True)
    assert row["state"] == expected
    assert [row[f"gate_{gate}"] for gate in range(1, 6)] == ["pass"] * 5
    assert row["exact_replay"] is True


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        # 1 lineage
        ("parent_id", "b", ("invalid_lineage", "own_parent")),
        ("parent_id", ..., ("invalid_lineage", "no_parent")),
        ("fork_point", None, ("invalid_lineage", "no_fork_point")),
        ("fork_point", "", ("invalid_lineage", "no_fork_point")),
        # 2 restore
        ("required_state", ["memory", "workspace", "queue"], ("restore_uncertain", "no_evidence")),
        ("required_state", [], ("restore_uncertain", "no_required_keys")),
        ("required_state", ..., ("restore_uncertain", "no_required_keys")),
        ("state", ..., ("restore_uncertain", "no_state")),
        ("state", [], ("restore_uncertain", "no_evidence")),
        ("state.1.result", "partial", ("restore_uncertain", "not_restored")),
        ("state.1.result", "failed", ("restore_uncertain", "not_restored")),
        ("state.1.result", "drift_acknowledged", ("restore_uncertain", "not_restored")),
        ("state.1.result", "restored", ("restore_uncertain", "no_evidence")),
        ("state.1.restored", "d2", ("restore_uncertain", "not_restored")),
        ("state.1.restored", None, ("restore_uncertain", "no_evidence")),
        ("state.1.before", ..., ("restore_uncertain", "no_evidence")),
        ("state.1", key("workspace", before="", restored=""), ("restore_uncertain", "no_evidence")),
        ("state.1.restored", "", ("restore_uncertain", "no_evidence")),
        ("state.1.before", "", ("restore_uncertain", "no_evidence")),
        ("state.1.key", "memory", ("restore_uncertain", "no_evidence")),
        (
            "state",
            [key("memory"), key("workspace"), key("workspace", "failed")],
            ("restore_uncertain", "not_restored"),
        ),
        ("state", [key("extra", "failed"), key("workspace"), key("memory")], ("ready_to_resume", None)),
        # 3 effects
        ("effects.0.status", "pending", ("effects_unreconciled", "pending")),
        ("effects.0.status", "reverted", ("ready_to_resume", None)),
        ("effects.0.status", "irreversible", ("effects_unreconciled", "irreversible_without_decision")),
        (
            "effects.0",
            {"operation_id": "m", "status": "irreversible", "decision_id": "d"},
            ("ready_to_resume", None),
        ),
        ("effects.0.status", ..., ("effects_unreconciled", "no_status")),
        ("effects", ..., ("effects_unreconciled", "no_effects_field")),
        ("effects", [], ("effects_unreconciled", "no_trace_of_parent")),
        # 4 authority
        ("edit_class", "budget", ("needs_approval", "not_approved")),
        ("edit_class", "production_target", ("needs_approval", "not_approved")),
        ("edit_class", "detail", ("ready_to_resume", None)),
        ("edit_class", ..., ("needs_approval", "no_edit_class")),
        ("edit_class", "harmless", ("needs_approval", "no_edit_class")),
        ("local", False, ("needs_approval", "not_local")),
        ("local", ..., ("needs_approval", "not_known_local")),
        # 5 configuration
        ("config.pinned", False, ("config_unpinned", "not_pinned")),
        ("config.pinned", ..., ("config_unpinned", "not_known_pinned")),
        ("config", ..., ("config_unpinned", "no_config")),
        ("config.branch_digest", None, ("config_unpinned", "no_branch_digest")),
        ("config.branch_digest", "other", ("config_unpinned", "changed_without_delta")),
        ("config.parent_digest", None, ("config_unpinned", "no_parent_digest")),
        (
            "config",
            {"parent_digest": "c", "branch_digest": "x", "pinned": True},
            ("config_unpinned", "no_delta"),
        ),
        (
            "config",
            {"parent_digest": "c", "branch_digest": "x", "pinned": True, "delta": ["model"]},
            ("ready_to_resume", None),
        ),
        # how far it has come
        ("resumed", ..., ("ready_to_resume", None)),
        ("resumed", True, ("resumed", None)),
    ],
)
def test_one_field_moves_a_ready_branch(path, value, expected):
    """From a branch that is ready, each single field has a foreseeable effect."""
    assert state(changed(READY, path, value)) == expected


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("outcome.verified", False, ("false_success", "not_verified")),
        ("outcome.verified", ..., ("false_success", "not_known_verified")),
        ("outcome.receipt_id", None, ("false_success", "no_outcome_receipt")),
        ("outcome", None, ("false_success", "no_outcome")),
        ("final_answer", False, ("resumed", None)),
        ("resumed", False, ("ready_to_resume", None)),
        ("resumed", ..., ("false_success", "not_known_resumed")),
        ("resumed", None, ("false_success", "not_known_resumed")),
        ("config.pinned", False, ("config_unpinned", "not_pinned")),
    ],
)
def test_one_field_moves_a_verified_branch(path, value, expected):
    """Verified is lost with its proof, and an earlier gate stands before it."""
    assert state(changed(VERIFIED, path, value)) == expected


@pytest.mark.parametrize(
    ("authority", "expected"),
    [
        ({"decision_id": "d", "approved": True}, ("ready_to_resume", None)),
        ({"decision_id": "d", "approved": None}, ("needs_approval", "decision_open")),
        ({"decision_id": "d", "approved": False}, ("needs_approval", "not_approved")),
        ({"decision_id": None, "approved": True}, ("needs_approval", "decision_not_named")),
        (None, ("needs_approval", "no_authority")),
    ],
)
def test_a_risky_edit_needs_an_approved_decision(authority, expected):
    """A decision counts only when it is both named and approved."""
    assert state({**READY, "edit_class": "recipients", "authority": authority}) == expected


def test_every_gate_is_reported_even_after_one_decided():
    """A branch that fails early still shows what the later gates found."""
    row = judged(changed(changed(FLUENT, "parent_id", "b"), "config.pinned", False)).row(0, named=True)
    assert row["state"] == "invalid_lineage"
    assert [row[f"gate_{gate}"] for gate in range(1, 7)] == ["fail", "pass", "pass", "pass", "fail", "fail"]
    assert row["reason_5"] == "not_pinned"


def test_acknowledged_drift_passes_but_is_no_exact_replay():
    """Drift of the tool registry passes, of other keys only where the file names them."""
    drifting = {**READY, "required_state": ["memory", "tool_registry"]}
    drifting["state"] = [key("memory"), key("tool_registry", "drift_acknowledged", restored="d2")]
    row = judged(drifting).row(0, named=True)
    assert (row["state"], row["exact_replay"]) == ("ready_to_resume", False)
    untested = changed(drifting, "state.1.restored", None)
    assert state(untested) == ("restore_uncertain", "no_evidence")
    other = changed(READY, "state.1.result", "drift_acknowledged")
    assert state(other, state_keys=StateKeys(drift=("workspace",))) == ("ready_to_resume", None)


def test_required_keys_of_the_file_join_those_of_the_receipt():
    """A key that the file requires of everybody must come back too."""
    keys = StateKeys(required={"": ("memory", "session")})
    row = judged(READY, state_keys=keys).row(0, named=True)
    assert (row["state"], row["subject"]) == ("restore_uncertain", "session")
    with_it = {**READY, "state": [*READY["state"], key("session")]}
    assert state(with_it, state_keys=keys) == ("ready_to_resume", None)
    assert state({**with_it, "required_state": None}, state_keys=keys) == ("ready_to_resume", None)


def test_the_subject_names_what_did_not_pass():
    """The state key or effect behind the reason is named."""
    assert judged(changed(READY, "state.1.result", "failed"))["subject"].item() == "workspace"
    assert judged(changed(READY, "effects.0.status", "pending"))["subject"].item() == "mail-1"
    assert judged(READY)["subject"].item() is None


# --- lineage -------------------------------------------------------------------------------------------------


def b(name, parent, **more):
    return {**READY, "branch_id": name, "parent_id": parent, **more}


def test_the_newest_receipt_stands_then_the_last_in_its_file():
    """Time decides before place; at one time the later line stands."""
    old, new = changed(READY, "config.pinned", False), {**READY, "at": 11}
    assert judged(new, old)["state"].to_list() == ["ready_to_resume"]
    assert judged(READY, old)["state"].to_list() == ["config_unpinned"]
    assert judged(old, READY)["state"].to_list() == ["ready_to_resume"]


def test_a_written_receipt_stands_over_those_a_trace_suggests():
    """Whatever its time or fork point, an inferred receipt neither replaces a written one nor disputes it."""
    written = typed(READY)
    for later in (5, 10, 99):
        other = {"branch_id": "b", "parent_id": "elsewhere", "at": later, "fork_point": "c9", "resumed": True}
        read = typed(other).with_columns(inferred=pl.lit(True), rule=pl.lit("trace.fork"))
        for rows in ([written, read], [read, written], [read, written, read]):
            row = resets(pl.concat(rows)).collect().row(0, named=True)
            assert (row["state"], row["gate_1"], row["inferred"]) == ("ready_to_resume", "pass", False)
            assert (row["parent_id"], row["fork_point"]) == ("run", "c2")
        alone = resets(read).collect().row(0, named=True)
        assert (alone["parent_id"], alone["inferred"], alone["rule"]) == ("elsewhere", True, "trace.fork")


def test_parent_and_fork_point_never_move():
    """A receipt of the branch that names another parent or fork point, older or newer, spoils the lineage."""
    for path in ("parent_id", "fork_point"):
        assert state({**READY, "at": 20}) == ("ready_to_resume", None)
        moved = judged({**READY, "at": 20}, changed(READY, path, "other"))
        assert moved.select("state", "reason").row(0) == ("invalid_lineage", "moved")
        silent = judged({**READY, "at": 20}, changed(READY, path, ...))
        assert silent["state"].item() == "ready_to_resume"


def test_fork_point_is_among_the_checkpoints_of_the_parent():
    """Where the parent lists its checkpoints, the fork point is one of them."""
    known = b("run", "top", checkpoints=["c1", "c2"])
    assert judged(READY, known)["state"].to_list() == ["ready_to_resume", "ready_to_resume"]
    wrong = judged(READY, {**known, "checkpoints": ["c1"]})
    assert wrong.row(0, named=True)["reason"] == "fork_point_not_of_parent"
    assert judged(READY, {**known, "checkpoints": []})["state"][0] == "invalid_lineage"


def test_cycles_are_found_across_the_whole_set_from_below_too():
    """Branches on a cycle and those that hang below one have no lineage; a self-parent spoils only itself."""
    told = judged(
        b("x", "y"), b("y", "z"), b("z", "x"), b("below", "x"), b("self", "self"), b("child", "self")
    )
    rows = {
        row["branch_id"]: (row["reason"], row["family"], row["depth"]) for row in told.iter_rows(named=True)
    }
    assert rows == {
        "x": ("cycle", "x", None),
        "y": ("cycle", "x", None),
        "z": ("cycle", "x", None),
        "below": ("cycle", "x", None),
        "self": ("own_parent", "self", 0),
        "child": (None, "self", 1),
    }


def test_families_and_depth():
    """Depth counts the resets below the first run; the family is named after it."""
    told = judged(b("b1", "run"), b("b2", "b1"), b("b3", "b2", edit_class="budget"), b("c1", "other"))
    assert dict(told.select("branch_id", "depth").iter_rows()) == {"b1": 1, "b2": 2, "b3": 3, "c1": 1}
    assert families(told.lazy()).collect().rows() == [
        ("other", 1, 1, 0, 1, 0, False),
        ("run", 3, 3, 0, 2, 1, False),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_lineage_agrees_with_walking_up_one_by_one(seed):
    """Depth, family and cycles are those of a plain walk, over random forests with cycles and long chains."""
    rng = random.Random(seed)
    names = [f"n{at:03}" for at in range(200)]
    parents = {name: rng.choice([*names, "root", "root"]) if rng.random() < 0.5 else "root" for name in names}
    parents |= {high: low for low, high in pairwise(names[:120])}
    above = [parents[name] for name in names]
    frame = pl.LazyFrame({"branch_id": names, "parent_id": above, "inferred": [False] * len(names)})
    told = lineage(frame).collect().drop("parent_id", "inferred", "refused")
    for name, family, depth, cyclic in told.iter_rows():
        seen, at = [name], name
        while parents.get(at) not in {None, at} and parents[at] not in seen:
            at = parents[at]
            seen.append(at)
        looped = parents.get(at) in seen and parents[at] != at
        assert cyclic == looped
        if looped:
            assert family == min(seen[seen.index(parents[at]) :])
            assert depth is None
        else:
            assert (family, depth) == (
                parents.get(at, at) if at in parents else at,
                len(seen) - 1 + (at in parents and parents[at] != at),
            )


def test_an_outcome_receipt_belongs_to_one_branch():
    """Two branches that name one outcome receipt prove nothing with it."""
    other = {**VERIFIED, "branch_id": "c"}
    told = judged(VERIFIED, other)
    assert told.select("state", "reason").rows() == [("false_success", "outcome_of_another_branch")] * 2
    assert judged(VERIFIED, {**VERIFIED, "at": 11})["state"].to_list() == ["verified"]


def test_resuming_again_and_again_without_authority_is_a_finding():
    """Two branches resumed from one point are a finding only while authority or effects are open."""
    risky = {**RUNNING, "edit_class": "budget"}
    told = judged(risky, {**risky, "branch_id": "c"}, {**risky, "branch_id": "d", "resumed": False})
    assert told["siblings_resumed"].to_list() == [2, 2, 2]
    assert told["repeated_resume"].to_list() == [True, True, False]
    assert judged(RUNNING, {**RUNNING, "branch_id": "c"})["repeated_resume"].to_list() == [False, False]
    assert judged(risky)["repeated_resume"].to_list() == [False]


# --- tables and invariances ------------------------------------------------------------------------------------


def test_funnel_counts_passes_and_names_what_stopped_the_rest():
    """Each gate is entered by those that passed the one before; the sixth by those that gave an answer."""
    told = judged(
        READY,
        b("c", "c"),
        b("d", "run", config=None),
        {**VERIFIED, "branch_id": "e"},
        {**FLUENT, "branch_id": "f", "outcome": None},
    )
    table = funnel(told.lazy()).collect()
    assert table.rows() == [
        ("lineage", 5, 4, "own_parent", 1),
        ("restore", 4, 4, None, 0),
        ("effects", 4, 4, None, 0),
        ("authority", 4, 4, None, 0),
        ("configuration", 4, 3, "no_config", 1),
        ("outcome", 2, 1, "no_outcome", 1),
    ]
    assert table.schema == FUNNEL


def test_state_key_table():
    """One row a key: required or only reported, with its status and what is missing."""
    branch = {**READY, "required_state": ["memory", "queue"]}
    branch["state"] = [key("memory"), key("workspace", "partial"), key("tool_registry", "drift_acknowledged")]
    keys = StateKeys()
    told = in_lineage(typed(branch)).with_columns(workflow=pl.lit(None, dtype=pl.String))
    table = state_key_rows(with_required(told, keys), keys).collect()
    assert table.select("key", "required", "status", "reason").rows() == [
        ("memory", True, "pass", None),
        ("queue", True, "unknown", "no_evidence"),
        ("tool_registry", False, "pass", "drift"),
        ("workspace", False, "fail", "restore_partial"),
    ]
    assert table.schema == STATE_KEYS


def test_an_empty_digest_is_no_evidence():
    """The table says which half of the evidence is missing."""
    branch = {**READY, "state": [key("memory", before=""), key("workspace", restored="")]}
    told = in_lineage(typed(branch)).with_columns(workflow=pl.lit(None, dtype=pl.String))
    table = state_key_rows(with_required(told, StateKeys()), StateKeys()).collect()
    assert table.select("key", "status", "reason").rows() == [
        ("memory", "unknown", "no_evidence_before"),
        ("workspace", "unknown", "no_test_after"),
    ]


def test_order_and_repetition_of_branches_change_nothing():
    """Receipts at distinct times may come in any order and more than once."""
    rng = random.Random(3)
    values = [
        ("config.pinned", False),
        ("edit_class", "budget"),
        ("local", ...),
        ("effects", []),
        ("state", []),
    ]
    receipts = []
    for number in range(60):
        branch = changed(READY, *rng.choice(values)) if rng.random() < 0.7 else READY
        receipts.append(
            {**branch, "branch_id": f"b{number // 2}", "at": number, "parent_id": f"b{number // 4 - 3}"}
        )
    one = judged(*receipts)
    shuffled = receipts + receipts[:20]
    rng.shuffle(shuffled)
    assert judged(*shuffled).drop("source").equals(one.drop("source"))
    assert one.schema == RESETS


def test_no_branches_give_empty_tables():
    """Empty input has the full schema everywhere."""
    none = resets(pl.LazyFrame(schema=BRANCHES)).collect()
    assert (none.height, none.schema) == (0, RESETS)
    assert families(none.lazy()).collect().schema == FAMILIES
    assert funnel(none.lazy()).collect().height == 0
    assert standing(pl.LazyFrame(schema=BRANCHES)).collect().height == 0


def test_state_key_files(tmp_path):
    """Required keys per workflow and names that may drift; anything else is refused with the nearest name."""
    path = tmp_path / "keys.toml"
    path.write_text(
        'drift = ["clock"]\n[default]\nrequired = ["memory"]\n[workflow.web]\nrequired = ["route", "session"]\n'
    )
    keys = StateKeys.load(path)
    assert keys == StateKeys(required={"": ("memory",), "web": ("route", "session")}, drift=("clock",))
    for bad, message in (
        ("drift = 1", "drift"),
        ("[defaults]", "did you mean 'default'"),
        ("[default]\nrequire = []", "did you mean 'required'"),
        ("[workflow]\nweb = 1", "a table"),
    ):
        path.write_text(bad)
        with pytest.raises(SettingsError, match=message):
            StateKeys.load(path)


def test_reference_cases(shared):
    """The reference branches get exactly their states, and their one-field neighbours move as they should."""
    lines = [json.loads(line) for line in (shared / "cases" / "branches.ndjson").read_text().splitlines()]
    expected = [
        json.loads(line) for line in (shared / "cases" / "branches.expected.ndjson").read_text().splitlines()
    ]
    told = judged(*lines)
    assert dict(told.select("branch_id", "state").iter_rows()) == {
        e["branch_id"]: e["state"] for e in expected
    }
    cases = {line["branch_id"]: line for line in lines}
    queue = {"key": "approval_queue", "before": "x", "restored": "x", "result": "exact"}
    partial = cases["b-partial-restore"]
    assert state({**partial, "state": [*partial["state"], queue]}) == ("ready_to_resume", None)
    assert state(changed(cases["b-ticket-pending"], "effects.0.status", "reconciled")) == (
        "ready_to_resume",
        None,
    )
    assert state(changed(cases["b-ready"], "config.pinned", False)) == ("config_unpinned", "not_pinned")
    assert state(changed(cases["b-verified"], "outcome.verified", False)) == ("false_success", "not_verified")
    assert set(BranchState) == {e["state"] for e in expected}
