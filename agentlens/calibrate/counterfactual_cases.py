"""What would have cleared each alert, of every kind, and what that costs elsewhere (CALIBRATION section 5, item 7).

Kinds: ``threshold`` and ``period`` (the rule), ``evidence`` (what the events would have had to show),
``missing_evidence`` (what an uncertain stretch would have had to tell), ``exemption`` (equal results of a tool are no
evidence), ``retry`` (a policy that covers the attempts), ``handoff`` (how long an open handoff would have to be waited
for). Each is what the engine would say under the change. A change that is chosen here is a new hypothesis: it needs a
certificate from data that did not suggest it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from agentlens.calibrate.counterfactual_events import StuckEvents, ages, retried, tools_of_laps
from agentlens.detect.policies import Policies
from agentlens.model.event import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentlens.calibrate.counterfactual_events import Bits, Ints
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rules import Rule

PRICE: Final = {
    "false_cleared": pl.Int64(),
    "false_left": pl.Int64(),
    "incidents_lost": pl.Int64(),
    "incidents_left": pl.Int64(),
    "delay_added": pl.Int64(),
    "episodes_cleared": pl.Int64(),
}
"""``false_*``: alerts on healthy events; ``incidents_*``: detected now; ``delay_added``: median number of actions by
which incidents that are left are detected later (null without any); ``episodes_cleared``: this one and the others."""

CASE_FIXES = pl.Schema(
    {
        "run_id": pl.String(),
        "agent": pl.String(),
        "alert_seq": pl.Int64(),
        "kind": pl.String(),
        "change": pl.String(),
        "value": pl.Int64(),
        "tool": pl.String(),
        "seqs": pl.List(pl.Int64),
        "from_seq": pl.Int64(),
        "to_seq": pl.Int64(),
        **PRICE,
    }
)
"""One row an episode and change that clears it, sorted by lane, alert and kind.

