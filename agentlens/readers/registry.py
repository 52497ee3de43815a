"""Every format that can be read, and how the one of a source is told.

A format is one module of this package with one ``FORMAT`` (or several, as ``FORMATS``); nothing else has
to be changed to add one. The modules are loaded when the first format is asked for: most of what uses a lake
reads no export.
"""

from __future__ import annotations

import pkgutil
import sys
from hashlib import sha256
from importlib import import_module
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING

from agentlens.errors import InputError, SettingsError
from agentlens.readers.base import Format, Record, Report
from agentlens.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.source import Head


def _found() -> tuple[Format, ...]:
    formats: dict[str, Format] = {}
    for module in sorted(pkgutil.iter_modules([str(Path(__file__).parent)]), key=lambda found: found.name):
        if module.name == "registry":
            continue
        for found in _in(f"agentlens.readers.{module.name}"):
            formats[found.name] = found
    return tuple(sorted(formats.values(), key=lambda found: found.name))


def _in(module: str) -> tuple[Format, ...]:
    loaded = import_module(module)
    told = (getattr(loaded, "FORMAT", None), *getattr(loaded, "FORMATS", ()))
    return tuple(found for found in told if isinstance(found, Format))


FORMATS: tuple[Format, ...]
"""All formats, by name."""


def __getattr__(name: str) -> tuple[Format, ...]:
    """Load the formats when they are first wanted."""
    if name != "FORMATS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    formats = globals()["FORMATS"] = _found()
    return formats


def formats() -> tuple[Format, ...]:
    """Return all formats, by name."""
    found: tuple[Format, ...] = sys.modules[__name__].FORMATS
    return found


def named(name: str, home: str = "") -> Format:
    """Return the format of this name; with ``home``, the module it is in, only that module is loaded.

    Raises
    ------
    SettingsError
        No format is called so; the message lists those that are.
    """
    alone = _in(home) if home and "FORMATS" not in globals() else ()
    for found in alone or formats():
        if found.name == name:
            return found
    raise SettingsError.unknown("format", name, (found.name for found in formats()))


def sniff(head: Head) -> Format:
    """Return the format with the highest claim on a source that begins so.

    Raises
    ------
    InputError
        Nothing claims it, or two formats claim it equally.
    """
    where = head.name or "input"
    if not head.data.strip():
        if head.damage:
            raise InputError.at(where, head.damage, accepted="a trace export that can be read from its start")
        raise InputError.at(where, "the file is empty", accepted="a trace export with at least one record")
    if head.magic == "pickle":
        raise InputError.at(
            where, "a Python pickle is never opened: it can run code", accepted="JSON, Parquet, SQLite"
        )
    claims = sorted(((found.claim(head), found.name) for found in formats()), reverse=True)
    best = [name for claim, name in claims if claim == claims[0][0] and claim > 0]
    if not best:
        known = ", ".join(found.name for found in formats())
        what = f"no known format in what can be read ({head.damage})" if head.damage else "no known format"
        raise InputError.at(
            where, what, accepted=f"{known}; --format NAME forces one, --sql FILE maps others"
        )
    if len(best) > 1:
        raise InputError.at(
            where, f"could be {' or '.join(sorted(best))}", accepted="--format NAME to say which"
        )
    return named(best[0])


def beside(source: Source, found: Format) -> str:
    """Return a digest of the files beside a source that its reader looks into, 32 hex characters.

    "" where there are none. Their names count as seen from the source, so that a tree may move.
    """
    folder = source.siblings()
    if found.companions is None or folder is None:
        return ""
    told: list[str] = []
    for path in sorted(set(found.companions(source))):
        one = Source.of(path)
        try:
            told.append(f"{relpath(path, folder)}\0{one.size()}\0{one.digest()}")
        except InputError as error:  # the reader cannot read it either
            told.append(f"{relpath(path, folder)}\0{type(error).__name__}")
    whole = "\n".join(told).encode("utf-8", "surrogatepass")
    return sha256(whole).hexdigest()[:32] if told else ""


def read(source: Source, found: Format | None, report: Report) -> Iterator[Record]:
    """Yield the records of a source, as ``found`` or as whatever it is told to be.

    Counts them in ``report.records``. A reader that fails on input it should have survived is reported as
    one fault, and what it gave before stands.
    """
    reader = sniff(source.head()) if found is None else found
    try:
        for record in reader.read(source, report):
            report.records += 1
            yield record
    except InputError:
        raise
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        IndexError,
        OverflowError,
        RecursionError,
    ) as error:
        report.quarantine(0, f"the {reader.name} reader stopped: {type(error).__name__}: {error}", "record")
