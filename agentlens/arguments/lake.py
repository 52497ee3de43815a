"""What the verbs that fill and look at a lake take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.arguments.shared import engine, normaliser, reading, selection

if TYPE_CHECKING:
    import argparse


def demo(parser: argparse.ArgumentParser) -> None:
    """Add what ``demo`` takes."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="agentlens-demo",
        help="where the lake, tables and page go (default agentlens-demo)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a run instead")


def ingest(parser: argparse.ArgumentParser) -> None:
    """Add what ``ingest`` takes."""
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="file, folder, glob, or - for standard input"
    )
    parser.add_argument(
        "--into", required=True, metavar="LAKE", help="the lake's folder; made if it is not there"
    )
    reading(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be read, and change nothing")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes to use (default: as many as cores)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a source on standard output"
    )
    parser.add_argument(
        "--forgotten",
        metavar="LAKE",
        help="leave out what was deleted from this lake, of any schema version, that the new one is made in place of",
    )
    engine(parser)


def explain(parser: argparse.ArgumentParser) -> None:
    """Add what ``explain`` takes."""
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
    normaliser(parser)


def health(parser: argparse.ArgumentParser) -> None:
    """Add what ``health`` takes."""
    parser.add_argument("data", metavar="LAKE|FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    reading(parser)
    selection(parser)


def formats(parser: argparse.ArgumentParser) -> None:
    """Add what ``formats`` takes."""
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def lab(parser: argparse.ArgumentParser) -> None:
    """Add what ``lab`` takes."""
    parser.add_argument("lake", metavar="LAKE", nargs="?", help="your lake (default: the shipped fleet)")
    parser.add_argument("--labels", metavar="FILE", help="labels of its runs and handoffs")
    parser.add_argument("--policies", metavar="FILE", help="declared retry policies and waiting tools (TOML)")
    parser.add_argument(
        "--into", metavar="DIR", default="agentlens-lab", help="where the copy goes (default agentlens-lab)"
    )
    parser.add_argument("--copy-only", action="store_true", help="copy the notebooks and start nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object a notebook")


def sql(parser: argparse.ArgumentParser) -> None:
    """Add what ``sql`` takes."""
    parser.add_argument("lake", metavar="LAKE")
    parser.add_argument("query", metavar="SELECT")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--csv", action="store_true", help="print CSV")


def forget(parser: argparse.ArgumentParser) -> None:
    """Add what ``forget`` takes."""
    parser.add_argument("lake", metavar="LAKE")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "--run", metavar="ID", action="append", help="a run to delete; may be given several times"
    )
    group.add_argument("--before", metavar="DATE", help="delete runs whose last event is before DATE")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
