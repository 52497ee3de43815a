"""Where records come from: a file or a range of its lines, plain or compressed, read as a stream."""

from __future__ import annotations

import atexit
import glob
import hashlib
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlens.errors import InputError
from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.base import Report
from agentlens.readers.head import BOM, HEAD_BYTES, Head
from agentlens.readers.inflate import Damage, is_plain, opened
from agentlens.readers.salvage import salvage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

__all__ = ["Head", "Source", "expand", "unreadable"]

_ACCEPTED = "a file, a folder, a pattern such as 'runs/**/*.jsonl', or - for standard input"
LINE_LIMIT = 512 << 20
"""Longest line that is read, in bytes; a longer one is set aside with its line number."""
DOCUMENT_LIMIT = 2 << 30
_BLOCK = 1 << 20
_BUFFER = 1 << 18
"""Bytes read ahead: lines of traces are long, and one put together from many small reads costs three times as much."""
_DIGEST_BLOCK = 8 << 20  # large, so that a thread that digests seldom waits for the others


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file, or the whole lines of a byte range of one.

    Parameters
    ----------
    name
        What is shown and stored: the path as it was given, with forward slashes; ``stdin`` for a pipe.
    path
        Where the bytes are.
    start, stop
        Byte range, of plain files only: both ends stand at line starts. ``stop`` None is the end.
    first_line
        Number of the first line of the range, from 1.
    title
        What a run without an id of its own is called; "" for the file's name, which another file may have too.
    found
        Whether it was found inside a folder or by a pattern; a source that was named is missed when left out.
    piped
        Whether ``path`` is only where the bytes of a pipe are kept.
    """

    name: str
    path: Path
    start: int = 0
    stop: int | None = None
    first_line: int = 1
    title: str = ""
    found: bool = False
    piped: bool = False

    @classmethod
    def of(cls, path: str | Path) -> Source:
        """Make a source of one whole file."""
        return cls(name=Path(path).as_posix(), path=Path(path))

    def lines(self, report: Report | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield ``(line number, text)`` of every line that is not blank, without BOM and line end.

        Compressed data that breaks off, and lines over `LINE_LIMIT`, are told to ``report``; what stands
        before (and, of a line, behind) is yielded all the same.

        Raises
        ------
        InputError
            The file cannot be opened.
        """
        report = Report() if report is None else report
        number = self.first_line - 1
        left = None if self.stop is None else self.stop - self.start
        with self._stream() as stream:
            try:
                while left is None or left > 0:
                    line = stream.readline(LINE_LIMIT)
                    if not line:
                        return
                    number += 1
                    if left is not None:
                        left -= len(line)
                    if len(line) == LINE_LIMIT and line[-1:] != b"\n":
                        report.quarantine(number, f"the line is longer than {LINE_LIMIT >> 20} MiB")
                        _skip_line(stream)
                        continue
                    if number == 1:
                        line = line.removeprefix(BOM)
                    line = line.strip()
                    if line:
                        yield number, line
            except Damage as damage:
                report.quarantine(number + 1, str(damage))
            except OSError as error:
                report.quarantine(number + 1, f"reading stopped: {error.strerror or error}")

    def read(self, report: Report | None = None) -> bytes:
        """Return all bytes, decompressed, without a BOM."""
        report = Report() if report is None else report
        parts: list[bytes] = []
        size = 0
        with self._stream() as stream:
            try:
                while block := stream.read1(_BLOCK):
                    parts.append(block)
                    size += len(block)
                    if size > DOCUMENT_LIMIT:
                        report.quarantine(
                            size, f"more than {DOCUMENT_LIMIT >> 30} GiB in one document", "byte"
                        )
                        break
            except Damage as damage:
                report.quarantine(size, str(damage), "byte")
            except OSError as error:
                report.quarantine(size, f"reading stopped: {error.strerror or error}", "byte")
        return b"".join(parts).removeprefix(BOM)

    def document(self, report: Report, record_keys: tuple[str, ...] = ()) -> Any:
        """Decode the source as one JSON document.

        When it is cut off or damaged, the whole elements of the arrays under ``record_keys`` ("" for a
        top-level array) before that place are kept and the loss is reported; `ABSENT` where nothing can
        be kept.
        """
        told = len(report.faults)
        data = self.read(report)
        trial = Report()
        value = decode.loads(data, trial, 0, "byte")
        if value is not ABSENT:
            report.repaired.update(trial.repaired)
            return value
        if not data.strip():
            if len(report.faults) == told:  # else it is known why nothing came
                report.quarantine(0, "the file is empty", "byte")
            return ABSENT
        reason = trial.faults[0].reason
        saved = salvage(data, record_keys) if record_keys else None
        if saved is None or saved.value is ABSENT:
            report.quarantine(0, reason, "byte")
            return ABSENT
        report.repaired.update(saved.repaired)
        for start in saved.bad:
            report.quarantine(start, "a record that is not valid JSON", "byte")
        if lost := len(data.rstrip()) - saved.stop:
            report.quarantine(saved.stop, f"{reason}; the {lost} bytes from here on were set aside", "byte")
        return saved.value

    def head(self) -> Head:
        """Return the first 64 KiB, decompressed, or less where the data breaks off."""
        data, damage = b"", ""
        with self._stream() as stream:
            try:
                while len(data) <= HEAD_BYTES and (block := stream.read1(HEAD_BYTES + 1 - len(data))):
                    data += block
            except Damage as broken:  # said again, and reported, when the records are read
                damage = str(broken)
            except OSError as error:
                damage = f"reading stopped: {error.strerror or error}"
        whole, name = len(data) <= HEAD_BYTES, self.path.name.lower()
        return Head(data=data[:HEAD_BYTES], name=name, whole=whole, path=self.path, damage=damage)

    def is_lines(self) -> bool:
        """Say whether the source is one JSON value a line (else it is one document, or no JSON)."""
        if self.start or self.stop is not None:
            return True
        head = self.head()
        if head.whole or b"\n" in head.data:
            return head.lines
        # the first line is longer than the head: read all of it
        lines = self.lines()
        first, second = next(lines, (0, b""))[1], next(lines, (0, b""))[1]
        if decode.loads(first, Report(), 0) is ABSENT:
            return isinstance(decode.loads(second, Report(), 0), dict)
        return bool(second)

    def siblings(self) -> Path | None:
        """Return the folder the file stands in, None for a pipe.

        It is a whole path, so that it and the folders above it have names from wherever the command was typed.
        """
        if self.piped or self.name == "stdin":
            return None
        return Path(os.path.normpath(self.path.absolute())).parent  # links keep the names they have

    def place(self) -> str:
        """Return a digest of where the file really is, 32 hex characters, whatever it is called by.

        Links and spellings of one path give one place. "" for a pipe, which has none, and for a range.
        """
        if self.piped or self.start or self.stop is not None:
            return ""
        real = os.path.normcase(os.path.realpath(self.path))
        return hashlib.sha256(os.fsencode(real)).hexdigest()[:32]

    def size(self) -> int:
        """Return how many bytes the source has as stored."""
        try:
            return (self.path.stat().st_size if self.stop is None else self.stop) - self.start
        except OSError as error:
            raise unreadable(self.name, error) from error

    def digest(self) -> str:
        """Return the first half of the SHA-256 of the stored bytes, 32 hex characters.

        Processors have instructions for it: it is more than twice as fast as BLAKE2b here.
        """
        sink = hashlib.sha256()
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.start)
                left = self.size()
                while left > 0 and (block := stream.read(min(_DIGEST_BLOCK, left))):
                    sink.update(block)
                    left -= len(block)
        except OSError as error:
            raise unreadable(self.name, error) from error
        return sink.hexdigest()[:32]

    def split(self, size: int) -> Iterator[Source]:
        """Yield ranges of whole lines of a plain file, about ``size`` bytes each, as they are found.

        A compressed file, a document, or a file of at most ``size`` bytes comes back as it is.
        """
        if self.size() <= size or not self.is_lines() or not self._plain():
            yield self
            return
        start, number = self.start, self.first_line
        end = self.start + self.size()
        with self.path.open("rb") as stream:
            while start < end:
                stop, newlines = _next_cut(stream, start, min(start + size, end), end)
                yield replace(self, start=start, stop=stop, first_line=number)
                start, number = stop, number + newlines

    def _plain(self) -> bool:
        with self.path.open("rb") as stream:
            return is_plain(stream.read(4))

    @contextmanager
    def _stream(self) -> Iterator[BufferedReader]:
        try:
            raw: BufferedReader = BufferedReader(FileIO(self.path), _BUFFER)
        except OSError as error:
            raise unreadable(self.name, error) from error
        with raw:
            if self.start or self.stop is not None:
                raw.seek(self.start)
                yield raw
            else:
                yield opened(raw)


