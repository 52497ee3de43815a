"""What would clear an alert, exactly, and what the same change would cost elsewhere (CALIBRATION section 5, 7).

An episode's stuck events carry their excess ``S_p - T_p``. Stretches grow by one event at a time, so raising every
threshold by d moves the alert to the first stuck event whose excess is d, and clears the episode where there is
none. Leaving out long periods keeps the events that hold by a shorter one. Calling a tool a poll, whose equal
answers are no evidence, breaks every stretch that goes through it: a stretch of two laps meets each of its tools twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.model.enums import Verdict
from agentlens.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

LATER: Final = 6
"""So many events later at most is tried as a change for everyone."""
_LANE: Final = ["run_id", "agent"]

CHANGES = pl.Schema(
    {
        "change": pl.String(),
        "kind": pl.String(),
        "false_cleared": pl.Int64(),
        "false_left": pl.Int64(),
        "incidents_lost": pl.Int64(),
        "incidents_left": pl.Int64(),
        "delay_added": pl.Int64(),
        "episodes_cleared": pl.Int64(),
    }
)
"""One row a change. ``false_*``: alerts on healthy events; ``incidents_*``: detected now; ``delay_added``: the median
number of actions by which the incidents left are detected later (null without any). All of it is of the runs that the
change is chosen on: a new rule needs certifying on others."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of the rule: thresholds ``later`` by so many events, periods up to ``longest``, or a tool ``exempt``."""

    later: int = 0
    longest: int | None = None
    exempt: str | None = None

    @property
    def kind(self) -> str:
        """``threshold``, ``period`` or ``tool``."""
        return "tool" if self.exempt is not None else "period" if self.longest is not None else "threshold"

    @property
    def text(self) -> str:
        """What one would say."""
        if self.exempt is not None:
            return f"evidence of {self.exempt} does not count (a poll)"
        if self.longest is not None:
            return f"no period above {self.longest}"
        return f"confirm {plural(self.later, 'event')} longer"


class Alerts:
    """Alerts as they are, and as they would be under a change.

    Parameters
    ----------
    episodes, verdicts, holds
        Of the rule in force; ``holds`` (`agentlens.report.stretches.HOLDS`) of every lane with an episode.
    truth
        ``run_id, agent, seq, false, incident, since``: of each action, whether an alert there is false, and the
        incident it would detect with the actions since its onset; None without labels.
    """

    def __init__(
        self,
        episodes: pl.DataFrame,
        verdicts: pl.DataFrame,
        holds: pl.DataFrame,
        truth: pl.DataFrame | None = None,
    ) -> None:
        self.episodes = episodes.with_row_index("episode").with_columns(pl.col("episode").cast(pl.Int64))
        stuck = verdicts.filter(pl.col("verdict") == str(Verdict.STUCK_LOOP)).select(*_LANE, "seq")
        ends = self.episodes.select(*_LANE, "episode", "alert_seq", "end_seq")
        inside = stuck.join(ends, on=_LANE).filter(pl.col("seq").is_between("alert_seq", "end_seq"))
        self.stuck = (
            holds.filter(pl.col("excess") >= 0)
            .join(inside, on=[*_LANE, "seq"], how="inner")
            .sort("episode", "seq")
        )
        key = [*_LANE, "seq"]
        self.truth = (
            None if truth is None else truth.join(self.stuck.select(key).unique(), on=key, how="semi")
        )
        self._prices: dict[Change, dict[str, Any]] = {}
        self.now = self.judged(Change())

    def peaks(self) -> pl.DataFrame:
        """``episode, peak, least_period``: largest excess of each episode, and the shortest period that holds."""
        return (
            self.stuck.group_by("episode")
            .agg(peak=pl.col("excess").max(), least_period=pl.col("period").min())
            .sort("episode")
        )

    def under(self, change: Change) -> pl.DataFrame:
        """``episode, run_id, agent, seq``: the alert of each episode that is left."""
        kept = self.stuck.filter(pl.col("excess") >= change.later)
        if change.longest is not None:
            kept = kept.filter(pl.col("period") <= change.longest)
        if change.exempt is not None:
            with_it = self.episodes.filter(pl.col("tools").list.contains(change.exempt))["episode"]
            kept = kept.filter(~pl.col("episode").is_in(with_it.implode()))
        return kept.group_by("episode").agg(pl.col("run_id", "agent", "seq").first()).sort("episode")

    def judged(self, change: Change) -> pl.DataFrame:
        """Alerts of `under` with what labels say of them: ``false`` (null: not known), ``incident``, ``since``."""
        alerts = self.under(change)
        if self.truth is None:
            nothing = {"false": pl.Boolean, "incident": pl.Int64, "since": pl.Int64}
            return alerts.with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in nothing.items())
        return alerts.join(self.truth, on=[*_LANE, "seq"], how="left", maintain_order="left")

    def price(self, change: Change) -> dict[str, Any]:
        """Give one row of `CHANGES`."""
        if change not in self._prices:
            self._prices[change] = self._priced(change)
        return self._prices[change]

    def _priced(self, change: Change) -> dict[str, Any]:
        then = self.judged(change)
        was, is_now = _incidents(self.now), _incidents(then)
        both = was.join(is_now, on="incident", suffix="_then")
        delays = (both["since_then"] - both["since"]).median()
        return {
            "change": change.text,
            "kind": change.kind,
            "false_cleared": _false(self.now) - _false(then),
            "false_left": _false(then),
            "incidents_lost": was.height - is_now.height,
            "incidents_left": is_now.height,
            "delay_added": None if delays is None else int(delays),  # type: ignore[arg-type]
            "episodes_cleared": self.now.height - then.height,
        }

    def offered(self) -> Iterator[Change]:
        """Yield the changes worth a look: a few events more, shorter longest periods, tools of false alerts."""
        peaks = self.peaks()
        most = int(peaks["peak"].max() or 0)  # type: ignore[arg-type]
        yield from (Change(later=d) for d in range(1, min(most, LATER) + 1))
        longest = int(peaks["least_period"].max() or 1)  # type: ignore[arg-type]
        yield from (Change(longest=q) for q in range(longest - 1, 0, -1))
        wrong = self.now.filter(pl.col("false")) if self.truth is not None else self.now
        mine = self.episodes.filter(pl.col("episode").is_in(wrong["episode"].implode()))
        tools = (
            mine["tools"]
            .explode()
            .drop_nulls()
            .value_counts()
            .sort("count", "tools", descending=[True, False])
        )
        yield from (Change(exempt=tool) for tool in tools["tools"].head(TOOLS))

    def table(self) -> pl.DataFrame:
        """`CHANGES` of every change offered, the cheapest first: incidents lost, then false alerts cleared."""
        rows = [self.price(change) for change in self.offered()]
        return pl.DataFrame(rows, schema=CHANGES).sort(
            "incidents_lost", "false_cleared", "delay_added", "change", descending=[False, True, False, False]
        )

    def clearing(self, episode: int) -> list[Change]:
        """Return the smallest change of each kind that clears one episode."""
        row = self.peaks().filter(pl.col("episode") == episode)
        if row.is_empty():
            return []
        peak, least = row["peak"][0], row["least_period"][0]
        tools = self.episodes.filter(pl.col("episode") == episode)["tools"][0].to_list()
        found = [Change(later=peak + 1)]
        if least > 1:
            found.append(Change(longest=least - 1))
        return [*found, *(Change(exempt=tool) for tool in dict.fromkeys(tools) if tool is not None)]


