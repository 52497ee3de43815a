"""Review: a blinded queue goes out as a page and a CSV, decisions come back and are appended as new labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from agentlens.data import is_lake
from agentlens.errors import InputError
from agentlens.in_place import put_text, together
from agentlens.model.label import LABELS, Origin, Scope, State
from agentlens.report.decisions import blank, read_decisions
from agentlens.results import Tables, page_file, put_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rules import Rule
    from agentlens.report.material import Material


KEY = pl.Schema(
    {
        "item": pl.Int64(),
        "run_id": pl.String(),
        "agent": pl.String(),
        "around": pl.Int64(),
        "stratum": pl.String(),
        "of": pl.Int64(),
        "taken": pl.Int64(),
        "probability": pl.Float64(),
    }
)
"""What each item is; kept beside the queue and not in it."""

ESTIMATES = pl.Schema(
    {
        "stratum": pl.String(),
        "of": pl.Int64(),
        "taken": pl.Int64(),
        "decided": pl.Int64(),
        "incidents": pl.Int64(),
        "share": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "estimated": pl.Float64(),
    }
)
"""One row a stratum: runs in it, drawn, decided (unsure left out), incidents among them with the exact interval of
their share, and how many incidents that makes of all its runs."""


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A blinded queue: ``html``, ``csv`` to be filled in, and the ``key`` (`KEY`) that says what each item is."""

    html: str
    csv: str
    key: pl.DataFrame
    metadata: dict[str, str]

    def write(self, out: str | Path) -> list[Path]:
        """Write the page, ``<name>.csv`` and ``<name>_key.parquet`` beside it.

        Raises
        ------
        InputError
            When they cannot be written.
        """
        page = page_file(out)
        table, key = page.with_suffix(".csv"), key_beside(page)
        if page in {table, key}:
            raise InputError.at(
                str(out),
                f"its {page.suffix[1:]} file would replace it",
                accepted="a name such as review.html",
            )
        try:
            page.parent.mkdir(parents=True, exist_ok=True)
            with together(
                [page, table, key]
            ) as fresh:  # a page beside the key of another queue would mislead
                put_text(fresh[page], self.html)
                put_text(fresh[table], self.csv)
                put_table(self.key, fresh[key], self.metadata)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise InputError.at(
                str(out), f"can not be written ({why})", accepted="a path of a file"
            ) from error
        return [page, table, key]

    def _repr_html_(self) -> str:
        return (
            f"<p>A blinded queue of {self.key.height:,} items; <code>.write('review.html')</code> writes the page,"
            " a CSV and the key, which is not for reviewers.</p>"
        )


@dataclass(frozen=True, kw_only=True)
class Review(Tables):
    """Decisions read back: the new ``labels``, how far reviewers agree, and what the sample says of all runs."""

    labels: pl.DataFrame
    agreement: pl.DataFrame
    estimates: pl.DataFrame
    decisions: pl.DataFrame


def key_beside(page: Path) -> Path:
    """Where the key of a queue's page is."""
    return page.with_name(f"{page.stem}_key.parquet")


def review_queue(
    lake: str | Path,
    *,
    labels: str | Path | pl.DataFrame | None = None,
    rule: Rule | RuleBook | str | Path | None = None,
    policies: Policies | str | Path | None = None,
    size: int = 20,
    seed: int = 0,
    link: str | None = None,
    any_version: bool = False,
) -> Queue:
    """Draw a blinded queue: flagged runs, and as many controls drawn by known probability.

    Controls are runs without a label; where these are too few, runs that are labelled healthy.

    Parameters
    ----------
    labels
        Runs that they speak of are left out, except healthy ones that the rule flags: a hidden incident among those
        is what a false-positive rate suffers from most.
    size
        Runs of each stratum (flagged, uncertain, silent) at most.
    seed
        Another seed draws another queue.
    any_version
        Use a profile although its versions or settings are not those of the data. Labels may have changed.

    Raises
    ------
    AgentlensError
        For data, labels or settings that can not be used; when there is nothing to review.
    """
    from agentlens.report.blinded import queue_page
    from agentlens.report.links import check_link
    from agentlens.report.sampling import draw, with_controls

    check_link(link)
    made = _material(lake, rule, policies, link, any_version=any_version)
    told = _known(lake, labels)
    healthy = told.filter(pl.col("label") == str(State.HEALTHY))["run_id"].implode()
    doubted = pl.col("run_id").is_in(healthy) & (pl.col("alerts") > 0)
    open_runs = made.runs.filter(~pl.col("run_id").is_in(told["run_id"].drop_nulls().implode()) | doubted)
    calm = made.runs.filter(
        pl.col("run_id").is_in(healthy) & (pl.col("alerts") == 0) & (pl.col("events") > 0)
    )
    drawn = with_controls(draw(open_runs, size=size, seed=seed), calm, seed=seed)
    if drawn.is_empty():
        raise InputError.at(
            str(lake), "every run is labelled, and no healthy one is flagged", accepted="runs to review"
        )
    key = _placed(made, drawn, seed)
    stamp = {**made.stamp, "seed": str(seed)}
    hidden = {name: value for name, value in stamp.items() if name in {"agentlens", "data", "seed"}}
    return Queue(html=queue_page(made, key, hidden), csv=blank(key), key=key, metadata=dict(stamp))


