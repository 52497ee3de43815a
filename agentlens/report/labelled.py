"""The report with labels: can the rule be trusted, where is it wrong, and what would mending it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.calibrate.intervals import clopper_pearson
from agentlens.calibrate.labels import labels_digest
from agentlens.calibrate.ppv import predictive_values
from agentlens.calibrate.truth import strongest
from agentlens.report import charts
from agentlens.report.causes import cause_counts, causes
from agentlens.report.document import Picture, Section
from agentlens.report.evaluation import truth_rows
from agentlens.report.listing import chance, listing, share
from agentlens.report.misses import near_misses
from agentlens.report.sampling import draw, with_controls
from agentlens.report.slices import LEAST, slices
from agentlens.report.words import count, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.report.cases import Bench
    from agentlens.report.evaluation import Evaluation
    from agentlens.report.triage import Part

_NO_PROMISE: Final = (
    "These numbers describe the labelled runs; they promise nothing of others. agentlens calibrate tests a rule, and"
    " certifies it or refuses."
)
_VOID: Final = "It is void when normaliser, fingerprint, key or label version changes."


def verdict_box(found: Evaluation, profile: Mapping[str, Any] | None, base_rate: float) -> Part:
    """Part 1: the rule, its status, and the numbers that matter, each with its counts and interval."""
    force = found.force()
    status, told = _status(found, profile)
    worth = _worth(force, base_rate)
    rows = [
        (
            "false-positive rate per healthy run, averaged over task groups",
            force["fpr"],
            force["fpr_low"],
            force["fpr_high"],
            _counted(force),
        ),
        ("the same if uncertain counted as an alert", force["fpr_if_uncertain"], None, None, ""),
        (
            "incidents detected",
            force["detection"],
            force["detection_low"],
            force["detection_high"],
            f"{force['detected']} of {force['incidents']}",
        ),
        (
            f"detected within {found.looking.within_events} events of the onset",
            force["detection_within"],
            force["detection_within_low"],
            None,
            f"{force['detected_within'] or 0} of {force['incidents_with_onset']} with an onset",
        ),
        *((f"an alert is an incident, at a base rate of {share(base_rate)}", *row, "") for row in worth),
    ]
    shares = pl.DataFrame(
        rows,
        schema=["measure", "value", "low", "high", "counts"],
        orient="row",
        schema_overrides=dict.fromkeys(("value", "low", "high"), pl.Float64),
    )
    numbers = [
        ("false alerts per 1,000 healthy events", force["per_1000_events"]),
        ("false alerts per active agent-hour", force["per_active_hour"]),
        ("median delay in events (misses are never)", force["median_delay_events"]),
        (f"mean delay in events, at most {found.looking.longest_events}", force["restricted_delay_events"]),
        ("alerts per detected incident", force["alerts_per_incident"]),
        ("events from the end of an incident until the state is off, median", force["median_reset_events"]),
    ]
    plain = pl.DataFrame(
        numbers, schema={"measure": pl.String, "value": pl.Float64}, orient="row", strict=False
    )
    table = listing(
        shares,
        [
            ("measure", "share", "text"),
            ("value", "estimate", "share"),
            ("low", "from", "share"),
            ("high", "to", "share"),
            ("counts", "counts", "text"),
        ],
        caption="Rates of the rule in force on the labelled runs (95 % intervals)",
        note=("Fewer than 20 healthy runs or incidents: read these as counts." if force["thin"] else ""),
    )
    other = listing(
        plain, [("measure", "measure", "text"), ("value", "value", "number")], caption="Burden and delay"
    )
    section = Section(
        anchor="verdict",
        title="Can the rule be trusted?",
        text=(status, *told),
        table=table,
        parts=(Section(anchor="burden", title="Burden and delay", table=other),),
    )
    return (section,), {"verdict_box": shares, "burden": plain}


def _counted(force: dict[str, Any]) -> str:
    runs, groups = plural(force["healthy_runs"], "run"), plural(force["healthy_groups"], "group")
    return f"{force['alarmed_runs']} of {runs} in {groups}"


def _status(found: Evaluation, profile: Mapping[str, Any] | None) -> tuple[str, tuple[str, ...]]:
    rule = str(found.force()["rule"])
    if profile is None:
        return (
            f"{rule[:1].upper()}{rule[1:]}, without a certificate.",
            (_NO_PROMISE,),
        )
    box, bounds = profile["profile"], profile.get("bounds", {})
    limited = (
        "false share of alarms" if box.get("objective") == "share" else "false-positive rate per healthy run"
    )
    asked = (
        f"Asked for: at most {share(box.get('max_fpr'))} ({limited}), wrong with a chance of at most"
        f" {share(box.get('delta'))}; p = {chance(box.get('p_value'))}."
    )
    told = [asked]
    if bounds:
        told.append(
            f"When it was calibrated: {share(bounds.get('fpr'))} (up to {share(bounds.get('fpr_high'))}) on"
            f" {count(bounds.get('healthy_runs'))} healthy runs; {count(bounds.get('detected'))} of"
            f" {count(bounds.get('incidents'))} incidents detected."
        )
    told += _tested(profile)
    if box.get("more_groups"):
        told.append(f"{count(box['more_groups'])} more task groups like these would certify it.")
    if profile["versions"].get("labels") == labels_digest(found.labels):
        told.append(
            "The labels are those it was calibrated on: what stands below was part of choosing it, and flatters it."
        )
    return f"{rule[:1].upper()}{rule[1:]}: {box['status']}. {_VOID}", tuple(told)


def _tested(profile: Mapping[str, Any]) -> list[str]:
    """Say what the test split showed, and how often it was looked at, where the calibration's tables are at hand."""
    test, name = profile.get("tables", {}).get("test"), profile.get("default", {}).get("name")
    looks = profile.get("made", {}).get("test_openings")
    if test is None or looks is None or test.filter(pl.col("rule") == name).is_empty():
        return []
    row = test.filter(pl.col("rule") == name).row(0, named=True)
    said = (
        f"On the test split, opened {plural(looks, 'time')}: {count(row['alarmed_runs'])} of"
        f" {plural(row['healthy_runs'], 'healthy run')} alarmed ({share(row['fpr'])}, up to {share(row['fpr_high'])});"
        f" {count(row['detected'])} of {plural(row['incidents'], 'incident')} detected."
    )
    return [said]


