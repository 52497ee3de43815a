"""Groups stay whole, time runs one way, and the same seed places the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from agentlens.calibrate.splits import split_groups, task_groups
from agentlens.errors import SettingsError
from agentlens.model.event import TIME

START = datetime(2026, 1, 1, tzinfo=UTC)


def days(**spans: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "run_id": list(spans),
            "started_at": [START + timedelta(days=a) for a, _ in spans.values()],
            "ended_at": [START + timedelta(days=b) for _, b in spans.values()],
        },
        schema={"run_id": pl.String, "started_at": TIME, "ended_at": TIME},
    )


def test_links_chain_into_one_group() -> None:
    """A shares a task with B and B a session with C: one group."""
    groups = task_groups("abcd", [("a", "task:1"), ("b", "task:1"), ("b", "session:s"), ("c", "session:s")])
    assert dict(groups.rows()) == {"a": "a", "b": "a", "c": "a", "d": "d"}


def test_a_parent_run_ties_its_child() -> None:
    """A key that names a run is that run."""
    assert dict(task_groups(["kid", "mum", "x"], [("kid", "run:mum")]).rows()) == {
        "kid": "kid",
        "mum": "kid",
        "x": "x",
    }


def test_the_order_of_links_changes_nothing() -> None:
    """Union-find names a group by its smallest run whatever comes first."""
    links = [("a", "task:1"), ("b", "task:1"), ("c", "task:2"), ("b", "task:2")]
    assert task_groups("abc", links).equals(task_groups("cba", links[::-1]))


def test_older_groups_explore_and_newest_test() -> None:
    """Placed by first start; certify ends before test begins."""
    spans = {f"r{i}": (i * 2, i * 2 + 1) for i in range(10)}
    splits = split_groups(task_groups(spans, []), days(**spans))
    assert splits.placed_by == "time"
    assert splits.frame["split"].to_list() == ["explore"] * 4 + ["certify"] * 4 + ["test"] * 2


def test_a_group_that_straddles_a_boundary_goes_to_explore() -> None:
    """It would carry the test period into certify."""
    spans = {f"r{i}": (i, i) for i in range(10)} | {"r5": (5, 9)}
    splits = split_groups(task_groups(spans, []), days(**spans))
    assert dict(splits.frame.select("run_id", "split").rows())["r5"] == "explore"


def test_without_times_the_seed_places_and_it_says_so() -> None:
    """Same seed, same placement; every split has groups."""
    groups = task_groups([f"r{i}" for i in range(20)], [(f"r{i}", f"task:{i // 2}") for i in range(20)])
    one, two = split_groups(groups, seed=3), split_groups(groups, seed=3)
    assert one.placed_by == "hash"
    assert one.digest == two.digest != split_groups(groups, seed=4).digest
    assert one.frame.group_by("task_group").agg(pl.col("split").n_unique()).get_column("split").max() == 1
    assert set(one.frame["split"]) == {"explore", "certify", "test"}


def test_one_missing_time_means_no_order_in_time() -> None:
    """An unknown start is not filled with a guess."""
    spans = {"a": (0, 1), "b": (1, 2), "c": (2, 3)}
    splits = split_groups(task_groups([*spans, "d"], []), days(**spans))
    assert splits.placed_by == "hash"


def test_all_runs_in_one_group_can_not_be_split() -> None:
    """The message says what would do."""
    with pytest.raises(SettingsError, match="at least three independent task groups"):
        split_groups(task_groups("ab", [("a", "task:1"), ("b", "task:1")]))


def test_an_unknown_split_lists_the_three() -> None:
    """Names are checked."""
    splits = split_groups(task_groups("abc", []))
    with pytest.raises(SettingsError, match="certify, explore, test"):
        splits.runs("train")