TOOLS: Final = 12


def greedy(alerts: Alerts, *, most: int = 5) -> pl.DataFrame:
    """Cheapest fixes one after the other: each time the change that clears most false alerts for the fewest incidents.

    Changes of thresholds and exempt tools act on separate facts of an episode, so what is left after several is
    what each of them leaves. It ends where no change clears a false alert without losing more incidents than that.
    """
    offered = list(alerts.offered())
    judged = {change: alerts.judged(change) for change in offered}
    kept = {change: set(frame["episode"]) for change, frame in judged.items()}
    now = alerts.now
    wrong = set(now.filter(pl.col("false"))["episode"])
    rows: list[dict[str, Any]] = []
    left = set(now["episode"])
    lost = _incident_set(now, left)
    for _ in range(most):
        best: tuple[tuple[int, int, str], Change] | None = None
        for change in offered:
            after = left & kept[change]
            cleared = len((left - after) & wrong)
            gone = len(lost - _incident_set(judged[change], after))
            if cleared > gone:
                key = (gone - cleared, gone, change.text)
                best = min(best, (key, change), key=lambda pair: pair[0]) if best else (key, change)
        if best is None:
            break
        change = best[1]
        after = left & kept[change]
        still = _incident_set(judged[change], after)
        rows.append(
            {
                "change": change.text,
                "kind": change.kind,
                "false_cleared": len((left - after) & wrong),
                "false_left": len(after & wrong),
                "incidents_lost": len(lost - still),
                "incidents_left": len(still),
                "delay_added": None,
                "episodes_cleared": len(left - after),
            }
        )
        left, lost = after, still
        offered.remove(change)
    return pl.DataFrame(rows, schema=CHANGES)


def _false(alerts: pl.DataFrame) -> int:
    return int(alerts["false"].fill_null(value=False).sum())


def _incidents(alerts: pl.DataFrame) -> pl.DataFrame:
    """``incident, since``: first alert of each incident detected."""
    return (
        alerts.filter(pl.col("incident").is_not_null())
        .group_by("incident")
        .agg(pl.col("since").min())
        .sort("incident")
    )


def _incident_set(alerts: pl.DataFrame, episodes: set[int]) -> set[int]:
    mine = alerts.filter(pl.col("episode").is_in(list(episodes)) & pl.col("incident").is_not_null())
    return set(mine["incident"])


def separating(onset: int, end: int, threshold: int) -> tuple[int, int] | None:
    """Places (both included) at which one different result alone would have kept the stretch below its threshold.

    A result that differs at place j leaves ``j - onset`` actions before it and ``end - j`` after it; both must stay
    below T. None where one is not enough.

    Examples
    --------
    >>> separating(10, 16, 4), separating(10, 17, 4)
    ((13, 13), None)
    """
    low, high = end - threshold + 1, onset + threshold - 1
    low, high = max(low, onset), min(high, end)
    return (low, high) if low <= high else None


def fewest(length: int, threshold: int) -> int:
    """Return how many different results, spread well, keep ``length`` repeating actions below the threshold.

    c of them leave c + 1 stretches of at most T - 1 actions: ``ceil((length + 1) / T) - 1``.

    Examples
    --------
    >>> [fewest(n, 4) for n in (3, 4, 7, 8)]
    [0, 1, 1, 2]
    """
    return -(-(length + 1) // threshold) - 1
