"""The two sides of the comparison, literal and engine, in one shape."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.detect import rules as engine_rules
from tests.oracle import generate
from tests.oracle.episodes import episodes as literal_episodes
from tests.oracle.frames import frame
from tests.oracle.lanes import actions, lanes
from tests.oracle.runs import Judged, Run, run
from tests.oracle.verdicts import findings

if TYPE_CHECKING:
    from tests.oracle.exemptions import File
    from tests.oracle.lanes import Event

COLUMNS = {
    "events": ("verdict", "reason", "period", "laps", "suspect", "stalled_events", "policy_source"),
    "episodes": (
        "period",
        "laps",
        "tools",
        "onset_seq",
        "alert_seq",
        "end_seq",
        "closed_by",
        "tokens",
        "cost_usd",
    ),
    "runs": tuple(Run.__dataclass_fields__),
}


def literal(events: list[Event], drawn: generate.Drawn, file: File) -> dict[str, dict]:
    """Verdicts by event, episodes by lane and verdicts by run, as the contract words them."""
    book = generate.literal_book(drawn)
    said: dict[str, dict] = {"events": {}, "episodes": {}, "runs": {}}
    judged: dict[str, list[Judged]] = {}
    for name, whole in lanes(events).items():
        lane = actions(whole)
        found = findings(lane, book, file)
        for event, one in zip(lane, found, strict=True):
            said["events"][*name, event.seq] = tuple(getattr(one, c) for c in COLUMNS["events"])
        told = literal_episodes(whole, lane, found, book)
        if told:
            said["episodes"][name] = [tuple(getattr(e, c) for c in COLUMNS["episodes"]) for e in told]
        judged.setdefault(name[0], []).append((whole, lane, found, told))
    said["runs"] = {name: tuple(vars(run(parts)).values()) for name, parts in judged.items()}
    return said


def engine_policies(file: File) -> Any:
    """Build the engine's policies of a drawing."""
    module = pytest.importorskip("agentlens.detect.policies")
    names = [{**asdict(d.policy), "tool": d.tool, "workflow": d.workflow} for d in file.retries]
    retries = [
        {k: list(v) if isinstance(v, tuple) else v for k, v in one.items() if v is not None} for one in names
    ]
    waits = [{k: v for k, v in asdict(w).items() if v is not None} for w in file.waits]
    return module.Policies.from_mapping(
        {"retry": retries, "wait": waits, "sleeping_tools": sorted(file.sleeps)}
    )


def engine_book(drawn: generate.Drawn) -> Any:
    """Build the engine's rules of a drawing."""
    module = pytest.importorskip("agentlens.detect.profile_rules")
    default, overrides = drawn
    return module.RuleBook(
        default=default.build(engine_rules),
        overrides=tuple(module.Override(rule=one.build(engine_rules), **names) for names, one in overrides),
    )


def engine(events: list[Event], drawn: generate.Drawn, file: File) -> dict[str, dict]:
    """The same of the engine."""
    loops = pytest.importorskip("agentlens.detect.loops").loops
    episodes = pytest.importorskip("agentlens.detect.episodes").episodes
    runs = pytest.importorskip("agentlens.detect.runs").runs
    book, lazy = engine_book(drawn), frame(events).lazy()
    verdicts = loops(lazy, book, engine_policies(file)).collect()
    told = episodes(lazy, verdicts.lazy(), book).collect()
    said: dict[str, dict] = {"events": {}, "episodes": {}, "runs": {}}
    for row in verdicts.to_dicts():
        said["events"][row["run_id"], row["agent"], row["seq"]] = tuple(row[c] for c in COLUMNS["events"])
    for row in told.to_dicts():
        cells = tuple(tuple(v) if isinstance(v := row[c], list) else v for c in COLUMNS["episodes"])
        said["episodes"].setdefault((row["run_id"], row["agent"]), []).append(cells)
    for row in runs(lazy, verdicts.lazy(), told.lazy()).collect().to_dicts():
        said["runs"][row["run_id"]] = tuple(row[c] for c in COLUMNS["runs"])
    return said


def tally(said: dict[str, dict]) -> Counter[str]:
    """Count verdicts, reasons and ends of episodes."""
    seen: Counter[str] = Counter()
    for cells in said["events"].values():
        seen.update(c for c in cells[:2] if c is not None)
    for told in said["episodes"].values():
        seen.update(f"closed by {cells[COLUMNS['episodes'].index('closed_by')]}" for cells in told)
    return seen
