"""Archives whose end is lost: the members before it are read, and where they end is told."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from agentlens.readers import torn_archive
from agentlens.readers.torn_archive import mended
from tests.readers.reading import records
from tests.readers.test_inspect_ai import zipped

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("a", "b", "c")


class _Pipe(io.RawIOBase):
    """A stream that cannot go back: sizes are written behind the bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += data
        return len(data)


def made(kind: int = zipfile.ZIP_DEFLATED, *, pipe: bool = False, wide: bool = False) -> bytes:
    sink = _Pipe() if pipe else io.BytesIO()
    with zipfile.ZipFile(sink, "w", kind) as out:  # type: ignore[arg-type]
        for name in NAMES:
            about = zipfile.ZipInfo(name)
            about.compress_type = kind
            with out.open(about, "w", force_zip64=wide) as member:
                member.write(name.encode() * 900)
    return bytes(sink.data) if isinstance(sink, _Pipe) else sink.getvalue()


def read(data: bytes) -> dict[str, bytes]:
    file, count, _ = mended(io.BytesIO(data))
    with zipfile.ZipFile(file) as opened:
        assert len(opened.infolist()) == count
        return {name: opened.read(name) for name in opened.namelist()}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("pipe", [False, True])
def test_members_before_a_cut_are_whole(pipe: bool, wide: bool) -> None:
    """Cut anywhere, what stands whole before the cut has its bytes; nothing else is made up."""
    data = made(pipe=pipe, wide=wide)
    whole = {name: name.encode() * 900 for name in NAMES}
    counts = []
    for cut in range(len(data)):
        found = read(data[:cut])
        assert found.items() <= whole.items()
        counts.append(len(found))
    assert counts == sorted(counts)
    listed = data.index(b"PK\x01\x02")
    assert counts[listed] == len(NAMES)


def test_a_damaged_header_hides_its_own_member_only() -> None:
    """The next header is looked for behind it."""
    data = bytearray(made(zipfile.ZIP_STORED))
    data[data.index(b"PK\x03\x04", 4) + 2] = 0
    assert list(read(bytes(data[: data.index(b"PK\x01\x02")]))) == ["a", "c"]


def test_a_stored_member_of_unknown_length_is_passed_over() -> None:
    """Where its bytes end is told behind them: nowhere to be found."""
    assert read(made(zipfile.ZIP_STORED, pipe=True)) == {}


def test_headers_of_nothing_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile file of nothing but headers costs no more than is set."""
    monkeypatch.setattr(torn_archive, "IN_VAIN", 5 << 16)
    looked = []
    member = torn_archive._Scan._member
    monkeypatch.setattr(
        torn_archive._Scan,
        "_member",
        lambda scan, start, length: looked.append(start) or member(scan, start, length),
    )
    assert mended(io.BytesIO(b"PK\x03\x04" * 5000))[1] == 0
    assert len(looked) < 10


def test_a_file_is_read_as_if_it_ended_with_its_list() -> None:
    """Places before the file are refused; places behind it hold nothing."""
    file, _, _ = mended(io.BytesIO(made()))
    with pytest.raises((OSError, ValueError)):
        file.seek(-1)
    end = file.seek(0, os.SEEK_END)
    assert file.read() == b""
    assert file.seek(end - 22) == end - 22
    assert file.read(4) == struct.pack("<4s", b"PK\x05\x06")


def test_a_log_that_was_cut_keeps_its_whole_samples(tmp_path: Path) -> None:
    """Samples stand before the header of the log; the journal's start names the evaluation, too."""
    samples = [{"id": f"q{n}", "epoch": 1, "input": "go", "events": [], "messages": []} for n in range(3)]
    for one in samples:
        one["messages"] = [{"role": "user", "content": "go"}]
    data = zipped(*samples)
    whole, _ = records(data)
    runs = sorted({one.run_id for one in whole})  # type: ignore[union-attr]
    path = tmp_path / "log.eval"
    path.write_bytes(data[: data.index(b"PK\x01\x02") + 9])
    found, report = records(path)
    assert sorted({one.run_id for one in found}) == runs  # type: ignore[union-attr]
    (fault,) = report.faults
    assert fault.position == data.index(b"PK\x01\x02")
    assert "cut off" in fault.reason
    path.write_bytes(data[:40])
    assert [one.reason for one in records(path, "inspect")[1].faults] == [
        "the archive cannot be read: File is not a zip file"
    ]
