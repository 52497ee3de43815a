"""The operating picture: the rule among others, how soon it is, what chance would do, what an alert is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.calibrate.certificate import Status
from agentlens.calibrate.chance import CHANCE, chance_table, estimate
from agentlens.calibrate.delay import DETECTION_CURVE, detection_curve
from agentlens.calibrate.incident_delays import incident_delays
from agentlens.calibrate.intervals import clopper_pearson
from agentlens.calibrate.pareto import AMOC, STABILITY, amoc, selection_stability
from agentlens.calibrate.ppv import BASE_RATES, PREDICTIVE, predictive_values
from agentlens.calibrate.views import side_by_side
from agentlens.errors import SettingsError
from agentlens.report import charts
from agentlens.report.document import Picture, Section
from agentlens.report.evaluation import SPLIT
from agentlens.report.grid_charts import certified_tiles
from agentlens.report.listing import listing, share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.report.cases import Bench
    from agentlens.report.evaluation import Evaluation
    from agentlens.report.triage import Part

DRAWS: Final = 400
LIMIT: Final = 0.01
"""Rate of false alarms that a choice keeps where no profile says another: the default of calibrate."""


def picture(
    bench: Bench, found: Evaluation, base_rate: float, profile: Mapping[str, Any] | None = None
) -> Part:
    """Part 3: the rule among others: trade-off, stricter and looser neighbours, how soon, chance, worth of an alert."""
    table = found.rates
    named = list(found.named)
    box = profile["profile"] if profile else {}
    tiles = _certified(found, profile)
    sure = _choice(found, float(box.get("max_fpr", LIMIT)))
    chain = table.filter(pl.col("cell").is_in(found.chain))
    steps = (
        pl.DataFrame({"cell": list(found.chain)}, schema={"cell": pl.Int32})
        .with_row_index("step")
        .join(chain.select("cell", "rule"), on="cell", how="left", maintain_order="left")
        .with_columns(certified=pl.lit(False))
    )
    curves = _curves(found, named)
    floor = _floor(bench, found, named)
    worth = _worth_table(found.force(), base_rate)
    shown = [
        ("rule", "rule", "text"),
        ("alarmed_runs", "false runs", "count"),
        ("healthy_runs", "of", "count"),
        ("fpr", "rate", "share"),
        ("fpr_high", "up to", "share"),
        ("detected", "detected", "count"),
        ("incidents", "of", "count"),
        ("median_delay_events", "median delay", "count"),
        ("only_this_false", "false only here", "count"),
        ("only_incumbent_false", "only in force", "count"),
        ("mcnemar_false", "p", "p"),
    ]
    listed = table.filter(pl.col("cell").is_in(named)).sort("cell")
    parts = [
        Section(
            anchor="rules",
            title="Beside rules that others ship",
            picture=Picture.of(charts.pareto(table, named=named)),
            table=listing(
                listed,
                shown,
                caption="Rules on the same runs",
                note="p: exact McNemar test on the task groups where the two differ.",
            ),
        ),
        Section(
            anchor="neighbours",
            title="Stricter and looser",
            text=(
                "Described, not certified: agentlens calibrate walks such a chain on runs kept apart for it.",
            ),
            picture=Picture.of(charts.chain(steps, table, limit=_fpr_limit(profile))),
        ),
        Section(
            anchor="soon",
            title="How soon",
            picture=Picture.of(charts.detection(curves, within=found.looking.within_events)),
        ),
        Section(
            anchor="late",
            title="How late, how often false",
            text=(
                f"Delay counts a miss as {found.looking.within_events} events: a rule that is blind is late, not fast.",
            ),
            picture=Picture.of(charts.amoc(sure["amoc"], named=[_name(found, cell) for cell in named])),
        )
        if sure["amoc"].height
        else None,
        Section(
            anchor="choice",
            title="How sure the choice is",
            text=(
                (
                    f"Task groups are drawn again and each time the rule is chosen that finds most within"
                    f" {found.looking.within_events} events at a rate of false alarms of at most"
                    f" {share(float(box.get('max_fpr', LIMIT)))}. Where it changes from draw to draw, the data do not"
                    " tell these rules apart."
                ),
            ),
            picture=Picture.of(charts.stability(sure["stability"])),
        )
        if sure["stability"].height
        else None,
        Section(
            anchor="grid",
            title="Full windows",
            text=(_outlined(profile, tiles),),
            picture=Picture.of(charts.sweep(table, named=named, certified=tiles)),
        ),
        Section(
            anchor="chance",
            title="Chance floor",
            text=(
                "Far above chance means structured repetition: a matter of evidence or exemptions, not of thresholds.",
            ),
            picture=Picture.of(charts.chance(floor)) if floor.height else None,
        ),
        Section(
            anchor="worth",
            title="What an alert is worth",
            table=listing(
                worth,
                [
                    ("base_rate", "base rate", "share"),
                    ("ppv", "an alert is an incident", "share"),
                    ("ppv_low", "from", "share"),
                    ("ppv_high", "to", "share"),
                    ("alerts_per_true", "alerts read for a true one", "number"),
                ],
                caption="Predictive value by base rate, never from the counts of labels",
            )
            if worth.height
            else None,
        ),
    ]
    section = Section(
        anchor="picture",
        title="Operating picture",
        text=(
            "All labelled runs, in one piece: to choose a rule from this picture is to choose it on what one looks at.",
        ),
        parts=tuple(part for part in parts if part is not None),
    )
    tables = {**sure, "rates": table, "detection_curve": curves, "chance": floor, "predictive": worth}
    return (section,), tables


def _name(found: Evaluation, cell: int) -> str:
    return str(found.rates.filter(pl.col("cell") == cell)["rule"][0])


def _choice(found: Evaluation, limit: float) -> dict[str, pl.DataFrame]:
    """Delay against false alerts, and how often each rule would be chosen; empty without healthy or ill groups."""
    cells = dict.fromkeys([*found.named, *found.chain])
    rules = {cell: _name(found, cell) for cell in cells}
    beside = side_by_side(found.board, rules, [SPLIT], found.looking.within_events)
    if beside is None:
        return {"amoc": AMOC.to_frame(), "stability": STABILITY.to_frame()}
    return {
        "amoc": amoc(beside, draws=DRAWS),
        "stability": selection_stability(beside, limit, draws=DRAWS)[0],
    }


def _fpr_limit(profile: Mapping[str, Any] | None) -> float | None:
    """Return the limit that a profile puts on the rate per healthy run; None where it limits something else."""
    box = profile["profile"] if profile else {}
    return box.get("max_fpr") if box.get("objective") == "fpr" else None


def _certified(found: Evaluation, profile: Mapping[str, Any] | None) -> list[tuple[int, int]]:
    """Tiles of the grid that the profile's certificate speaks for."""
    rule = profile.get("default", {}) if profile else {}
    if profile is None or profile["profile"].get("status") != str(Status.CERTIFIED):
        return []
    if rule.get("evidence") != "lap" or rule.get("max_gap_s") is not None:
        return []
    flat = [tuple(t) for t in found.rates["thresholds"].to_list() if min(t) == max(t)]
    per_run = profile["profile"].get("objective") == "fpr"
    return certified_tiles([(len(t), t[0]) for t in flat], [rule["thresholds"]], nested=per_run)


