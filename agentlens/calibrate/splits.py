"""Task groups and their three splits (CALIBRATION section 2.3).

Runs that share a task, a session, a parent run or near-equal content are one group; a group is never divided.
Groups are placed by time, oldest first, where every group has a time, else by a seeded hash, and the result says
which. *explore* chooses a path, *certify* tests it, *test* only reports.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import polars as pl

from agentlens.errors import SettingsError
from agentlens.model.event import TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SPLITS = ("explore", "certify", "test")
_COUNTED = {2: "two", 3: "three"}

GROUPS = pl.Schema({"run_id": pl.String(), "task_group": pl.String()})
PLACED = pl.Schema(
    {
        "run_id": pl.String(),
        "task_group": pl.String(),
        "split": pl.String(),
        "started_at": TIME,
        "ended_at": TIME,
    }
)


class _Forest:
    """Union-find with path halving; the root of a set is its smallest member, so names are stable."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}

    def find(self, item: str) -> str:
        self.parent.setdefault(item, item)
        while self.parent[item] != item:
            self.parent[item] = self.parent[self.parent[item]]
            item = self.parent[item]
        return item

    def join(self, one: str, other: str) -> None:
        a, b = self.find(one), self.find(other)
        if a != b:
            self.parent[max(a, b)] = min(a, b)


def task_groups(runs: Iterable[str], links: Iterable[tuple[str, str]]) -> pl.DataFrame:
    """Return connected components of runs (`GROUPS`, sorted by run): a group is named by its smallest run id.

    Parameters
    ----------
    runs
        Every run id, linked or not.
    links
        Pairs ``(run_id, key)``. A key is any shared thing, with its kind in front so that kinds never meet by
        accident: ``task:17``, ``session:abc``, ``run:parent-id``. Runs with a common key are one group.

    Examples
    --------
    >>> task_groups(["a", "b", "c"], [("a", "task:1"), ("c", "task:1")])["task_group"].to_list()
    ['a', 'b', 'a']
    """
    forest = _Forest()
    names = sorted(set(runs))
    first: dict[str, str] = {}
    known = set(names)
    for run, key in sorted(set(links)):
        if run not in known:
            continue
        # a key that names a run of the set ties to that run itself
        other = key.removeprefix("run:")
        if key.startswith("run:") and other in known:
            forest.join(run, other)
        forest.join(run, first.setdefault(key, run))
    return pl.DataFrame({"run_id": names, "task_group": [forest.find(r) for r in names]}, schema=GROUPS)


@dataclass(frozen=True, kw_only=True)
class Splits:
    """Where every run went. ``placed_by`` says how: ``time`` or ``hash`` (no times, or told so)."""

    frame: pl.DataFrame
    placed_by: Literal["time", "hash"]
    seed: int

    def runs(self, split: str) -> pl.DataFrame:
        """Rows of one split; an unknown name is an error that lists the three."""
        if split not in SPLITS:
            raise SettingsError.unknown("split", split, SPLITS)
        return self.frame.filter(pl.col("split") == split)

    @property
    def digest(self) -> str:
        """Digest of the placement, for the ledger of openings and the profile."""
        rows = self.frame.select("run_id", "task_group", "split").sort("run_id").rows()
        return hashlib.blake2b(repr(rows).encode(), digest_size=8).hexdigest()


def in_order(splits: Splits) -> pl.DataFrame:
    """Order the task groups (``task_group, first, last``): by time, else by the seeded hash that places them.

    ``first``, ``last``: start of its first run, and end of its last; null where groups are not placed by time.
    """
    spans = (
        splits.frame.group_by("task_group")
        .agg(
            pl.col("started_at").min().alias("first"),
            pl.max_horizontal(pl.col("started_at").max(), pl.col("ended_at").max()).alias("last"),
        )
        .sort("task_group")
    )
    if splits.placed_by == "time":
        return spans.sort("first", "task_group")
    marks = [_uniform(name, splits.seed) for name in spans["task_group"]]
    spans = spans.with_columns(pl.lit(None, TIME).alias("first"), pl.lit(None, TIME).alias("last"))
    return spans.with_columns(pl.Series("_mark", marks)).sort("_mark", "task_group").drop("_mark")


