"""The two verbs that judge across process boundaries: handoffs and resets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens._version import __version__
from agentlens.data import Data, Opened, open_data
from agentlens.model.select import Selection, parse_time
from agentlens.results import Handoffs, Resets

if TYPE_CHECKING:
    from datetime import datetime

    from agentlens.detect.handoff_limits import HandoffLimits
    from agentlens.detect.receipts_auth import AuthorKeys
    from agentlens.detect.state_keys import StateKeys
    from agentlens.normalise.rows import Normaliser


def handoffs(
    data: Data,
    *,
    limits: HandoffLimits | None = None,
    as_of: str | datetime | None = None,
    keys: AuthorKeys | str | Path | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    workflow: str | None = None,
    agent: str | None = None,
    normaliser: Normaliser | None = None,
    format: str | None = None,  # noqa: A002 - the word users type
    sql: str | Path | None = None,
) -> Handoffs:
    """Judge every handoff: native receipts, and those inferred from traces (marked ``inferred``, with the rule).

    Parameters
    ----------
    data
        A lake, ``receipts.ndjson``, a trace export, or a frame of events.
    limits
        Time limits in seconds; acknowledgement limits per urgency class.
    as_of
        Judge at this time; the newest time in the data where None.
    keys
        Authors' keys (TOML), to check signed receipts with.
    since, until, workflow, agent
        Native receipts: by time of the delegation, by run or trace of the workflow, by author or recipient.

    Returns
    -------
    Handoffs
        Frames ``handoffs``, ``operations``, ``claims``, ``cues``.

    Raises
    ------
    AgentlensError
        For settings or data that can not be used.
    """
    from agentlens.detect.claims import claims, cues
    from agentlens.detect.handoff_limits import HandoffLimits as Limits
    from agentlens.detect.handoffs import handoffs as judge
    from agentlens.detect.inferred import inferred_receipts
    from agentlens.detect.operations import operations
    from agentlens.detect.receipts_auth import AuthorKeys as Keys
    from agentlens.detect.receipts_auth import authors
    from agentlens.model.receipt import RECEIPTS

    # everything is judged on whole runs; the selection is of what is shown, so that it can not change an answer
    selection = Selection.parse(since, until, workflow, agent)
    opened = open_data(data, Selection(), normaliser=normaliser, format=format, sql=sql)
    events = opened.events().collect().lazy()
    native = pl.LazyFrame(schema=RECEIPTS) if opened.receipts is None else opened.receipts
    told = (
        pl.concat([native.select(RECEIPTS.names()), inferred_receipts(events).select(RECEIPTS.names())])
        .collect()
        .lazy()
    )
    limits = limits or Limits()
    moment = parse_time(as_of, "--as-of") if isinstance(as_of, str) else as_of or _newest(told, events)
    known = Keys.load(Path(keys)) if isinstance(keys, str | Path) else keys
    judged = _chosen(
        judge(told, limits, as_of=moment, keys=known).collect(engine="in-memory"), selection, events
    )
    claimed = claims(events.join(_runs(selection, events), on="run_id", how="semi")).collect()
    return Handoffs(
        handoffs=judged,
        operations=operations(judged.lazy()).collect(),
        claims=claimed,
        cues=cues(claimed),
        authors=authors(told, known or Keys({})).collect(),
        metadata=_metadata(
            opened, limits_digest=limits.digest, as_of="" if moment is None else moment.isoformat()
        ),
    )


def _newest(receipts: pl.LazyFrame, events: pl.LazyFrame) -> datetime | None:
    """Newest time in the data: of receipts, and of what the traces show; None where nothing carries one."""
    times = [
        frame.select(pl.max_horizontal(pl.col(name).max() for name in names)).collect().item()
        for frame, names in ((receipts, ["at"]), (events, ["at", "ended_at"]))
    ]
    known: list[datetime] = [time for time in times if time is not None]
    return max(known, default=None)


def _runs(selection: Selection, events: pl.LazyFrame) -> pl.LazyFrame:
    """Return the runs of which something is selected."""
    return selection.apply(events).select("run_id").unique()


def resets(
    data: Data,
    *,
    state_keys: StateKeys | str | Path | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    workflow: str | None = None,
    agent: str | None = None,
    normaliser: Normaliser | None = None,
    format: str | None = None,  # noqa: A002 - the word users type
    sql: str | Path | None = None,
) -> Resets:
    """Judge every branched run by its six gates, and list resets that nobody wrote a receipt for.

    Returns
    -------
    Resets
        Frames ``branches``, ``state_keys``, ``effects``, ``funnel``, ``families``, ``unreceipted``, ``repeated``,
        ``comparison`` (branch against parent, where both runs are at hand).

    Raises
    ------
    AgentlensError
        For settings or data that can not be used.
    """
    from agentlens.detect import reset_effects, reset_tables
    from agentlens.detect.inferred import inferred_branches
    from agentlens.detect.resets import in_lineage, with_events
    from agentlens.detect.resets import resets as judge
    from agentlens.detect.state_keys import StateKeys as Keys
    from agentlens.detect.state_keys import state_key_rows, with_required
    from agentlens.model.branch import BRANCHES

    selection = Selection.parse(since, until, workflow, agent)
    opened = open_data(data, Selection(), normaliser=normaliser, format=format, sql=sql)
    events = opened.events().collect()
    held = events.lazy() if events.height else None
    native = pl.LazyFrame(schema=BRANCHES) if opened.branches is None else opened.branches
    parts = [native.select(BRANCHES.names())]
    if held is not None:
        parts.append(inferred_branches(held).select(BRANCHES.names()))
    branches = pl.concat(parts).collect().lazy()
    keys = Keys.load(Path(state_keys)) if isinstance(state_keys, str | Path) else state_keys or Keys()
    judged = judge(branches, events=held, state_keys=keys).collect(engine="in-memory")
    standing = with_events(in_lineage(branches), held).collect(engine="in-memory").lazy()
    seen = events.lazy()
    chosen = _branches(judged, standing, selection, seen)
    shown = selection.apply(seen)

    def of_chosen(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.join(chosen.select("branch_id"), on="branch_id", how="semi", maintain_order="left")

    judged = of_chosen(judged)
    return Resets(
        branches=judged,
        state_keys=of_chosen(state_key_rows(with_required(standing, keys), keys).collect()),
        effects=of_chosen(reset_effects.effect_rows(standing, held).collect()),
        funnel=reset_tables.funnel(judged.lazy()).collect(),
        families=reset_tables.families(judged.lazy()).collect(),
        unreceipted=reset_tables.unreceipted_resets(shown, branches).collect(),
        repeated=of_chosen(reset_effects.repeated_effects(standing, seen).collect()),
        comparison=of_chosen(reset_effects.compared(standing, seen, _run_verdicts(events)).collect()),
        metadata=_metadata(opened),
    )


def _run_verdicts(events: pl.DataFrame) -> pl.LazyFrame | None:
    if not events.height:
        return None
    from agentlens.api import loops

    return loops(events).runs.lazy()


def _branches(
    judged: pl.DataFrame, standing: pl.LazyFrame, selection: Selection, events: pl.LazyFrame
) -> pl.DataFrame:
    """Return the branches that are asked for: by the receipt's time, and by runs of the workflow or agent."""
    found = judged.join(
        standing.select("branch_id", "at").collect(), on="branch_id", how="left", suffix="_of"
    )
    at = pl.col("at_of") if "at_of" in found.columns else pl.col("at")
    if selection.since is not None:
        found = found.filter(at >= selection.since)
    if selection.until is not None:
        found = found.filter(at < selection.until)
    if selection.workflow is not None or selection.agent is not None:
        where = Selection(workflow=selection.workflow, agent=selection.agent)
        runs = where.apply(events).select("run_id").unique().collect()["run_id"].implode()
        found = found.filter(pl.col("branch_id").is_in(runs) | pl.col("parent_id").is_in(runs))
    return found


def _chosen(judged: pl.DataFrame, selection: Selection, events: pl.LazyFrame) -> pl.DataFrame:
    from agentlens.detect.shown import chosen_handoffs

    places = None
    if selection.workflow is not None:
        places = Selection(workflow=selection.workflow).apply(events).select("run_id", "trace_id").collect()
    return chosen_handoffs(judged, selection, places)


def _metadata(opened: Opened, **more: str) -> dict[str, Any]:
    return {"agentlens": __version__, **more, **opened.versions()}
