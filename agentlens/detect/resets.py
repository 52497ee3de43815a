"""May a branched run resume, and did it end verified (SPEC section 5)."""

from __future__ import annotations

from typing import Final

import polars as pl

from agentlens.detect.lineage import lineage, standing
from agentlens.detect.reset_effects import effect_gate, unlisted
from agentlens.detect.reset_gates import branch_state, deciding_reason, gate_columns
from agentlens.detect.state_keys import DRIFT, EXACT, StateKeys, key_status, restored, with_required
from agentlens.model.reset import RESETS, BranchState

_NO_KEYS: Final = StateKeys()


def resets(
    branches: pl.LazyFrame, *, events: pl.LazyFrame | None = None, state_keys: StateKeys = _NO_KEYS
) -> pl.LazyFrame:
    """Judge every branch.

    Parameters
    ----------
    branches
        Rows of schema `BRANCHES`; all of them, since lineage and outcomes are looked at across the whole set.
    events
        Rows of schema `EVENTS` of the parents' runs, where at hand: an empty list of effects passes only with
        them, and effects that they show and a receipt does not list are found.
    state_keys
        State that must come back whatever a receipt says.

    Returns
    -------
    pl.LazyFrame
        Schema `RESETS`, sorted by branch.

    Examples
    --------
    >>> from agentlens.model.branch import branches_frame
    >>> from agentlens.model.raw import RawBranch
    >>> told = RawBranch(fields={"branch_id": "b", "parent_id": "run", "fork_point": "c1"})
    >>> resets(branches_frame([told], source="b").frame.lazy()).select("state", "reason").collect().row(0)
    ('restore_uncertain', 'no_required_keys')
    """
    placed = with_events(in_lineage(branches), events)
    judged = (
        restored(with_required(placed, state_keys), state_keys)
        .with_columns(gate_columns())
        .with_columns(result=branch_state(), siblings_resumed=_siblings_resumed())
        .with_columns(reason=deciding_reason())
    ).cache()
    # Resumed again and again from one point while authority or what became of the effects is not settled.
    unsettled = (pl.col("gate_3") != "pass") | (pl.col("gate_4") != "pass")
    again = (pl.col("siblings_resumed") > 1) & pl.col("resumed").fill_null(value=False) & unsettled
    told = judged.select(
        _output(name, again, exact=pl.col("restore") == EXACT) for name in RESETS if name != "subject"
    )
    subjects = _subjects(judged, state_keys)
    return told.join(subjects, on="branch_id", how="left").select(RESETS.names()).sort("branch_id")


def in_lineage(branches: pl.LazyFrame) -> pl.LazyFrame:
    """Standing receipts with ``family``, ``depth``, ``cyclic``, ``parent_checkpoints`` and ``shared_outcome``."""
    receipt = pl.col("outcome").struct.field("receipt_id")
    stands = standing(branches).with_columns(receipt=receipt).with_row_index("place").cache()
    # Everything about lineage is found on a few columns; the wide rows are joined once, by number.
    narrow = stands.select("place", "branch_id", "parent_id", "receipt", "checkpoints").cache()
    told = (
        branches.select("branch_id", receipt=receipt).drop_nulls().filter(pl.col("receipt").is_duplicated())
    )
    several = told.group_by("receipt").agg(pl.col("branch_id").n_unique()).filter(pl.col("branch_id") > 1)
    shared = several.select("receipt", shared_outcome=pl.lit(True))
    checkpoints = narrow.select(parent_id="branch_id", parent_checkpoints="checkpoints").drop_nulls()
    found = (
        lineage(narrow.drop("checkpoints"))
        .join(shared, on="receipt", how="left")
        .join(checkpoints, on="parent_id", how="left")
        .drop("branch_id", "parent_id", "receipt")
    )
    return stands.join(found, on="place", how="left").drop("place")


def with_events(branches: pl.LazyFrame, events: pl.LazyFrame | None) -> pl.LazyFrame:
    """What the lake knows of the parent's run; nulls where no events were given."""
    unknown = {"unlisted_effects": pl.Int64, "perhaps": pl.Int64, "first_call": pl.String}
    flags = {"parent_in_lake": pl.Boolean, "open_call": pl.Boolean, "workflow": pl.String}
    if events is None:
        return branches.with_columns(
            pl.lit(None, dtype=dtype).alias(name) for name, dtype in {**unknown, **flags}.items()
        )
    runs = events.group_by("run_id").agg(workflow=pl.col("workflow").min())
    parents = runs.select(parent_id="run_id", parent_in_lake=pl.lit(True), parent_workflow="workflow")
    own = runs.select(branch_id="run_id", own_workflow="workflow")
    found = unlisted(branches, events).select("branch_id", *unknown, "open_call")
    return (
        branches.join(parents, on="parent_id", how="left")
        .join(own, on="branch_id", how="left")
        .join(found, on="branch_id", how="left")
        .with_columns(
            pl.col("parent_in_lake").fill_null(value=False),
            pl.when("parent_in_lake").then(pl.col("unlisted_effects").fill_null(0)).alias("unlisted_effects"),
            workflow=pl.coalesce("own_workflow", "parent_workflow"),
        )
    )


def _siblings_resumed() -> pl.Expr:
    """How many branches of the same parent and fork point were resumed."""
    resumed = pl.col("resumed").fill_null(value=False).cast(pl.Int64)
    return resumed.sum().over("parent_id", "fork_point")


def _subjects(judged: pl.LazyFrame, keys: StateKeys) -> pl.LazyFrame:
    """Give ``subject`` of the branches a state key or effect stopped: the first that does not pass."""
    element = pl.element().struct
    status = key_status(pl.element().struct.field, keys.drifting)
    poor = pl.col("state").list.eval(element.field("key").filter(status < DRIFT))
    required = pl.col("required")
    absent = required.list.set_difference(pl.col("state").list.eval(element.field("key")))
    gate = effect_gate(element.field("status"), element.field("decision_id"))
    unsettled = pl.col("effects").list.eval(element.field("operation_id").filter(gate != "pass"))
    stopped = judged.select("branch_id", "state", "result", "required", "effects", "first_call").filter(
        pl.col("result").is_in([BranchState.RESTORE_UNCERTAIN, BranchState.EFFECTS_UNRECONCILED])
    )
    subject = (
        pl.when(pl.col("result") == BranchState.RESTORE_UNCERTAIN)
        .then(pl.coalesce(required.list.set_intersection(poor).list.min(), absent.list.min()))
        .otherwise(pl.coalesce(unsettled.list.min(), "first_call"))
    )
    return stopped.select("branch_id", subject=subject)


def _output(name: str, again: pl.Expr, *, exact: pl.Expr) -> pl.Expr:
    made = {
        "state": pl.col("result"),
        "exact_replay": (pl.col("gate_2") == "pass") & exact.fill_null(value=False),
        "outcome_receipt": pl.col("receipt"),
        "repeated_resume": again,
    }
    return made.get(name, pl.col(name)).cast(RESETS[name]).alias(name)