def unreadable(name: str, error: OSError) -> InputError:
    """Build the error of a file that cannot be opened."""
    return InputError.at(
        name, error.strerror or str(error), accepted="a readable file, folder or pattern, or -"
    )


def _skip_line(stream: BinaryIO) -> None:
    while (rest := stream.readline(_BLOCK)) and rest[-1:] != b"\n":
        pass


def _next_cut(stream: BinaryIO, start: int, wanted: int, end: int) -> tuple[int, int]:
    """Return the first line start at or behind ``wanted``, and the newlines passed on the way."""
    stream.seek(start)
    newlines, place = 0, start
    while place < wanted and (block := stream.read(min(_BLOCK, wanted - place))):
        newlines += _newlines(block)
        place += len(block)
    while place < end and (rest := stream.readline(_BLOCK)):
        place += len(rest)
        if rest[-1:] == b"\n":
            newlines += 1
            break
    return place, newlines


def _newlines(block: bytes) -> int:
    """Count line ends; between the ends of long lines a search is four times as fast as ``count``."""
    found, at = 0, block.find(b"\n")
    while at >= 0:
        found, at = found + 1, block.find(b"\n", at + 1)
    return found


def expand(
    args: Sequence[str | Path],
    stdin: BinaryIO | None = None,
    missing: dict[str, InputError] | None = None,
) -> list[Source]:
    """Return the files that ``args`` name, each once, folders read through in sorted order.

    Inside folders, names that begin with a dot are passed over. ``-`` is ``stdin`` (default: the process's
    own), kept in a temporary file until the process ends, because a source is read more than once.

    Raises
    ------
    InputError
        A name that is no file, no folder, and matches nothing. With ``missing`` it goes in there, by the
        name, and the others are expanded all the same.
    """
    sources: list[Source] = []
    seen: dict[Path, int] = {}
    for arg in args:
        if str(arg) == "-":
            sources.append(Source(name="stdin", path=_spool(stdin or sys.stdin.buffer), piped=True))
            continue
        try:
            for path in _paths(str(arg)):
                real, found = Path(os.path.realpath(path)), path != Path(arg)
                if real not in seen:
                    seen[real] = len(sources)
                    sources.append(_source(path, found=found))
                elif not found:
                    sources[seen[real]] = replace(sources[seen[real]], found=False)
        except InputError as error:
            if missing is None:
                raise
            missing[str(arg)] = error
    return sources


