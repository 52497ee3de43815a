"""``agentlens label``: add to, look at and take out the labels of a lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from agentlens.calibrate.handoff_labels import handoff_claims
from agentlens.calibrate.label_check import check_labels
from agentlens.calibrate.label_store import LabelStore
from agentlens.calibrate.labels import (
    READERS,
    conform_labels,
    labels_digest,
    listed,
    read_labels,
    where_listed,
)
from agentlens.calibrate.weak import RULE, weak_labels
from agentlens.errors import InputError
from agentlens.in_place import in_place
from agentlens.lake import Lake
from agentlens.model.label import LABELS
from agentlens.report.words import plural
from agentlens.verbs.console import console, dump, print_json, print_table
from agentlens.verbs.reading import note

if TYPE_CHECKING:
    from argparse import Namespace

_GIVEN = tuple(LABELS)


def run(args: Namespace) -> int:
    """Do what was asked."""
    lake = Lake.open(args.lake)
    store = LabelStore.of(lake)
    if args.what == "list":
        show(store.read(), json=args.json)
    elif args.what == "export":
        export(store.read(), args.file)
        if args.json:
            print(dump({"file": args.file, "labels": store.read().height}))  # noqa: T201
    else:
        given = {"add": one_label, "import": read_file, "weak": derived}[args.what](args, lake)
        refuse_unmatched(given, lake)
        stored = store.read()
        about = stored.join(given.select("run_id").drop_nulls().unique(), on="run_id", how="semi")
        # what is there already of the same runs counts: together they must be labels that calibrate takes
        check_labels(pl.concat([about, given]).unique(), [*lake.buckets()])
        attempts = lake.receipts().select("operation_id", "handoff_id").unique().collect()
        handoff_claims(pl.concat([stored, given]).unique(), attempts)
        before = stored.height
        store.add(given)
        known = store.read()
        added = known.height - before
        note(f"{plural(added, 'label')} added, {given.height - added:,} were there already")
        note(f"label version {labels_digest(known)}")
        if args.json:
            told = {
                "added": known.height - before,
                "labels": known.height,
                "label_version": labels_digest(known),
            }
            print(dump(told))  # noqa: T201
    return 0


def one_label(args: Namespace, lake: Lake) -> pl.DataFrame:
    """Build one row from the options."""
    del lake
    given = {name: getattr(args, name) for name in _GIVEN if getattr(args, name, None) is not None}
    raw = pl.DataFrame({name: [str(value)] for name, value in given.items()})
    return conform_labels(raw, "label")


def read_file(args: Namespace, lake: Lake) -> pl.DataFrame:
    """Read a label file."""
    del lake
    return read_labels(args.file)


def derived(args: Namespace, lake: Lake) -> pl.DataFrame:
    """Derive weak labels from the outcomes in the lake."""
    del args
    note(f"rule: {RULE}")
    return weak_labels(lake.events())


def refuse_unmatched(labels: pl.DataFrame, lake: Lake) -> None:
    """Refuse labels of runs or operations that the lake does not hold.

    Raises
    ------
    InputError
        The message lists them.
    """
    for column, known, what in (
        ("run_id", lake.events().select("run_id"), "run"),
        ("operation_id", lake.receipts().select("operation_id"), "operation"),
    ):
        told = labels.select(column).drop_nulls().unique()
        missing = told.join(known.unique().collect(), on=column, how="anti")[column].sort().to_list()
        if missing:
            said = f"{plural(len(missing), what)} not in the lake: {listed(missing)}"
            raise InputError.at("labels", said, accepted=where_listed(missing, column))


def show(labels: pl.DataFrame, *, json: bool) -> None:
    """Print the labels, and how many there are of each kind."""
    if json:
        print_json(labels)
        return
    out = console()
    counts = labels.group_by("scope", "label", "source").agg(
        pl.len().cast(pl.Int64).alias("labels"),
        pl.col("run_id").n_unique().cast(pl.Int64).alias("runs"),
        pl.col("task_group").drop_nulls().n_unique().cast(pl.Int64).alias("task groups"),
    )
    print_table(
        out,
        f"{plural(labels.height, 'label')}, version {labels_digest(labels)}",
        counts.sort("scope", "label", "source"),
    )
    brief = ("run_id", "operation_id", "scope", "label", "kind", "onset_seq", "end_seq", "source")
    if labels.height:
        print_table(out, "Labels", labels.select(brief), limit=20)


def export(labels: pl.DataFrame, file: str) -> None:
    """Write the labels as CSV, NDJSON or Parquet, by the ending.

    Raises
    ------
    InputError
        For another ending, or a path that cannot be written.
    """
    path = Path(file)
    times = [
        pl.col(n).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
        for n, t in LABELS.items()
        if isinstance(t, pl.Datetime)
    ]
    plain, kind = labels.with_columns(times), READERS.get(path.suffix.lower())
    if kind is None:
        raise InputError.at(file, "the ending says no format of labels", accepted=", ".join(READERS))
    try:
        with in_place(path) as fresh:
            if kind == "Parquet":
                labels.write_parquet(fresh)
            elif kind == "CSV":
                plain.write_csv(fresh)
            else:
                plain.write_ndjson(fresh)
    except OSError as error:
        raise InputError.at(
            file, f"can not be written ({error.strerror})", accepted="a path that can be written"
        ) from None
