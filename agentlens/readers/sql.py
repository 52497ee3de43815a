"""Any other log, through one DuckDB SELECT that yields the canonical columns (``--sql FILE``).

The query finds the file as ``getvariable('source')`` and the name it is shown by, without a compression ending,
as ``getvariable('name')``. It can read that file and nothing else: no other file, no network, no extensions.

>>> "intercode" in shipped()
True
"""

from __future__ import annotations

import math
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from agentlens.errors import InputError, SettingsError
from agentlens.model.native import WrongValueError
from agentlens.model.raw import ABSENT
from agentlens.readers import native
from agentlens.readers.base import Format
from agentlens.readers.decode import attempt, loads
from agentlens.readers.inflate import is_plain
from agentlens.readers.salvage import salvage
from agentlens.readers.source import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

COLUMNS: Final = native.COLUMNS
"""Columns a mapping may yield."""
_OBJECTS: Final = ("retry_policy", "lease", "scope")
_ACTION: Final = frozenset({"tool", "action_signature", "kind"})
_ENDINGS: Final = (".gz", ".zst")
_EXAMPLE: Final = "SELECT run_id, tool, args, result FROM read_json(getvariable('source'))"
_GLOB = re.compile(r"[\[*?]")


def shipped() -> list[str]:
    """Return the names of the mappings that come with the package."""
    folder = resources.files("agentlens.readers") / "mappings"
    return sorted(
        entry.name.removesuffix(".sql") for entry in folder.iterdir() if entry.name.endswith(".sql")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a shipped mapping says of itself in the comment above its query."""

    name: str
    title: str
    proved_on: str


def about(name: str) -> About:
    """Return what the shipped mapping ``name`` reads, and what it was proved on.

    >>> about("intercode").title
    'InterCode result files: one object a file, keyed by run number'
    """
    lines = takewhile(lambda line: line.startswith("--"), mapping_text(name).splitlines())
    comment = " ".join(line.removeprefix("--").strip() for line in lines)
    proved = re.search(r"Proved on: (.*?)\.?$", comment)
    title = re.split(r"\.(?: |$)", comment, maxsplit=1)[0]
    return About(name=name, title=title, proved_on=proved[1] if proved else "")


def mapping_text(sql: str | Path) -> str:
    """Return the text of a mapping: a file, a shipped name, or a query as it stands.

    Raises
    ------
    InputError
        The file cannot be read, or there is no such mapping.
    """
    said = str(sql).strip()
    if isinstance(sql, str) and re.search(r"\s", said):
        return said
    if said in shipped():
        return (resources.files("agentlens.readers") / "mappings" / f"{said}.sql").read_text("utf-8")
    try:
        return Path(sql).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError.at(
            said, "the mapping is no UTF-8 text", accepted="a file with one SELECT"
        ) from error
    except (OSError, ValueError) as error:
        names = ", ".join(shipped())
        accepted = f"a file with one DuckDB SELECT, or a mapping that is shipped ({names})"
        raise InputError.at(said, "no such mapping", accepted=accepted) from error


def mapped(sql: str | Path) -> Format:
    """Return the format that reads every source through this mapping.

    Raises
    ------
    InputError
        The mapping cannot be found, is no SQL, or is more or other than one SELECT.
    """
    text = mapping_text(sql)
    _check(text)

    def read(source: Source, report: Report) -> Iterator[Record]:
        return _rows(text, source, report)

    return Format(
        name="sql",
        version=1,
        title="a DuckDB SELECT given with --sql",
        recognised_by="never: it is asked for",
        proved_on="the shipped mappings",
        claim=_never,
        read=read,
        rank=50,
    )


def _never(head: Head) -> int:
    del head
    return 0


def _check(text: str) -> None:
    import duckdb

    try:
        with duckdb.connect(":memory:") as connection:
            statements = connection.extract_statements(text)
    except duckdb.Error as error:
        raise InputError.at("mapping", _first_line(error), accepted=_EXAMPLE) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
        raise InputError.at("mapping", f"one SELECT was expected, found {kinds}", accepted=_EXAMPLE)


def _rows(text: str, source: Source, report: Report) -> Iterator[Record]:
    """Run the mapping; where the file is damaged JSON, run it again on what is whole of it."""
    import duckdb

    head = source.head()
    if not head.data.strip():
        report.quarantine(0, head.damage or "the file is empty", "byte")
        return
    with tempfile.TemporaryDirectory(prefix="agentlens-") as folder:
        path = _readable(source, Path(folder))
        try:
            rows = list(_query(text, path, source))
        except duckdb.Error as error:
            mended = _mended(source, Path(folder), report)
            if mended is None:
                report.quarantine(0, f"DuckDB cannot read it: {_first_line(error)}", "byte")
                return
            try:
                rows = list(_query(text, mended, source))
            except duckdb.Error as again:
                report.quarantine(0, f"DuckDB cannot read it: {_first_line(again)}", "byte")
                return
    if not rows:
        report.quarantine(0, "the mapping gives no row of it", "byte")
    for number, row in enumerate(rows):
        try:
            yield native.event(row, (number, 0), report)
        except WrongValueError as error:
            report.quarantine(number, str(error), "row")


def _query(text: str, path: Path, source: Source) -> Iterator[dict[str, Any]]:
    import duckdb

    with _locked(path, source) as connection:
        try:
            relation = connection.sql(text)
            names = relation.columns
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            raise InputError.at(
                source.name, f"the mapping does not fit: {_first_line(error)}", accepted=_EXAMPLE
            ) from error
        except duckdb.PermissionException as error:
            raise InputError.at(
                source.name,
                f"the mapping may not do that: {_first_line(error)}",
                accepted="getvariable('source')",
            ) from error
        _check_columns(names)
        for values in relation.iter_rows():
            yield {
                name: _decoded(name, _plain(value))
                for name, value in zip(names, values, strict=True)
                if value is not None or name == "progress_fingerprint"
            }


@contextmanager
def _locked(path: Path, source: Source) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in memory that can read one file."""
    import duckdb

    name = source.name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET autoinstall_known_extensions = false")
        connection.execute("SET autoload_known_extensions = false")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET threads = 1")  # rows in the order of the file
        connection.execute(f"SET allowed_paths = [{_literal(str(path))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute(f"SET VARIABLE source = {_literal(str(path))}")
        connection.execute(f"SET VARIABLE name = {_literal(name)}")
        connection.execute("SET lock_configuration = true")
        yield connection


def _check_columns(names: list[str]) -> None:
    for name in names:
        if name not in COLUMNS:
            raise SettingsError.unknown("column of the mapping", name, COLUMNS)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SettingsError(f"the mapping yields column {twice!r} twice; accepted: each column once")
    if "run_id" not in names or not _ACTION & set(names):
        raise SettingsError(
            "the mapping lacks "
            + ("run_id" if "run_id" not in names else "tool, action_signature or kind")
            + f"; accepted: run_id, one of tool, action_signature and kind, and any of {', '.join(sorted(COLUMNS))}"
        )


def _readable(source: Source, folder: Path) -> Path:
    """Return a path that DuckDB can open, and no pattern; compressed data without an ending is unpacked."""
    try:
        with source.path.open("rb") as stream:
            plain = is_plain(stream.read(4))
    except OSError as error:
        raise unreadable(source.name, error) from error
    path = source.path.absolute()
    if not plain and not path.name.endswith(_ENDINGS):
        return _written(folder, source.read())
    if not _GLOB.search(str(path)):
        return path
    link = folder / ("link" + "".join(ending for ending in _ENDINGS if path.name.endswith(ending)))
    link.symlink_to(path)
    return link


def _mended(source: Source, folder: Path, report: Report) -> Path | None:
    """Write down the whole part of a damaged JSON file, and report the rest; None for anything else."""
    data = source.read(report)
    if data.lstrip()[:1] not in {b"{", b"["}:
        return None
    if source.is_lines():
        lines = [line for number, line in source.lines() if loads(line, report, number) is not ABSENT]
        return _written(folder, b"\n".join(lines)) if lines else None
    if attempt(data) is not ABSENT:
        return None
    saved = salvage(data)
    if saved.value is ABSENT:
        return None
    lost = len(data) - saved.stop
    report.quarantine(saved.stop, f"damaged here: the last {lost} bytes were set aside", "byte")
    return _written(folder, orjson.dumps(saved.value))


def _written(folder: Path, data: bytes) -> Path:
    path = folder / "source"
    path.write_bytes(data)
    return path.absolute()


def _plain(value: Any) -> Any:
    """Turn what DuckDB gives into what JSON could have given."""
    if isinstance(value, (datetime, date, time)):
        if isinstance(value, datetime) and value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def _decoded(name: str, value: Any) -> Any:
    """JSON columns arrive as text; objects of the contract are decoded here, arguments later."""
    if name in _OBJECTS and isinstance(value, str):
        found = attempt(value)
        return value if found is ABSENT else found
    return value


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300]