def _worth(force: dict[str, Any], base_rate: float) -> list[tuple[float | None, float | None, float | None]]:
    if not force["incidents"] or not force["healthy_runs"]:
        return []
    found = clopper_pearson(force["detected"], force["incidents"], 0.975)
    false = clopper_pearson(force["alarmed_runs"], force["healthy_runs"], 0.975)
    row = predictive_values(found, false, [base_rate]).row(0, named=True)
    return [(row["ppv"], row["ppv_low"], row["ppv_high"])]


def data_ledger(bench: Bench, found: Evaluation) -> Part:
    """Part 2: what was looked at, by label."""
    made, board = bench.made, found.board
    state = board.runs.select("run_id", "state", "task_group")
    kept = strongest(found.labels)
    excluded = (
        kept.filter(pl.col("label") == "exclude")
        .select("run_id")
        .unique()
        .with_columns(excluded=pl.lit("excluded"))
    )
    sizes = made.runs.select(
        "run_id",
        "events",
        "alerts",
        (pl.col("ended_at") - pl.col("started_at")).dt.total_microseconds().alias("us"),
    )
    rows = (
        sizes.join(state, on="run_id", how="left")
        .join(excluded, on="run_id", how="left")
        .with_columns(label=pl.coalesce("state", "excluded", pl.lit("unlabelled")))
        .group_by("label")
        .agg(
            pl.len().cast(pl.Int64).alias("runs"),
            pl.col("task_group").drop_nulls().n_unique().cast(pl.Int64).alias("groups"),
            pl.col("events").sum(),
            (pl.col("us").sum() / 3_600_000_000).alias("run_hours"),
            (pl.col("alerts") > 0).sum().cast(pl.Int64).alias("flagged_runs"),
        )
        .with_columns((pl.col("flagged_runs") / pl.col("runs")).alias("flagged_share"))
        .sort("label")
    )
    sources = (
        kept.group_by("source", "label")
        .agg(
            runs=pl.col("run_id").n_unique().cast(pl.Int64),
            found_by=pl.col("found_by").drop_nulls().unique().sort(),
        )
        .sort("source", "label")
    )
    text = ["Unlabelled is neither healthy nor an incident: its alert rate stands here and nowhere else."]
    if found.left_out:
        text.append(f"{plural(found.left_out, 'labelled run')} lie outside the selection and are left out.")
    first = listing(
        rows,
        [
            ("label", "label", "text"),
            ("runs", "runs", "count"),
            ("groups", "task groups", "count"),
            ("events", "actions", "count"),
            ("run_hours", "hours of runs", "number"),
            ("flagged_runs", "flagged", "count"),
            ("flagged_share", "share", "share"),
        ],
        caption="Runs by what is asserted of them",
    )
    second = listing(
        sources,
        [
            ("source", "asserted by", "text"),
            ("label", "label", "text"),
            ("runs", "runs", "count"),
            ("found_by", "found by", "text"),
        ],
        caption="Where the assertions come from",
        note="Recall on incidents that the rule itself pointed at says little.",
    )
    section = Section(
        anchor="ledger",
        title="Data ledger",
        text=tuple(text),
        table=first,
        parts=(Section(anchor="sources", title="Sources of labels", table=second),),
    )
    return (section,), {"ledger": rows, "label_sources": sources}


