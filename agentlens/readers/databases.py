"""SQLite files of exports: opened read-only as they stand, views and virtual tables never run."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from agentlens.readers.blocks import text_of
from agentlens.readers.inflate import is_plain
from agentlens.readers.source import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agentlens.readers.source import Source

_VALUE_LIMIT: Final = 256 << 20
DAMAGE: Final = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged database raises; the words of an error may quote damaged text."""


@contextmanager
def opened(source: Source) -> Iterator[sqlite3.Connection]:
    """Open a database as it stands, for reading only; a compressed one in memory."""
    try:
        with source.path.open("rb") as stream:
            plain = is_plain(stream.read(4))
    except OSError as error:
        raise unreadable(source.name, error) from error
    if plain:
        with closing(connect(source.path)) as database:
            yield database
        return
    with closing(_guarded(sqlite3.connect(":memory:"))) as database:
        database.deserialize(source.read())
        yield database


def connect(path: Path) -> sqlite3.Connection:
    """Open a file so that nothing beside it is touched."""
    # immutable: no lock, no journal and no other file is touched
    name = quote(path.absolute().as_posix())
    return _guarded(sqlite3.connect(f"file:{name}?mode=ro&immutable=1", uri=True))


def _guarded(database: sqlite3.Connection) -> sqlite3.Connection:
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_LIMIT)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA query_only = ON")
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    return database


def columns(database: sqlite3.Connection, table: str) -> set[str]:
    """Return the columns of a plain table; none of a view or a virtual table, which could run anything."""
    found = database.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    if found is None or not re.match(r"CREATE TABLE\b", text_of(found[0])):
        return set()
    rows = database.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,))
    return {name for name, hidden in rows if hidden == 0}
