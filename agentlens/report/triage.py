"""The report without labels: where tokens, cost and time went, what is not known, and what to label first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens.calibrate.counterfactual_missing import missing_evidence
from agentlens.model.enums import Verdict
from agentlens.report import charts
from agentlens.report.cases import CASES, HOW, make_case
from agentlens.report.document import Picture, Section
from agentlens.report.listing import listing
from agentlens.report.material import by_fact, costed, lane_facts
from agentlens.report.sampling import draw
from agentlens.report.words import count, duration, listed, money, plural

if TYPE_CHECKING:
    from agentlens.report.cases import Bench
    from agentlens.report.material import Material

MISSING: Final = 20
"""So many uncertain stretches are tried with what they lack."""
STALLED: Final = 4
"""From so many actions in a row that saw one and the same result, a silent run is listed as stalled."""

Part = tuple[tuple[Section, ...], dict[str, pl.DataFrame]]
"""Sections of a page and their tables by name, for the Parquet twin."""


def triage(bench: Bench, *, cases: bool = True, sample: bool = True) -> list[Part]:
    """Parts of the loops' tab that need no labels; cases and sample can be left to those that have some."""
    made = bench.made
    parts = [_operating(made), _episodes(made)]
    parts += [case_part(bench, bench.episodes)] if cases else []
    parts += [_facts(made), _silent(made), _claims(made), _health(made)]
    return parts + ([_sample(made)] if sample else [])


def joined(parts: list[Part]) -> Part:
    """Put parts together: their sections one after the other, their tables in one mapping."""
    tables = {name: frame for _, given in parts for name, frame in given.items()}
    return tuple(section for sections, _ in parts for section in sections), tables


def _operating(made: Material) -> Part:
    runs = made.runs
    by = (
        runs.group_by("verdict")
        .agg(
            pl.len().cast(pl.Int64).alias("runs"),
            pl.col("events", "alerts", "stuck_events", "uncertain_events", "stuck_us").sum(),
            pl.when(pl.col("loop_tokens").is_not_null().any())
            .then(pl.col("loop_tokens").sum())
            .alias("loop_tokens"),
        )
        .sort("runs", "verdict", descending=[True, False])
    )
    table = listing(
        by,
        [
            ("verdict", "final verdict", "verdict"),
            ("runs", "runs", "count"),
            ("events", "actions", "count"),
            ("alerts", "alerts", "count"),
            ("stuck_events", "stuck actions", "count"),
            ("stuck_us", "time stuck", "time"),
            ("uncertain_events", "uncertain actions", "count"),
            ("loop_tokens", "tokens in loops", "count"),
        ],
        caption="Runs by final verdict",
        note="A run that was stuck and went on counts by where it ended; its episode is below.",
    )
    section = Section(
        anchor="operating", title="Runs by verdict", picture=Picture.of(charts.verdicts(runs)), table=table
    )
    return (section,), {"verdict_counts": by, "runs": runs}


def _episodes(made: Material) -> Part:
    found = costed(made)
    if found.is_empty():
        return (Section(anchor="episodes", title="Episodes", text=("No loop was found.",)),), {
            "episodes": found
        }
    table = listing(
        found,
        [
            ("run_id", "run", "text"),
            ("agent", "agent", "text"),
            ("tools", "tools of one lap", "text"),
            ("period", "period", "count"),
            ("laps", "laps", "count"),
            ("alert_seq", "alert at", "count"),
            ("loop_events", "actions", "count"),
            ("tokens", "tokens", "count"),
            ("cost_usd", "cost", "money"),
            ("stuck_us", "time", "time"),
            ("closed_by", "closed by", "text"),
        ],
        caption="Episodes, from onset to end",
        note=(
            "Costliest first; press a heading to rank by tokens, cost or time. A dash is not exported, which is not"
            " zero."
        ),
    )
    section = Section(
        anchor="episodes",
        title="Episodes by tokens, cost and time",
        text=(_spent(found),),
        picture=Picture.of(charts.episodes(found)),
        table=table,
    )
    return (section,), {"episodes": found}


