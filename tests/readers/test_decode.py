"""JSON as it is found: exact where it can be, mended and counted where it must be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlens.model.raw import ABSENT
from agentlens.readers import decode
from agentlens.readers.base import Report
from agentlens.readers.salvage import salvage


def loaded(data: bytes) -> tuple[object, Report]:
    report = Report()
    return decode.loads(data, report, 7), report


def test_an_integer_of_128_bits_stays_exact() -> None:
    """The fast decoder would make a float of a bare 128-bit id."""
    value, report = loaded(b'{"id": 340282366920938463463374607431768211455, "n": -99999999999999999999}')
    assert value == {"id": 2**128 - 1, "n": -99999999999999999999}
    assert not report.faults


def test_digits_in_texts_and_fractions_take_the_fast_way() -> None:
    """Twenty digits in a text or behind a point are no big integer."""
    assert not decode.has_big_integer(b'{"t": "12345678901234567890x", "f": 0.12345678901234567890123}')
    assert decode.has_big_integer(b"[18446744073709551616]")


def test_nan_becomes_null_and_is_counted() -> None:
    """NaN and the infinities are null, three repairs."""
    value, report = loaded(b'{"a": NaN, "b": [Infinity, -Infinity], "c": 1}')
    assert value == {"a": None, "b": [None, None], "c": 1}
    assert report.repaired == {"NaN": 1, "Infinity": 2}


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    """What UTF-8 cannot hold is replaced, in keys and values; a real pair is kept."""
    value, report = loaded(rb'{"\ud83d": "x\udc00y", "ok": "\ud83d\ude00"}')
    assert value == {"\ufffd": "x\ufffdy", "ok": "\U0001f600"}
    assert report.repaired == {"lone surrogate": 2}
    json.dumps(value, ensure_ascii=False).encode("utf-8")


def test_bytes_that_are_no_utf8_are_replaced_and_counted() -> None:
    """A Latin-1 byte costs one letter, not the record."""
    value, report = loaded(b'{"a": "caf\xe9"}')
    assert value == {"a": "caf\ufffd"}
    assert report.repaired == {"bytes that are no UTF-8": 1}


def test_of_equal_keys_the_last_stands() -> None:
    """On the fast and on the slow way alike."""
    assert loaded(b'{"a": 1, "a": 2}')[0] == {"a": 2}
    assert loaded(b'{"a": NaN, "a": 2}')[0] == {"a": 2}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a": 1', "cut off"),
        (b'{"a": "x', "cut off"),
        (b'{"a" 1}', "character 6"),
        (b"plain words", "not valid JSON"),
        (b"", "no JSON"),
        (b"[" * 100_000, "too deeply"),
        (b"1" * 10_000, "number is too long"),
    ],
)
def test_what_cannot_be_decoded_is_set_aside_with_its_line(data: bytes, reason: str) -> None:
    """One fault, with position and reason, and no exception."""
    value, report = loaded(data)
    assert value is ABSENT
    (fault,) = report.faults
    assert fault.position == 7
    assert reason in fault.reason


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.text(max_size=6), st.text() | st.integers() | st.none(), max_size=3), max_size=6
    ),
    st.data(),
)
def test_a_cut_document_keeps_every_whole_record(rows: list[dict[str, object]], data: st.DataObject) -> None:
    """Cut anywhere, the elements of the named array that end before the cut are there, and no others."""
    text = json.dumps({"meta": {"x": [1, 2]}, "rows": rows, "end": 1}).encode()
    cut = data.draw(st.integers(0, len(text) - 1))
    saved = salvage(text[:cut], ("rows",))
    ends = _ends(text, rows)
    whole = sum(end <= cut for end in ends)
    assert (saved.value["rows"] if whole else saved.value) == (rows[:whole] if whole else ABSENT)


def _ends(text: bytes, rows: list[dict[str, object]]) -> list[int]:
    place = text.index(b'"rows": [') + len(b'"rows": [')
    ends = []
    for row in rows:
        place += len(json.dumps(row))
        ends.append(place)
        place += len(", ")
    return ends


def test_a_bad_record_in_the_middle_of_a_document_costs_only_itself() -> None:
    """The records behind a damaged one are read as well."""
    saved = salvage(b'{"spans": [{"id": 1}, {"id": nope}, {"id": 3}], "after": 4}', ("spans",))
    assert saved.value == {"spans": [{"id": 1}, None, {"id": 3}], "after": 4}
    assert saved.bad == (22,)
