"""``agentlens calibrate``: a rule with a certificate, or a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.api import rule_book
from agentlens.calibrating import PROFILE, Calibration, calibrate
from agentlens.errors import SettingsError
from agentlens.verbs.console import console, dump, plain, print_pairs, print_table
from agentlens.verbs.reading import chosen, normaliser, note, write_tables

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from rich.console import Console

_INTERVALS = {
    "clopper_pearson": "exact",
    "clopper_pearson_groups": "exact over groups",
    "mixture_bet": "bet",
    "poisson": "Poisson",
    "cluster_bootstrap": "bootstrap",
    "both_at_97.5": "both ends",
}
_MEANING = {
    "CERTIFIED": "the limit holds, up to the chance delta",
    "PROVISIONAL": "looks fine, but there are too few task groups to promise it",
    "INFEASIBLE": "no rule tried stays within the limit; none is recommended",
}


def run(args: Namespace) -> int:
    """Calibrate, write the profile and its tables, print the summary."""
    if args.incumbent:
        rule_book(args.incumbent)  # a wrong name is said before the work
    for rule in args.only:
        rule_book(rule)
    result = calibrate(
        args.data,
        labels=args.labels,
        max_fpr=args.max_fpr,
        delta=args.delta,
        objective=args.objective,
        max_uncertain=args.max_uncertain,
        max_alerts_per_hour=args.max_alerts_per_hour,
        alerts_cap=args.alerts_cap,
        only=args.only,
        seed=args.seed,
        shares=shares(args.shares),
        folds=args.folds,
        largest=args.largest,
        incumbent=args.incumbent,
        within_events=args.within,
        tol_events=args.tolerance,
        grace_events=args.grace,
        ack_beta=args.ack_beta,
        ack_caps_s=caps(args.ack_cap),
        policies=args.policies,
        actions=args.actions,
        **chosen(args),
        normaliser=normaliser(args),
        format=args.format,
        sql=args.sql,
    )
    write_tables(result, args.out)
    if args.json:
        print(dump(result.profile))  # noqa: T201
    else:
        show(result)
    note(f"wrote {args.out}: {PROFILE} and {len(result.tables())} tables")
    return 0


def shares(text: str | None) -> tuple[float, float, float] | None:
    """Read ``0.4,0.4,0.2``.

    Raises
    ------
    SettingsError
        For anything but three numbers.
    """
    if text is None:
        return None
    try:
        explore, certify, test = (float(part) for part in text.split(","))
    except ValueError:
        raise SettingsError.value("shares", text, "three numbers such as 0.4,0.4,0.2") from None
    return explore, certify, test


def caps(texts: Sequence[str]) -> dict[str, float]:
    """Read ``urgent=60`` and the like.

    Raises
    ------
    SettingsError
        For anything but a class and seconds, and a class that is named twice.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, seconds = text.rpartition("=")
        try:
            value = float(seconds)
        except ValueError:
            value = 0.0
        if not name or not value > 0 or name in found:
            raise SettingsError.value(
                "ack-cap", text, "a class and seconds above 0 such as urgent=60, each once"
            )
        found[name] = value
    return found


def show(result: Calibration) -> None:
    """Print the verdict, how it was made, and the rules beside each other."""
    out = console()
    told, made = result.profile["profile"], result.profile["made"]
    if "reason" in told:
        out.print(f"no loop rule: {told['reason']}; limits of handoffs need none")
        said = f"{made['labels_from']} ({', '.join(made['label_sources']) or 'none'})"
        print_pairs(out, [("labels", said), ("receipts", _without_limits(result))])
        _handoffs(out, result)
        return
    out.print(f"{result.status}: {_meaning(result, told)}")
    print_pairs(out, _facts(result, told, made))
    share = told["objective"] == "share"
    print_table(out, "Rules on explore and certify", _rules(result, share=share), wrap=())
    _measures(out, result)
    walked = result.certificate.select(
        "rule",
        "groups",
        "alarms",
        pl.col("false_alarms").alias("false"),
        "rate",
        *_further(told),
        "p_value",
        "certified",
        "more_groups",
    )
    print_table(out, f"Certificate, strict to loose: {told['chain']}", walked, wrap=())
    if result.test.height:
        print_table(out, "Test split", _columns(result.test, share=share), wrap=())
    if result.nested.height:
        print_table(out, "Procedure: chosen before each fold, judged on it", _folds(result), wrap=())
    _handoffs(out, result)