def _spent(episodes: pl.DataFrame) -> str:
    """Say what went into the episodes, and which of it no export tells."""
    text = f"{plural(episodes.height, 'episode')}, each from the first action of the first lap to what closed it."
    if episodes.is_empty():
        return text
    cost = episodes.select((pl.col("cost_usd") * 1e9).round().sum() / 1e9).item()
    measures = {
        "tokens": ("tokens", f"{count(int(episodes['tokens'].sum()))} tokens"),
        "cost_usd": ("cost", money(cost)),
        "stuck_us": ("time", duration(int(episodes["stuck_us"].sum()))),
    }
    known = {name: int(episodes[name].count()) for name in measures}
    spent = [
        f"{told} (exported for {count(known[name])})" for name, (_, told) in measures.items() if known[name]
    ]
    unsaid = [word for name, (word, _) in measures.items() if not known[name]]
    return (
        text
        + (f" Into them went {listed(spent)}." if spent else "")
        + (f" No {listed(unsaid, 'or')} is exported for any." if unsaid else "")
    )


def case_part(bench: Bench, episodes: pl.DataFrame) -> Part:
    """Tell the first episodes of a frame (rows of ``bench.episodes``) one by one."""
    rows = episodes.head(CASES)
    if rows.is_empty():
        return (), {}
    cases = tuple(make_case(bench, row, number) for number, row in enumerate(rows.iter_rows(named=True), 1))
    left = episodes.height - rows.height
    more = [f"The first {rows.height}; {count(left)} further ones are in the tables."] if left else []
    return (Section(anchor="cases", title="Cases", text=(HOW, *more), cases=cases),), {}


def _facts(made: Material) -> Part:
    lanes = lane_facts(made)
    parts, tables = [], {}
    for fact, title in (
        ("name", "agent"),
        ("model", "model"),
        ("agent_version", "agent version"),
        ("workflow", "workflow"),
    ):
        summed = by_fact(lanes, fact)
        table = listing(
            summed,
            [
                (fact, title, "text"),
                ("runs", "runs", "count"),
                ("flagged_runs", "flagged", "count"),
                ("flagged_share", "share", "share"),
                ("episodes", "episodes", "count"),
                ("actions", "actions", "count"),
                ("uncertain", "uncertain", "count"),
                ("tokens", "tokens in loops", "count"),
                ("cost_usd", "cost in loops", "money"),
                ("stuck_us", "time in loops", "time"),
            ],
            caption=f"Loops by {title}",
            limit=50,
        )
        parts.append(Section(anchor=f"by-{fact.replace('_', '-')}", title=f"By {title}", table=table))
        tables[f"by_{title.replace(' ', '_')}"] = summed
    section = Section(
        anchor="by",
        title="By agent, model, version and workflow",
        text=(
            "Alerts, not loops that somebody confirmed: a share here is a place to look, not a rate of failure.",
        ),
        parts=tuple(parts),
    )
    return (section,), tables


def _silent(made: Material) -> Part:
    doubtful = made.verdicts.filter(pl.col("verdict") == str(Verdict.UNCERTAIN))
    reasons = (
        doubtful.group_by("run_id", "reason")
        .agg(pl.len().alias("events"))
        .sort("run_id", "events", "reason", descending=[False, True, False])
        .unique("run_id", keep="first", maintain_order=True)
        .select("run_id", pl.col("reason").alias("mostly"))
    )
    columns = ["run_id", "workflow", "verdict", "events", "uncertain_events", "stalled_events", "alerts"]
    uncertain = (
        made.runs.filter(pl.col("uncertain_events") > 0)
        .select(columns)
        .join(reasons, on="run_id", how="left")
        .sort("uncertain_events", "run_id", descending=[True, False])
    )
    stalled = (
        made.runs.filter((pl.col("alerts") == 0) & (pl.col("stalled_events") >= STALLED))
        .select(columns)
        .sort("stalled_events", "run_id", descending=[True, False])
    )
    shown = [
        ("run_id", "run", "text"),
        ("workflow", "workflow", "text"),
        ("verdict", "final verdict", "verdict"),
        ("events", "actions", "count"),
        ("uncertain_events", "uncertain", "count"),
        ("stalled_events", "stalled", "count"),
    ]
    missing = missing_evidence(
        made.events, made.verdicts, made.book, policies=made.policies, actions=made.actions, most=MISSING
    )
    wanted = [
        ("run_id", "run", "text"),
        ("agent", "agent", "text"),
        ("alert_seq", "uncertain from event", "count"),
        ("change", "no loop with", "text"),
    ]
    first = Section(
        anchor="uncertain",
        title="Uncertain runs",
        text=(
            (
                "Evidence or actions are missing there, so that a loop can be neither shown nor ruled out. They are"
                " neither healthy nor stuck; what is missing is a matter of the export."
            ),
        ),
        table=listing(
            uncertain, [*shown, ("mostly", "mostly for", "text")], caption="Runs with uncertain actions"
        )
        if uncertain.height
        else None,
        parts=(
            Section(
                anchor="missing",
                title="What would have had to be recorded",
                table=listing(
                    missing,
                    wanted,
                    caption=f"Evidence that would settle an uncertain stretch; the {MISSING} longest are looked at",
                ),
            ),
        )
        if missing.height
        else (),
    )
    second = Section(
        anchor="stalled",
        title="Stalled without an alert",
        text=(
            (
                f"Different actions, {STALLED} or more in a row, that all saw one and the same result: no loop, and"
                " perhaps no progress."
            ),
        ),
        table=listing(stalled, shown, caption="Silent runs with stalled actions") if stalled.height else None,
    )
    section = Section(anchor="silent", title="Uncertain and stalled runs", parts=(first, second))
    return (section,), {
        "uncertain_runs": uncertain,
        "missing_evidence": missing,
        "stalled_runs": stalled,
    }


