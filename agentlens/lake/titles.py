"""What a run is called that has no id of its own: its file's name, where no other file of the lake has that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agentlens.errors import InputError
from agentlens.readers.documents import stem_of
from agentlens.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentlens.lake.manifest import Manifest


@dataclass(slots=True)
class _Held:
    """One who is called so: the source, or size and digest of one read before."""

    title: str
    size: int
    source: Source | None = None
    digest: str = ""

    def same(self, digest: str) -> bool:
        """Say whether this one has the same bytes: a copy tells the same run."""
        if not self.digest and self.source is not None:
            self.digest = self.source.digest()
        return digest == self.digest


@dataclass(slots=True)
class Titles:
    """Who is called what. ``known``: title by name of a source; ``held``: by name and size of a file, who has them."""

    known: dict[str, str] = field(default_factory=dict)
    held: dict[tuple[str, int], list[_Held]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, manifest: Manifest) -> Titles:
        """Begin with what the sources of a lake are called; a title stays with its source."""
        titles = cls()
        for entry in manifest.sources.values():
            stem = _stem(entry.name)
            titles.known[entry.name] = entry.title
            titles._take(stem, _Held(entry.title or stem, entry.size, digest=entry.digest))
        return titles

    def give(self, sources: Iterable[Source]) -> list[Source]:
        """Return sources with their titles: a second file of one name is called by its folders too.

        A copy, byte by byte, keeps the title of what it is a copy of: it tells the same run. Two experiments that
        ran the same task in files of the same name are two runs.
        """
        return [self._titled(source) for source in sources]

    def _titled(self, source: Source) -> Source:
        if source.name in self.known:
            return replace(source, title=self.known[source.name])
        stem = stem_of(source)
        try:
            size = source.size()
            others = self.held.get((stem, size), [])
            digest = source.digest() if others else ""
            twin = next((other for other in others if other.same(digest)), None)
        except InputError:
            return source  # it is refused where it is read
        title = twin.title if twin is not None else self._free(stem, source)
        self._take(stem, _Held(title, size, source, digest))
        return source if title == stem else replace(source, title=title)

    def _free(self, stem: str, source: Source) -> str:
        title = stem
        for folder in reversed(PurePosixPath(source.name).parts[:-1]):
            if title not in self.taken:
                break
            if folder != stem:  # a folder a file, called like it, tells nothing apart
                title = f"{folder.strip('/')}/{title}"
        return title if title not in self.taken else source.name

    def _take(self, stem: str, held: _Held) -> None:
        self.taken.add(held.title)
        self.held.setdefault((stem, held.size), []).append(held)


def _stem(name: str) -> str:
    return stem_of(Source(name=name, path=Path(name)))
