"""Whether newer runs still look like those of the certificate."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from agentlens.calibrate.drift import DRIFT, drift
from agentlens.errors import SettingsError


def scores(rng: np.random.Generator, name: str, groups: int, lean: float, size: int = 3) -> pl.DataFrame:
    """Geometric scores, runs of a group alike."""
    share = rng.beta(lean * 10, (1 - lean) * 10, groups).repeat(size)
    return pl.DataFrame(
        {
            "task_group": [f"{name}{k // size:03d}" for k in range(groups * size)],
            "score": rng.geometric(1 - share),
        }
    )


def test_the_same_world_holds_about_as_often_as_it_should() -> None:
    """Two tests at 5 % on exchangeable groups: few of 60 worlds are said to have moved, although runs correlate."""
    rng = np.random.default_rng(5)
    moved = sum(
        drift(scores(rng, "a", 30, 0.4), scores(rng, "b", 15, 0.4), 5, max_fpr=0.5, permutations=99)[
            "status"
        ].item()
        != "holds"
        for _ in range(60)
    )
    assert moved <= 12


def test_another_world_is_noticed() -> None:
    """Stretches twice as sticky: the curves part, and the alarms rise."""
    rng = np.random.default_rng(1)
    found = drift(scores(rng, "a", 80, 0.3), scores(rng, "b", 60, 0.6), 5, max_fpr=0.9, permutations=199)
    assert found.schema == DRIFT
    row = found.row(0, named=True)
    assert row["status"] == "moved"
    assert row["p_scores"] == row["p_rate"] == 1 / 200
    assert row["new_rate"] > row["old_rate"]


def test_a_rate_above_the_limit_is_a_breach() -> None:
    """Half of forty new tasks alarm where 5 % were allowed."""
    old = pl.DataFrame({"task_group": [f"a{k}" for k in range(40)], "score": [1] * 40})
    new = pl.DataFrame({"task_group": [f"b{k}" for k in range(40)], "score": [1, 9] * 20})
    row = drift(old, new, 5, max_fpr=0.05, permutations=99).row(0, named=True)
    assert (row["status"], row["new_rate"], row["gap_at"]) == ("breached", 0.5, 9)
    assert row["new_low"] > 0.3


def test_whole_groups_are_dealt() -> None:
    """Twenty alarming runs of one task are one group of ten: no evidence of a move."""
    old = pl.DataFrame({"task_group": [f"a{k}" for k in range(10)], "score": [1] * 10})
    new = pl.DataFrame(
        {"task_group": ["b0"] * 20 + [f"b{k}" for k in range(1, 10)], "score": [9] * 20 + [1] * 9}
    )
    row = drift(old, new, 5, max_fpr=0.05, permutations=199).row(0, named=True)
    assert row["new_rate"] == pytest.approx(0.1)
    assert row["status"] == "holds"


def test_the_same_seed_gives_the_same_answer() -> None:
    """Permutations are seeded, and rows may come in any order."""
    rng = np.random.default_rng(2)
    old, new = scores(rng, "a", 20, 0.4), scores(rng, "b", 20, 0.4)
    one = drift(old, new, 4, max_fpr=0.3, permutations=99, seed=7)
    assert one.equals(drift(old.reverse(), new.reverse(), 4, max_fpr=0.3, permutations=99, seed=7))


def test_a_group_on_both_sides_is_refused() -> None:
    """Then the sides are not independent; and no runs are no comparison."""
    one = pl.DataFrame({"task_group": ["a"], "score": [1]})
    with pytest.raises(SettingsError, match="one side only"):
        drift(one, one, 2, max_fpr=0.1)
    with pytest.raises(SettingsError, match="both sides"):
        drift(one, one.clear(), 2, max_fpr=0.1)