def _claims(made: Material) -> Part:
    claims, cues = made.boundaries.get("claims"), made.boundaries.get("cues")
    if claims is None or cues is None:
        return (), {}
    wrong = claims.filter(pl.col("false_success"))
    table = listing(
        cues,
        [
            ("cue", "cue", "text"),
            ("claims", "claims", "count"),
            ("flagged", "with the cue", "count"),
            ("labelled", "outcome known", "count"),
            ("false", "false", "count"),
            ("precision", "share false", "share"),
            ("low", "from", "share"),
            ("high", "to", "share"),
        ],
        caption="Claims of success against outcomes, by cue (exact 95 % interval)",
        note="The cue claim flags every claim: the base rate. Only something outside the agent makes an outcome known.",
    )
    parts = [Section(anchor="cues", title="Cues", table=table)]
    if wrong.height:
        listed = listing(
            wrong.sort("run_id"),
            [
                ("run_id", "run", "text"),
                ("workflow", "workflow", "text"),
                ("outcome", "outcome", "text"),
                ("actions", "actions", "count"),
                ("changes", "changes", "count"),
                ("checks", "checks", "count"),
                ("no_check_after_change", "no check after the last change", "text"),
            ],
            caption="Runs that claim success and failed",
        )
        parts.append(Section(anchor="false-success", title="False successes", table=listed))
    claimed = int(claims["claimed"].eq_missing("success").sum())
    text = f"{plural(claimed, 'run')} claimed success; {count(wrong.height)} of them failed."
    section = Section(anchor="claims", title="False-success cues", text=(text,), parts=tuple(parts))
    return (section,), {"claims": claims, "cues": cues}


def _health(made: Material) -> Part:
    if made.health.is_empty():
        text = ("No tool stands out: signatures repeat, and evidence is there and changes.",)
        return (Section(anchor="health", title="Health of fingerprints", text=text),), {"health": made.health}
    table = listing(
        made.health,
        [
            ("tool", "tool", "text"),
            ("reason", "what", "text"),
            ("counted", "events", "count"),
            ("of", "of", "count"),
            ("meaning", "what it means", "text"),
        ],
        caption="Where verdicts rest on little",
    )
    return (Section(anchor="health", title="Health of fingerprints", table=table),), {"health": made.health}


def _sample(made: Material) -> Part:
    drawn = draw(made.runs)
    table = listing(
        drawn,
        [
            ("run_id", "run", "text"),
            ("stratum", "drawn from", "text"),
            ("taken", "drawn", "count"),
            ("of", "of", "count"),
            ("probability", "probability", "share"),
        ],
        caption="Runs to label first",
    )
    text = (
        "Labels are what turns this page into a statement about false alarms. Flagged runs alone would say nothing of"
        " what was missed, so silent ones are drawn beside them with a known probability; agentlens review puts them in"
        " an order that does not give away which is which."
    )
    return (Section(anchor="sample", title="A first sample to label", text=(text,), table=table),), {
        "sample": drawn
    }
