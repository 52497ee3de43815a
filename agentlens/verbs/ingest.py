"""``agentlens ingest``: trace exports into a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.api import ingest
from agentlens.report.words import plural
from agentlens.verbs.console import cell, console, plain, print_json, print_table, progress_bar
from agentlens.verbs.reading import normaliser, note

if TYPE_CHECKING:
    from argparse import Namespace

    from agentlens.lake import IngestReport, SourceReport, Step

BAD_INPUT = 2
_QUIET = ("unchanged", "new")
_SHOWN = 12


def run(args: Namespace) -> int:
    """Read, say what happened to each source, and exit with 2 only if nothing could be read."""
    if args.engine != "local":
        from agentlens.verbs import engine

        return say(args, engine.ingest(args))
    with progress_bar("ingest") as update:

        def told(step: Step) -> None:
            text = (
                f"{step.files_done:,}/{step.files:,} files · {step.bytes_done / 1e6:,.1f} MB · "
                f"{step.events:,} events · {step.quarantined:,} set aside"
            )
            update(step.bytes_done, step.bytes or None, text)

        report = ingest(
            *args.sources,
            into=args.into,
            format=args.format,
            sql=args.sql,
            normaliser=normaliser(args),
            workers=args.workers,
            progress=told,
            dry_run=args.dry_run,
            forgotten=args.forgotten,
        )
    return say(args, report)


def say(args: Namespace, report: IngestReport) -> int:
    """Print a report and return the exit code."""
    if args.json:
        print_json(report.frame())
    else:
        show(report, args.into)
    tell_faults(report)
    return BAD_INPUT if report.nothing_read else 0


def show(report: IngestReport, lake: str) -> None:
    """Print sums by format, the sources that need a look, and what to type next."""
    import polars as pl

    out = console()
    frame = report.frame()
    by_format = (
        frame.group_by("format", "status")
        .agg(
            pl.len().alias("sources"), pl.col("bytes", "records", "receipts", "branches", "quarantined").sum()
        )
        .sort("format", "status")
    )
    print_table(out, "Would be read" if report.dry_run else "Read", by_format, limit=60)
    unknown = pl.Series([_passed_over(source) for source in report.sources], dtype=pl.Boolean)
    quiet = pl.col("status").is_in(_QUIET) & (pl.col("quarantined") == 0)
    if report.nothing_read:
        quiet &= pl.col("reason") == ""
    wanting = frame.filter(~quiet & ~unknown)
    if wanting.height:
        brief = pl.col("reason").str.split("; accepted:").list.first()  # the whole is on standard error
        shown = wanting.select("source", "status", "format", "quarantined", brief)
        print_table(out, "Sources to look at", shown)
    skipped = frame.filter(unknown)
    if skipped.height:
        endings = (
            skipped["source"].str.extract(r"(\.[^./]{1,12})$").fill_null("no ending").value_counts(sort=True)
        )
        listed = ", ".join(
            f"{plain(name)} ({count:,})"
            for name, count in endings.sort("count", "source", descending=[True, False]).head(6).rows()
        )
        out.print(
            f"{plural(skipped.height, 'file')} of no known format left out: {listed} (agentlens formats lists what is "
            "known)"
        )
    if report.dry_run:
        out.print("Nothing was changed.")
        return
    out.print(
        f"{lake}: {plural(report.runs, 'run')}, {plural(report.events, 'event')}"
        + (f"; {plural(report.dropped, 'repeated record')} dropped" if report.dropped else "")
        + (f"; {plural(report.folded, 'record')} merged into another's event" if report.folded else "")
        + (
            f"; {plural(report.elsewhere, 'record')} left out that a better export of the same run tells"
            if report.elsewhere
            else ""
        )
        + ("" if report.changed else "; nothing changed")
    )
    for text in report.notes:
        out.print(f"note: {plain(text)}")
    out.print(f"Next: agentlens loops {lake} · agentlens health {lake} · agentlens handoffs {lake}")


def _passed_over(source: SourceReport) -> bool:
    """Whether a file is only counted: a folder holds others beside the exports, which nobody asked for."""
    return source.found and source.status == "refused" and "no known format" in source.reason


def _why(source: SourceReport) -> str:
    """Reason of a refusal behind the source's whole name: the reason may begin with its last part only."""
    short = f"{source.name.rpartition('/')[2]}: "
    if source.reason.startswith(f"{source.name}: "):
        return source.reason
    same = source.reason.lower().startswith(short.lower())
    return f"{source.name}: {source.reason[len(short) :] if same else source.reason}"


def tell_faults(report: IngestReport) -> None:
    """Say on standard error which sources were refused and which records were set aside, and why."""
    refused = [one for one in report.sources if one.status == "refused" and not _passed_over(one)]
    for source in refused[:_SHOWN]:
        note(f"left out: {_why(source)}")
    if len(refused) > _SHOWN:
        note(f"… {len(refused) - _SHOWN:,} more sources left out")
    told = 0
    for source in report.sources:
        for fault in source.faults:
            if told == _SHOWN:
                break
            note(f"{source.name}: {fault.unit} {fault.position:,} set aside: {fault.reason}")
            told += 1
        if source.unknown:
            listed = ", ".join(f"{plain(k)} ({cell(v)})" for k, v in sorted(source.unknown.items())[:6])
            note(f"{source.name}: not known, left out: {listed}")
    if report.quarantined > told:
        note(f"… {report.quarantined - told:,} more set aside; the lake's table quarantine lists them")
