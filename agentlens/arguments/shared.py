"""Arguments that several verbs take."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def selection(parser: argparse.ArgumentParser) -> None:
    """Add what selects events: a period, a workflow, an agent."""
    group = parser.add_argument_group("selection")
    group.add_argument(
        "--since", metavar="TIME", help="only events at or after TIME (RFC 3339 or YYYY-MM-DD)"
    )
    group.add_argument("--until", metavar="TIME", help="only events before TIME")
    group.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
    group.add_argument(
        "--agent", metavar="NAME", help="only lanes of this agent (instance marks may be left out)"
    )


def outputs(parser: argparse.ArgumentParser, findings: str) -> None:
    """Add where results go; ``findings`` is the word for what ``--fail-on`` names."""
    parser.add_argument("--out", metavar="DIR", help="write the result tables as Parquet into DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line on standard output")
    parser.add_argument(
        "--fail-on", metavar="NAME[,NAME]", help=f"exit with 1 if any {findings} is one of these"
    )


def normaliser(parser: argparse.ArgumentParser) -> None:
    """Add what decides signatures and fingerprints."""
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


def reading(parser: argparse.ArgumentParser) -> None:
    """Add how an export is read: its format or mapping, and the normaliser."""
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="read as this format instead of recognising it (see agentlens formats)",
    )
    parser.add_argument(
        "--sql", metavar="FILE", help="a DuckDB SELECT that yields the canonical columns, instead of a format"
    )
    normaliser(parser)


def rules(parser: argparse.ArgumentParser) -> None:
    """Add the rule, the policies and the kinds of action it looks at."""
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


def any_version(parser: argparse.ArgumentParser) -> None:
    """Add the way around the check of a profile."""
    parser.add_argument(
        "--any-version",
        action="store_true",
        help="use a profile although its versions, labels or settings do not match",
    )


def engine(parser: argparse.ArgumentParser) -> None:
    """Add where the work is done."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--engine",
        choices=("local", "spark"),
        default="local",
        help="where the work is done: this machine, or Spark (needs the extra [spark]; LAKE is any path it reaches)",
    )
    group.add_argument(
        "--master",
        metavar="URL",
        help="with --engine spark: local[4], spark://host:7077, yarn, k8s://... (default: as Spark is configured)",
    )
