"""Runs written here as event frames, judged, and made ready for a report."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from agentlens.detect.episodes import episodes as find_episodes
from agentlens.detect.loops import loops
from agentlens.detect.profile_rules import RuleBook
from agentlens.detect.rules import laps
from agentlens.detect.runs import runs as sum_up
from agentlens.model.event import EVENTS
from agentlens.normalise.health import health
from agentlens.report.material import Material
from tests.report.lanes import START, filled


def lane(run: str, word: str, evidence: str | None = None, **facts: object) -> list[dict]:
    """One lane: a letter an action; its evidence is the letter below it, ``.`` for evidence of its own, ``?`` unknown."""
    rows = []
    for i, letter in enumerate(word):
        seen = "." if evidence is None else evidence[i]
        rows.append(
            {
                "run_id": run,
                "agent": "",
                "seq": i,
                "at": START + timedelta(seconds=10 * i),
                "kind": "tool",
                "tool": f"tool_{letter.lower()}",
                "action_signature": letter,
                "progress_fingerprint": {".": f"{run}-{i}", "?": None}.get(seen, seen),
                "tokens_in": 100,
                **facts,
            }
        )
    return rows


def events(*lanes: list[dict]) -> pl.DataFrame:
    """Event rows of several lanes as a frame."""
    return filled([row for one in lanes for row in one], EVENTS)


def material(frame: pl.DataFrame, rule=None, **more: object) -> Material:
    """Judge events by a rule and gather what a report needs."""
    book = RuleBook.of(rule or laps())
    verdicts = loops(frame.lazy(), book).collect()
    found = find_episodes(frame.lazy(), verdicts.lazy(), book).collect()
    return Material(
        events=frame.lazy(),
        verdicts=verdicts,
        episodes=found,
        runs=sum_up(frame.lazy(), verdicts.lazy(), found.lazy()).collect(),
        health=health(frame.lazy()).collect(),
        book=book,
        **({"boundaries": {}} | more),
    )
