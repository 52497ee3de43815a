"""The demo: the whole main job on the shipped fleet, with the answers beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from agentlens.errors import InputError

if TYPE_CHECKING:
    from typing import Any

    from rich.console import Console

    from agentlens.normalise.rows import Normaliser
    from agentlens.results import Loops

SHIPPED = Path(__file__).resolve().parents[1] / "data"
EXPORTS = ("claude-code", "otlp", "native")
SHOWN = 10


def demo(out: Path, echo: Console) -> int:
    """Read the fleet into a lake, judge it, write tables and one page, and say what to type next.

    Parameters
    ----------
    out
        Folder for ``lake/``, ``tables/`` and ``page.html`` (and ``fleet/`` where the checkout's ``data/`` is not
        at hand: the same fleet is made again from its seed). Made if it is not there; a second run changes nothing.
    echo
        Where the tables are printed, at most 100 columns wide.

    Returns
    -------
    int
        The exit code, 0.

    Raises
    ------
    InputError
        When ``out`` is a file or cannot be written.
    """
    from agentlens.in_place import write_text
    from agentlens.report.page import loops_page

    try:
        out.mkdir(parents=True, exist_ok=True)
        data = fleet_folder(out)
        result, events = _judged(data, out / "lake")
        result.write(out / "tables")
        stamp = dict(sorted(result.metadata.items()))
        page = loops_page(
            result.verdicts,
            result.episodes,
            result.runs,
            events,
            title="Loops in the demo fleet",
            stamp=stamp,
        )
        write_text(out / "page.html", page)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError.at(
            str(out), f"the demo cannot be written here ({why})", accepted="a folder"
        ) from error
    _show(result, _labels(data), echo)
    _next(out, data, result, echo)
    return 0


def fleet_folder(out: Path, shipped: Path = SHIPPED) -> Path:
    """Return the checkout's ``data/``, or make the same files below ``out``."""
    from agentlens.datasets import write_fleet

    if all((shipped / name).is_dir() for name in EXPORTS) and (shipped / "labels.csv").is_file():
        return shipped
    write_fleet(out / "fleet")
    return out / "fleet"


def demo_normaliser(*tables: str | Path) -> Normaliser:
    """Return the normaliser of the demo: its key is public, so that everyone's digests are the same."""
    from agentlens.normalise.digest import Key
    from agentlens.normalise.rows import Normaliser
    from agentlens.normalise.tables import Tables

    return Normaliser(key=Key.public_demo(), tables=Tables.load(*(Path(path) for path in tables)))


