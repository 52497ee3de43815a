"""Sources: files, ranges, pipes and folders, plain or compressed, whole or broken."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
import zstandard

from agentlens.errors import InputError, SettingsError
from agentlens.model.raw import ABSENT
from agentlens.readers import inflate, registry
from agentlens.readers.base import Report
from agentlens.readers.source import Source, expand

LINES = [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}']


def written(folder: Path, data: bytes, name: str = "export.jsonl") -> Source:
    path = folder / name
    path.write_bytes(data)
    return Source.of(path)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(lambda data: data, id="plain"),
        pytest.param(gzip.compress, id="gzip"),
        pytest.param(
            lambda data: gzip.compress(data[:11]) + gzip.compress(data[11:]), id="gzip of two members"
        ),
        pytest.param(zstd, id="zstd"),
        pytest.param(lambda data: zstd(data[:11]) + zstd(data[11:]), id="zstd of two frames"),
        pytest.param(lambda data: data.decode().encode("utf-16"), id="UTF-16"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="BOM"),
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), id="CRLF"),
    ],
)
def test_lines_are_the_same_however_they_are_stored(packed, tmp_path: Path) -> None:
    """Compression, several members, UTF-16, a BOM and CRLF change no line and no number."""
    source = written(tmp_path, packed(b"\n".join([*LINES[:2], b"", LINES[2]])))
    assert list(source.lines()) == [(1, LINES[0]), (2, LINES[1]), (4, LINES[2])]
    assert source.head().values == ({"n": 1}, {"n": 2}, {"n": 3})
    assert source.is_lines()


@pytest.mark.parametrize("packed", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_compressed_data_that_breaks_off_gives_what_it_holds(packed, tmp_path: Path) -> None:
    """The lines before the break are read and the break is reported."""
    many = b"".join(
        b'{"n": %d, "pad": "%s"}\n' % (n, bytes(str(n * 7919 % 1000), "ascii") * 9) for n in range(20_000)
    )
    whole = packed(many)
    report = Report()
    lines = list(written(tmp_path, whole[: len(whole) // 2]).lines(report))
    assert 1000 < len(lines) < 20_000
    assert lines == list(enumerate(many.split(b"\n"), 1))[: len(lines)]
    assert report.faults[0].position == len(lines) + 1


def test_a_bomb_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that grows a thousand times and more is not followed to its end."""
    monkeypatch.setattr(inflate, "FREE_BYTES", 1 << 16)
    source = written(tmp_path, zstd(b"x" * (64 << 20)))
    report = Report()
    assert len(source.read(report)) < 64 << 20
    assert "grows" in report.faults[0].reason


def test_a_line_of_twenty_mebibytes_is_one_line(tmp_path: Path) -> None:
    """Long lines are read whole, and so are those around them."""
    long = b'{"pad": "' + b"x" * (20 << 20) + b'"}'
    source = written(tmp_path, b"\n".join([long, *LINES]))
    assert [(number, len(line)) for number, line in source.lines()] == [
        (1, len(long)),
        (2, 8),
        (3, 8),
        (4, 8),
    ]
    assert source.is_lines()


