"""The command line: what can be typed. What each verb does is in `agentlens.verbs`, loaded only when used."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Never

from agentlens.arguments import judge, lake, study
from agentlens.errors import AgentlensError

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE, FINDINGS, BAD_INPUT = 0, 1, 2
PANIC = "PanicException"
"""What native code raises that may not go on, mostly for want of memory for a thread; it is no `Exception`."""
_PLACES = re.compile(r"\b(FILE|DIR|LAKE|SOURCE|TIME|DATE)\b")
"""Arguments that an empty text can not be: what names a place or a time."""
ALL_WHOLE = (
    "what was there before is whole; accepted: more memory, or fewer events at once (--since, --until)"
)


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> Never:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; see {self.prog} --help\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, and refuse a place that is named by nothing: the variable of a script that was never set."""
        found, rest = super().parse_known_args(args, namespace)
        for action in self._actions:
            given = getattr(found, action.dest, None)
            if _PLACES.search(str(action.metavar)) and "" in (given if isinstance(given, list) else [given]):
                name = "/".join(action.option_strings) or str(action.metavar)
                self.error(f"argument {name}: nothing is given")
        return found, rest


# verb -> (one line, what it takes); the order is the order of the help page
VERBS = {
    "demo": ("read the shipped fleet, judge it, write tables and one HTML page", lake.demo),
    "ingest": ("read trace exports into a lake", lake.ingest),
    "loops": ("loop verdicts, episodes and runs", judge.loops),
    "handoffs": ("which handoffs were accepted, verified, lost", judge.handoffs),
    "resets": ("which branched runs may resume", judge.resets),
    "calibrate": ("choose a loop rule on labelled runs, with a certificate or a refusal", study.calibrate),
    "label": ("add to and look at the labels of a lake", study.label),
    "report": (
        "one page: episodes, cases, handoffs, resets; with labels what is wrong and why",
        study.report,
    ),
    "review": ("a blinded queue of runs to decide on, and decisions back as labels", study.review),
    "compare": ("two rules, agent versions or periods side by side", study.compare),
    "explain": ("what was dropped, masked and kept for one event", lake.explain),
    "health": ("where signatures or fingerprints can not be trusted", lake.health),
    "formats": ("the formats that can be read", lake.formats),
    "lab": ("open JupyterLab on a copy of the notebooks", lake.lab),
    "sql": ("query a lake with DuckDB, read-only", lake.sql),
    "forget": ("delete runs from a lake", lake.forget),
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
    from agentlens.verbs.waiting import waiting

    try:
        with waiting(f"agentlens {args.verb}"):
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
    except BaseException as error:
        why = _why(error, args)
        if why is None:
            raise
        print(f"agentlens {args.verb}: {why}", file=sys.stderr)
        return BAD_INPUT
    return code


def _why(error: BaseException, args: argparse.Namespace) -> str | None:
    """Say in one line what the machine or a damaged lake did; None for what is a fault of the program."""
    if isinstance(error, MemoryError | OSError | RuntimeError | ImportError) and _is_starved(error):
        return f"out of memory; {ALL_WHOLE}"
    if type(error).__name__ == PANIC:
        return f"the engine stopped: {str(error).partition(chr(10))[0]}; {ALL_WHOLE}"
    if isinstance(error, FileNotFoundError) or type(error).__module__ == "polars.exceptions":
        from agentlens.lake.damage import why
        from agentlens.verbs.console import plain

        told = why(error, [value for value in vars(args).values() if isinstance(value, str) and value])
        return told and plain(told)
    return None


def _is_starved(error: BaseException | None) -> bool:
    """Whether the machine refused memory, in one of the ways in which Python says so."""
    if error is None:
        return False
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    said = ("can't start new thread", "failed to map segment")
    return any(words in str(error) for words in said) or _is_starved(error.__cause__)


if __name__ == "__main__":
    raise SystemExit(main())