def _without_limits(result: Calibration) -> str:
    """How many handoffs the receipts tell of, and whether they give a limit."""
    pooled = result.ack_limits.filter(pl.col("urgency") == "*")
    count = int(pooled["handoffs"].sum())
    said = f"{count:,} handoffs with a silence"
    return said if result.profile.get("handoffs") else f"{said}; they give no limit"


def _meaning(result: Calibration, told: dict[str, Any]) -> str:
    if result.status == "PROVISIONAL" and result.nested.height and told["more_groups"] == 0:
        return "looks fine, but cross-validation promises no rule; without --folds these groups may be enough"
    return _MEANING[result.status]


def _further(told: dict[str, Any]) -> list[str]:
    """Columns of the certificate for the limits that were asked for."""
    asked = {"max_uncertain": "uncertain_share", "max_alerts_per_hour": "alerts_per_hour"}
    return [column for name, column in asked.items() if told.get(name) is not None]


def _folds(result: Calibration) -> pl.DataFrame:
    return result.nested.select(
        pl.col("fold").cast(pl.String).fill_null("all"),
        "rule",
        _of("alarmed_runs", "healthy_runs").alias("false"),
        "fpr",
        pl.col("fpr_high").alias("up to"),
        _of("false_alarms", "alarms").alias("false of alarms"),
        _of("detected", "incidents").alias("detected"),
    )


def _facts(result: Calibration, told: dict[str, Any], made: dict[str, Any]) -> list[tuple[str, object]]:
    left_out, unseen = made["labels_outside_selection"], made["incidents_without_actions"]
    again = made["incidents_told_again"]
    limit = "false share of alarms" if told["objective"] == "share" else "false-positive rate per healthy run"
    facts: list[tuple[str, object]] = [
        ("rule", plain(result.rule or "none")),
        ("limit", f"{limit} at most {told['max_fpr']:g}, wrong with a chance of at most {told['delta']:g}"),
        ("chain", _chain(told)),
        ("test", told["test"] + ("" if told["p_value"] is None else f", p = {told['p_value']:.3g}")),
    ]
    if told.get("max_uncertain") is not None:
        facts.append(
            (
                "uncertain",
                f"at most {told['max_uncertain']:g} of healthy runs with nothing but uncertain events",
            )
        )
    facts += _hourly(told)
    if result.status == "PROVISIONAL":
        more = told["more_groups"]
        needed = f"{more:,} more task groups to certify, if they are like these"
        facts.append(("needed", "not known: these alone do not grow evidence" if more is None else needed))
    facts += _procedure(result)
    facts += [
        ("chance", _chance(result)),
        ("splits", _splits(result, made)),
        (
            "labels",
            f"{made['labels_from']} ({', '.join(made['label_sources'])}); {made['unlabelled_runs']:,} runs unlabelled"
            + (f"; {left_out:,} labels outside the selection" if left_out else "")
            + (f"; {unseen:,} incidents without an action, in no count" if unseen else "")
            + (
                f"; {again:,} labels tell of an incident of another: they overlap in its lane"
                if again
                else ""
            ),
        ),
        ("near misses", _near(result)),
        ("certify to test", result.drift["status"][0] if result.drift.height else "not compared"),
        (
            "test split",
            f"opened {result.openings:,} times" if result.openings else f"closed: {result.unopened}",
        ),
        ("void if", "normaliser, fingerprint, label or key version changes"),
    ]
    return facts


def _hourly(told: dict[str, Any]) -> list[tuple[str, object]]:
    """Say the limit per hour, and which groups count against it for want of times."""
    if told.get("max_alerts_per_hour") is None:
        return []
    said = (
        f"at most {told['max_alerts_per_hour']:g} false alerts per active hour of healthy runs, mean over groups, "
        f"each counted up to {told['alerts_cap']:g}"
    )
    lacking = told["untimed_groups"]
    return [("per hour", said + (f"; {lacking:,} groups without times count as that" if lacking else ""))]