def _paths(arg: str) -> Iterator[Path]:
    path = Path(arg)
    if os.path.lexists(path) and path.is_dir():  # no file system takes a text that is too long as a name
        files = _inside(path)
        first = next(files, None)
        if first is None:
            raise InputError.at(arg, "holds no file", accepted="a folder with trace exports")
        yield first
        yield from files
    elif os.path.lexists(path):
        yield path
    elif glob.has_magic(arg):
        matches = sorted(glob.glob(arg, recursive=True))  # noqa: PTH207 - absolute and relative alike
        if not matches:
            raise InputError.at(arg, "the pattern matches no file", accepted=_ACCEPTED)
        for match in matches:
            yield from _inside(Path(match)) if Path(match).is_dir() else (Path(match),)
    else:
        raise InputError.at(arg, "no such file or folder", accepted=_ACCEPTED)


def _inside(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(root, name)
            if not name.startswith(".") and path.is_file() and not _is_beside_database(path):
                yield path


def _is_beside_database(path: Path) -> bool:
    """Say whether SQLite keeps this file for the database beside it: it is no source of its own."""
    base, mark, kind = path.name.rpartition("-")
    return bool(mark) and kind in {"wal", "shm", "journal"} and path.with_name(base).is_file()


def _source(path: Path, *, found: bool) -> Source:
    """Make a source; what can be read only once (a named pipe) is kept aside first."""
    name = Path(os.path.normpath(path)).as_posix()
    if path.exists() and not path.is_file():
        try:
            with path.open("rb") as stream:
                return Source(name=name, path=_spool(stream), found=found, piped=True)
        except OSError as error:  # a socket, a device that is not ours
            raise unreadable(name, error) from error
    return Source(name=name, path=path, found=found)


def _spool(stream: BinaryIO) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="agentlens-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "stdin"
    with path.open("wb") as sink:
        shutil.copyfileobj(stream, sink, 1 << 20)
    return path