def why_false(bench: Bench, found: Evaluation) -> tuple[Part, pl.DataFrame]:
    """Part 4: every false alert under one cause; also gives them one by one."""
    alerts = causes(bench, found)
    counts = cause_counts(alerts)
    table = listing(
        counts,
        [
            ("cause", "cause", "text"),
            ("alerts", "alerts", "count"),
            ("share", "share", "share"),
            ("example", "for example", "text"),
            ("what", "what it means, what to do", "text"),
        ],
        caption="Causes of false alerts: each alert has the first that fits",
    )
    text = (
        f"{plural(alerts.height, 'false alert')}: on healthy runs, or on healthy events before an incident began.",
    )
    section = Section(anchor="causes", title="Causes of false alerts", text=text, table=table)
    return ((section,), {"causes": counts, "false_alerts": alerts}), alerts


def where_false(bench: Bench, found: Evaluation) -> Part:
    """Part 5: slices."""
    frame = slices(bench.made, found)
    table = listing(
        frame.filter(~pl.col("thin")),
        [
            ("by", "by", "text"),
            ("slice", "slice", "text"),
            ("alarmed_runs", "false runs", "count"),
            ("healthy_runs", "of", "count"),
            ("healthy_groups", "groups", "count"),
            ("rate", "rate", "share"),
            ("high", "up to", "share"),
            ("shrunken", "shrunken", "share"),
            ("p_holm", "p (Holm)", "p"),
            ("holm_low", "at least", "share"),
        ],
        caption="False-positive rate by slice, the worst first",
        note=f"Slices of fewer than {LEAST} healthy runs are in the tables, without a rate.",
    )
    text = (
        "A slice is worse than the rest only where p, adjusted for having looked at all of them, is small. At least:"
        " the lower limit that holds for all slices at once. Shrunken: what to expect of the slice next time."
    )
    section = Section(anchor="slices", title="Where alerts are false", text=(text,), table=table)
    return (section,), {"slices": frame}


def fixes(bench: Bench, calibrated: pl.DataFrame | None = None) -> Part:
    """Part 7: what would clear false alerts, and its price; ``calibrated``: what a calibration found on its splits."""
    table, steps = bench.changes.table(), bench.changes.cheapest()
    shown = [
        ("change", "change", "text"),
        ("false_cleared", "false alerts cleared", "count"),
        ("false_left", "left", "count"),
        ("incidents_lost", "incidents lost", "count"),
        ("incidents_left", "left", "count"),
        ("delay_added", "actions later, median", "count"),
    ]
    text = (
        "Exact on these runs: the detector under the change would say the same. A change that is chosen here is a new"
        " hypothesis, and needs a certificate from runs that did not suggest it."
    )
    parts = [
        Section(
            anchor="changes",
            title="One change at a time",
            picture=Picture.of(charts.fixes(table)) if table.height else None,
            table=listing(table, shown, caption="Changes, the cheapest first"),
        )
    ]
    if calibrated is not None and calibrated.height:
        parts.append(_calibrated_fixes(calibrated))
    if steps.height:
        note = "Each on top of those above it, while it clears more false alerts than it loses incidents."
        parts.append(
            Section(
                anchor="greedy",
                title="Cheapest fixes, one after the other",
                table=listing(steps, shown[:-1], caption="In this order", note=note),
            )
        )
    section = Section(
        anchor="fixes", title="What would mend it, and its price", text=(text,), parts=tuple(parts)
    )
    return (section,), {"counterfactuals": table, "fixes": steps}


