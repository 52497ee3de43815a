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
# # 6. InterCode: a worked study on public data
#
# **The question.** On 7,201 public runs of older models in a shell and a database, how good are the loop rules that agent
# frameworks ship, and does a calibrated one find more at a *certified* share of false alarms of at most 1 %?
#
# InterCode gives a reward at every step, which the agent never saw. So nobody has to label: **an alarm is false if the
# best step reward still rises later, or the run ends solved.** Such labels are *weak*: they are a stated rule about
# outcomes, not somebody's judgement. They are never used as evidence by the detector.
#
# ## The data
#
# The transcripts are in the repository of the benchmark: `princeton-nlp/intercode`, folder `data/results`, licence MIT.
# Put the result files (`ic_bash_*.json`, `ic_sql_*.json`, plain or `.gz`) below a folder `intercode` and name its parent in
# `AGENTLENS_TRACES`, or have it as `../shared/traces`. Without them, this notebook runs on a **made-up stand-in** of the
# same shape: it shows every step, and its numbers mean nothing.

# %%
import json
import os
import random
from pathlib import Path

import polars as pl

import agentlens
from agentlens import chart
from agentlens.calibrating import calibrate
from agentlens.demo import demo_normaliser
from agentlens.lab import workbench

pl.Config(tbl_rows=20, tbl_cols=12, fmt_str_lengths=60)
workbench("demo")  # only for its settings: pictures that need no network
given = [os.environ.get("AGENTLENS_TRACES"), "../shared/traces", "../../shared/traces"]
places = [Path(place) / "intercode" for place in given if place]
traces = next((place for place in places if place.is_dir()), None)


def stand_in(folder, runs=1_200, seed=5):
    """Write runs of the same shape: some solve their task, some wander, some go round in circles."""
    draw, told = random.Random(seed), {}
    for number in range(runs):
        fate = draw.choices(["solved", "loop", "wander", "late"], [4, 4, 2, 0.01])[0]
        actions, observations, rewards = [], [], []
        length = draw.randint(2, 7) if fate == "solved" else 10
        ring = [f"grep -r word{draw.randint(0, 9)} /data" for _ in range(draw.choice([1, 1, 2, 3]))]
        onset, best = draw.randint(1, 4), 0.1
        for step in range(length):
            round_and_round = fate in {"loop", "late"} and step >= onset
            actions.append(ring[(step - onset) % len(ring)] if round_and_round else f"ls /data/{draw.randint(0, 10**6)}")
            observations.append("nothing found" if round_and_round else f"file{draw.randint(0, 10**6)}")
            best = best if round_and_round else min(best + draw.random() / 20, 0.9)
            rewards.append(round(best, 4))
        if fate in {"solved", "late"}:
            rewards[-1] = 1.0
        told[str(number)] = {
            "environment": "ic_bash",
            "dataset": "made_up.json",
            "task_id": number // 3,
            "query": "",
            "turn_history": {
                "actions": actions,
                "observations": observations,
                "rewards": rewards,
                "valid_action": [True] * length,
            },
            "summary": {"max_reward": max(rewards), "turns_taken": length, "turns_max": 10},
        }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ic_bash_multiturn_stand-in_10_turns.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


REAL = traces is not None
traces = traces if REAL else stand_in(Path("stand-in"))
print("InterCode" if REAL else "A made-up stand-in: the numbers below mean nothing.")

# %% [markdown]
# The files are nobody's trace format, so they are read through a mapping: one DuckDB SELECT that yields the canonical
# columns. The one for InterCode is shipped; `agentlens formats` lists it, and it is the model for one of your own.

# %%
files = sorted(path for path in traces.rglob("ic_*.json*"))
report = agentlens.ingest(*files, into="intercode-lake", sql="intercode", normaliser=demo_normaliser())
lake = "intercode-lake"
{"files": len(files), "runs": report.runs, "events": report.events, "set aside": report.quarantined}

# %%
agentlens.sql(
    lake,
    """
    WITH judged AS (
      SELECT run_id, any_value(workflow) AS workflow, any_value(model) AS model,
             count(*) FILTER (kind = 'tool') AS steps, bool_or(outcome = 'passed') AS solved
      FROM events GROUP BY run_id
    )
    SELECT workflow, model, count(*) AS runs, count(*) FILTER (solved) AS solved, median(steps) AS median_steps
    FROM judged GROUP BY ALL ORDER BY workflow, model
    """,
)

# %% [markdown]
# A run stops when it is solved, and at ten steps at the latest. So **long runs are nearly all failures**, and any alarm
# that comes late is right by construction. That is why the question is put as it is: not *does the run fail*, but *does
# anything still improve after the alarm*.
#
# ## Before any calibration

# %%
result = agentlens.loops(lake)
chart.lengths(result.runs)

# %%
chart.verdicts(result.runs)

# %% [markdown]
# **How to read it.** Runs by final verdict under the default rule: four laps of one action, three of two, two of three, and
# each lap saw what the lap before saw.
#
# ## The baselines, and a calibrated rule
#
# Limited is not the false-positive rate per healthy run but the **share of false alarms among alarms**: whoever reads the
# alarms wants to know how many are wrong. Runs of one task are one group, drawn and tested together. Certified is by a bet:
# a gambler who doubts the claim would have had to lose too often for it to be wrong.

# %%
LIMIT = 0.01
found = calibrate(lake, labels="weak", objective="share", max_fpr=LIMIT, delta=0.05)
{"status": found.status, "rule": found.rule, "p": found.profile["profile"]["p_value"]}

# %%
names = found.cases["rule"].unique().sort().to_list()
shown = found.rates.filter(pl.col("rule").is_in(names)).unique("cell", maintain_order=True)
board = shown.select(
    "rule", "alarms", "false_alarms", "false_share", "false_share_low", "false_share_high", "mean_alarm_step", "detection", "thin"
)
board

# %% [markdown]
# **How to read it.** One row a rule. `alarms` are runs with an alarm that can be judged, `mean_alarm_step` counts from 0.
# `same_call(3)` and `gemini_cli` do not look at results: they alarm on repeated actions whatever came back. The recommended
# rule should find more than each of them, or the same earlier, at a false share that is certified, not merely seen.

# %%
chart.pareto(found.rates, named=shown["cell"].to_list(), false="false_share")

# %%
chart.chain(found.certificate, found.rates, limit=LIMIT, false="false_share")

# %% [markdown]
# **How to read it.** Rules from strict to loose; the first one that cannot be shown to keep the limit ends the walk, even
# if a looser one would look fine.
#
# ## The false alarms themselves
#
# Few enough to read one by one. Each is a run in which something still improved after the alarm:

# %%
recommended = found.rule or names[0]
wrong = found.cases.filter((pl.col("rule") == recommended) & pl.col("place").is_in(["healthy_run", "healthy_part"]))
wrong.select("run_id", "alert_seq", "onset_seq", "period", "stretch", "place", "task_group").head(10)

# %%
events = agentlens.Lake.open(lake).events()
case = wrong["run_id"][0] if wrong.height else result.episodes["run_id"][0]
chart.timeline(events, result.verdicts, result.episodes, run_id=case)

# %% [markdown]
# **What not to conclude.** These are models of 2023 at temperature 0, at most ten steps, one tool. Loops were exact and
# frequent then; a rule certified here is certified for runs like these, not for your agents. What carries over is the
# method: outcomes as weak labels, baselines on the same data, a share of false alarms with a certificate or a refusal.
