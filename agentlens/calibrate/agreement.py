"""How far reviewers agree: kappa, AC1 and the onsets they name (CALIBRATION section 5, part 9)."""

from __future__ import annotations

from itertools import combinations

import polars as pl

from agentlens.errors import SchemaError

AGREEMENT = pl.Schema(
    {
        "first": pl.String(),
        "second": pl.String(),
        "items": pl.Int64(),
        "agreed": pl.Int64(),
        "observed": pl.Float64(),
        "kappa": pl.Float64(),
        "ac1": pl.Float64(),
        "onsets": pl.Int64(),
        "onset_median": pl.Float64(),
        "onset_overlap": pl.Int64(),
    }
)
"""One row a pair of reviewers with items in common. ``kappa``: Cohen's, null where both always say the same one word;
``ac1``: Gwet's, which does not collapse where one word is rare. ``onsets``: items that both call incidents and place;
``onset_median``: events between the two onsets; ``onset_overlap``: how many of their intervals touch."""


def agreement(decisions: pl.DataFrame) -> pl.DataFrame:
    """Hold each pair of reviewers beside each other (`AGREEMENT`, sorted).

    Parameters
    ----------
    decisions
        ``item, reviewer, decision, onset_seq, onset_hi_seq``, one row an item and reviewer.

    Raises
    ------
    SchemaError
        When a column is missing.

    Examples
    --------
    >>> rows = [(i, who, "healthy") for i in range(9) for who in "ab"] + [(9, "a", "incident"), (9, "b", "healthy")]
    >>> frame = pl.DataFrame(rows, schema=["item", "reviewer", "decision"], orient="row")
    >>> found = agreement(frame.with_columns(onset_seq=pl.lit(None, pl.Int64), onset_hi_seq=pl.lit(None, pl.Int64)))
    >>> found["observed"][0], round(found["kappa"][0], 2), round(found["ac1"][0], 2)
    (0.9, 0.0, 0.89)
    """
    wanted = ("item", "reviewer", "decision", "onset_seq", "onset_hi_seq")
    missing = [name for name in wanted if name not in decisions.columns]
    if missing:
        raise SchemaError(f"decisions lack {', '.join(missing)}; accepted: {', '.join(wanted)}")
    names = decisions["reviewer"].drop_nulls().unique().sort().to_list()
    rows = []
    for first, second in combinations(names, 2):
        one, other = (decisions.filter(pl.col("reviewer") == name) for name in (first, second))
        both = one.join(other, on="item", suffix="_2").sort("item")
        if both.height:
            rows.append({"first": first, "second": second, **_agreed(both), **_onsets(both)})
    return pl.DataFrame(rows, schema=AGREEMENT)


def _agreed(both: pl.DataFrame) -> dict[str, float | int | None]:
    one, other = both["decision"].to_list(), both["decision_2"].to_list()
    n = len(one)
    same = sum(a == b for a, b in zip(one, other, strict=True))
    words = sorted({*one, *other})
    shares = [(one.count(word) / n, other.count(word) / n) for word in words]
    observed = same / n
    chance = sum(a * b for a, b in shares)
    middle = [(a + b) / 2 for a, b in shares]
    gwet = sum(p * (1 - p) for p in middle) / (len(words) - 1) if len(words) > 1 else 0.0
    return {
        "items": n,
        "agreed": same,
        "observed": observed,
        "kappa": None if chance >= 1 else (observed - chance) / (1 - chance),
        "ac1": (observed - gwet) / (1 - gwet),
    }


def _onsets(both: pl.DataFrame) -> dict[str, float | int | None]:
    ill = (pl.col("decision") == "incident") & (pl.col("decision_2") == "incident")
    placed = both.filter(
        ill & pl.col("onset_seq").is_not_null() & pl.col("onset_seq_2").is_not_null()
    ).with_columns(
        pl.coalesce("onset_hi_seq", "onset_seq").alias("_hi"),
        pl.coalesce("onset_hi_seq_2", "onset_seq_2").alias("_hi_2"),
    )
    touch = (pl.col("onset_seq") <= pl.col("_hi_2")) & (pl.col("onset_seq_2") <= pl.col("_hi"))
    apart = (placed["onset_seq"] - placed["onset_seq_2"]).abs()
    return {
        "onsets": placed.height,
        "onset_median": None if apart.is_empty() else float(apart.median()),  # type: ignore[arg-type]
        "onset_overlap": int(placed.select(touch.sum()).item()),
    }