``value``: events later (threshold), longest period, fewest changes of evidence, attempts (retry), microseconds
(handoff). ``seqs``: events at which so few changes of evidence would do, each standing from there on; ``from_seq``,
``to_seq``: any one event between them would do alone, null where one does not. Changes of evidence are of this episode
alone: they cost nothing elsewhere.
"""

CHANGES = pl.Schema({"change": pl.String(), "kind": pl.String(), **PRICE})
"""One row a change for everyone, with what it costs."""

MOST_TOOLS: Final = 12
MOST_LATER: Final = 6
_BASE: Final = 2**62


@dataclass(frozen=True, kw_only=True)
class Fix:
    """A change for everyone: which stuck events it leaves."""

    kind: str
    text: str
    kept: Bits = field(repr=False)
    value: int | None = None
    tool: str | None = None


class Counterfactuals:
    """Stuck events under changes, and the price of each.

    Parameters
    ----------
    found
        The stuck events of the rule in force.
    truth
        ``run_id, agent, seq, false, incident, since``: of each action, whether an alert there is false, and the
        incident it would detect with the actions since its onset; None without labels.
    policies
        In force when the verdicts were made.
    handoffs
        `agentlens.model.handoff.HANDOFFS` of the same runs, where at hand.
    """

    def __init__(
        self,
        found: StuckEvents,
        *,
        truth: pl.DataFrame | None = None,
        policies: Policies | None = None,
        handoffs: pl.DataFrame | None = None,
    ) -> None:
        self.found = found
        stuck = found.stuck
        key = ["run_id", "agent", "seq"]
        if truth is None:
            self._false = np.zeros(stuck.height, dtype=bool)
            self._incident = np.full(stuck.height, -1)
            self._since = np.zeros(stuck.height, dtype=np.int64)
        else:
            told = stuck.select(key).join(truth, on=key, how="left", maintain_order="left")
            self._false = told["false"].fill_null(value=False).to_numpy()
            self._incident = told["incident"].fill_null(-1).cast(pl.Int64).to_numpy()
            self._since = told["since"].fill_null(0).cast(pl.Int64).to_numpy()
        self.labelled = truth is not None
        self.excess = stuck["excess"].to_numpy()
        self.least_period = stuck["least_period"].to_numpy()
        self.laps = tools_of_laps(found)
        self.retried = retried(found, policies or Policies())
        none = np.full(stuck.height, -1, dtype=np.int64)
        self.ages: Ints = none if handoffs is None else ages(found, handoffs)
        self._now = self.alerts(np.ones(stuck.height, dtype=bool))

    def alerts(self, kept: Bits) -> Ints:
        """Stuck event that is the alert of each episode that is left."""
        place = np.flatnonzero(kept)
        episode = self.found.of_episode[place]
        return place[np.unique(episode, return_index=True)[1]]

    def later(self, events: int) -> Fix:
        """Ask for so many events more."""
        return Fix(
            kind="threshold",
            text=f"confirm {_plural(events, 'event')} longer",
            kept=self.excess >= events,
            value=events,
        )

    def longest(self, period: int) -> Fix:
        """Look for no longer period."""
        return Fix(
            kind="period",
            text=f"no period above {period}",
            kept=self.least_period <= period,
            value=period,
        )

    def exempt(self, tool: str) -> Fix:
        """Take equal results of a tool for no evidence."""
        return Fix(
            kind="exemption",
            text=f"equal results of {tool} are no evidence (it is polled)",
            kept=self.laps[tool],
            tool=tool,
        )

    def policy(self, tool: str, errors: Sequence[str], attempts: int, interval_us: int) -> Fix:
        """Declare a retry policy of one tool."""
        mine = self.retried
        named = mine.select(
            (pl.col("tool") == tool)
            & (pl.col("attempts") <= attempts)
            & (pl.col("least_gap_us") + 1 >= interval_us)
            & pl.col("errors")
            .list.set_difference(pl.lit(list(errors), dtype=pl.List(pl.String)))
            .list.len()
            .eq(0)
        ).to_series()
        classes = ", ".join(errors)
        return Fix(
            kind="retry",
            text=(
                f"a retry policy of {tool}: {_plural(attempts, 'attempt')} on {classes},"
                f" at least {interval_us / 1_000_000:g} s apart"
            ),
            kept=~named.fill_null(value=False).to_numpy(),
            value=attempts,
            tool=tool,
        )

    def wait(self, limit_us: int) -> Fix:
        """Wait so long for the acknowledgement of an open handoff."""
        return Fix(
            kind="handoff",
            text=f"an acknowledgement limit of {limit_us / 1_000_000:g} s while a handoff is open",
            kept=(self.ages < 0) | (self.ages > limit_us),
            value=limit_us,
        )

    def price(self, kept: Bits) -> dict[str, int | None]:
        """What a change costs (`PRICE`), from the alerts that it leaves."""
        then = self.alerts(kept)
        was, is_now = self._detected(self._now), self._detected(then)
        both = sorted(was.keys() & is_now.keys())
        delay = int(np.median([is_now[one] - was[one] for one in both])) if both else None
        return {
            "false_cleared": int(self._false[self._now].sum() - self._false[then].sum()),
            "false_left": int(self._false[then].sum()),
            "incidents_lost": len(was) - len(is_now),
            "incidents_left": len(is_now),
            "delay_added": delay,
            "episodes_cleared": self._now.size - then.size,
        }

    def _detected(self, alerts: Ints) -> dict[int, int]:
        """Each incident that these alerts detect, with the actions since its onset at the first."""
        inside = alerts[self._incident[alerts] >= 0]
        found: dict[int, int] = {}
        for incident, since in zip(
            self._incident[inside].tolist(), self._since[inside].tolist(), strict=True
        ):
            found[incident] = min(since, found.get(incident, _BASE))
        return found

    def offered(self) -> list[Fix]:
        """Changes for everyone that are worth a look: what false alerts (all, without labels) ask for most."""
        most = int(self.excess.max(initial=0))
        fixes = [self.later(events) for events in range(1, min(most, MOST_LATER) + 1)]
        deepest = int(self.least_period.max(initial=1))
        fixes += [self.longest(period) for period in range(deepest - 1, 0, -1)]
        wrong = self._false if self.labelled else np.ones(self._false.size, dtype=bool)
        rows = self._rows(self._now[wrong[self._now]])
        fixes += [fix for _, fix in rows if fix.kind not in ("threshold", "period")]
        named: dict[str, tuple[int, Fix]] = {}
        for fix in fixes:
            named[fix.text] = (named.get(fix.text, (0, fix))[0] + 1, fix)
        often = sorted(named.values(), key=lambda pair: (-pair[0], pair[1].text))
        taken: dict[str, int] = {}
        chosen = []
        for _, fix in often:
            taken[fix.kind] = taken.get(fix.kind, 0) + 1
            if taken[fix.kind] <= MOST_TOOLS:
                chosen.append(fix)
        return chosen

    def _rows(self, alerts: Ints) -> Iterator[tuple[int, Fix]]:
        """Smallest change of every kind that clears each episode of these alerts."""
        of_episode = self.found.of_episode
        begins = np.searchsorted(of_episode, of_episode[alerts])
        ends = np.searchsorted(of_episode, of_episode[alerts], side="right")
        known: dict[tuple[Any, ...], Fix] = {}
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            episode = int(of_episode[begin])
            for ask in self._asked(episode, slice(begin, end)):
                if ask not in known:
                    known[ask] = getattr(self, ask[0])(*ask[1:])
                if not known[ask].kept[begin:end].any():
                    yield episode, known[ask]

    def _asked(self, episode: int, mine: slice) -> Iterator[tuple[Any, ...]]:
        yield "later", int(self.excess[mine].max()) + 1
        least = int(self.least_period[mine].min())
        if least > 1:
            yield "longest", least - 1
        tools = self.found.episodes["tools"][episode].drop_nulls().unique().sort().to_list()
        yield from (("exempt", tool) for tool in tools)
        attempts = self.retried[mine]
        if not attempts["tool"].has_nulls() and attempts["tool"].n_unique() == 1:
            errors = attempts["errors"].explode().unique().sort().to_list()
            yield (
                "policy",
                attempts["tool"][0],
                tuple(errors),
                attempts["attempts"].max(),
                max(0, attempts["least_gap_us"].min()),  # type: ignore[type-var]
            )
        if (self.ages[mine] >= 0).all():
            yield "wait", int(self.ages[mine].max())

    def rows(self, episodes: Sequence[int] | None = None) -> pl.DataFrame:
        """`CASE_FIXES` of every episode, or of those with these numbers."""
        of_episode = self.found.of_episode
        wanted = np.unique(of_episode) if episodes is None else np.asarray(episodes, dtype=np.int64)
        prices: dict[str, dict[str, int | None]] = {}
        told: list[dict[str, Any]] = []
        for episode, fix in self._rows(self._now[np.isin(of_episode[self._now], wanted)]):
            if fix.text not in prices:
                prices[fix.text] = self.price(fix.kept)
            row = {"kind": fix.kind, "change": fix.text, "value": fix.value, "tool": fix.tool}
            told.append({**self._key(episode), **row, **prices[fix.text]})
        told += [
            {**self._key(episode), **row, **self._alone(episode)}
            for episode, row in _evidence(self.found, wanted)
        ]
        return (
            pl.DataFrame(told, schema=CASE_FIXES, orient="row")
            .sort("run_id", "agent", "alert_seq", "kind", "change")
            .select(CASE_FIXES.names())
        )

    def _key(self, episode: int) -> dict[str, Any]:
        return self.found.episodes.select("run_id", "agent", "alert_seq").row(episode, named=True)

    def _alone(self, episode: int) -> dict[str, int | None]:
        """Price of a change of one episode's own evidence."""
        return self.price(self.found.of_episode != episode)

    def table(self) -> pl.DataFrame:
        """`CHANGES` of every change `offered`, the cheapest first: incidents lost, then false alerts cleared."""
        rows = [{"change": fix.text, "kind": fix.kind, **self.price(fix.kept)} for fix in self.offered()]
        return pl.DataFrame(rows, schema=CHANGES, orient="row").sort(
            "incidents_lost", "false_cleared", "delay_added", "change", descending=[False, True, False, False]
        )

    def cheapest(self, *, most: int = 5) -> pl.DataFrame:
        """Fixes one after the other, each on top of those before: `CHANGES`, with what it adds and what is left then.

        Each time the one that clears most false alerts for the fewest incidents, and among equals delays the others
        least; it ends where none clears more false alerts than it loses incidents.
        """
        left, offered = np.ones(self.found.stuck.height, dtype=bool), self.offered()
        rows: list[dict[str, Any]] = []
        before = self.price(left)
        for _ in range(most):
            tried = [(fix, self.price(left & fix.kept)) for fix in offered]
            gains = [(_more(new, before), fix, new) for fix, new in tried]
            good = [each for each in gains if each[0]["false_cleared"] > each[0]["incidents_lost"]]
            if not good:
                break
            gain, fix, new = min(
                good,
                key=lambda each: (
                    each[0]["incidents_lost"] - each[0]["false_cleared"],
                    each[0]["incidents_lost"],
                    each[2]["delay_added"] or 0,
                    each[1].text,
                ),
            )
            rows.append({"change": fix.text, "kind": fix.kind, **new, **gain})
            left, before = left & fix.kept, new
            offered.remove(fix)
        return pl.DataFrame(rows, schema=CHANGES, orient="row")


