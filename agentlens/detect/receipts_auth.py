"""Who wrote a receipt: HMAC-SHA-256 over its canonical JSON, one key per author (SPEC section 4)."""

from __future__ import annotations

import hmac
import json
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from agentlens.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

AUTH: Final = ("valid", "forged", "unsigned", "unchecked")
"""``valid``: the mac is right. ``forged``: it is not, or is missing though the author has a key. ``unsigned``,
``unchecked``: without and with a mac, by an author no key is known for; accepted and counted."""

AUTHORS = pl.Schema(
    {
        "author": pl.String(),
        "valid": pl.Int64(),
        "forged": pl.Int64(),
        "unsigned": pl.Int64(),
        "unchecked": pl.Int64(),
    }
)
"""Distinct receipts per author and how each was authenticated."""


@dataclass(frozen=True, repr=False)
class AuthorKeys:
    """Keys of authors. They are never shown, stored or written.

    The file is TOML, ``author = "key"`` at the top or under ``[keys]``, or a JSON object of the same. A key is
    the UTF-8 bytes of its text, or after ``hex:`` the bytes it spells.
    """

    keys: Mapping[str, bytes]

    @classmethod
    def load(cls, path: Path) -> AuthorKeys:
        """Read a key file.

        Raises
        ------
        InputError
            When it cannot be read, or a key is no text, empty, or wrongly spelled hex.
        """
        accepted = 'TOML or JSON with author = "key"'
        try:
            content = path.read_text(encoding="utf-8")
            table = json.loads(content) if content.lstrip().startswith("{") else tomllib.loads(content)
        except (OSError, ValueError) as wrong:
            raise InputError.at(str(path), "no readable key file", accepted=accepted) from wrong
        if isinstance(table, dict) and isinstance(table.get("keys"), dict):
            table = table["keys"]
        if not isinstance(table, dict) or not table:
            raise InputError.at(str(path), "no keys", accepted=accepted)
        return cls({str(author): _key(key, f"{path}: {author}") for author, key in table.items()})

    def __repr__(self) -> str:
        return f"AuthorKeys({len(self.keys)} authors)"


def _key(value: object, where: str) -> bytes:
    if not isinstance(value, str) or not value:
        raise InputError.at(where, "not a key", accepted="text, or hex: and hexadecimal digits")
    if not value.startswith("hex:"):
        return value.encode()
    try:
        key = bytes.fromhex(value[4:])
    except ValueError:
        raise InputError.at(where, "not hexadecimal after hex:", accepted="pairs of 0-9 a-f") from None
    if not key:
        raise InputError.at(where, "an empty key", accepted="hex: and pairs of 0-9 a-f")
    return key


def verify_macs(receipts: pl.LazyFrame, keys: AuthorKeys) -> pl.LazyFrame:
    """Add the column ``auth`` (one of `AUTH`) to receipts.

    A receipt repeated under another id, or altered in any field, does not match what its author signed. The mac
    is looked at as hexadecimal of either case. Inferred receipts have no author to authenticate: ``unsigned``.
    """
    judged = pl.struct("author", "mac", "signed", "inferred").map_batches(
        lambda column: _judge(column, keys.keys), return_dtype=pl.String, is_elementwise=True
    )
    return receipts.with_columns(auth=judged)


def _judge(column: pl.Series, keys: Mapping[str, bytes]) -> pl.Series:
    """Judge one batch; equal receipts are judged once."""
    rows = column.struct.unnest()
    return pl.Series(
        "auth",
        [
            _one(author, mac, signed, keys) if not inferred else "unsigned"
            for author, mac, signed, inferred in rows.iter_rows()
        ],
        dtype=pl.String,
    )


def _one(author: str, mac: str | None, signed: str | None, keys: Mapping[str, bytes]) -> str:
    key = keys.get(author)
    if key is None:
        return "unsigned" if mac is None else "unchecked"
    if mac is None or signed is None:
        return "forged"
    right = hmac.digest(key, signed.encode(), "sha256").hex()
    return "valid" if hmac.compare_digest(right.encode(), mac.lower().encode()) else "forged"


def authors(receipts: pl.LazyFrame, keys: AuthorKeys) -> pl.LazyFrame:
    """Count distinct receipts by author and authentication (schema `AUTHORS`), sorted by author."""
    fields = pl.all().exclude("source", "order")
    distinct = verify_macs(receipts.select(fields).unique(), keys)
    counts = [(pl.col("auth") == kind).sum().cast(pl.Int64).alias(kind) for kind in AUTH]
    return distinct.group_by("author").agg(counts).sort("author", nulls_last=True)
