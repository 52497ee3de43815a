"""A review queue as a page that does not give away what was flagged: actions and evidence, no verdicts."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from agentlens.report.cases import letters
from agentlens.report.document import Case, Link, Page, Section, Step, render
from agentlens.report.links import address
from agentlens.report.strip import strip
from agentlens.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.report.document import Cell
    from agentlens.report.material import Material

STEPS: Final = 60
_EVIDENCE: Final = {"new": "◆", "seen before": "○", "unknown": "✕"}
_HIDDEN: Final = "hidden"
HOW: Final = (
    "Every item is one lane of a run; some were flagged, some not, in an order that has nothing to do with it. Equal"
    " letters are equal actions; ◆ a result not seen before in the lane, ○ one seen before, ✕ none exported. A lane is"
    " stuck where the same actions go round and their results stand still. The first event of the loop is the first of"
    " its first lap. Where you can not tell, say so."
)


def queue_page(made: Material, queue: pl.DataFrame, stamp: Mapping[str, str]) -> str:
    """Return the page of a queue (``item, run_id, agent, around``), with a form for each item and a CSV download."""
    wanted = queue.select("run_id", "agent")
    events = made.events.join(wanted.lazy(), on=["run_id", "agent"], how="semi").collect()
    verdicts = made.verdicts.join(wanted, on=["run_id", "agent"], how="semi")
    traces = dict(
        events.group_by("run_id")
        .agg(pl.col("trace_id").drop_nulls().first())
        .select("run_id", "trace_id")
        .iter_rows()
    )
    cases = tuple(
        _case(made, events, verdicts, row, traces.get(row["run_id"])) for row in queue.iter_rows(named=True)
    )
    section = Section(anchor="queue", title="Items", text=(HOW,), cases=cases)
    lead = f"{plural(len(cases), 'item')} to decide on. Decisions leave this page only as the file you save."
    return render(Page(title="Review", lead=lead, sections=(section,), stamp=tuple(stamp.items())))


def _case(
    made: Material, events: pl.DataFrame, verdicts: pl.DataFrame, row: dict[str, Any], trace: str | None
) -> Case:
    lane = strip(
        events,
        verdicts,
        None,
        run_id=row["run_id"],
        agent=row["agent"],
        max_events=STEPS,
        around=row["around"],
    )
    facts: list[tuple[str, Cell]] = [("Run", row["run_id"])]
    facts += [("Agent", row["agent"])] if row["agent"] else []
    facts.append(("Actions", f"{lane.first} to {lane.last} of {lane.total}"))
    facts.append(("Letters", letters(lane)))
    link = address(made.link, row["run_id"], trace)
    facts += [("Trace", Link(text="open in your trace viewer", url=link))] if link else []
    steps = tuple(
        Step(
            seq=step["seq"],
            letter=step["letter"],
            lap="",
            evidence=_EVIDENCE[step["evidence"]],
            receipt="",
            verdict=_HIDDEN,
            marks=(),
            said=f"event {step['seq']} · {step['tool'] or '?'} ({step['letter']}) · result {step['evidence']}",
        )
        for step in lane.steps
    )
    ask = (row["item"], row["run_id"], row["agent"])
    return Case(
        anchor=f"item-{row['item']}", title=f"Item {row['item']}", steps=steps, facts=tuple(facts), ask=ask
    )


def place_of(run: str, seed: int, size: int) -> int:
    """Choose where a long lane of a control is shown from: a number below ``size`` by lot."""
    lot = blake2b(run.encode(), digest_size=8, key=f"place {seed}".encode()).digest()
    return int.from_bytes(lot, "big") % max(size, 1)
