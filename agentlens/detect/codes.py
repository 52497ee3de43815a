"""Verdicts, reasons and sources as small integers while they are decided; words only at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from agentlens.model.enums import Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CODE = pl.UInt8
NONE = 0
"""No reason, no source."""

VERDICT: Mapping[Verdict, int] = {verdict: code for code, verdict in enumerate(Verdict)}
REASON: Mapping[Reason, int] = {reason: code for code, reason in enumerate(Reason, 1)}
SOURCE: Mapping[str, int] = {"event": 1, "file": 2}
AS_RECORDED = 255
"""The reason stands in the event's own ``hard_failure``."""


def code(number: int) -> pl.Expr:
    """Literal of the code type."""
    return pl.lit(number, dtype=CODE)


def verdict_words() -> pl.Expr:
    """The column ``verdict`` as text."""
    return _words("verdict", map(str, VERDICT)).alias("verdict")


def reason_words() -> pl.Expr:
    """The column ``reason`` as text, null where there is none."""
    recorded = pl.col("reason") == AS_RECORDED
    known = pl.when(recorded).then(code(NONE)).otherwise(pl.col("reason"))
    words = pl.lit(pl.Series([None, *map(str, REASON)], dtype=pl.String)).gather(known)
    return pl.when(recorded).then("hard_failure").otherwise(words).alias("reason")


def source_words() -> pl.Expr:
    """The column ``policy_source`` as text, null where no policy decided."""
    return _words("policy_source", [None, *SOURCE]).alias("policy_source")


def _words(name: str, vocabulary: Iterable[str | None]) -> pl.Expr:
    return pl.lit(pl.Series(list(vocabulary), dtype=pl.String)).gather(pl.col(name))