def review_decisions(
    lake: str | Path,
    decisions: Sequence[str | Path],
    key: str | Path | pl.DataFrame,
    *,
    labels: str | Path | pl.DataFrame | None = None,
    append: bool = True,
) -> Review:
    """Read decisions back, measure agreement, and append them to the lake's labels.

    Where reviewers of one run disagree, or one of them is unsure while the other decides, the run is labelled
    ``exclude`` until somebody settles it; two onsets make an interval. A run on which all are unsure gets no label.
    What the newest label of a run says already is not said again (``metadata["already"]`` counts it), so that the same
    file may be read twice.

    Parameters
    ----------
    decisions
        CSV files (`COLUMNS`), one or more reviewers each.
    key
        The queue's key: ``<name>_key.parquet``.
    append
        Whether to write labels into the lake's store; without, they are only returned.

    Raises
    ------
    InputError
        For rows that are no decisions, items that the queue does not have, or places that a run does not have.
    """
    from agentlens.calibrate.agreement import agreement
    from agentlens.calibrate.label_check import check_labels
    from agentlens.calibrate.label_store import LabelStore
    from agentlens.lake import Lake

    known = key if isinstance(key, pl.DataFrame) else _key(key)
    told = pl.concat([read_decisions(path) for path in decisions])
    told = told.unique(["item", "reviewer"], keep="last", maintain_order=True).sort("item", "reviewer")
    strange = told.join(known, on=["item", "run_id"], how="anti")
    if strange.height:
        raise InputError.at(
            "decisions",
            f"item {strange['item'][0]} ({strange['run_id'][0]}) is not in this queue",
            accepted="its own CSV",
        )
    before = _known(lake, labels)
    drawn = _labels(told, known, before)
    made = _not_told(drawn, before)
    opened = Lake.open(Path(lake))
    store = LabelStore.of(opened)
    if made.height:
        about = store.read().join(made.select("run_id"), on="run_id", how="semi")
        # an onset that was mistyped is refused here, not by the calibration that would read it
        check_labels(pl.concat([about, made]).unique(), [*opened.buckets()])
    if append and made.height:
        store.add(made)
    return Review(
        labels=made,
        agreement=agreement(told),
        estimates=_estimates(told, known),
        decisions=told,
        metadata={"already": str(drawn.height - made.height)},
    )


def _material(
    lake: str | Path,
    rule: Rule | RuleBook | str | Path | None,
    policies: Policies | str | Path | None,
    link: str | None,
    *,
    any_version: bool,
) -> Material:
    from agentlens.api import check_rules
    from agentlens.data import open_data
    from agentlens.detect.policies import Policies as PoliciesClass
    from agentlens.model.event import ACTIONS
    from agentlens.model.select import Selection
    from agentlens.reporting import gather

    if not is_lake(Path(lake)):
        raise InputError.at(
            str(lake), "decisions are kept in a lake", accepted="a folder that agentlens ingest wrote"
        )
    opened = open_data(lake, Selection())
    loaded = PoliciesClass.load(Path(policies)) if isinstance(policies, str | Path) else policies
    check_rules(opened, [rule], ACTIONS, loaded, any_version=any_version, labels=False)
    return gather(opened, rule, loaded, ACTIONS, link=link)


def _known(lake: str | Path, labels: str | Path | pl.DataFrame | None) -> pl.DataFrame:
    """Labels of the file and of the lake's own store."""
    from agentlens.calibrate.label_store import LabelStore
    from agentlens.calibrate.labels import conform_labels, read_labels
    from agentlens.lake import Lake

    kept = LabelStore.of(Lake.open(Path(lake))).read()
    if labels is None:
        return kept
    given = conform_labels(labels) if isinstance(labels, pl.DataFrame) else read_labels(labels)
    return pl.concat([kept, given]).unique().sort(list(LABELS))


def _key(path: str | Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path).select(pl.col(name).cast(dtype) for name, dtype in KEY.items())
    except (OSError, pl.exceptions.PolarsError):
        raise InputError.at(
            str(path), "is no key of a queue", accepted="<name>_key.parquet beside the queue"
        ) from None


