"""Which files an ingest on Spark reads, and what has to be read of them.

Files of ``file:`` paths are opened by the workers themselves, with what stands beside them: Spark too expects such
a path on every worker. Files of all other file systems come to the workers through Spark, each alone.
"""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentlens.distribute.engine import told
from agentlens.distribute.files import system_of
from agentlens.errors import InputError
from agentlens.lake.plan import Planned, missed, source_id, stale
from agentlens.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentlens.lake.manifest import Manifest
    from agentlens.lake.plan import Settings

LARGEST = 2**31 - 1 - (1 << 20)
"""Bytes of the largest file that comes through Spark: one value of a row holds no more."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One file: the name it is known by, where it is, its bytes, and whether it was found in a folder."""

    name: str
    uri: str
    size: int
    found: bool

    @property
    def place(self) -> str:
        """Digest of where it is, as `agentlens.readers.source.Source.place` gives for local files."""
        return hashlib.sha256(self.uri.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_local(session: Any, paths: Iterable[str]) -> bool:
    """Whether the workers open all of these paths by themselves (scheme ``file``)."""
    return all(_system(session, path)[0].getUri().getScheme() == "file" for path in paths)


def _system(session: Any, path: str) -> tuple[Any, Any]:
    with told(path):
        conf = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        return system_of(session._jvm, conf, path)  # noqa: SLF001


def listed(session: Any, paths: Sequence[str]) -> tuple[list[Listed], list[Planned]]:
    """List files, folders (read through) and patterns; a name that is none is refused in the second list."""
    files: dict[str, Listed] = {}
    missing: list[Planned] = []
    for path in paths:
        system, place = _system(session, path)
        with told(path):
            found = sorted(system.globStatus(place) or (), key=lambda status: status.getPath().toString())
            mine = [one for status in found for one in _below(system, status, path, len(found) == 1)]
        if not mine:
            missing.append(
                missed(path, InputError.at(path, "no such file or folder", accepted="trace exports"))
            )
        for one in mine:
            if one.uri not in files or not one.found:
                files[one.uri] = one
    return list(files.values()), missing


def _below(system: Any, status: Any, given: str, named: bool) -> list[Listed]:
    top = system.makeQualified(status.getPath()).toString()
    if status.isFile():
        name = _normal(given) if named else top
        return [Listed(name=name, uri=top, size=int(status.getLen()), found=not named)]
    rows = []
    listing = system.listFiles(status.getPath(), True)
    while listing.hasNext():
        one = listing.next()
        uri = system.makeQualified(one.getPath()).toString()
        inside = uri[len(top) :].lstrip("/")
        if not any(part.startswith(".") for part in inside.split("/")):
            name = f"{_normal(given) if named else top}/{inside}"
            rows.append(Listed(name=name, uri=uri, size=int(one.getLen()), found=True))
    return sorted(rows, key=_walk)


def _walk(one: Listed) -> list[tuple[bool, str]]:
    """Order of a walk: the files of a folder, then its folders."""
    *folders, file = one.name.split("/")
    return [*((True, folder) for folder in folders), (False, file)]


def _normal(path: str) -> str:
    return path.rstrip("/") if "://" in path else posixpath.normpath(path)


def planned(files: Sequence[Listed], manifest: Manifest, settings: Settings) -> dict[str, Planned]:
    """Decide about each file as far as its size tells, by its address: ``new``, ``changed``, or ``known``.

    What of a ``known`` one is to become is told by its bytes, which a worker digests.
    """
    names = {entry.place: entry.name for entry in manifest.sources.values() if entry.place}
    found: dict[str, Planned] = {}
    for one in files:
        name = names.get(one.place, one.name)
        source = replace(Source.of(name), name=name, found=one.found, piped=True)
        known = manifest.sources.get(name)
        status = "new" if known is None else "known" if known.size == one.size else "changed"
        plan = Planned(source=source, source_id=source_id(name), status=status, size=one.size)
        if one.size > LARGEST:
            reason = (
                f"{name}: more than {LARGEST >> 20:,} MiB; accepted: smaller parts, or a path of scheme file:"
            )
            plan = replace(plan, status="refused", reason=reason)
        elif known is not None and status == "known":
            plan = replace(plan, digest=known.digest, reason=stale(known, settings))
        found[one.uri] = plan
    return found
