# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 5. Resets: may a branched run resume?
#
# **The question.** A run went wrong, somebody reset it to a checkpoint and went on from there. Was the state really
# restored? Did anything reach the outside world before the reset that now happens again? Who allowed it? A reset is a
# *branch*, not a rollback: mails that were sent stay sent.
#
# Six gates answer, each with `pass`, `fail` or `unknown`. Unknown decides like fail: silence proves nothing.

# %%
import polars as pl

import agentlens
from agentlens import chart
from agentlens.lab import workbench

pl.Config(tbl_rows=20, tbl_cols=12, fmt_str_lengths=60)
work = workbench()
resets = agentlens.resets(work.lake)
chart.states(resets.branches)

# %% [markdown]
# **How to read it.** The first five states name the gate that stopped a branch. `ready_to_resume` has passed five gates
# and was not resumed; `resumed` has no final answer yet; `false_success` gave one that nothing verified; only `verified`
# has an outcome of its own that a check outside the agent confirmed.
#
# **What not to conclude.** *Ready* is not *verified*. A branch that may resume can still fail, and a fluent final answer
# is no outcome.
#
# ## Where branches stop

# %%
chart.gates(resets.funnel)

# %% [markdown]
# **How to read it.** Green came through, orange was stopped there; the text names the fact that stopped most of them.
# Every gate counts only the branches that came to it, so a late gate with few branches says little. The sixth gate is
# asked only of branches that gave a final answer.
#
# Facts, gate by gate, for the branches that were stopped:

# %%
stopped = resets.branches.filter(~pl.col("state").is_in(["verified", "ready_to_resume", "resumed"]))
stopped.select("branch_id", "state", "reason", "subject", *(f"gate_{n}" for n in range(1, 7)))

# %% [markdown]
# A gate is reported even when an earlier one decided. A branch without a fork point may have everything else in order;
# one fact repaired then moves it past the gate, and only there.
#
# ## Lineage
#
# Branches have families: a run at the top, branches of branches below. Resuming again and again from one point while
# authority or effects are open is itself a finding (`repeated_resume`).

# %%
largest = resets.families.sort("branches", "family", descending=[True, False])
largest.head(5)

# %%
chart.lineage(resets.branches) if resets.branches.height else "no branches here"

# %% [markdown]
# Families of the shipped fleet are small. What a deeper one looks like, on six receipts written here:

# %%
from agentlens.detect.resets import resets as judge
from agentlens.model.branch import branches_frame
from agentlens.model.raw import RawBranch


def receipt(branch, parent, **changed):
    """A branch with everything in order, but for what is changed."""
    fields = {
        "branch_id": branch,
        "parent_id": parent,
        "fork_point": "ckpt-3",
        "local": True,
        "required_state": ["workspace"],
        "state": [{"key": "workspace", "before": "d1", "restored": "d1", "result": "exact"}],
        "effects": [{"operation_id": f"mail-{branch}", "kind": "mail", "status": "reconciled"}],
        "edit_class": "detail",
        "config": {"parent_digest": "c1", "branch_digest": "c1", "pinned": True},
        "resumed": True,
        "final_answer": True,
        "outcome": {"receipt_id": f"out-{branch}", "verified": True},
    }
    return {**fields, **changed}


def judged(*receipts):
    raw = [RawBranch(fields=fields, position=(line,)) for line, fields in enumerate(receipts, 1)]
    return judge(branches_frame(raw, source="notebook").frame.lazy()).collect()


family = judged(
    receipt("b-1", "run"),
    receipt("b-2", "run", effects=[{"operation_id": "pay-7", "kind": "payment", "status": "pending"}]),
    receipt("b-3", "b-2", resumed=False, final_answer=False, outcome=None),
    receipt("b-4", "b-2", edit_class="permissions"),
    receipt("b-5", "b-4", outcome={"receipt_id": "out-b-5", "verified": False}),
    receipt("b-6", "b-1", final_answer=False, outcome=None),
)
chart.lineage(family)

# %% [markdown]
# ## Change one fact, and only one gate moves
#
# This is the check to make before you trust the gates on your own receipts. Each row below differs from a verified branch
# by one field.

# %%
neighbours = {
    "nothing changed": {},
    "no fork point": {"fork_point": None},
    "restored digest differs": {"state": [{"key": "workspace", "before": "d1", "restored": "d2", "result": "exact"}]},
    "a required key without evidence": {"required_state": ["workspace", "approval_queue"]},
    "a ticket is pending": {"effects": [{"operation_id": "t-1", "kind": "ticket", "status": "pending"}]},
    "the budget was edited, nobody approved": {"edit_class": "budget"},
    "configuration not pinned": {"config": {"parent_digest": "c1", "branch_digest": "c1", "pinned": False}},
    "answer without a verified outcome": {"outcome": {"receipt_id": "o", "verified": False}},
}
rows = [
    {"changed": name, **judged(receipt("b", "run", **changed)).row(0, named=True)} for name, changed in neighbours.items()
]
pl.DataFrame([{key: row[key] for key in ("changed", "state", "reason", *(f"gate_{n}" for n in range(1, 7)))} for row in rows])

# %% [markdown]
# ## Resets that nobody wrote a receipt for
#
# `git reset --hard`, `git checkout -- file`, `rm -rf` and the like are found in the arguments of shell calls, as commands,
# not as words: a commit message that mentions `rm -rf` is none.

# %%
resets.unreceipted.group_by("reset", "run_has_branch").agg(runs=pl.col("run_id").n_unique(), commands=pl.len()).sort("reset")

# %% [markdown]
# Pairs of the same external effect, on a parent after the fork and on its branch: *possible* repetitions. Whether the
# second mail was meant is for a person to say.

# %%
resets.repeated

# %% [markdown]
# ## What none of this proves
#
# That a browser was restored exactly; that a model follows the same path again; that no effect happened that nobody wrote
# down. Branches found in exports (session forks, checkpoint parents) carry no such evidence at all and stay
# `restore_uncertain`. To get more than that, let the runtime write receipts: `agentlens.receipts`.
