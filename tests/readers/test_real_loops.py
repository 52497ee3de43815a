"""Right answers on real exports, from file to verdict under the default rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.model.raw import RawEvent
from agentlens.normalise.assemble import assemble
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables
from agentlens.readers import registry
from agentlens.readers.base import Format, Report
from agentlens.readers.source import Source
from agentlens.readers.sql import mapped

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ACTION = ["run_id", "agent", "seq", "kind", "tool", "action_signature", "progress_fingerprint", "error_class"]


def events(paths: Iterable[Path], found: Format | None = None) -> pl.DataFrame:
    """Read, digest and assemble, as ingest does."""
    normaliser = Normaliser(key=Key.public_demo(), tables=Tables.load())
    frames = []
    for path in paths:
        source = Source.of(path)
        reader = found or registry.sniff(source.head())
        records = [
            record for record in registry.read(source, reader, Report()) if isinstance(record, RawEvent)
        ]
        frames.append(
            normaliser.frame(
                records,
                source=source.name,
                source_id=source.name,
                reader=reader.name,
                reader_rank=reader.rank,
            )
        )
    return assemble(pl.concat(frames).lazy()).collect()


def alerts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the first stuck event of each run that has one."""
    verdicts = loops(frame.lazy(), laps()).collect().filter(pl.col("verdict") == "stuck_loop")
    return verdicts.group_by("run_id", maintain_order=True).agg(pl.all().first())


def test_stream_and_trajectory_of_a_trial_give_the_same_events_and_loops(shared: Path) -> None:
    """In 45 of 46 trials all signatures, fingerprints and errors agree; the 46th has a sub-agent in one only.

    10 of the 46 loop on empty commands, in both formats alike; with the streams that have no trajectory, 12.
    """
    folder = shared / "traces" / "terminal-bench-kimi"
    trajectories = sorted(folder.glob("*/agent/trajectory.json*"))
    told = events(trajectories)
    streamed = events(sorted(folder.glob("*/agent/claude-code.txt*")))
    runs = told["run_id"].unique().sort()
    assert len(runs) == 46

    steps = pl.col("kind").is_in(["tool", "handoff", "wait"])
    order = pl.int_range(pl.len()).over("run_id", "agent").alias("seq")
    mine = told.filter(steps).with_columns(order).select(ACTION).sort("run_id", "agent", "seq")
    theirs = streamed.filter(steps & pl.col("run_id").is_in(runs.implode())).with_columns(order)
    theirs = theirs.select(ACTION).sort("run_id", "agent", "seq")
    assert mine.equals(theirs.filter(pl.col("agent") == ""))
    assert theirs.filter(pl.col("agent") != "")["agent"].to_list() == ["general-purpose"] * 8

    looping, streaming = set(alerts(told)["run_id"]), set(alerts(streamed)["run_id"])
    assert (len(looping), len(streaming)) == (10, 12)
    assert looping == streaming & set(runs)


def test_a_patient_poll_of_a_shell_is_no_loop(shared: Path) -> None:
    """`coder--jupyter-notebook-server` polls one shell 20 times with changing output and succeeds: no alert."""
    folder = shared / "traces" / "terminal-bench-claude-code" / "runs"
    frame = events(folder.glob("coder--jupyter-notebook-server.stream.jsonl*"))
    assert frame.filter(pl.col("tool") == "BashOutput").height >= 20
    assert alerts(frame).is_empty()


def test_the_one_true_loop_of_the_swe_agent_files(shared: Path) -> None:
    """Only `eps--270eca` loops: one flag submitted four times, period 1, alert at step 12."""
    paths = sorted((shared / "traces" / "swe-agent-traj" / "runs").glob("*.traj"))
    found = alerts(events(paths, mapped("swe_agent")))
    assert found.select("run_id", "seq", "period").rows() == [("eps--270eca", 12, 1)]


def test_intercode_loops(shared: Path) -> None:
    """7,201 runs: 2,514 alert; 3 of those end solved, in 5 the best reward still rises after the alert."""
    frame = events(sorted((shared / "traces" / "intercode").glob("*/*.json.gz")), mapped("intercode"))
    found = alerts(frame).select("run_id", alert="seq")
    outcome = frame.filter(pl.col("kind") == "verdict").select("run_id", "outcome")
    best = frame.filter(pl.col("tool") == "best_reward").select(
        "run_id", best=pl.col("target").cast(pl.Int64)
    )
    joined = found.join(outcome, on="run_id").join(best, on="run_id")
    assert (frame["run_id"].n_unique(), joined.height) == (7_201, 2_514)
    assert joined.filter(pl.col("outcome") == "passed").height == 3
    assert joined.filter(pl.col("best") > pl.col("alert")).height == 5
