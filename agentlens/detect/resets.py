"""May a branched run resume, and did it end verified (SPEC section 5)."""

from __future__ import annotations

from typing import Final

import polars as pl

from agentlens.detect.lineage import lineage, standing
from agentlens.detect.reset_effects import effect_gate, unlisted
from agentlens.detect.reset_gates import branch_state, decided, deciding_reason, gate_words, worst_effect
from agentlens.detect.state_keys import (
    EXACT,
    StateKeys,
    first_lost,
    restored,
    restored_in_order,
    smallest,
    tested,
    with_required,
)
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
    # Lists are read once, where they stand; what is joined and judged afterwards are numbers and names.
    receipts = branches.with_row_index("line").with_columns(tested(state_keys)).cache()
    told = with_events(in_lineage(receipts.select(_of_receipt(events))), events)
    judged = (
        _with_restore(told, receipts, state_keys)
        .with_columns(decided(1, 2, 3, 6))
        .with_columns(gate_words())
        .with_columns(result=branch_state(), siblings_resumed=_siblings_resumed())
        .with_columns(reason=deciding_reason())
    ).cache()
    # Resumed again and again from one point while authority or what became of the effects is not settled.
    unsettled = (pl.col("gate_3") != "pass") | (pl.col("gate_4") != "pass")
    again = (pl.col("siblings_resumed") > 1) & pl.col("resumed").fill_null(value=False) & unsettled
    made = judged.select(
        "line",
        *(
            _output(name, again, exact=pl.col("restore") == EXACT).alias(name)
            for name in RESETS
            if name != "subject"
        ),
    )
    subjects = _subjects(judged, receipts, state_keys)
    return made.join(subjects, on="line", how="left", maintain_order="left").select(RESETS.names())


_KEPT: Final = (
    "line",
    "branch_id",
    "parent_id",
    "at",
    "fork_point",
    "checkpoints",
    "edit_class",
    "resumed",
    "final_answer",
    "outcome",
    "inferred",
    "rule",
    "order",
    "source",
)


def _of_receipt(events: pl.LazyFrame | None) -> list[pl.Expr | str]:
    """What one receipt says by itself: gates 4 and 5, and the worst of its state keys and effects."""
    listed = [] if events is None else ["effects"]
    outcome = pl.col("outcome")
    return [
        *_KEPT,
        *listed,
        *decided(4, 5),
        (pl.col("required_state").list.len() > 0).fill_null(value=False).alias("requires"),
        pl.col("state").is_not_null().alias("reports"),
        restored_in_order().alias("in_order"),
        pl.col("effects").is_not_null().alias("lists_effects"),
        worst_effect().alias("worst_effect"),
        outcome.is_not_null().alias("has_outcome"),
        outcome.struct.field("verified").alias("outcome_verified"),
    ]


def _with_restore(told: pl.LazyFrame, receipts: pl.LazyFrame, keys: StateKeys) -> pl.LazyFrame:
    """Add ``restore``, the worst status of the required keys; ``requires`` then counts those of the file too."""
    known = pl.col("in_order").is_not_null() | ~pl.col("requires") | ~pl.col("reports")
    asked = told if keys.required else told.filter(~known)
    lists = asked.select("line", "workflow").join(
        receipts.select("line", "tested", "required_state"), on="line"
    )
    found = restored(with_required(lists, keys)).select(
        "line", "restore", filed=pl.col("required").is_not_null()
    )
    joined = told.join(found, on="line", how="left", maintain_order="left")
    return joined.with_columns(
        requires=pl.coalesce("filed", "requires"),
        restore=pl.col("restore") if keys.required else pl.coalesce("restore", "in_order"),
    )


def in_lineage(branches: pl.LazyFrame) -> pl.LazyFrame:
    """Standing receipts by branch, with ``family``, ``depth``, ``cyclic``, and what else the set says."""
    receipt = pl.col("outcome").struct.field("receipt_id")
    stands = lineage(standing(branches).with_columns(receipt=receipt)).cache()
    told = (
        branches.select("branch_id", receipt=receipt).drop_nulls().filter(pl.col("receipt").is_duplicated())
    )
    several = told.group_by("receipt").agg(pl.col("branch_id").n_unique()).filter(pl.col("branch_id") > 1)
    shared = several.select("receipt", shared_outcome=pl.lit(True))
    checkpoints = stands.select(parent_id="branch_id", parent_checkpoints="checkpoints").drop_nulls()
    return stands.join(shared, on="receipt", how="left", maintain_order="left").join(
        checkpoints, on="parent_id", how="left", maintain_order="left"
    )


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
        branches.join(parents, on="parent_id", how="left", maintain_order="left")
        .join(own, on="branch_id", how="left", maintain_order="left")
        .join(found, on="branch_id", how="left", maintain_order="left")
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


def _subjects(judged: pl.LazyFrame, receipts: pl.LazyFrame, keys: StateKeys) -> pl.LazyFrame:
    """Give ``subject`` of the branches a state key or effect stopped: the first that does not pass."""
    lost = (
        judged.filter(pl.col("result") == BranchState.RESTORE_UNCERTAIN)
        .select("line", "workflow")
        .join(receipts.select("line", "tested", "required_state"), on="line")
    )
    element = pl.element().struct
    gate = effect_gate(element.field("status"), element.field("decision_id"))
    unsettled = pl.col("effects").list.eval(element.field("operation_id").filter(gate != "pass"))
    pending = (
        judged.filter(pl.col("result") == BranchState.EFFECTS_UNRECONCILED)
        .select("line", "first_call")
        .join(receipts.select("line", "effects"), on="line")
        .select("line", subject=pl.coalesce(smallest(unsettled), "first_call"))
    )
    return pl.concat([with_required(lost, keys).select("line", subject=first_lost()), pending])


def _output(name: str, again: pl.Expr, *, exact: pl.Expr) -> pl.Expr:
    made = {
        "state": pl.col("result"),
        "exact_replay": (pl.col("gate_2") == "pass") & exact.fill_null(value=False),
        "outcome_receipt": pl.col("receipt"),
        "repeated_resume": again,
    }
    return made.get(name, pl.col(name)).cast(RESETS[name]).alias(name)
