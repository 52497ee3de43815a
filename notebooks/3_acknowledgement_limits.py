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
# # 3. How long may a handoff stay silent?
#
# **The question.** One agent hands work to another and hears nothing. After how many seconds is that a lost handoff, and
# not a slow one? Too short a limit raises false alarms on good deliveries; too long a limit finds the lost ones late. The
# default of 120 s is an example. This notebook measures.

# %%
import polars as pl

import agentlens
from agentlens import chart
from agentlens.calibrate.ack_times import ack_times
from agentlens.calibrate.latency import AckSettings, ack_limits, cost_limit
from agentlens.lab import workbench

pl.Config(tbl_rows=20, tbl_cols=12, fmt_str_lengths=80)
work = workbench()
judged = agentlens.handoffs(work.lake)
chart.states(judged.handoffs)

# %% [markdown]
# **How to read it.** `orphaned` was delegated and never accepted within the limit; `uncertain` holds receipts that
# disagree, or a source that cannot carry a verification. Acknowledgement and outcome are two questions: a handoff can be
# accepted in a second and fail, or be accepted late and be right.
#
# One operation from receipt to receipt, here one that was delegated twice:

# %%
many = judged.operations.sort("attempts", "operation_id", descending=[True, False])
receipts = agentlens.Lake.open(work.lake).receipts()
timed = judged.handoffs.filter(pl.col("delegated_at").is_not_null())["operation_id"].implode()
first = many.filter(pl.col("operation_id").is_in(timed) & ~pl.col("inferred"))["operation_id"].head(1).to_list()
chart.operation(receipts, judged.handoffs, operation_id=first[0]) if first else "no operation with times"

# %% [markdown]
# ## The latencies as they are

# %%
chart.latencies(judged.handoffs)

# %% [markdown]
# **How to read it.** Every handoff once, by how long it was silent; time is logarithmic. Green was acknowledged within
# its limit (dashed), yellow after it. Orange was never acknowledged: its bar stands at how long it *could be watched*.
#
# **What not to conclude.** Never take a percentile of the green and yellow bars alone. What was still silent when the
# data ended is left out of such a percentile, and those are the slow ones. That is *censoring*, and the reason for the
# next picture.

# %%
times = ack_times(judged.handoffs.lazy()).collect()
found = ack_limits(times, AckSettings(beta=0.05, delta=0.05))
chart.acknowledgement(found.limits, found.curves)

# %%
found.limits.select("urgency", "handoffs", "acknowledged", "silent", "lost_share", "lost_low", "lost_high", "limit_us", "note")

# %% [markdown]
# **How to read it.** The line is the share of handoffs still silent (Kaplan-Meier: what was cut off by the end of the data
# counts as long as it was seen). Where it levels off lies the share that is never acknowledged, the *lost* ones. The limit
# is the time after which at most 5 % of the good deliveries are still silent, and with 95 % confidence not more.
#
# On the shipped fleet there is **no limit, and that is the answer**: the table says how many independent acknowledgements
# it would take. A limit from fewer would be a guess with a decimal point.
#
# Can the clocks and the log be trusted? Checks that warn want a look before any limit is used:

# %%
found.checks

# %% [markdown]
# ## With enough data
#
# Two thousand handoffs drawn from a known truth: pages are answered fast, tickets slowly, a few are lost. So the limit
# found can be held against the true one.

# %%
from agentlens.datasets import Urgency, synthetic_handoffs
from agentlens.detect.handoff_limits import HandoffLimits
from agentlens.detect.handoffs import handoffs as judge

classes = (
    Urgency(name="page", median_s=8, sigma=0.7, lost=0.03, weight=2),
    Urgency(name="ticket", median_s=90, sigma=1.0, lost=0.08, weight=1),
    Urgency(name="rare", median_s=30, sigma=0.5, lost=0.05, weight=0.01),
)
drawn = synthetic_handoffs(2_000, seed=7, classes=classes, watched_s=3_600)
before = judge(drawn.receipts.lazy()).collect()
limits = ack_limits(ack_times(before.lazy()).collect(), AckSettings(caps_s={"ticket": 300}))
chart.acknowledgement(limits.limits, limits.curves)

# %%
truth = (
    drawn.truth.filter(~pl.col("lost"))
    .group_by("urgency")
    .agg(true_limit_s=pl.col("latency_us").quantile(0.95) / 1e6, true_lost=pl.lit(None, pl.Float64))
    .drop("true_lost")
)
lost = drawn.truth.group_by("urgency").agg(true_lost=pl.col("lost").mean())
(
    limits.limits.select(
        "urgency", "handoffs", (pl.col("limit_us") / 1e6).alias("limit_s"), "pooled", "lost_share", "lost_given_silent", "note"
    )
    .join(truth, on="urgency", how="left")
    .join(lost, on="urgency", how="left")
)

# %% [markdown]
# **How to read it.** `limit_s` should lie at or a little above `true_limit_s`: it is an upper confidence limit, so it errs
# on the side of fewer false alarms. A class with too few acknowledgements (`rare`) borrows the pooled limit and says so.
# `lost_given_silent` is what an alarm at the limit means: the chance that the handoff is really lost.
#
# The cap of 300 s on tickets lies below what the data ask for. That is a **conflict for a person to settle**: at the cap
# some good deliveries are still silent (the note says how many), and no calibration makes them faster.
#
# ## What the new limits change

# %%
calibrated = limits.handoff_limits(HandoffLimits())
after = judge(drawn.receipts.lazy(), calibrated).collect()
held = pl.concat(
    [
        frame.select("handoff_id", "state", "late_ack").join(drawn.truth, on="handoff_id").with_columns(limits=pl.lit(name))
        for name, frame in (("120 s for all", before), ("calibrated", after))
    ]
)
alarmed = (pl.col("state") == "orphaned") | pl.col("late_ack").fill_null(False)
held.group_by("limits", "urgency").agg(
    good=(~pl.col("lost")).sum(),
    false_alarms=(alarmed & ~pl.col("lost")).sum(),
    lost=pl.col("lost").sum(),
    lost_found=(alarmed & pl.col("lost")).sum(),
).sort("urgency", "limits")

# %%
chart.latencies(after)

# %% [markdown]
# **How to read it.** A false alarm is a good delivery that was silent beyond its limit. One limit for all is wrong twice:
# too long for pages (lost ones are found late), too short for tickets. If you know what a false alarm and a second of
# delay cost you, the cheapest limit follows from the same curve:

# %%
tickets = ack_times(before.filter(pl.col("urgency") == "ticket").lazy()).collect()
cheapest = {
    f"false alarm costs {cost}": cost_limit(tickets, false_alarm=cost, delay_per_s=0.05) for cost in (1.0, 10.0, 100.0)
}
{name: None if limit is None else f"{limit / 1e6:.0f} s" for name, limit in cheapest.items()}

# %% [markdown]
# ## Use it
#
# `agentlens calibrate LAKE --labels FILE --out DIR` writes these limits into `profile.toml`, and
# `agentlens handoffs LAKE --profile DIR/profile.toml` judges with them. Limits age: measure again when the agents, their
# models or the load change.
