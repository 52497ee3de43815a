"""SQL over a lake: DuckDB in memory, read-only, blind to everything but the lake's own files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb
import polars as pl

from agentlens.errors import InputError, LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_ALLOWED = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_WORDS = re.compile(r"""(?<![\w".])(?:at|check|order(?!\s+by\b))(?![\w"])""")
"""Columns that DuckDB takes for words of its own."""
_ACCEPTED = "one SELECT over the views {}"


def select(
    query: str, files: Mapping[str, Sequence[str]], frames: Mapping[str, pl.DataFrame]
) -> pl.DataFrame:
    """Run one SELECT.

    Parameters
    ----------
    query
        One statement that only reads (``SELECT``, ``WITH``, ``FROM``, ``DESCRIBE``, ``SHOW``, ``EXPLAIN``).
    files
        View name to the Parquet files behind it; these files alone can be read.
    frames
        View name to rows at hand (also the empty form of a table that has no file).

    Raises
    ------
    InputError
        The query is no single SELECT, or DuckDB refuses it; the message is DuckDB's.
    LakeError
        A file is damaged, or went since the lake was opened.
    """
    with duckdb.connect(":memory:", config=_OFFLINE) as connection:
        for name, frame in frames.items():
            connection.register(name, frame.to_arrow())
        for name, paths in files.items():
            # Views take no bound parameters, so the names become literals here.
            listed = ", ".join(_literal(path) for path in paths)
            try:
                connection.execute(
                    f"CREATE VIEW {_identifier(name)} AS "  # noqa: S608 - both are quoted
                    f"SELECT * FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
                )
            except duckdb.Error as error:
                raise LakeError(
                    f"sql: the lake's {name} cannot be read: {str(error).splitlines()[0]}"
                ) from None
        readable = ", ".join(_literal(path) for paths in files.values() for path in paths)
        connection.execute(f"SET allowed_paths = [{readable}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        views = ", ".join(sorted({*files, *frames}))
        try:
            statements = connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type not in _ALLOWED:
                raise InputError(f"sql: only reading is possible; accepted: {_ACCEPTED.format(views)}")
            relation = connection.sql(query)
            found: pl.DataFrame = pl.DataFrame() if relation is None else relation.pl()
        except duckdb.Error as error:
            said = " ".join(str(error).split())  # with its hints it is several lines
            accepted = _ACCEPTED.format(views)
            if isinstance(error, duckdb.ParserException) and (
                words := sorted(set(_WORDS.findall(query.lower())))
            ):
                accepted += (
                    f", columns that are words of SQL in double quotes ({', '.join(map(_identifier, words))})"
                )
            raise InputError(f"sql: {said}; accepted: {accepted}") from None
    return found


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