def _procedure(result: Calibration) -> list[tuple[str, object]]:
    """Say what nested cross-validation found: the worth of choosing like this, on groups that did not choose."""
    told = result.profile.get("procedure")
    if told is None:
        return []
    said = f"{told['alarmed_runs']:,} of {told['healthy_runs']:,} healthy runs alarmed"
    if "fpr" in told:
        said += f", rate {told['fpr']:.3g} (up to {told['fpr_high']:.3g})"
    said += f"; {told['false_alarms']:,} of {told['alarms']:,} alarms false"
    said += f"; {told['detected']:,} of {told['incidents']:,} incidents detected"
    return [("procedure", f"{told['folds']} folds, each judged by the rule that other groups chose: {said}")]


def _near(result: Calibration) -> str:
    """How many of the missed incidents' runs one edit keeps from an alert: to look at, not to count as found."""
    name = pl.col("rule") == (result.measures["rule"].first() or "")
    missed, near = (t.filter(name)["run_id"].n_unique() for t in (result.missed, result.near_misses))
    return f"{near:,} of {missed:,} runs with a missed incident are one edit short of an alert (information only)"


def _chain(told: dict[str, Any]) -> str:
    """Which rules were walked, and who chose them: explore, or nobody who had seen an alarm."""
    what = "its start chosen" if told["objective"] == "share" else "chosen"
    said = f"{what} on explore" if told["chain_from"] == "explore" else told["chain_from"]
    return f"{told['chain']}; {said}"


def _splits(result: Calibration, made: dict[str, Any]) -> str:
    counts = result.splits.group_by("split").agg(
        pl.len().alias("runs"), pl.col("task_group").n_unique().alias("groups")
    )
    parts = {
        row["split"]: f"{row['split']} {row['groups']:,} groups, {row['runs']:,} runs"
        for row in counts.iter_rows(named=True)
    }
    how = (
        "by time"
        if made["placed_by"] == "time"
        else f"by hash (seed {made['seed']}): no order in time is known"
    )
    return (
        "; ".join(parts[name] for name in ("explore", "certify", "test") if name in parts) + f"; placed {how}"
    )


def _chance(result: Calibration) -> str:
    """False alerts that the recommended rule would raise on healthy runs by coincidence, beside those seen."""
    rows = result.chance.filter((pl.col("rule") == (result.rule or "")) & (pl.col("model") == "markov"))
    if rows.is_empty() or rows["observed_per_1000"][0] is None:
        return "no floor: too little is known of healthy runs"
    floor, seen = rows["per_1000_events"][0], rows["observed_per_1000"][0]
    return f"at most {floor:.2g} false alerts per 1,000 events by coincidence (Markov), {seen:.2g} seen"


def _rules(result: Calibration, *, share: bool) -> pl.DataFrame:
    names = list(dict.fromkeys([*([result.rule] if result.rule else []), *result.cases["rule"].to_list()]))
    kept = result.rates.filter(pl.col("rule").is_in(names) | (pl.col("cell") < 4))
    return _columns(kept.sort(pl.col("rule") != (result.rule or ""), maintain_order=True), share=share)


def _columns(rates: pl.DataFrame, *, share: bool) -> pl.DataFrame:
    # said only where it is so: then fewer than 20 healthy runs or incidents stand behind the row
    thin = [pl.when("thin").then(pl.lit("thin")).alias("note")] if rates["thin"].any() else []
    if share:
        return rates.select(
            "rule",
            "alarms",
            pl.col("false_alarms").alias("false"),
            pl.col("false_share").alias("share"),
            pl.col("false_share_high").alias("up to"),
            pl.col("mean_alarm_step").round(2).alias("mean step"),
            _of("detected", "incidents").alias("detected"),
            *thin,
        )
    return rates.select(
        "rule",
        _of("alarmed_runs", "healthy_runs").alias("false"),
        "fpr",
        pl.col("fpr_high").alias("up to"),
        pl.col("fpr_if_uncertain").alias("uncertain"),
        pl.col("per_1000_events").alias("per 1,000"),
        _of("detected", "incidents").alias("detected"),
        pl.col("median_delay_events").alias("delay"),
        *thin,
    )