def _more(new: dict[str, int | None], before: dict[str, int | None]) -> dict[str, int]:
    """What the last change adds."""
    names = ("false_cleared", "incidents_lost", "episodes_cleared")
    return {name: (new[name] or 0) - (before[name] or 0) for name in names}


def _evidence(found: StuckEvents, episodes: Ints) -> Iterator[tuple[int, dict[str, Any]]]:
    """Changes of evidence that clear each of these episodes.

    Evidence that is new from event j on leaves ``i - j + 1`` events of a stretch that ends at i: a stuck event is
    cleared by a change at any of its last ``T - 1`` events but the first of the stretch. So the events are intervals,
    one change clears them all where they meet, and the fewest changes are the fewest points that meet each interval.
    """
    held = found.held.with_columns(
        low=pl.max_horizontal(pl.col("row") - pl.col("threshold") + 2, pl.col("row") - pl.col("stretch") + 2),
        episode=pl.Series(found.of_episode[found.held["event"].to_numpy()]),
    ).filter(pl.col("episode").is_in(pl.Series(episodes).implode()))
    seq = found.lanes["seq"]
    for (episode,), mine in held.group_by("episode", maintain_order=True):
        if not mine["compares"].all():
            continue
        points = fewest_points(mine["low"].to_list(), mine["row"].to_list())
        first, last = int(mine["low"].max()), int(mine["row"].min())  # type: ignore[arg-type]
        alone = first <= last
        said = (
            f"new evidence from one event on, any of {seq[first]} to {seq[last]}"
            if alone
            else f"new evidence at {_plural(len(points), 'event')} at least"
        )
        yield (
            int(episode),
            {
                "kind": "evidence",
                "change": said,
                "value": len(points),
                "seqs": [seq[point] for point in points],
                "from_seq": seq[first] if alone else None,
                "to_seq": seq[last] if alone else None,
            },
        )


def fewest_points(low: Sequence[int], high: Sequence[int]) -> list[int]:
    """Fewest points that meet every interval ``low..high``.

    Examples
    --------
    >>> fewest_points([1, 2, 6], [4, 5, 9])
    [4, 9]
    """
    points: list[int] = []
    for begin, end in sorted(zip(low, high, strict=True), key=lambda pair: pair[1]):
        if not points or points[-1] < begin:
            points.append(end)
    return points


def case_fixes(
    events: pl.LazyFrame,
    episodes: pl.DataFrame,
    verdicts: pl.DataFrame,
    rule: Rule | RuleBook,
    *,
    truth: pl.DataFrame | None = None,
    policies: Policies | None = None,
    handoffs: pl.DataFrame | None = None,
    actions: Sequence[str] = ACTIONS,
) -> Counterfactuals:
    """Find what clears each episode; ``.rows()``, ``.offered()`` and ``.cheapest()`` are its tables."""
    found = StuckEvents.of(events, episodes, verdicts, rule, actions=actions)
    return Counterfactuals(found, truth=truth, policies=policies, handoffs=handoffs)


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
