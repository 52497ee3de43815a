"""What the verbs that calibrate, label, report, review and compare take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.arguments.shared import any_version, reading, rules, selection

if TYPE_CHECKING:
    import argparse


def calibrate(parser: argparse.ArgumentParser) -> None:
    """Add what ``calibrate`` takes."""
    parser.add_argument("data", metavar="LAKE|FILE", help="a lake, or a trace export read directly")
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="labels: CSV, NDJSON or Parquet; 'weak' derives them from outcomes (default: the lake's own)",
    )
    parser.add_argument(
        "--max-fpr",
        type=float,
        default=0.01,
        metavar="A",
        help="limit of false alarms, above 0 and below 1 (0.01)",
    )
    parser.add_argument(
        "--delta",
        type=float,
        default=0.05,
        metavar="D",
        help="chance that a certified rule is over it (0.05)",
    )
    parser.add_argument(
        "--objective",
        default="fpr",
        metavar="NAME",
        help="what is limited: fpr, alarms per healthy run; share, the false ones among alarms (default fpr)",
    )
    parser.add_argument(
        "--max-uncertain",
        type=float,
        metavar="A",
        help="also limit healthy runs with nothing but uncertain events",
    )
    parser.add_argument(
        "--max-alerts-per-hour",
        type=float,
        metavar="X",
        help="also limit false alerts per active hour of healthy runs, averaged over tasks (needs times)",
    )
    parser.add_argument(
        "--alerts-cap",
        type=float,
        metavar="Y",
        help="alerts per hour that a task counts for at most (default ten times the limit)",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="RULE",
        help="test this rule, fixed before the data were seen: a name, a rule file, or 'laps(4, 2, 2)'; "
        "again for a next one, tested where those before it passed",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where profile.toml and the tables go")
    parser.add_argument("--incumbent", metavar="FILE|NAME", help="the rule in use (default laps)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of splits and draws (default 0)")
    parser.add_argument(
        "--shares",
        metavar="E,C,T",
        help="shares of explore, certify and test (default: by the number of groups)",
    )
    parser.add_argument(
        "--folds",
        type=int,
        metavar="N",
        help="nested cross-validation instead of splits: PROVISIONAL at most (default where data are too few)",
    )
    parser.add_argument(
        "--largest",
        type=int,
        metavar="N",
        help="with --objective share: a task group counts for N runs at most (default: by the sizes)",
    )
    parser.add_argument(
        "--within", type=int, default=20, metavar="N", help="D of detection@D, events (default 20)"
    )
    parser.add_argument(
        "--tolerance",
        type=int,
        default=0,
        metavar="N",
        help="events before its onset that still count (default 0)",
    )
    parser.add_argument(
        "--grace", type=int, default=2, metavar="N", help="events after its end that still count (default 2)"
    )
    parser.add_argument(
        "--ack-beta",
        type=float,
        default=0.05,
        metavar="B",
        help="share of good handoffs that may still be silent at the limit (0.05)",
    )
    parser.add_argument(
        "--ack-cap",
        action="append",
        default=[],
        metavar="URGENCY=S",
        help="longest acceptable silence of a class in seconds (* for all); repeat for more classes",
    )
    parser.add_argument("--policies", metavar="FILE", help="declared retry policies and waiting tools (TOML)")
    parser.add_argument(
        "--actions", default="tool,handoff", metavar="KINDS", help="kinds that take part in cycles"
    )
    parser.add_argument("--json", action="store_true", help="print the profile as one JSON object")
    reading(parser)
    selection(parser)


def label(parser: argparse.ArgumentParser) -> None:
    """Add what ``label`` takes."""
    kinds = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    lines = {
        "add": "add one label",
        "import": "add the rows of a CSV, NDJSON or Parquet file",
        "weak": "add labels derived from the outcomes and rewards in the lake",
        "list": "print the labels",
        "export": "write the labels to a CSV, NDJSON or Parquet file",
    }
    made = {what: kinds.add_parser(what, help=line, description=line) for what, line in lines.items()}
    for one in made.values():
        one.add_argument("lake", metavar="LAKE")
    for what in ("import", "export"):
        made[what].add_argument("file", metavar="FILE")
    for what, one in made.items():
        told = "one JSON object a line" if what == "list" else "what was done as one JSON object"
        one.add_argument("--json", action="store_true", help=f"print {told}")
    for name, what in (
        ("run-id", "the run"),
        ("agent", "the lane, '' for events without an agent; every lane of the run where it is left out"),
        ("operation-id", "the operation (scope handoff)"),
        ("handoff-id", "the attempt (scope handoff)"),
        ("scope", "run, interval, step or handoff"),
        ("label", "incident, healthy or exclude"),
        ("onset-seq", "first event of the first cycle"),
        ("onset-hi-seq", "last event that may be the first"),
        ("end-seq", "last event of the incident"),
        ("onset-at", "the onset by time"),
        ("end-at", "the end by time"),
        ("observed-until", "when somebody stopped the run or the watching"),
        ("label-version", "a newer one replaces older ones of the run (default 1)"),
        ("kind", "what sort of incident"),
        ("source", "human, harness, planted or weak (default human)"),
        ("reviewer", "who says so"),
        ("found-by", "how it was found"),
        ("task-group", "the task; runs of one task are never split"),
    ):
        made["add"].add_argument(f"--{name}", metavar="X", help=what, required=name in {"scope", "label"})


def report(parser: argparse.ArgumentParser) -> None:
    """Add what ``report`` takes."""
    parser.add_argument("data", metavar="LAKE|FILE", help="a lake, or a trace export read directly")
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="labels (CSV, NDJSON or Parquet); 'weak' derives them from outcomes, 'none' makes a triage page "
        "(default: the lake's own, else triage)",
    )
    parser.add_argument("--profile", metavar="FILE", help="profile.toml of agentlens calibrate")
    any_version(parser)
    rules(parser)
    parser.add_argument("--state-keys", metavar="FILE", help="required state keys per workflow (TOML)")
    parser.add_argument(
        "--as-of", metavar="TIME", help="judge handoffs at this time (default: the newest time in the data)"
    )
    parser.add_argument(
        "--base-rate",
        type=float,
        default=0.01,
        metavar="P",
        help="share of all runs that are incidents (default 0.01)",
    )
    parser.add_argument(
        "--link",
        metavar="URL",
        help="address in your trace viewer, with {trace_id} or {run_id} in it, put on each case",
    )
    parser.add_argument(
        "--reveal", action="store_true", help="put raw content of the cases into the page, and say so there"
    )
    parser.add_argument("--root", metavar="DIR", help="folder that the sources' names are relative to")
    parser.add_argument(
        "--out",
        metavar="FILE",
        default="report.html",
        help="the page; its tables go into <name>_tables beside it (default report.html)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a file that was written")
    reading(parser)
    selection(parser)


def compare(parser: argparse.ArgumentParser) -> None:
    """Add what ``compare`` takes."""
    parser.add_argument("data", metavar="LAKE|FILE", help="a lake, or a trace export read directly")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--against", metavar="FILE|NAME", help="a second rule for the same runs")
    what.add_argument("--versions", metavar="A,B", help="two agent versions under one rule")
    what.add_argument("--at", metavar="TIME", help="runs that started before TIME beside those from TIME on")
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="labels, to compare false alarms and detection too; 'weak' or 'none' (default: the lake's own)",
    )
    rules(parser)
    any_version(parser)
    parser.add_argument("--html", metavar="FILE", help="write one self-contained HTML page")
    parser.add_argument(
        "--link",
        metavar="URL",
        help="with --html: address in your trace viewer, with {trace_id} or {run_id}, of runs on which rules differ",
    )
    parser.add_argument("--out", metavar="DIR", help="write the result tables as Parquet into DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line on standard output")
    reading(parser)
    selection(parser)


def review(parser: argparse.ArgumentParser) -> None:
    """Add what ``review`` takes."""
    parser.add_argument("lake", metavar="LAKE")
    parser.add_argument("--labels", metavar="FILE", help="labels there are, beside those kept in the lake")
    rules(parser)
    any_version(parser)
    parser.add_argument(
        "--size", type=int, default=20, metavar="N", help="runs of each kind at most (default 20)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another seed draws another queue")
    parser.add_argument(
        "--link", metavar="URL", help="address in your trace viewer, with {trace_id} or {run_id}"
    )
    parser.add_argument(
        "--decisions", metavar="FILE", nargs="+", help="read decisions (CSV) back and append them as labels"
    )
    parser.add_argument(
        "--key", metavar="FILE", help="key of the queue (default <name>_key.parquet beside --out)"
    )
    parser.add_argument("--dry-run", action="store_true", help="with --decisions: store nothing")
    parser.add_argument(
        "--out", metavar="FILE", default="review.html", help="the queue's page (default review.html)"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object a file that was written; with --decisions one a label",
    )