def _measures(out: Console, result: Calibration) -> None:
    """Print every quantity of the recommended rule (else of the one in use) with its interval and what it is out of."""
    rules = result.measures["rule"].unique(maintain_order=True).to_list()
    if not rules:
        return
    scale = pl.when(pl.col("unit") == "share").then(100.0).otherwise(1.0)
    sign = pl.when(pl.col("unit") == "share").then(pl.lit(" %")).otherwise(pl.lit(""))
    value, low, high = (
        (pl.col(n) * scale).round_sig_figs(3).cast(pl.String) for n in ("value", "low", "high")
    )
    made = pl.col("interval").replace(_INTERVALS)
    limits = pl.concat_str(low, pl.lit(" to "), high.fill_null("never"), pl.lit(" "), made)
    mine = result.measures.filter(pl.col("rule") == rules[0])
    # where the onset is one event, both ends of its interval are the same
    twice = pl.struct("quantity", "unit", "value", "low", "high").is_first_distinct() | (
        pl.col("onset") != "last"
    )
    unit = pl.when(pl.col("unit").is_in(["events", "seconds"])).then(pl.concat_str(pl.lit(", "), "unit"))
    late = pl.when(pl.col("onset") == "last").then(pl.lit(", from the last event that may be the onset"))
    shown = mine.filter(twice.fill_null(True)).select(
        pl.concat_str("quantity", unit, late, ignore_nulls=True).alias("quantity"),
        # without anything to count there is no value, nor a share of no alerts; "never" is a delay
        pl.when(pl.col("of") > 0)
        .then(
            pl.coalesce(pl.concat_str(value, sign), pl.when(pl.col("unit") != "share").then(pl.lit("never")))
        )
        .alias("value"),
        pl.when(pl.col("interval") != "none").then(limits).alias("95 %"),
        pl.concat_str(_of("count", "of"), pl.lit(" "), "counted").alias("of"),
        pl.concat_str(pl.when("thin").then(pl.lit("thin; ")), pl.col("note"), ignore_nulls=True).alias(
            "note"
        ),
    )
    title = f"What {plain(rules[0])} does on explore and certify"
    print_table(out, title, shown, limit=shown.height, wrap=("quantity", "note"))


def _of(count: str, total: str) -> pl.Expr:
    """``3/40``: a count beside what it is out of."""
    return pl.concat_str(count, total, separator="/")


def _handoffs(out: Console, result: Calibration) -> None:
    if result.ack_limits.height:
        table = result.ack_limits.select(
            "urgency",
            "handoffs",
            "acknowledged",
            _lost().alias("lost"),
            (pl.col("limit_us") / 1e6).alias("limit s"),
            "pooled",
            (pl.col("cap_us") / 1e6).alias("cap s"),
            "note",
        )
        print_table(out, "Acknowledgement limits", table, wrap=("note",))
    warned = result.ack_checks.filter("warn")
    if warned.height:
        lines = warned.select("check", _of("count", "total").alias("count"), "value", "unit", "note")
        print_table(out, "What may make these limits wrong", lines, wrap=("note",))
    window = result.evidence_window
    if window.height and window["gaps"][0]:
        table = window.select(
            "handoffs", "gaps", "signs", "silent", (pl.col("limit_us") / 1e6).alias("window s"), "note"
        )
        print_table(out, "Evidence window, from gaps between signs of work", table, wrap=("note",))
    if result.ack_labelled.height:
        table = result.ack_labelled.select(
            (pl.col("limit_us") / 1e6).alias("limit s"),
            _of("found", "lost").alias("lost found"),
            _of("false_alarms", "delivered").alias("false"),
            pl.col("false_high").alias("up to"),
            "groups",
            "p_value",
            "certified",
        )
        print_table(out, "Limits against labelled handoffs", table, wrap=())


def _lost() -> pl.Expr:
    """Share never acknowledged, with its limits; null where it can not be told."""
    value, low, high = (
        (100 * pl.col(f"lost_{n}")).round(1).cast(pl.String) for n in ("share", "low", "high")
    )
    return pl.concat_str(value, pl.lit(" % ("), low, pl.lit(" to "), high, pl.lit(")"))