def _uniform(group: str, seed: int) -> float:
    digest = hashlib.blake2b(f"{seed}:{group}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def split_groups(
    groups: pl.DataFrame,
    times: pl.DataFrame | None = None,
    *,
    shares: Sequence[float] = (0.4, 0.4, 0.2),
    seed: int = 0,
    embargo_us: int = 0,
    by_time: bool = True,
) -> Splits:
    """Place whole groups into explore, certify and test.

    Parameters
    ----------
    groups
        `GROUPS`: one row a run.
    times
        ``run_id, started_at, ended_at`` (UTC microseconds); None or nulls mean that order in time is unknown.
    shares
        Shares of groups, three numbers from 0 that are 1 together, the middle one above 0. An explore share of 0 is
        right for a chain that was fixed beforehand, a test share of 0 where every group is needed to certify.
    seed
        For placing by hash; it is recorded.
    embargo_us
        A group that ends within this many microseconds of a boundary goes to the older side.
    by_time
        False places by hash although times exist.

    Raises
    ------
    SettingsError
        If there are fewer groups than parts with a share, or a share is negative or not a number.

    Notes
    -----
    A group is placed by its *last* end: with boundaries in time, a group that straddles one starts in the older
    part, and goes there ("straddlers go to explore", or to the older of the two).
    """
    whole = len(shares) == len(SPLITS) and min(shares) >= 0 and math.isclose(sum(shares), 1, abs_tol=1e-6)
    if not whole or not shares[1] > 0:
        accepted = "three shares from 0 that are 1 together, the middle one above 0, such as (0.4, 0.4, 0.2)"
        raise SettingsError.value("shares", tuple(shares), accepted)
    names = groups["task_group"].unique().sort()
    least = sum(share > 0 for share in shares)
    if names.len() < least:
        count = "one independent task group" if least == 1 else f"{_COUNTED[least]} independent task groups"
        raise SettingsError.value("task groups", names.len(), f"at least {count} to split; label more tasks")
    timed = groups.join(times, on="run_id", how="left") if times is not None else None
    if by_time and timed is not None and timed["started_at"].null_count() == 0:
        placed, how = _by_time(timed, shares, embargo_us), "time"
    else:
        placed, how = _by_hash(names.to_list(), shares, seed), "hash"
    frame = groups.join(placed, on="task_group", how="left")
    if timed is not None:
        frame = frame.join(timed.select("run_id", "started_at", "ended_at"), on="run_id", how="left")
    else:
        frame = frame.with_columns(pl.lit(None, TIME).alias(name) for name in ("started_at", "ended_at"))
    frame = frame.select(list(PLACED)).cast(PLACED).sort("run_id")
    return Splits(frame=frame, placed_by="time" if how == "time" else "hash", seed=seed)


def _cuts(count: int, shares: Sequence[float]) -> tuple[int, int]:
    """How many groups lie before each of the two boundaries; every split with a share gets at least one."""
    total = sum(shares)
    most = count - (shares[2] > 0)
    first = max(round(count * shares[0] / total), 1) if shares[0] > 0 else 0
    first = min(first, most - 1)
    second = round(count * (shares[0] + shares[1]) / total)
    return first, min(max(second, first + 1), most)


def _by_hash(names: list[str], shares: Sequence[float], seed: int) -> pl.DataFrame:
    order = sorted(names, key=lambda name: (_uniform(name, seed), name))
    first, second = _cuts(len(order), shares)
    split = [SPLITS[0 if i < first else 1 if i < second else 2] for i in range(len(order))]
    return pl.DataFrame({"task_group": order, "split": split})


def _by_time(timed: pl.DataFrame, shares: Sequence[float], embargo_us: int) -> pl.DataFrame:
    spans = (
        timed.group_by("task_group")
        .agg(
            pl.col("started_at").min().alias("first"),
            pl.max_horizontal(pl.col("started_at").max(), pl.col("ended_at").max()).alias("last"),
        )
        .sort("first", "task_group")
    )
    first, second = _cuts(spans.height, shares)
    starts = spans["first"].to_list()
    # without a share for test, its boundary lies behind everything
    after = max(spans["last"].max(), starts[-1]) + timedelta(microseconds=embargo_us + 1)
    certify_from, test_from = starts[first], starts[second] if second < spans.height else after
    gap = pl.duration(microseconds=embargo_us)
    # a group goes to the newest split whose boundary all of it lies behind; one that begins before a boundary and
    # reaches past it would carry the future into the past, so it stays on the older side
    return spans.select(
        "task_group",
        pl.when(pl.col("first") >= pl.lit(test_from).cast(TIME) + gap)
        .then(pl.lit("test"))
        .when(
            ((pl.col("first") >= pl.lit(certify_from).cast(TIME) + gap) | pl.lit(first == 0))
            & (pl.col("last") < pl.lit(test_from).cast(TIME))
        )
        .then(pl.lit("certify"))
        .otherwise(pl.lit("explore" if first else "certify"))
        .alias("split"),
    )
