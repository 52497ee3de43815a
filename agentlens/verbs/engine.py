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
    from agentlens.lake import IngestReport


@contextmanager
def session(args: Namespace) -> Iterator[Any]:
    """Start Spark as ``--master`` says and stop it at the end; one that runs already goes on."""
    from agentlens.distribute.engine import is_running, start

    ours = not is_running()
    shown = "true" if sys.stderr.isatty() else "false"
    found = start(args.master, {"spark.ui.showConsoleProgress": shown, "spark.log.level": "FATAL"})
    try:
        yield found
    finally:
        if ours:
            found.stop()


def loops(args: Namespace) -> int:
    """``agentlens loops --engine spark``: judge on the cluster, print the sums, write or print the tables."""
    from agentlens.api import refuse_other_versions, rule_book
    from agentlens.calibrate.profile import settings_of
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
            here = dict(found.metadata) | settings_of(kinds, policies)
            refuse_other_versions(args.rule, here, any_version=args.any_version)
        _write(found, args.out)
        if args.json:
            print_json(found.fetch(args.table))
        else:
            episodes, count = summary.costliest(found, EPISODES_SHOWN)
            tell(
                summary.verdict_counts(found),
                episodes,
                count,
                summary.reasons(found),
                summary.alarms(found),
            )
            _next(args)
        return failing(summary.event_verdicts(found), args.fail_on, list(Verdict)) if args.fail_on else 0


def handoffs(args: Namespace) -> int:
    """``agentlens handoffs --engine spark``: judge on the cluster, print the sums, write or print the tables."""
    from agentlens.api import refuse_other_versions
    from agentlens.detect.receipts_auth import AuthorKeys
    from agentlens.distribute import spark, summary
    from agentlens.model.handoff import HandoffState
    from agentlens.verbs import handoffs as verb

    _refuse(args, "format", "sql")
    failing([], args.fail_on, list(HandoffState))
    limits = verb.limits(args)
    keys = AuthorKeys.load(Path(args.keys)) if args.keys else None
    with session(args) as running:
        found = spark.handoffs(running, args.data, limits=limits, as_of=args.as_of, keys=keys, **chosen(args))
        refuse_other_versions(args.profile, found.metadata, any_version=args.any_version, needs_rule=False)
        _write(found, args.out)
        states = summary.handoff_states(found)
        if args.json:
            print_json(found.fetch(args.table))
        else:
            look, count = summary.looked_at(found, verb.NEED_A_LOOK, verb.LOOKS_SHOWN)
            verb.tell(
                states.sort(verb.STATE_ORDER, descending=[True, False, False, False]),
                found["operations"].count(),
                verb.looked_at(look),
                count,
                found.fetch("cues"),
                found.fetch("authors"),
                summary.unknown_claims(found, 4),
            )
            _next(args)
        return failing(states["state"].to_list(), args.fail_on, list(HandoffState))


def ingest(args: Namespace) -> IngestReport:
    """``agentlens ingest --engine spark``: read on the cluster; nothing is shown while it works but Spark's own bar."""
    from agentlens.api import mapping
    from agentlens.distribute import spark
    from agentlens.verbs.reading import normaliser

    _refuse(args, "dry_run", "workers")
    made = normaliser(args)
    with session(args) as running:
        return spark.ingest(
            running,
            *args.sources,
            into=args.into,
            normaliser=made,
            key_file=args.key_file,
            format=args.format,
            sql=mapping(args.sql),
            forgotten=args.forgotten,
        )


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
