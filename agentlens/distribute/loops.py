"""Loop verdicts bucket by bucket on Spark: the same functions as on one machine, on whole runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens._version import __version__
from agentlens.detect.columns import JUDGED
from agentlens.detect.episodes import episodes
from agentlens.detect.lanes import check_kinds
from agentlens.detect.loops import loops
from agentlens.detect.profile_rules import RuleBook
from agentlens.detect.runs import runs
from agentlens.distribute.pieces import PIECES, ROWS, batches_of, packed
from agentlens.distribute.tables import VERSIONS, SparkTables, kept
from agentlens.distribute.types import spark_schema
from agentlens.lake.store import bucket_of
from agentlens.model.event import ACTIONS
from agentlens.model.select import Selection
from agentlens.model.verdict import EPISODES, RUNS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from agentlens.detect.policies import Policies
    from agentlens.detect.rules import Rule
    from agentlens.distribute.lakes import SparkLake
    from agentlens.distribute.whole import Runs

SCHEMAS: Final = {"verdicts": VERDICTS, "episodes": EPISODES, "runs": RUNS}
KEYS: Final = {
    "verdicts": ("run_id", "agent", "seq"),
    "episodes": ("run_id", "agent", "onset_seq"),
    "runs": ("run_id",),
}


def judged(
    lake: SparkLake,
    rule: Rule | RuleBook,
    policies: Policies | None = None,
    actions: Sequence[str] = ACTIONS,
    selection: Selection | None = None,
) -> SparkTables:
    """Judge every action of a lake; see `agentlens.distribute.spark.loops`."""
    check_kinds(actions)
    book = RuleBook.of(rule)
    buckets, whole_runs = lake.whole(JUDGED)
    worker = partial(
        _judge,
        whole_runs=whole_runs,
        book=book,
        policies=policies,
        actions=tuple(actions),
        selection=selection or Selection(),
        buckets=max(lake.manifest.bucket_count, 1),
    )
    made = buckets.mapInArrow(worker, spark_schema(PIECES))
    facts = {
        "agentlens": __version__,
        "rule": book.default.name,
        "rule_digest": book.digest,
        "policies_digest": policies.digest if policies else "",
        "actions": ",".join(actions),
    }
    return SparkTables(made=kept(made), schemas=dict(SCHEMAS), keys=dict(KEYS), facts=facts)


def _judge(
    batches: Iterable[pa.RecordBatch],
    *,
    whole_runs: Runs,
    book: RuleBook,
    policies: Policies | None,
    actions: tuple[str, ...],
    selection: Selection,
    buckets: int,
) -> Iterator[pa.RecordBatch]:
    """Judge the runs of one partition (in a worker)."""
    place = 0
    for frame in whole_runs.frames(batches):
        key = bucket_of(frame["run_id"][0], buckets)
        events = selection.apply(frame.lazy()).collect().lazy()
        verdicts = loops(events, book, policies, actions=actions).collect()
        stretches = episodes(events, verdicts.lazy(), book).collect()
        summed = runs(events, verdicts.lazy(), stretches.lazy()).collect()
        for name, made in (("verdicts", verdicts), ("episodes", stretches), ("runs", summed)):
            yield from batches_of(packed(name, made.cast(dict(SCHEMAS[name])), key=key, place=place))  # type: ignore[arg-type]
        seen = events.select(list(VERSIONS)).unique().sort(pl.all()).collect()
        yield from batches_of(packed("versions", seen, key=key, place=place))
        place += frame.height // ROWS + 1