def test_a_line_over_the_limit_is_set_aside_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line without an end cannot fill the memory."""
    monkeypatch.setattr("agentlens.readers.source.LINE_LIMIT", 1000)
    report = Report()
    lines = list(written(tmp_path, b"\n".join([LINES[0], b"x" * 5000, LINES[1]])).lines(report))
    assert lines == [(1, LINES[0]), (3, LINES[1])]
    assert [fault.position for fault in report.faults] == [2]


@pytest.mark.parametrize("size", [1, 8, 9, 10, 17, 1000])
def test_ranges_hold_whole_lines_and_keep_their_numbers(size: int, tmp_path: Path) -> None:
    """Reading the ranges one after the other is reading the file."""
    source = written(tmp_path, b"\n".join([*LINES, b"", *LINES]) + b"\n")
    parts = list(source.split(size))
    assert [line for part in parts for line in part.lines()] == list(source.lines())
    assert parts[0].start == 0
    assert sum(part.size() for part in parts) == source.size()


def test_a_document_or_a_compressed_file_is_not_split(tmp_path: Path) -> None:
    """Neither can be read from the middle."""
    document = written(tmp_path, json.dumps([{"n": n} for n in range(99)], indent=1).encode())
    assert list(document.split(10)) == [document]
    packed = written(tmp_path, gzip.compress(b"\n".join(LINES * 50)), "b.gz")
    assert list(packed.split(10)) == [packed]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b'{\n "a": [\n  {}\n ]\n}', False),
        (b'[\n{"a": 1},\n{"a": 2}\n]', False),
        (b'{"a": 1}', True),
        (b'{"a": 1\n{"b": 1}\n{"b": 2}', True),
        (b"Warning: no config\n" + b"\n".join(LINES), True),
        (b'{"a": [{"b": 1}, {"b"', False),
        (b"just words\n", False),
        (b"", False),
    ],
)
def test_lines_and_documents_are_told_apart(data: bytes, lines: bool, tmp_path: Path) -> None:
    """By what stands there, never by the name."""
    assert written(tmp_path, data).is_lines() is lines


def test_a_first_line_longer_than_the_head_is_still_lines(tmp_path: Path) -> None:
    """A request of hundreds of spans fills more than 64 KiB."""
    long = b'{"pad": "' + b"x" * 100_000 + b'"}'
    assert written(tmp_path, long + b"\n" + LINES[0]).is_lines()
    assert not written(tmp_path, long).is_lines()
    assert written(tmp_path, long[:-1] + b"\n" + LINES[0]).is_lines()


def test_the_head_of_a_long_document_shows_its_start(tmp_path: Path) -> None:
    """What tells a format must not need the whole file."""
    head = written(
        tmp_path, json.dumps({"steps": [{"n": n, "pad": "y" * 99} for n in range(5000)]}).encode()
    ).head()
    (value,) = head.values
    assert value["steps"][0]["n"] == 0
    assert not head.lines


def test_a_document_that_is_cut_off_keeps_its_records_and_says_so(tmp_path: Path) -> None:
    """The bytes that were set aside are counted."""
    report = Report()
    value = written(tmp_path, b'{"spans": [{"id": 1}, {"id": 2}, {"i').document(report, ("spans",))
    assert value == {"spans": [{"id": 1}, {"id": 2}]}
    assert report.faults[0].position == 31
    assert report.faults[0].unit == "byte"


def test_an_empty_document_is_a_fault_not_an_error(tmp_path: Path) -> None:
    """There is nothing in it, and that is said."""
    report = Report()
    assert written(tmp_path, b" \n").document(report) is ABSENT
    assert report.faults[0].reason == "the file is empty"


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    """The message names the file and what would do."""
    with pytest.raises(InputError, match=r"nothing\.jsonl: No such file.*accepted"):
        next(Source.of(tmp_path / "nothing.jsonl").lines())


def test_the_digest_is_of_the_stored_bytes(tmp_path: Path) -> None:
    """It changes with the content and not with the name."""
    one, two = written(tmp_path, b"a\n", "one"), written(tmp_path, b"a\n", "two")
    assert one.digest() == two.digest() != written(tmp_path, b"b\n", "three").digest()


def test_folders_patterns_and_pipes_are_expanded_once_in_order(tmp_path: Path) -> None:
    """Sorted, hidden files passed over, the same file only once; standard input can be read twice."""
    for name in ("b.jsonl", "a.jsonl", "sub/c.jsonl", ".hidden", ".git/x"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(LINES[0])
    found = expand([tmp_path, tmp_path / "*.jsonl", "-"], io.BytesIO(LINES[1] + b"\n"))
    assert [Path(source.name).name for source in found] == ["a.jsonl", "b.jsonl", "c.jsonl", "stdin"]
    assert list(found[-1].lines()) == list(found[-1].lines()) == [(1, LINES[1])]
    assert found[-1].siblings() is None
    assert found[0].siblings() == tmp_path


@pytest.mark.parametrize("name", ["nowhere", "no*where"])
def test_a_name_that_matches_nothing_is_an_input_error(name: str, tmp_path: Path) -> None:
    """What was asked for and is not there must not pass in silence."""
    with pytest.raises(InputError, match="accepted"):
        expand([tmp_path / name])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"\x80\x04\x95", "pickle"),
        (b"col1,col2\n1,2\n", "no known format"),
        (b"\x00\xff\x00\xff" * 50, "no known format"),
        (b"\x1f\x8b\x08\x00garbage", "the compressed data ends early"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff", "the compressed data is damaged"),
        (b"\x28\xb5\x2f\xfdgarbage and more", "the compressed data is damaged"),
        (
            gzip.compress(b"col1,col2\n1,2\n", mtime=0)[:-3],
            "no known format in what can be read .*ends early",
        ),
    ],
)
def test_what_no_format_claims_is_an_input_error(data: bytes, said: str, tmp_path: Path) -> None:
    """The message says what would be accepted."""
    with pytest.raises(InputError, match=said):
        registry.sniff(written(tmp_path, data).head())


def test_a_damaged_archive_is_not_called_empty(tmp_path: Path) -> None:
    """Read as a document, the one fault is the damage."""
    report = Report()
    assert written(tmp_path, b"\x1f\x8b\x08\x00garbage").document(report) is ABSENT
    assert [fault.reason for fault in report.faults] == ["cut off: the compressed data ends early"]


def test_an_unknown_format_name_lists_the_known_ones() -> None:
    """And the nearest of them."""
    with pytest.raises(SettingsError, match="did you mean 'otlp-json'"):
        registry.named("otlp-jsom")


def test_equal_claims_are_an_error_that_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tie is never broken by chance."""
    one, two = registry.FORMATS[:2]
    both = tuple(
        registry.Format(
            name=found.name,
            version=1,
            title="",
            recognised_by="",
            proved_on="",
            claim=lambda _: 50,
            read=found.read,
        )
        for found in (one, two)
    )
    monkeypatch.setattr(registry, "FORMATS", both)
    with pytest.raises(InputError, match=f"{one.name} or {two.name}"):
        registry.sniff(written(tmp_path, LINES[0]).head())
