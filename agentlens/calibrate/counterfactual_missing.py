"""Which unknown evidence would have settled an uncertain stretch (CALIBRATION section 5, item 7: missing evidence).

The engine says: each candidate is tried on a copy of its lane. A stretch is settled as harmless by evidence that is
known and new; so these are the results that are worth recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from agentlens.calibrate.counterfactual_cases import CASE_FIXES
from agentlens.detect.loops import loops
from agentlens.model.enums import Reason, Verdict
from agentlens.model.event import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rules import Rule

MOST_STRETCHES: Final = 200
MOST_TRIED: Final = 30
_LANE: Final = ["run_id", "agent"]


def missing_evidence(
    events: pl.LazyFrame,
    verdicts: pl.DataFrame,
    rule: Rule | RuleBook,
    *,
    policies: Policies | None = None,
    actions: Sequence[str] = ACTIONS,
    most: int = MOST_STRETCHES,
) -> pl.DataFrame:
    """Tell what would have to be known, for each stretch of uncertain events.

    Parameters
    ----------
    events, verdicts
        Whole lanes, and what `agentlens.detect.loops.loops` gave for them under `rule` and `policies`.

    Returns
    -------
    pl.DataFrame
        Rows of `agentlens.calibrate.counterfactual_cases.CASE_FIXES` of kind ``missing_evidence``. ``alert_seq`` is the
        first event of the stretch, ``seqs`` the events whose evidence alone, known and unlike any other, settles it,
        or all that are needed together; ``value`` is how many are needed (1, or all of them). The longest
        ``most`` stretches are looked at, and the newest `MOST_TRIED` unknowns of each. It costs nothing
        elsewhere: prices are null.
    """
    doubts = _stretches(verdicts, most)
    kept = events.filter(pl.col("kind").is_in(list(actions))) if "kind" in events.collect_schema() else events
    held = kept.join(doubts.lazy().select(_LANE).unique(), on=_LANE, how="semi").collect()
    tries = [one for stretch in doubts.iter_rows(named=True) for one in _tries(held, stretch)]
    if not tries:
        return CASE_FIXES.to_frame()
    copies = [one.copy.with_columns(run_id=pl.lit(str(number))) for number, one in enumerate(tries)]
    told = loops(pl.concat(copies).lazy(), rule, policies, actions).collect()
    unsettled = told.filter(pl.col("verdict").is_in([str(Verdict.UNCERTAIN), str(Verdict.STUCK_LOOP)]))
    open_at: dict[str, list[int]] = dict(unsettled.group_by("run_id").agg("seq").iter_rows())
    settling = [
        one
        for number, one in enumerate(tries)
        if not any(one.first <= seq <= one.last for seq in open_at.get(str(number), ()))
    ]
    rows = _rows(settling)
    return pl.DataFrame(rows, schema=CASE_FIXES, orient="row").sort("run_id", "agent", "alert_seq")


class _Try(NamedTuple):
    """A copy of a lane in which the evidence of some events is known and new; ``first``, ``last``: of the stretch."""

    run_id: str
    agent: str
    first: int
    last: int
    seqs: tuple[int, ...]
    copy: pl.DataFrame


def _stretches(verdicts: pl.DataFrame, most: int) -> pl.DataFrame:
    """``run_id, agent, first, last``: neighbours that are uncertain for want of evidence, the longest first."""
    is_open = (pl.col("verdict") == str(Verdict.UNCERTAIN)) & (
        pl.col("reason") == str(Reason.MISSING_FINGERPRINT)
    )
    ordered = verdicts.sort(*_LANE, "seq").with_columns(open=is_open.fill_null(value=False))
    number = pl.col("open").rle_id().over(_LANE)
    found = (
        ordered.with_columns(number=number)
        .filter("open")
        .group_by(*_LANE, "number")
        .agg(first=pl.col("seq").min(), last=pl.col("seq").max(), events=pl.len())
    )
    return found.sort("events", *_LANE, "first", descending=[True, False, False, False]).head(most)


def _tries(held: pl.DataFrame, stretch: dict[str, Any]) -> Iterator[_Try]:
    """One unknown at a time, then all of them."""
    # A verdict looks at nothing later, so the lane is copied up to the end of the stretch.
    mine = held.filter(
        (pl.col("run_id") == stretch["run_id"])
        & (pl.col("agent").fill_null("") == stretch["agent"])
        & (pl.col("seq") <= stretch["last"])
    )
    asked = mine.filter(pl.col("progress_fingerprint").is_null())
    unknown = asked["seq"].sort().to_list()
    newest = unknown[-MOST_TRIED:]
    for seqs in (*((seq,) for seq in newest), tuple(unknown)):
        new = pl.concat_str(pl.lit("known and new "), "seq")
        known = pl.when(pl.col("seq").is_in(list(seqs))).then(new).otherwise("progress_fingerprint")
        yield _Try(
            stretch["run_id"],
            stretch["agent"],
            stretch["first"],
            stretch["last"],
            seqs,
            mine.with_columns(progress_fingerprint=known),
        )


def _rows(settling: Sequence[_Try]) -> list[dict[str, Any]]:
    """One row a stretch: the events that settle it alone, else all together."""
    found: dict[tuple[str, str, int], list[_Try]] = {}
    for one in settling:
        found.setdefault((one.run_id, one.agent, one.first), []).append(one)
    rows = []
    for (run_id, agent, first), ways in found.items():
        alone = [one.seqs[0] for one in ways if len(one.seqs) == 1]
        seqs = sorted(set(alone)) or list(ways[-1].seqs)
        said = (
            f"the evidence of event {' or '.join(map(str, seqs[:5]))}{' or others' if len(seqs) > 5 else ''}"
            if alone
            else f"the evidence of {len(seqs)} events together"
        )
        rows.append(
            {
                "run_id": run_id,
                "agent": agent,
                "alert_seq": first,
                "kind": "missing_evidence",
                "change": f"{said}, if it were known and new",
                "value": 1 if alone else len(seqs),
                "seqs": seqs,
            }
        )
    return rows
