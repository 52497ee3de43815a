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
# # 4. False positives: where the rule is wrong, and what a change costs
#
# **The question.** Some alerts are wrong. Which, why, and what would clear them, **at what price elsewhere**? There are
# three places to change something: what the normaliser compares, what is declared about waits and retries, and the rule's
# thresholds. Each clears some false alarms and may hide some true ones, so every change here is measured on *all* labelled
# runs, not on the case that annoyed you.

# %%
from pathlib import Path

import polars as pl

import agentlens
from agentlens import chart
from agentlens.calibrate.labels import read_labels
from agentlens.lab import workbench

pl.Config(tbl_rows=30, tbl_cols=12, fmt_str_lengths=60)
work = workbench()
labels = read_labels(work.labels_file()).filter(pl.col("scope") != "handoff")
truth = labels.group_by("run_id").agg(
    incident=(pl.col("label") == "incident").any(), healthy=(pl.col("label") == "healthy").all(), kind=pl.col("kind").first()
)


def alarms(result):
    """One row a labelled run: whether it alarmed, and whether it should have."""
    return result.runs.select("run_id", alarmed=pl.col("alerts") > 0).join(truth, on="run_id")


result = agentlens.loops(work.lake)
base = alarms(result)
base.group_by("incident", "kind").agg(runs=pl.len(), alarmed=pl.col("alarmed").sum()).sort("incident", "kind")

# %% [markdown]
# **How to read it.** A healthy kind (`incident` false) with alarms is a false positive; an incident kind without alarms is
# a miss. `healthy` is an assertion of whoever labelled; a run without a label is neither and is left out.
#
# **What not to conclude.** Three false alarms of sixty healthy runs is not "5 %": with so few, the true rate may be three
# times that. Notebook 2 puts intervals on it.

# %%
wrong = base.filter(pl.col("alarmed") & pl.col("healthy")).sort("run_id")
cases = result.episodes.join(wrong.select("run_id", "kind"), on="run_id").sort("run_id", "onset_seq")
cases.select("run_id", "agent", "kind", "period", "laps", "tools", "onset_seq", "alert_seq", "end_seq", "closed_by")

# %% [markdown]
# ## One case

# %%
events = agentlens.Lake.open(work.lake).events()
case = cases.filter(pl.col("tools").list.first() != "Bash").head(1) if cases.height else cases
case = case if case.height else cases.head(1)
shown = case["run_id"][0] if case.height else result.runs["run_id"][0]
chart.timeline(events, result.verdicts, result.episodes, run_id=shown)

# %% [markdown]
# The same question over and over, the same answer each time, until at last something else came (`closed_by` evidence). By
# what the export says this **is** a loop; that the run did well is known only to those who know the tool: it asks for the
# state of a job, and "running" is all that the job ever says. What was compared:

# %%
if case.height:
    row = case.row(0, named=True)
    told = agentlens.explain(work.lake, row["run_id"], row["alert_seq"], agent=row["agent"], normaliser=work.normaliser())
    what = {name: told[name] for name in ("tool", "action", "evidence")}
else:
    what = "no false alarm to explain"
what

# %% [markdown]
# ## What the report says of them
#
# `agentlens report LAKE --labels FILE` puts each false alert under one cause and prices every change that would clear it. Its
# tables are here too:

# %%
report = agentlens.make_report(work.lake, labels=work.labels_file())
report.tables["causes"].filter(pl.col("alerts") > 0).select("cause", "alerts", "share", "what")

# %%
chart.fixes(report.tables["counterfactuals"])

# %% [markdown]
# **How to read it.** One point a change of the rule (several at one place are one point): right clears more false alerts, up
# loses more incidents. Only the lower right corner is worth having. The cheapest, exactly, on these runs:

# %%
report.tables["counterfactuals"].select("change", "kind", "false_cleared", "incidents_lost", "delay_added").head(6)

# %% [markdown]
# ## Change 1: declare the wait
#
# Not a threshold problem: no number of laps is right for a job that may take an hour. It is missing knowledge, and a
# policies file is where it goes: the tool waits, on whom, and for how long at most.

