"""The verbs whose work is done by Spark: the same settings and exit codes, and as much on the screen as fits one."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlens.errors import SettingsError
from agentlens.verbs.console import console, failing, plain, print_json
from agentlens.verbs.reading import chosen

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from agentlens.distribute.tables import SparkTables


@contextmanager
def session(args: Namespace) -> Iterator[Any]:
    """Start Spark as ``--master`` says and stop it at the end."""
    from agentlens.distribute.engine import start

    shown = "true" if sys.stderr.isatty() else "false"
    found = start(args.master, {"spark.ui.showConsoleProgress": shown, "spark.log.level": "FATAL"})
    try:
        yield found
    finally:
        found.stop()


def loops(args: Namespace) -> int:
    """``agentlens loops --engine spark``: judge on the cluster, print the sums, write or print the tables."""
    from agentlens.api import refuse_other_versions, rule_book
    from agentlens.data import action_kinds
    from agentlens.detect.policies import Policies
    from agentlens.distribute import spark, summary
    from agentlens.model.enums import Verdict
    from agentlens.verbs.loops import EPISODES_SHOWN, tell

    _refuse(args, "html", "format", "sql")
    kinds = action_kinds(args.actions)
    failing([], args.fail_on, list(Verdict))
    book = rule_book(args.rule)
    policies = Policies.load(Path(args.policies)) if args.policies else None
    with session(args) as running:
        found = spark.loops(running, args.data, rule=book, policies=policies, actions=kinds, **chosen(args))
        if args.rule:
            refuse_other_versions(args.rule, found.metadata, any_version=args.any_version)
        _write(found, args.out)
        if args.json:
            print_json(found.fetch(args.table))
        else:
            episodes, count = summary.costliest(found, EPISODES_SHOWN)
            tell(summary.verdict_counts(found), episodes, count, summary.reasons(found))
            _next(args)
        return failing(summary.event_verdicts(found), args.fail_on, list(Verdict)) if args.fail_on else 0


def _refuse(args: Namespace, *names: str) -> None:
    """Refuse what has no meaning on a cluster, before anything is started."""
    for name in names:
        if getattr(args, name, None):
            raise SettingsError(
                f"--{name} goes with --engine local only; accepted: --engine spark without it"
            )


def _write(found: SparkTables, out: str | None) -> None:
    if out:
        found.write(out)


def _next(args: Namespace) -> None:
    """Say where the tables are, or how to have them."""
    if args.out:
        console().print(f"Tables: {plain(args.out)}/<table>.parquet (a folder of parts each), metadata.json")
    else:
        console().print(f"Next: agentlens {args.verb} {plain(args.data)} --engine spark --out PATH")