def _outlined(profile: Mapping[str, Any] | None, tiles: list[tuple[int, int]]) -> str:
    if tiles:
        return (
            "Outlined: certified. A full window that looks for no longer period and asks for no shorter stretch than"
            " the certified rule alarms only where that rule does, so the limit holds for it too."
        )
    if profile is None:
        return "Nothing is outlined: without a profile nothing is certified."
    return f"Nothing is outlined: the profile is {profile['profile'].get('status')} and speaks for none of these."


def _curves(found: Evaluation, named: list[int]) -> pl.DataFrame:
    board = found.board
    parts = [pl.DataFrame(schema={"rule": pl.String, **DETECTION_CURVE})]
    if not board.incident_ids.size:
        return parts[0]
    splits = board.runs["split"].unique().sort().to_list()
    for cell in named:
        curve = detection_curve(incident_delays(board, cell, splits), draws=DRAWS)
        name = _name(found, cell)
        parts.append(curve.select(pl.lit(name).alias("rule"), *DETECTION_CURVE))
    return pl.concat(parts)


def _floor(bench: Bench, found: Evaluation, named: list[int]) -> pl.DataFrame:
    board = found.board
    healthy = board.runs.filter(pl.Series(board.healthy)).select("run_id")
    names = ("run_id", "agent", "seq", "action_signature", "progress_fingerprint")
    rows = bench.made.events.filter(pl.col("kind").is_in(bench.made.actions)).join(
        healthy.lazy(), on="run_id", how="semi"
    )
    events = rows.select(names).collect()
    told = dict(found.rates.select("cell", "rule").iter_rows())
    rules = [replace(board.sweep.cells[cell].rule, name=told[cell]) for cell in named]
    observed = {
        r["rule"]: r["per_1000_events"]
        for r in found.rates.iter_rows(named=True)
        if r["per_1000_events"] is not None
    }
    try:
        length = int(events.group_by("run_id").len()["len"].median() or 1)  # type: ignore[arg-type]
        return chance_table(estimate(events), rules, events=length, observed_per_1000=observed)
    except SettingsError:  # too little is known of healthy runs to say what chance would do
        return CHANCE.to_frame()


def _worth_table(force: dict[str, Any], base_rate: float) -> pl.DataFrame:
    if not force["incidents"] or not force["healthy_runs"]:
        return PREDICTIVE.to_frame()
    return predictive_values(
        clopper_pearson(force["detected"], force["incidents"], 0.975),
        clopper_pearson(force["alarmed_runs"], force["healthy_runs"], 0.975),
        [*BASE_RATES, base_rate],
    )
