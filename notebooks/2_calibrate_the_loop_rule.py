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
# # 2. Calibrate the loop rule
#
# **The question.** After how many laps should an alert be raised on *your* agents, and what can be promised about false
# alarms? This notebook tries every rule of a grid on labelled runs, and ends with a certificate, or with a refusal that
# says how much is missing. Both are results.

# %%
import polars as pl

import agentlens
from agentlens import chart
from agentlens.calibrate.labels import read_labels
from agentlens.calibrating import calibrate
from agentlens.lab import workbench

pl.Config(tbl_rows=20, tbl_cols=12, fmt_str_lengths=60)
work = workbench()
labels = read_labels(work.labels_file())
labels.filter(pl.col("scope") != "handoff").group_by("label", "kind", "source").agg(runs=pl.col("run_id").n_unique()).sort(
    "label", "kind"
)

# %% [markdown]
# ## Labels
#
# An **incident** has an onset: the first event of the first lap. **Healthy** is an assertion somebody made. Runs without a
# label are neither; they are never counted as healthy. Runs of one task are not independent: they form a *task group*, and
# a group is never divided between the splits.
#
# One call does the rest: sweep the grid, match alerts with labels, choose on one split, certify on another.

# %%
LIMIT = 0.05
found = calibrate(work.lake, labels=work.labels_file(), max_fpr=LIMIT, delta=0.05)
{"status": found.status, "rule": found.rule, "more healthy groups needed": found.profile["profile"]["more_groups"]}

# %%
found.splits.group_by("split", "state").agg(runs=pl.len(), groups=pl.col("task_group").n_unique()).sort("split", "state")

# %% [markdown]
# *explore* chooses which family of rules to walk, *certify* tests it once, *test* is only reported. Looking at certify,
# changing the rule and looking again would void the promise.
#
# ## The grid

# %%
chart.sweep(found.rates)

# %%
chart.sweep(found.rates, metric="detection")

# %% [markdown]
# **How to read it.** Each tile is a detector that alarms once a stretch is `T` events long, for periods up to the row's: left
# alarms early, right late. Empty places cannot exist (a period must fit in twice). Bright is good in both pictures: no
# false alarms above, all incidents found below. Look for a place that is bright in both.
#
# **What not to conclude.** Do not take the best tile. With hundreds of rules on a few dozen runs, the best one is partly
# luck; that is what the chain and the split are for.
#
# ## What each rule costs and finds

# %%
names = found.cases["rule"].unique().sort().to_list()
cells = [found.rates.filter(pl.col("rule") == name)["cell"][0] for name in names]
chart.pareto(found.rates, named=cells)

# %% [markdown]
# **How to read it.** Left is fewer false alarms, up is more incidents found. Grey points are rules of the grid; the line
# joins those that nothing beats on both counts. Named: the recommended rule, the one in use, and rules that other systems
# ship. The crosses are 95 % intervals: where they overlap, the data do not tell the rules apart.

# %%
shown = found.rates.filter(pl.col("cell").is_in(cells))
shown.select("rule", "alarmed_runs", "healthy_runs", "fpr", "fpr_high", "detected", "incidents", "detection", "thin")

# %% [markdown]
# How often would each rule have been chosen, had other task groups been drawn? A choice that changes from draw to draw is no
# finding about rules.

# %%
chart.stability(found.stability)

# %% [markdown]
# **How to read it.** Each draw of task groups is a data set that could have been yours; the bar is the share of them in
# which the rule would have been chosen at this limit. One long bar is a choice; several of like length are a coin.
#
# ## How late, how often false

# %%
chart.amoc(found.amoc, named=names)

# %% [markdown]
# **How to read it.** Left is fewer false alerts, down is sooner. Delay is a mean in which a miss counts as the longest delay,
# so a rule that is blind lies high up and not, as it would in a mean over what it found, low down. Crosses are 95 %
# intervals over task groups.
#
# ## How soon

# %%
chart.detection(found.detection_curve.select("rule", pl.exclude("rule")), within=20)

# %% [markdown]
# **How to read it.** The share of incidents found within so many events after their onset. Misses count as *never*: the
# curves level off below 100 %, they are not averaged away. A rule that is fast on the incidents it finds and blind to the
# rest has a short mean delay and a low curve.
#
# ## What chance alone would do
#
# Agents repeat themselves in good work too. From healthy runs alone one can compute how often a rule would alarm if actions
# followed each other by coincidence (with the agent's own frequencies, and with its own habits of what follows what).

# %%
chart.chance(found.chance.filter(pl.col("rule").is_in(names)))

# %% [markdown]
# **How to read it.** Observed false alarms far right of both floors are not coincidence: they are structure, such as polls
# and retries. Thresholds will not cure them; evidence and declared waits will (notebook 4).
#
# ## The certificate

# %%
chart.chain(found.certificate, found.rates, limit=LIMIT)

# %%
found.certificate.select("step", "rule", "groups", "false_alarms", "rate", "p_value", "tested", "certified", "more_groups").head(8)

# %% [markdown]
# **How to read it.** Rules from strict to loose; each alarms wherever the one before does. They are tested in this order on
# the certify split, and testing stops at the first that cannot be shown to keep the limit. Everything before that is
# certified: with 95 % confidence its true false-alarm rate is at most the limit.
#
# On the shipped fleet nothing is: even a rule that never alarmed has too few healthy groups behind it. `PROVISIONAL` names a
# rule to use meanwhile and how many more groups a certificate would take. Zero false alarms on twenty groups is compatible
# with a rate of 14 %; no arithmetic changes that.
#
# ## With enough data
#
# Nine hundred runs with planted loops, known truth, two runs to a task group. The same call:

# %%
from agentlens.datasets import LaneModel, synthetic_lanes

lanes = synthetic_lanes(900, seed=11, model=LaneModel(incident_share=0.2, runs_per_group=2, repeat=0.2, spread=0.1))
enough = calibrate(lanes.events, labels=lanes.labels, max_fpr=LIMIT, delta=0.05)
{"status": enough.status, "rule": enough.rule, "p": enough.profile["profile"]["p_value"]}

# %%
chart.chain(enough.certificate, enough.rates, limit=LIMIT)

# %%
from agentlens.report.grid_charts import certified_tiles

tiles = [(len(row), row[0]) for row in enough.rates["thresholds"].to_list() if min(row) == max(row)]
walked = enough.certificate.filter(pl.col("certified")).join(enough.rates.select("cell", "thresholds"), on="cell")
chart.sweep(enough.rates, certified=certified_tiles(tiles, walked["thresholds"].to_list()))

# %% [markdown]
# **How to read it.** Inside the outline the promise holds: a full window that looks for no longer period and asks for no
# shorter stretch than a certified rule alarms only where that rule does. Tiles outside may be as good; nobody has shown it.

# %%
enough.test.select("rule", "alarmed_runs", "healthy_runs", "fpr", "fpr_high", "detected", "incidents", "detection")

# %% [markdown]
# The last table is the **test split**, opened once, after the rule was fixed. A ledger in the lake records every opening:
# the second look at a test split is a look at training data.
#
# ## The profile

# %%
written = found.write("profile")
print((written[0]).read_text()[:1500])

# %% [markdown]
# `agentlens loops LAKE --rule profile/profile.toml` uses it. The profile knows the versions of the normaliser, the
# fingerprints and the key it was made with, and is refused on data of others: what a lap counts would be something else.
#
# **What a certificate does not say.** It is about runs like those that were labelled. A new model, a new tool or a new kind
# of task is a new population; watch the drift table and calibrate again.