def _calibrated_fixes(table: pl.DataFrame) -> Section:
    """Show fixes that the calibration priced on explore and certify, of whatever kinds there are."""
    columns = [
        ("fix", "change", "text"),
        ("kind", "kind", "text"),
        ("suggested_by", "asked for by", "count"),
        ("false_alerts_cleared", "false alerts cleared", "count"),
        ("incidents_lost", "incidents lost", "count"),
        ("true_alarms_lost", "true alarms lost", "count"),
        ("added_delay_events", "actions later, mean", "number"),
    ]
    return Section(
        anchor="calibrated-fixes",
        title="What the calibration tried",
        text=(
            "Each change was judged anew on the runs of explore and certify; the test split had no part in it.",
        ),
        picture=Picture.of(charts.fixes(table)),
        table=listing(
            table,
            [column for column in columns if column[0] in table.columns],
            caption="Fixes, the cheapest first",
            note="Asked for by: false alerts that the change was made for.",
        ),
    )


def missed(bench: Bench, found: Evaluation) -> Part:
    """Part 8: near misses."""
    frame = near_misses(bench.made, found)
    table = listing(
        frame,
        [
            ("run_id", "run", "text"),
            ("agent", "agent", "text"),
            ("kind", "kind", "text"),
            ("actions", "actions", "count"),
            ("period", "period", "count"),
            ("stretch", "came to", "count"),
            ("needed", "of", "count"),
            ("nearest_seq", "at event", "count"),
            ("broken_at", "broken at", "count"),
            ("broken_by", "by", "text"),
            ("near", "with one edit", "count"),
            ("edit", "edit", "text"),
            ("edit_seq", "of event", "count"),
        ],
        caption="Silent incidents, the nearest first",
        note="Masked: long enough, and a lease, a retry or a failure went before the loop. With one edit: how long the"
        " repetition inside the incident would be with one event put in, replaced or left out; by chance such stretches"
        " are some tens of times more frequent, so it is no detection.",
    )
    text = (
        f"{plural(frame.height, 'incident')} without an alert inside."
        if frame.height
        else "Every incident was detected."
    )
    section = Section(
        anchor="misses",
        title="Near misses",
        text=(text,),
        picture=Picture.of(charts.near_misses(frame)) if frame.height else None,
        table=table if frame.height else None,
    )
    return (section,), {"near_misses": frame}


def queue(bench: Bench, found: Evaluation) -> Part:
    """Part 9: what to review next."""
    labelled = found.board.runs.select("run_id")
    open_runs = draw(bench.made.runs.join(labelled, on="run_id", how="anti"))
    wrong = found.alerts.filter(pl.col("false")).select(pl.col("run_id").unique().sort())
    again = bench.made.runs.join(wrong, on="run_id", how="semi")
    doubted = draw(again).with_columns(stratum=pl.lit("false alarm")) if again.height else open_runs.clear()
    calm = bench.made.runs.filter((pl.col("alerts") == 0) & (pl.col("events") > 0)).join(
        found.board.runs.filter(pl.Series(found.board.healthy)).select("run_id"), on="run_id", how="semi"
    )
    frame = with_controls(pl.concat([doubted, open_runs]), calm)
    table = listing(
        frame,
        [
            ("run_id", "run", "text"),
            ("stratum", "why", "text"),
            ("taken", "drawn", "count"),
            ("of", "of", "count"),
            ("probability", "probability", "share"),
        ],
        caption="Runs to review next",
        note="agentlens review mixes them, hides which is which, and reads the decisions back.",
    )
    text = (
        "A hidden incident among healthy labels counts as a false alarm of a rule that found it: review those first.",
    )
    section = Section(anchor="queue", title="Review queue", text=text, table=table if frame.height else None)
    return (section,), {"review_queue": frame}


def truth_of(found: Evaluation) -> pl.DataFrame:
    """Return what `agentlens.calibrate.counterfactual_cases.case_fixes` asks for."""
    return truth_rows(found.board).select("run_id", "agent", "seq", "false", "incident", "since")
