"""Loop verdicts of data of any size: part by part, two at a time, written as they are made."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agentlens._version import __version__
from agentlens.data import each, told_versions, versions_in
from agentlens.detect.columns import JUDGED
from agentlens.detect.episodes import episodes as find_episodes
from agentlens.detect.lanes import REQUIRED
from agentlens.detect.loops import loops as judge
from agentlens.detect.runs import runs as sum_up
from agentlens.model.once import said_once
from agentlens.model.verdict import VERDICTS
from agentlens.results import Loops, LoopSums, RowWriter, add_tallies, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import polars as pl

    from agentlens.data import Opened
    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook

AT_ONCE = 2
"""Parts judged at the same time, where there are as many processors: much of the work keeps one busy."""
ROWS_AT_ONCE = 1_000_000
"""Events that are judged at the same time; a larger part is judged alone."""

_Found = TypeVar("_Found")
_Part = TypeVar("_Part")


def loop_parts(
    opened: Opened,
    book: RuleBook,
    policies: Policies | None = None,
    actions: Sequence[str] = ("tool", "handoff"),
) -> Iterator[Loops]:
    """Judge part after part, so that memory stays that of a few parts whatever the data holds.

    Yields
    ------
    Loops
        One a part, in their order (a lake's buckets hold whole runs, so parts share none). ``metadata`` names
        the versions that were found so far: the last has them all.
    """
    versions: list[dict[str, set[str]]] = []
    metadata = {
        "agentlens": __version__,
        "rule": book.default.name,
        "rule_digest": book.digest,
        "policies_digest": policies.digest if policies else "",
        "actions": ",".join(actions),
    }

    def judged(events: pl.LazyFrame) -> tuple[Loops, dict[str, set[str]]]:
        held = _read(events)
        versions_held = versions_in(held)
        # verdicts are used three times; they are made once
        verdicts = judge(held.lazy(), book, policies, actions=tuple(actions)).collect()
        episodes = find_episodes(held.lazy(), verdicts.lazy(), book).collect()
        runs = sum_up(held.lazy(), verdicts.lazy(), episodes.lazy()).collect()
        return Loops(verdicts=verdicts, episodes=episodes, runs=runs), versions_held

    for found, held in in_order(judged, each(opened.parts), opened.rows):
        versions.append(held)
        yield replace(found, metadata={**metadata, **told_versions(versions)})


def _read(events: pl.LazyFrame) -> pl.DataFrame:
    """Read what the detector looks at; a column that says one thing in all rows takes the room of one value."""
    given = events.collect_schema()
    held = events.select(name for name in JUDGED if name in given).collect()
    if held.is_empty():
        return held
    missing = dict(zip(held.columns, held.null_count().row(0), strict=True))
    nothing = [name for name, count in missing.items() if name not in REQUIRED and count == held.height]
    return said_once(held.drop(nothing))


def in_order(
    work: Callable[[_Part], _Found], parts: Iterable[_Part], rows: Sequence[int] = ()
) -> Iterator[_Found]:
    """Apply `work` to parts in threads and yield what it gives in their order.

    No more than `AT_ONCE` parts and `ROWS_AT_ONCE` rows are worked on at once, but always one; where `rows` are
    not known, one.
    """
    workers = min(AT_ONCE, os.cpu_count() or 1) if rows else 1
    waiting: deque[tuple[int, Future[_Found]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for number, part in enumerate(parts):
            size = rows[number] if rows else 0
            while waiting and (len(waiting) >= workers or sum(s for s, _ in waiting) + size > ROWS_AT_ONCE):
                yield waiting.popleft()[1].result()
            waiting.append((size, pool.submit(work, part)))
        while waiting:
            yield waiting.popleft()[1].result()


def gather(parts: Iterable[Loops], each_part: Callable[[Loops], None] | None = None) -> LoopSums:
    """Keep of all parts what is small, and hand each to `each_part` first."""
    episodes, runs, tallies, metadata = [], [], [], {}
    for part in parts:
        if each_part is not None:
            each_part(part)
        episodes.append(part.episodes)
        runs.append(part.runs)
        tallies.append(part.tally())
        metadata = part.metadata
    return LoopSums(
        episodes=merged(episodes), runs=merged(runs), tally=add_tallies(tallies), metadata=metadata
    )


def write_loops(
    parts: Iterable[Loops], folder: str | Path, each_part: Callable[[Loops], None] | None = None
) -> LoopSums:
    """Write the tables of all parts into a folder without ever holding all verdicts.

    ``verdicts.parquet`` has the rows part after part, in each sorted by run_id, agent, seq; ``episodes.parquet``
    and ``runs.parquet`` are sorted as a whole. The same data give the same bytes. A file takes its name when it
    is whole; what was there before stays until then.
    """
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    with RowWriter(out / "verdicts.parquet", VERDICTS) as writer:

        def keep(part: Loops) -> None:
            writer.add(part.verdicts)
            if each_part is not None:
                each_part(part)

        found = replace(gather(parts, keep), folder=out)
        writer.metadata = found.metadata
    found.write(out)
    return found
