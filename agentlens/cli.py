"""The command line: what can be typed. What each verb does is in `agentlens.verbs`, loaded only when used."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import TYPE_CHECKING, Never

from agentlens.errors import AgentlensError

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE, FINDINGS, BAD_INPUT = 0, 1, 2


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> Never:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; see {self.prog} --help\n")


def _selection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("selection")
    group.add_argument(
        "--since", metavar="TIME", help="only events at or after TIME (RFC 3339 or YYYY-MM-DD)"
    )
    group.add_argument("--until", metavar="TIME", help="only events before TIME")
    group.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
    group.add_argument(
        "--agent", metavar="NAME", help="only lanes of this agent (instance marks may be left out)"
    )


def _outputs(parser: argparse.ArgumentParser, findings: str) -> None:
    parser.add_argument("--out", metavar="DIR", help="write the result tables as Parquet into DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line on standard output")
    parser.add_argument(
        "--fail-on", metavar="NAME[,NAME]", help=f"exit with 1 if any {findings} is one of these"
    )


def _normaliser(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("normalising")
    group.add_argument(
        "--key-file", metavar="FILE", help="key of the digests (else AGENTLENS_KEY, else one is made once)"
    )
    group.add_argument(
        "--tables",
        metavar="FILE",
        action="append",
        default=[],
        help="volatile names and tool facts (TOML), over the shipped ones",
    )
    group.add_argument(
        "--keep-content", action="store_true", help="store canonical arguments and results beside the digests"
    )
    group.add_argument(
        "--fingerprint",
        default="observed",
        metavar="NAME",
        help="progress fingerprint: observed, durable:code, durable:research, durable:publishing (default observed)",
    )


def _reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="read as this format instead of recognising it (see agentlens formats)",
    )
    parser.add_argument("--sql", metavar="FILE", help="a DuckDB SELECT that yields the canonical columns")
    _normaliser(parser)


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="agentlens-demo",
        help="where the lake, tables and page go (default agentlens-demo)",
    )


def _ingest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="file, folder, glob, or - for standard input"
    )
    parser.add_argument(
        "--into", required=True, metavar="LAKE", help="the lake's folder; made if it is not there"
    )
    _reading(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be read, and change nothing")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes to use (default: as many as cores)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a source on standard output"
    )


def _rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rule",
        metavar="FILE|NAME",
        help="rule file or profile.toml, or a named rule: laps, openhands, gemini_cli, same_call",
    )
    parser.add_argument("--policies", metavar="FILE", help="declared retry policies and waiting tools (TOML)")
    parser.add_argument(
        "--actions",
        default="tool,handoff",
        metavar="KINDS",
        help="kinds that take part in cycles (default tool,handoff)",
    )


def _loops(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="LAKE|FILE", help="a lake, or a trace export read directly")
    _rules(parser)
    parser.add_argument(
        "--any-version", action="store_true", help="use a profile although its versions do not match the data"
    )
    parser.add_argument(
        "--table",
        choices=("verdicts", "episodes", "runs"),
        default="verdicts",
        help="which table --json prints",
    )
    parser.add_argument("--html", metavar="FILE", help="write one self-contained HTML page")
    _outputs(parser, "verdict")
    _reading(parser)
    _selection(parser)


def _handoffs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", metavar="LAKE|FILE", help="a lake, receipts.ndjson, or a trace export read directly"
    )
    parser.add_argument(
        "--as-of", metavar="TIME", help="judge at this time (default: the newest time in the data)"
    )
    for name, what in (
        ("ack-limit", "seconds from delegation to acceptance (default 120)"),
        ("evidence-window", "seconds without progress before an accepted handoff is stuck (default 900)"),
        ("verification-limit", "seconds from completion to verification (default 0)"),
        ("wait-limit", "seconds a wait without a deadline holds (default 86400)"),
        ("clock-skew", "seconds two clocks may differ (default 5)"),
    ):
        parser.add_argument(f"--{name}", type=float, metavar="S", help=what)
    parser.add_argument("--keys", metavar="FILE", help="authors' keys (TOML) to check receipts with")
    parser.add_argument("--profile", metavar="FILE", help="profile.toml with calibrated limits")
    parser.add_argument(
        "--any-version", action="store_true", help="use a profile although its versions do not match the data"
    )
    parser.add_argument(
        "--table",
        choices=("handoffs", "operations", "claims", "cues", "authors"),
        default="handoffs",
        help="which table --json prints",
    )
    _outputs(parser, "state")
    _reading(parser)
    _selection(parser)


def _resets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", metavar="LAKE|FILE", help="a lake, branches.ndjson, or a trace export read directly"
    )
    parser.add_argument("--state-keys", metavar="FILE", help="required state keys per workflow (TOML)")
    parser.add_argument(
        "--table",
        choices=(
            "branches",
            "state_keys",
            "effects",
            "funnel",
            "families",
            "unreceipted",
            "repeated",
            "comparison",
        ),
        default="branches",
        help="which table --json prints",
    )
    _outputs(parser, "state")
    _reading(parser)
    _selection(parser)


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="LAKE|FILE", help="a lake, or a trace export read directly")
    parser.add_argument(
        "--labels", metavar="FILE", help="labels (CSV, NDJSON or Parquet); without them: triage"
    )
    parser.add_argument("--profile", metavar="FILE", help="profile.toml of agentlens calibrate")
    parser.add_argument(
        "--any-version", action="store_true", help="use a profile although its versions do not match the data"
    )
    _rules(parser)
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
    _reading(parser)
    _selection(parser)


def _compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="LAKE|FILE", help="a lake, or a trace export read directly")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--against", metavar="FILE|NAME", help="a second rule for the same runs")
    what.add_argument("--versions", metavar="A,B", help="two agent versions under one rule")
    what.add_argument("--at", metavar="TIME", help="runs that started before TIME beside those from TIME on")
    parser.add_argument("--labels", metavar="FILE", help="labels, to compare false alarms and detection too")
    _rules(parser)
    parser.add_argument("--html", metavar="FILE", help="write one self-contained HTML page")
    parser.add_argument("--out", metavar="DIR", help="write the result tables as Parquet into DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line on standard output")
    _reading(parser)
    _selection(parser)


def _review(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lake", metavar="LAKE")
    parser.add_argument("--labels", metavar="FILE", help="labels there are, beside those kept in the lake")
    _rules(parser)
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
    parser.add_argument("--json", action="store_true", help="with --decisions: print one label a line")


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lake", metavar="LAKE")
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("seq", metavar="SEQ", type=int)
    parser.add_argument("--agent", metavar="NAME", help="the lane, where a run has several")
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="folder that the sources' names are relative to (default: as given at ingest)",
    )
    parser.add_argument("--sql", metavar="FILE", help="the mapping, for a source that was read through one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    _normaliser(parser)


def _health(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="LAKE|FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    _reading(parser)
    _selection(parser)


def _formats(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def _sql(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lake", metavar="LAKE")
    parser.add_argument("query", metavar="SELECT")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--csv", action="store_true", help="print CSV")


def _forget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lake", metavar="LAKE")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--run", metavar="ID", help="the run to delete")
    group.add_argument("--before", metavar="DATE", help="delete runs whose last event is before DATE")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _calibrate(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--out", required=True, metavar="DIR", help="where profile.toml and the tables go")
    parser.add_argument("--incumbent", metavar="FILE|NAME", help="the rule in use (default laps)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of splits and draws (default 0)")
    parser.add_argument(
        "--shares",
        metavar="E,C,T",
        help="shares of explore, certify and test (default: by the number of groups)",
    )
    parser.add_argument(
        "--largest",
        type=int,
        metavar="N",
        help="with --objective share: count at most N runs of a task group (default: all)",
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
    parser.add_argument("--policies", metavar="FILE", help="declared retry policies and waiting tools (TOML)")
    parser.add_argument(
        "--actions", default="tool,handoff", metavar="KINDS", help="kinds that take part in cycles"
    )
    _reading(parser)
    _selection(parser)


def _label(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="what", metavar="WHAT", required=True, parser_class=_Parser)
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
    made["list"].add_argument("--json", action="store_true", help="print one JSON object a line")
    for name, what in (
        ("run-id", "the run"),
        ("agent", "the lane; every lane of the run where it is left out"),
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


def _lab(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lake", metavar="LAKE", nargs="?", help="your lake (default: the shipped fleet)")
    parser.add_argument("--labels", metavar="FILE", help="labels of its runs and handoffs")
    parser.add_argument("--policies", metavar="FILE", help="declared retry policies and waiting tools (TOML)")
    parser.add_argument(
        "--into", metavar="DIR", default="agentlens-lab", help="where the copy goes (default agentlens-lab)"
    )
    parser.add_argument("--copy-only", action="store_true", help="copy the notebooks and start nothing")


# verb -> (one line, what it takes); the order is the order of the help page
VERBS = {
    "demo": ("read the shipped fleet, judge it, write tables and one HTML page", _demo),
    "ingest": ("read trace exports into a lake", _ingest),
    "loops": ("loop verdicts, episodes and runs", _loops),
    "handoffs": ("which handoffs were accepted, verified, lost", _handoffs),
    "resets": ("which branched runs may resume", _resets),
    "calibrate": ("choose a loop rule on labelled runs, with a certificate or a refusal", _calibrate),
    "label": ("add to and look at the labels of a lake", _label),
    "report": ("one page: episodes, cases, handoffs, resets; with labels what is wrong and why", _report),
    "review": ("a blinded queue of runs to decide on, and decisions back as labels", _review),
    "compare": ("two rules, agent versions or periods side by side", _compare),
    "explain": ("what was dropped, masked and kept for one event", _explain),
    "health": ("where signatures or fingerprints can not be trusted", _health),
    "formats": ("the formats that can be read", _formats),
    "lab": ("open JupyterLab on a copy of the notebooks", _lab),
    "sql": ("query a lake with DuckDB, read-only", _sql),
    "forget": ("delete runs from a lake", _forget),
}


def build_parser() -> argparse.ArgumentParser:
    """Return the whole command line as a parser; imports no data library."""
    from agentlens._version import __version__

    parser = _Parser(
        prog="agentlens",
        description="Looks back over finished agent runs: real loops, lost handoffs, unsafe resets.",
        epilog="exit codes: 0 done, 1 findings named by --fail-on, 2 bad input or settings",
    )
    parser.add_argument("--version", action="version", version=f"agentlens {__version__}")
    parser.add_argument(
        "--print-completion", choices=("bash", "zsh", "tcsh"), help="print a completion script and exit"
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name, (line, fill) in VERBS.items():
        fill(verbs.add_parser(name, help=line, description=line[0].upper() + line[1:] + "."))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 findings, 2 bad input or settings."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.print_completion:
        import shtab

        print(shtab.complete(parser, args.print_completion))
        return DONE
    if args.verb is None:
        parser.print_help()
        return DONE
    try:
        code: int = importlib.import_module(f"agentlens.verbs.{args.verb}").run(args)
        sys.stdout.flush()
    except AgentlensError as error:
        from agentlens.verbs.console import plain

        print(f"agentlens {args.verb}: {plain(str(error).replace(chr(10), ' '))}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"agentlens {args.verb}: stopped; nothing half-done was kept", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    return code


if __name__ == "__main__":
    raise SystemExit(main())
