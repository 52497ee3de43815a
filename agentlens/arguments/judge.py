"""What the verbs that judge take: loops, handoffs, resets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.arguments.shared import any_version, engine, outputs, reading, rules, selection

if TYPE_CHECKING:
    import argparse


def loops(parser: argparse.ArgumentParser) -> None:
    """Add what ``loops`` takes."""
    parser.add_argument("data", metavar="LAKE|FILE", help="a lake, or a trace export read directly")
    rules(parser)
    any_version(parser)
    parser.add_argument(
        "--table",
        choices=("verdicts", "episodes", "runs"),
        default="verdicts",
        metavar="NAME",
        help="which table --json prints: %(choices)s (default %(default)s)",
    )
    parser.add_argument("--html", metavar="FILE", help="write one self-contained HTML page")
    outputs(parser, "verdict")
    reading(parser)
    selection(parser)
    engine(parser)


def handoffs(parser: argparse.ArgumentParser) -> None:
    """Add what ``handoffs`` takes."""
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
    any_version(parser)
    parser.add_argument(
        "--table",
        choices=("handoffs", "operations", "claims", "cues", "authors"),
        default="handoffs",
        metavar="NAME",
        help="which table --json prints: %(choices)s (default %(default)s)",
    )
    outputs(parser, "state")
    reading(parser)
    selection(parser)
    engine(parser)


def resets(parser: argparse.ArgumentParser) -> None:
    """Add what ``resets`` takes."""
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
        metavar="NAME",
        help="which table --json prints: %(choices)s (default %(default)s)",
    )
    outputs(parser, "state")
    reading(parser)
    selection(parser)