def _placed(made: Material, drawn: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Choose of each run the lane to show, and the event around which: the first alert, or one by lot."""
    from agentlens.report.blinded import place_of

    first = made.episodes.sort("run_id", "alert_seq", "agent").unique(
        "run_id", keep="first", maintain_order=True
    )
    flagged = {
        run: (agent, onset) for run, agent, onset in first.select("run_id", "agent", "onset_seq").iter_rows()
    }
    lanes = (
        made.verdicts.join(drawn, on="run_id", how="semi")
        .group_by("run_id", "agent")
        .agg(pl.col("seq").sort())
        .sort("run_id", "agent")
    )
    of_run: dict[str, list[tuple[str, list[int]]]] = {}
    for run, agent, seqs in lanes.iter_rows():
        of_run.setdefault(run, []).append((agent, seqs))
    rows: list[dict[str, Any]] = []
    for row in drawn.iter_rows(named=True):
        run = row["run_id"]
        agent, seqs = max(of_run[run], key=lambda lane: len(lane[1]))
        around = seqs[place_of(run, seed, len(seqs))]
        agent, around = flagged.get(run, (agent, around))
        rows.append({**row, "agent": agent, "around": around})
    return (
        pl.DataFrame(rows, schema={name: dtype for name, dtype in KEY.items() if name != "item"})
        .with_columns(pl.int_range(1, pl.len() + 1).alias("item"))
        .select(pl.col(name).cast(dtype) for name, dtype in KEY.items())
    )


def _labels(told: pl.DataFrame, key: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    newest: dict[str, int] = dict(
        known.group_by("run_id")
        .agg(pl.col("label_version").cast(pl.Int64, strict=False).max().fill_null(0))
        .iter_rows()
    )
    rows = []
    for (item,), group in told.group_by(["item"], maintain_order=True):
        about = key.filter(pl.col("item") == item).row(0, named=True)
        settled = _settled(group)
        if settled is None:
            continue
        incident = settled["label"] == str(State.INCIDENT)
        placed = incident and settled["onset_seq"] is not None
        rows.append(
            {
                **dict.fromkeys(LABELS),
                **settled,
                "run_id": about["run_id"],
                "agent": about["agent"] if placed else None,
                "scope": str(Scope.INTERVAL if placed else Scope.RUN),
                "source": str(Origin.HUMAN),
                "reviewer": "+".join(group["reviewer"].unique().sort()),
                "found_by": "rule" if about["stratum"] == "flagged" else "audit",
                "label_version": str(newest.get(about["run_id"], 0) + 1),
            }
        )
    return pl.DataFrame(rows, schema=LABELS).sort("run_id")


def _not_told(made: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Leave out labels that say of a run what its newest label says."""
    version = pl.col("label_version").cast(pl.Int64, strict=False).fill_null(-1)
    newest = known.filter(version == version.max().over("run_id"))
    facts = [name for name in LABELS if name != "label_version"]
    return made.join(newest, on=facts, how="anti", nulls_equal=True).sort("run_id")


def _settled(group: pl.DataFrame) -> dict[str, Any] | None:
    """Make one assertion of the decisions on one item; None where all are unsure."""
    words = set(group["decision"])
    if words == {"unsure"}:
        return None
    if len(words) > 1:
        return {"label": str(State.EXCLUDE), "kind": "reviewers disagree"}
    kinds = group["kind"].replace("", None).drop_nulls()
    kind = kinds[0] if kinds.len() else None
    if words == {"healthy"}:
        return {"label": str(State.HEALTHY), "kind": kind}
    low = group["onset_seq"].min()
    high = group.select(pl.coalesce("onset_hi_seq", "onset_seq").max()).item()
    return {
        "label": str(State.INCIDENT),
        "kind": kind,
        "onset_seq": low,
        "onset_hi_seq": high if high != low else None,
        "end_seq": group["end_seq"].max() if low is not None else None,
    }


def _estimates(told: pl.DataFrame, key: pl.DataFrame) -> pl.DataFrame:
    """Weight what was found in each stratum by how it was drawn."""
    from agentlens.calibrate.intervals import clopper_pearson

    words = told.group_by("item").agg(pl.col("decision").unique())
    single = words.filter(pl.col("decision").list.len() == 1).select("item", pl.col("decision").list.first())
    decided = key.join(single.filter(pl.col("decision") != "unsure"), on="item", how="left")
    rows = []
    for (stratum,), group in decided.sort("stratum").group_by(["stratum"], maintain_order=True):
        n, k = group["decision"].count(), int((group["decision"] == "incident").sum())
        rate = clopper_pearson(k, n)
        of = int(group["of"][0])
        rows.append(
            {
                "stratum": stratum,
                "of": of,
                "taken": group.height,
                "decided": n,
                "incidents": k,
                "share": rate.value,
                "low": rate.low,
                "high": rate.high,
                "estimated": None if rate.value is None else rate.value * of,
            }
        )
    return pl.DataFrame(rows, schema=ESTIMATES)