# %%
def effect(name, changed):
    """Runs whose alarm came or went, by what they are."""
    moved = base.join(changed.select("run_id", now="alarmed"), on="run_id").filter(pl.col("alarmed") != pl.col("now"))
    return {
        "change": name,
        "false alarms cleared": moved.filter(pl.col("healthy") & ~pl.col("now")).height,
        "false alarms added": moved.filter(pl.col("healthy") & pl.col("now")).height,
        "incidents found": moved.filter(pl.col("incident") & pl.col("now")).height,
        "incidents lost": moved.filter(pl.col("incident") & ~pl.col("now")).height,
        "kinds": ", ".join(sorted(moved["kind"].drop_nulls().unique().to_list())),
    }


board = [effect("nothing", base)]
if work.policies is not None:
    declared = agentlens.loops(work.lake, policies=work.policies)
    board.append(effect("the wait is declared", alarms(declared)))
    print(work.policies.read_text())
pl.DataFrame(board)

# %%
if work.policies is not None:
    picture = chart.timeline(events, declared.verdicts, declared.episodes, run_id=shown)
else:
    picture = "give --policies FILE to agentlens lab"
picture

# %% [markdown]
# The same events, now `waiting` as long as the declared wait runs: a wait that never ends becomes a loop again when its
# time is over. One false alarm of this kind is left: it polls through the shell, and to declare the *shell* a waiting tool
# would be a policy for everything that ever goes through it.
#
# ## Change 2: a normaliser table
#
# A TOML file merges over the shipped table of what each tool's arguments mean. Two ideas that look good:
#
# - *progress numbers are noise*: mask the percentage in results, so that polls are compared without it;
# - *search words are only wording*: drop the query of the search tool, so that ever new words for the same thing become
#   one action.
#
# Both change signatures or fingerprints, and with them the version on every row. So the exports are read again, into lakes
# of their own.

# %%
tables = {
    "mask the percentage": r"""
[[mask]]
name = "percentage"
tools = ["*"]
pattern = '\d+ %'
replace = "%"
""",
    "drop the search words": """
[[tool]]
name = "search wording"
tools = ["search_policy", "search_sources"]
drop = ["query"]
""",
}
results = {}
for number, (name, text) in enumerate(tables.items(), 1):
    table = Path(f"table-{number}.toml")
    table.write_text(text, encoding="utf-8")
    lake = Path(f"changed-lake-{number}")
    agentlens.ingest(*work.sources(), into=lake, normaliser=work.normaliser(table), workers=1)
    results[name] = agentlens.loops(lake)
    board.append(effect(name, alarms(results[name])))
pl.DataFrame(board)

# %% [markdown]
# **How to read it.** One row a change, against the rule as it was; columns count labelled runs.
#
# Masking the percentage turns healthy polls into false alarms: the number *was* the progress. Evidence that is masked too
# far makes work look idle; evidence with a clock in it makes idle work look fresh. Ask what would differ if the step had
# helped, and mask only what would differ anyway.
#
# Dropping the words finds wandering searches that no threshold could find, at no price *on these runs*. Before you keep such
# a table: are there healthy runs among your labels that search a lot? If not, this data could not have shown the price.

# %%
chart.verdicts(results["drop the search words"].runs)

# %% [markdown]
# ## Change 3: the threshold
#
# What one more lap would do, exactly, to every labelled run. Raising thresholds is the change that always looks cheap on
# the false alarm at hand.

# %%
for name, rule in {
    "five laps of one": agentlens.laps((5, 3, 2)),
    "six laps of one": agentlens.laps((6, 3, 2)),
    "one lap more everywhere": agentlens.laps((5, 4, 3)),
    "periods up to six": agentlens.laps((4, 3, 2, 2, 2, 2)),
}.items():
    board.append(effect(name, alarms(agentlens.loops(work.lake, rule=rule))))
pl.DataFrame(board)

# %% [markdown]
# ## Keep what was learnt
#
# - A declared wait or retry belongs in the policies file, with a longest wait.
# - A table belongs beside your lake: `agentlens ingest ... --tables FILE`. All runs must be read with it: comparisons across
#   versions are unknown, never a verdict.
# - A threshold belongs in a calibrated profile, with its certificate or its refusal: notebook 2. Tuning until the last
#   false alarm of *these* labels is gone proves nothing about the next week.
