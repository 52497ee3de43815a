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
# # 1. Look at your traces
#
# **The question.** You have finished runs of some agents as exports. What was read out of them, how far can it be
# trusted, and which runs were really stuck?
#
# `agentlens lab` opens this on a fleet that is made up and comes with its truth: a coding agent (Claude Code sessions),
# a passenger desk (OTLP spans) and a press office (native NDJSON). `agentlens lab LAKE` opens it on a lake of yours.

# %%
import polars as pl

import agentlens
from agentlens import chart
from agentlens.lab import workbench

pl.Config(tbl_rows=20, tbl_cols=12, fmt_str_lengths=60)
work = workbench()
work

# %% [markdown]
# ## What was read
#
# A lake is a folder of Parquet files. One row of `events` is one consequential action or fact; arguments and results are
# not in it, only keyed digests of them, and `source` points back to the raw record.

# %%
agentlens.sql(
    work.lake,
    """
    SELECT reader, count(DISTINCT run_id) AS runs, count(*) AS events,
           count(*) FILTER (kind IN ('tool', 'handoff')) AS actions,
           round(100 * avg(("at" IS NULL)::INT), 1) AS without_time_percent,
           sum(coalesce(tokens_in, 0) + coalesce(tokens_out, 0)) AS tokens
    FROM events GROUP BY reader ORDER BY reader
    """,
)

# %% [markdown]
# Records that could not be read are set aside with file, position and reason; the rest goes on. An empty table is the
# good answer. If it is not empty, look here first: a run whose middle is missing is not a run that stood still.

# %%
agentlens.sql(work.lake, "SELECT * FROM quarantine LIMIT 20")

# %% [markdown]
# ## Which tools, and can they be told apart
#
# Two numbers decide what can be said of a tool. `different` is how many distinct actions there are among its calls: when
# every call is different, no loop of it will ever be seen. `evidence_known` is the share of calls whose result is in the
# export: where it is not, the answer is *uncertain*, never a loop.

# %%
agentlens.sql(
    work.lake,
    """
    SELECT tool, count(*) AS calls, count(DISTINCT action_signature) AS different,
           round(100 * avg((progress_fingerprint IS NOT NULL)::INT), 1) AS evidence_known_percent,
           round(100 * avg((error_class IS NOT NULL)::INT), 1) AS error_percent
    FROM events WHERE kind IN ('tool', 'handoff')
    GROUP BY tool ORDER BY calls DESC, tool LIMIT 20
    """,
)

# %% [markdown]
# `health` says the same as warnings, tool by tool. Read it before any verdict: *signatures never repeat* may be honest
# work, or an id among the arguments that hides every repetition (notebook 4 shows how to change that).

# %%
agentlens.health(work.lake)

# %% [markdown]
# ## How did the runs end
#
# Every action gets one verdict. A loop needs two things at once: the same actions again, **and** nothing new seen. A
# repeated call that brings something new is work; one that fails and is tried again within a declared policy is a retry;
# one that waits for a named owner is a wait.

# %%
result = agentlens.loops(work.lake)
chart.verdicts(result.runs)

# %% [markdown]
# **How to read it.** One bar a verdict, runs counted once, by the worst of their lanes' last verdicts. Colours are the
# same everywhere.
#
# **What not to conclude.** `working` is not *successful*: it says that the actions did not go round in circles, nothing
# about the result. And a run that was stuck for a while and came out of it ends as `working`; the next table counts
# alerts, whatever came later.

# %%
result.counts()

# %%
chart.agents(result.verdicts)

# %% [markdown]
# The number behind each name is how many lanes stand behind its bar. A third of three lanes is one lane: do not rank
# agents by short bars.

# %%
chart.lengths(result.runs)

# %% [markdown]
# Long runs have more chances to alarm, by chance alone. Compare like lengths before you compare agents or models.
#
# ## What the loops go round in

# %%
chart.episodes(result.episodes)

# %% [markdown]
# An **episode** is one stretch under one loop, from the first event of its first lap until its evidence changes. One
# alert belongs to one episode, however long it lasts. The costliest, by tokens:

# %%
costly = result.episodes.sort("tokens", "run_id", "onset_seq", descending=[True, False, False])
costly.select("run_id", "agent", "period", "laps", "tools", "onset_seq", "alert_seq", "end_seq", "closed_by", "tokens").head(10)

# %% [markdown]
# ## One case, event by event

# %%
events = agentlens.Lake.open(work.lake).events()
worst = costly.row(0, named=True) if costly.height else result.runs.row(0, named=True)
chart.timeline(events, result.verdicts, result.episodes, run_id=worst["run_id"], agent=worst.get("agent"))

# %% [markdown]
# **How to read it.** Equal letters are equal actions. Below them: a diamond is evidence that this lane had not seen
# before, a circle is evidence seen before, a cross is evidence nobody knows. The bracket runs from onset to end, the
# triangle is the alert. A loop is letters that repeat over circles.
#
# Why are two actions *the same*? `explain` reads the raw record again and says what was dropped, masked and kept, and by
# which rule.

# %%
seq = int(worst["alert_seq"]) if costly.height else 0
if costly.height:
    told = agentlens.explain(work.lake, worst["run_id"], seq, agent=worst["agent"], normaliser=work.normaliser())
    shown = {name: told[name] for name in ("tool", "action", "evidence")}
else:
    shown = "no episode to explain"
shown

# %% [markdown]
# ## What is not known
#
# `uncertain` is not a milder `stuck_loop`. It says that the export does not hold what a verdict would need. The reason
# says what that is: without results (`missing_fingerprint`) or without arguments (`missing_signature`).

# %%
(
    result.verdicts.filter(pl.col("verdict") == "uncertain")
    .group_by("reason", "agent")
    .agg(events=pl.len(), runs=pl.col("run_id").n_unique())
    .sort("events", "reason", "agent", descending=[True, False, False])
)

# %% [markdown]
# A lane that stands still while its arguments vary (ever new searches, ever the same answer) is no loop by the rule. It
# is counted as `stalled_events`: how many events in a row saw the same.

# %%
(
    result.verdicts.filter((pl.col("verdict") == "working") & (pl.col("stalled_events") >= 6))
    .group_by("run_id", "agent")
    .agg(pl.col("stalled_events").max(), at_seq=pl.col("seq").max())
    .sort("stalled_events", "run_id", descending=[True, False])
    .head(10)
)

# %% [markdown]
# ## Next
#
# The default rule (four laps of one action, three of two, two of three) is a starting point, not a finding about your
# agents. Whether its alarms are right can only be said with labels: notebook 2.
