"""Cases: one episode each, with its strip of actions, why it was flagged, and what would have cleared it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.calibrate.counterfactual_cases import Counterfactuals, case_fixes
from agentlens.errors import SettingsError
from agentlens.report.document import Badge, Case, Link, Step
from agentlens.report.links import address
from agentlens.report.material import costed
from agentlens.report.page import evidence_of, tools_of
from agentlens.report.stretches import stretches
from agentlens.report.strip import strip
from agentlens.report.words import count, duration, money, plural, shortened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.report.document import Cell
    from agentlens.report.material import Material
    from agentlens.report.strip import Strip

CASES: Final = 60
STEPS: Final = 40
_MARK: Final = {"new": "◆", "seen before": "○", "unknown": "✕"}
_RECEIPTS: Final = (("delegated_at", "D"), ("accepted_at", "A"), ("completed_at", "C"), ("verified_at", "V"))
HOW: Final = (
    "Each column of a strip is one action. Its letter names the action (equal letters are equal actions) on the colour"
    " of its verdict; below it the lap and the step in it, then the evidence (◆ not seen before in the lane, ○ seen"
    " before, ✕ not known), then receipts up to there (D delegated, A accepted, C completed, V verified). The line"
    " above is the episode from its onset, the triangle its alert, the line below the window the alert was judged on."
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What cases are made on: judged data, alerts under changes, and what repeats by chance.

    ``events``, ``verdicts``: of the lanes that hold an episode. ``episodes``: of `costed`, numbered as ``changes``
    numbers them. ``stuck``: `HOLDS` of their stuck events where a period holds, with the ``episode``. ``distinct``:
    effective actions by period; ``unchanged``: share of repeated actions that saw the same again. ``notes``: tags of
    an episode (a label, a cause) by run, lane and onset.
    """

    made: Material
    events: pl.DataFrame
    verdicts: pl.DataFrame
    episodes: pl.DataFrame
    changes: Counterfactuals
    stuck: pl.DataFrame
    distinct: tuple[float, ...]
    unchanged: float
    notes: Mapping[tuple[str, str, int], tuple[Cell, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, made: Material, truth: pl.DataFrame | None = None) -> Bench:
        """Measure the lanes that hold an episode."""
        found = costed(made)
        lanes = found.select("run_id", "agent").unique()
        events = made.events.join(lanes.lazy(), on=["run_id", "agent"], how="semi").collect()
        holds = stretches(events.lazy(), made.book, made.actions)
        distinct, unchanged = effective_actions(made)
        changes = case_fixes(
            events.lazy(),
            made.episodes,
            made.verdicts,
            made.book,
            truth=truth,
            policies=made.policies,
            handoffs=made.boundaries.get("handoffs"),
            actions=made.actions,
        )
        key = ["run_id", "agent", "alert_seq"]
        numbers = changes.found.episodes.select("episode", *key)
        stuck = changes.found.stuck.select("episode", "run_id", "agent", "seq")
        holding = holds.filter(pl.col("excess") >= 0)
        return cls(
            made=made,
            events=events,
            verdicts=made.verdicts.join(lanes, on=["run_id", "agent"], how="semi"),
            episodes=found.join(numbers, on=key, how="left", maintain_order="left"),
            changes=changes,
            stuck=stuck.join(holding, on=["run_id", "agent", "seq"]).sort("episode", "seq", "period"),
            distinct=distinct,
            unchanged=unchanged,
        )


def effective_actions(made: Material) -> tuple[tuple[float, ...], float]:
    """Effective number of actions by period, and the share of repeated actions that saw the same again.

    One over the chance that a step repeats the one p before it, estimated as a chain from the runs without an alert;
    empty, and 1, where none of them has two known actions in a row.
    """
    from agentlens.calibrate.chance import estimate

    calm = made.runs.filter(pl.col("alerts") == 0).select("run_id")
    columns = ("run_id", "agent", "seq", "action_signature", "progress_fingerprint")
    chosen = made.events.filter(pl.col("kind").is_in(made.actions)).join(calm.lazy(), on="run_id", how="semi")
    try:
        estimated = estimate(chosen.select(columns).collect())
    except SettingsError:
        return (), 1.0
    same = [estimated.chain.again(p) for p in range(1, made.book.default.max_period + 1)]
    return tuple(1 / each if each > 0 else math.inf for each in same), estimated.u_lap


def make_case(bench: Bench, row: dict[str, Any], number: int) -> Case:
    """Tell one episode (a row of ``bench.episodes``)."""
    made = bench.made
    lane = strip(
        bench.events,
        bench.verdicts,
        made.episodes,
        run_id=row["run_id"],
        agent=row["agent"],
        max_events=STEPS,
        around=row["onset_seq"],
    )
    peak = _peak(bench, row)
    title = f"{number}. {shortened(row['run_id'], 60)}" + (
        f", {shortened(row['agent'], 30)}" if row["agent"] else ""
    )
    key = (row["run_id"], row["agent"], row["onset_seq"])
    return Case(
        anchor=f"case-{number}",
        title=title,
        tags=(Badge(word="stuck_loop"), *bench.notes.get(key, ())),
        text=(why(row, peak), *_after(bench, row)),
        steps=tuple(_steps(lane, row, peak, made.boundaries.get("handoffs"))),
        facts=(("Letters", letters(lane)), *_facts(bench, row, peak)),
        revealed=_revealed(made, row),
    )


def letters(lane: Strip) -> str:
    """Say which tool each letter of a strip stands for; letters that stand for one tool are different arguments."""
    tools = {step["letter"]: shortened(step["tool"] or "?", 40) for step in lane.steps}
    return ", ".join(f"{letter}: {tool}" for letter, tool in tools.items())


def _peak(bench: Bench, row: dict[str, Any]) -> dict[str, Any]:
    """The stuck event of the episode at which the loop's own period has its longest stretch, and that of the alert."""
    mine = bench.stuck.filter(
        (pl.col("episode") == row["episode"]) & (pl.col("period") == row["period"])
    ).sort("stretch", "seq", descending=[True, False])
    alert = mine.filter(pl.col("seq") == row["alert_seq"])
    top = mine.row(0, named=True)
    return {**top, "at_alert": (alert if alert.height else mine).row(0, named=True)}


def why(row: dict[str, Any], peak: dict[str, Any]) -> str:
    """One sentence with the numbers: what repeated, how long, and what that was held against."""
    first = peak["at_alert"]
    return (
        f"Flagged at event {row['alert_seq']} because {tools_of(row)} (period {row['period']}) had repeated over"
        f" S = {first['stretch']} actions, at least T = {first['threshold']}, with the same evidence for"
        f" {first['evidence']} ({evidence_of(row)}); it reached S = {peak['stretch']},"
        f" {plural(row['laps'], 'lap')}, from event {row['onset_seq']} to {row['end_seq']}."
    )


def _after(bench: Bench, row: dict[str, Any]) -> tuple[str, ...]:
    mine = (pl.col("run_id") == row["run_id"]) & (pl.col("agent") == row["agent"])
    later = bench.verdicts.filter(mine & (pl.col("seq") > row["end_seq"]))
    closed = {
        "evidence": "new evidence closed it",
        "milestone": "a milestone closed it",
        "outcome": "an outside check that passed closed it",
        "other_loop": "another loop took over",
        None: "nothing closed it: the lane ended in it",
    }[row["closed_by"]]
    said = f"What happened next: {closed}; {plural(later.height, 'action')} of the lane followed"
    if later.height:
        said += f", the last of them {later['verdict'][-1]}"
    claims = bench.made.boundaries.get("claims")
    if claims is not None:
        told = claims.filter(pl.col("run_id") == row["run_id"]).select("claimed", "outcome").rows()
        if told and told[0][1] is not None:
            said += f"; outcome of the run by something outside the agent: {told[0][1]}"
        if told and told[0][0] is not None:
            said += f"; the agent claimed {told[0][0]}, which is no evidence"
    return (said + ".",)


def _facts(bench: Bench, row: dict[str, Any], peak: dict[str, Any]) -> list[tuple[str, Cell]]:
    first = peak["at_alert"]
    facts: list[tuple[str, Cell]] = [("Binding factor", _binding(first))]
    distinct = bench.distinct[row["period"] - 1] if row["period"] <= len(bench.distinct) else math.inf
    if 1 < distinct < math.inf:
        compared = first["threshold"] - row["period"]
        surprise = compared * math.log10(distinct)
        said = f"{surprise:.1f} = {compared} comparisons × log10({distinct:.1f} effective actions)"
        facts.append(
            ("Chance surprise", f"{said}: about 1 in 10^{surprise:.1f} windows repeats so by coincidence")
        )
    spent = [f"{count(row['loop_events'])} actions", duration(row["stuck_us"])]
    spent += [f"{count(row['tokens'])} tokens", money(row["cost_usd"])]
    facts.append(("Spent inside", ", ".join(spent)))
    facts += [(f"Cleared by: {change}", price) for change, price in counterfactuals(bench, row["episode"])]
    link = address(bench.made.link, row["run_id"], row["trace_id"])
    if link:
        facts.append(("Trace", Link(text="open in your trace viewer", url=link)))
    return facts


def _binding(first: dict[str, Any]) -> str:
    acts, seen = first["actions"], first["evidence"]
    if acts < seen:
        return f"action: the actions had repeated for {acts}, the evidence for {seen} already"
    if seen < acts:
        return f"evidence: the actions had repeated for {acts} already, the evidence for {seen}"
    return f"both: actions and evidence had repeated for {acts}"


def counterfactuals(bench: Bench, episode: int) -> list[tuple[str, str]]:
    """Pairs of a change that clears this episode and its price elsewhere."""
    fixes = bench.changes.rows([episode]).rows(named=True)
    return [(fix["change"], _price(fix, labelled=bench.changes.labelled)) for fix in fixes]


def _price(fix: dict[str, Any], *, labelled: bool) -> str:
    if fix["kind"] == "evidence":
        return "a matter of this run: finer evidence there, or real progress"
    if not labelled:
        return (
            f"clears {plural(fix['episodes_cleared'] - 1, 'other episode')} too; what that loses needs labels"
        )
    later = f", the others found {plural(fix['delay_added'], 'action')} later" if fix["delay_added"] else ""
    return (
        f"clears {plural(fix['false_cleared'], 'false alert')} in all,"
        f" loses {fix['incidents_lost']} of {fix['incidents_lost'] + fix['incidents_left']} incidents{later}"
    )


def _steps(
    lane: Strip, row: dict[str, Any], peak: dict[str, Any], handoffs: pl.DataFrame | None
) -> list[Step]:
    receipts = _receipts(lane, row["run_id"], handoffs)
    inside = [step for step in lane.steps if row["onset_seq"] <= step["seq"] <= row["end_seq"]]
    laps = {step["seq"]: divmod(at, row["period"]) for at, step in enumerate(inside)}
    whole = row["laps"] * row["period"]
    before = [step["seq"] for step in lane.steps if step["seq"] <= row["alert_seq"]]
    window = set(before[-peak["at_alert"]["threshold"] :])
    steps = []
    for step in lane.steps:
        seq = step["seq"]
        marks = [
            name
            for name, there in (
                ("inside", row["onset_seq"] <= seq <= row["end_seq"]),
                ("window", seq in window),
                ("onset", seq == row["onset_seq"]),
                ("alert", seq == row["alert_seq"]),
            )
            if there
        ]
        lap = laps.get(seq)
        placed = (
            "" if lap is None or lap[0] * row["period"] + lap[1] >= whole else f"{lap[0] + 1}.{lap[1] + 1}"
        )
        got = receipts.get(seq, "")
        said = [
            f"event {seq}",
            f"{shortened(step['tool'] or '?', 40)} ({step['letter']})",
            f"result {step['evidence']}",
        ]
        said += [step["verdict"] + (f", {step['reason']}" if step["reason"] else "")]
        said += [f"lap {placed.replace('.', ' step ')}"] if placed else []
        said += [f"receipts {got}"] if got else []
        said += [name for name in marks if name in {"onset", "alert"}]
        steps.append(
            Step(
                seq=seq,
                letter=step["letter"],
                lap=placed,
                evidence=_MARK[step["evidence"]],
                receipt=got,
                verdict=step["verdict"],
                marks=tuple(marks),
                said=" · ".join(said),
            )
        )
    return steps


def _receipts(lane: Strip, run_id: str, handoffs: pl.DataFrame | None) -> dict[int, str]:
    """Letters of the receipts of the run's handoffs, each at the last action before it."""
    times = [(step["at"], step["seq"]) for step in lane.steps if step["at"] is not None]
    if handoffs is None or not times:
        return {}
    found: dict[int, str] = {}
    mine = handoffs.filter(pl.col("run_id") == run_id).sort("handoff_id")
    for row in mine.iter_rows(named=True):
        for name, letter in _RECEIPTS:
            before = [seq for at, seq in times if row[name] is not None and at <= row[name]]
            if before and letter not in found.get(before[-1], ""):
                found[before[-1]] = found.get(before[-1], "") + letter
    return found


def _revealed(made: Material, row: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    mine = [
        (seq, text)
        for (run, agent, seq), text in made.revealed.items()
        if (run, agent) == (row["run_id"], row["agent"]) and row["onset_seq"] <= seq <= row["alert_seq"]
    ]
    return tuple((f"Raw content of event {seq} (from the source)", text) for seq, text in sorted(mine))