def demo_lake(out: Path) -> tuple[Path, Path]:
    """Read the shipped fleet into ``out/lake``; return the lake and the folder of the exports.

    Raises
    ------
    InputError
        When ``out`` is a file or cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        data, lake = fleet_folder(out), out / "lake"
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError.at(str(out), f"cannot be written ({why})", accepted="a folder") from error
    _read(data, lake)
    return lake, data


def _read(data: Path, lake: Path) -> None:
    from agentlens import api

    api.ingest(*(data / name for name in EXPORTS), into=lake, normaliser=demo_normaliser(), workers=1)


def _judged(data: Path, lake: Path) -> tuple[Loops, pl.DataFrame]:
    from agentlens import api

    _read(data, lake)
    events = _events(lake)
    return api.loops(lake), events


def _page(result: Loops, events: pl.DataFrame) -> str:
    from agentlens.report.page import loops_page

    tables = (result.verdicts, result.episodes, result.runs, events)
    return loops_page(*tables, title="Loops in the demo fleet", stamp=dict(sorted(result.metadata.items())))


def _events(lake: Path) -> pl.DataFrame:
    from agentlens.lake import Lake

    return Lake.open(lake).events().collect()


def _labels(data: Path) -> pl.DataFrame:
    columns = pl.read_csv(data / "labels.csv", infer_schema=False)
    return columns.filter(pl.col("scope") != "handoff").select("run_id", "label", "kind")


def _show(result: Loops, labels: pl.DataFrame, echo: Console) -> None:
    from agentlens.report.words import plural
    from agentlens.verbs.console import print_table

    actions = int(result.runs["events"].sum())
    echo.print(
        f"{plural(result.runs.height, 'finished run')}, {plural(actions, 'action')}, three export formats.\n"
    )
    print_table(echo, "Runs by final verdict", result.counts())
    echo.print(_by_verdict(result.verdicts))
    count = plural(result.episodes.height, "episode")
    print_table(echo, f"{count} of a real loop, costliest first", _episode_rows(result.episodes), limit=SHOWN)
    echo.print(_against(result.runs, labels))


def _episode_rows(episodes: pl.DataFrame) -> pl.DataFrame:
    from agentlens.report.page import tools_of
    from agentlens.report.words import shortened

    ranked = episodes.sort("tokens", "run_id", "agent", "onset_seq", descending=[True, False, False, False])
    rows = [
        {
            "run": shortened(row["run_id"], 15),
            "period": row["period"],
            "laps": row["laps"],
            "tools of one lap": shortened(tools_of(row), 26),
            "events": f"{row['onset_seq']} to {row['end_seq']}",
            "results seen": _results(row),
            "tokens": row["tokens"],
        }
        for row in ranked.iter_rows(named=True)
    ]
    return pl.DataFrame(rows)


def _results(row: dict[str, Any]) -> str:
    """Return the digests that every lap saw again, two at most, cut short."""
    from agentlens.report.words import shortened

    seen = sorted({digest for digest in row["lap_fingerprints"] or () if digest})
    return " ".join(shortened(digest, 7) for digest in seen[:2]) + (" …" if len(seen) > 2 else "")


def _by_verdict(verdicts: pl.DataFrame) -> str:
    from agentlens.model.enums import Verdict

    counted = dict(verdicts.group_by("verdict").len().iter_rows())
    return "Actions: " + ", ".join(f"{counted[name]:,} {name}" for name in Verdict if name in counted) + ".\n"


def _against(runs: pl.DataFrame, labels: pl.DataFrame) -> str:
    """Set alerts beside what was planted: a rule that is right about everything has nothing to calibrate."""
    joined = runs.select("run_id", alerted=pl.col("alerts") > 0).join(labels, on="run_id")
    counted = {
        row["label"]: row
        for row in joined.group_by("label")
        .agg(pl.len().alias("runs"), pl.col("alerted").sum())
        .iter_rows(named=True)
    }
    none = {"runs": 0, "alerted": 0}
    bad, good = counted.get("incident", none), counted.get("healthy", none)
    missed = (
        joined.filter((pl.col("label") == "incident") & ~pl.col("alerted"))["kind"].unique().sort().to_list()
    )
    false = (
        joined.filter((pl.col("label") == "healthy") & pl.col("alerted"))["kind"].unique().sort().to_list()
    )
    return (
        f"Against the labels: {bad['alerted']} of {bad['runs']} planted incidents alert"
        f" (silent: {', '.join(missed) or 'none'});\n"
        f"{good['alerted']} of {good['runs']} healthy runs alert (false: {', '.join(false) or 'none'})."
    )


def _next(out: Path, data: Path, result: Loops, echo: Console) -> None:
    tables = ", ".join(f"{name}.parquet" for name in result.tables())
    first = result.episodes.sort(
        "tokens", "run_id", "agent", "onset_seq", descending=[True, False, False, False]
    )
    lines = [
        f"\nWritten: {out / 'page.html'} (open it, no network needed), {out / 'tables'} ({tables})",
        "Next:",
    ]
    if first.height:
        row = first.row(0, named=True)
        lanes = result.verdicts.filter(pl.col("run_id") == row["run_id"])["agent"].n_unique()
        lane = f" --agent {row['agent']}" if lanes > 1 else ""
        lines.append(f"  agentlens explain {out / 'lake'} {row['run_id']} {row['alert_seq']}{lane}")
    lines += [
        f"  agentlens loops {out / 'lake'} --policies {data / 'policies.toml'}",
        f"  agentlens handoffs {data / 'native' / 'receipts.ndjson'}",
        f"  agentlens resets {data / 'native' / 'branches.ndjson'}",
        "  agentlens ingest YOUR-TRACES --into LAKE && agentlens loops LAKE",
    ]
    for line in lines:
        echo.print(line, soft_wrap=True)
