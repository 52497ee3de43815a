"""One text for values that mean the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlens.normalise.canonical import Canon, TooDeep, decode, dumps


def canon(value, **settings):
    return dumps(Canon(settings.pop("drop", {}), **settings).value(value))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1.0}, {"a": 1}),
        ({"a": "x\r\ny "}, {"a": " x\ny"}),
        ({"a": "e\u0301"}, {"a": "\u00e9"}),
        ({"e\u0301": 1}, {"\u00e9": 1}),
        ('{"a": 1}', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ({"a": '{"b": [1, 2]}'}, {"a": {"b": [1, 2]}}),
        ("{'a': True, 'b': None}", {"a": True, "b": None}),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ({"a": math.nan}, {"a": None}),
    ],
)
def test_same_meaning_same_text(one, two):
    """Key order, spacing, encoding of text and of JSON in text are no difference."""
    assert canon(one) == canon(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a": 1.5}, {"a": 1}),
        ({"a": "1"}, {"a": 1}),
        ({"a": True}, {"a": 1}),
        ({"a": 10**20}, {"a": 10**20 + 1}),
        (
            '{"id": 123456789012345678901234567890123456789}',
            '{"id": 123456789012345678901234567890123456788}',
        ),
        ({"a": 2.0**60}, {"a": 2**60 + 1}),
        ({"a": []}, {"a": {}}),
        ({"a": None}, {}),
        ({"a": "x  y"}, {"a": "x y"}),
        ([1, 2], [2, 1]),
    ],
)
def test_different_meaning_different_text(one, two):
    """Large integers keep every digit, text is no number, order of lists counts."""
    assert canon(one) != canon(two)


def test_named_fields_go_at_any_depth():
    """A dropped name is dropped inside lists and inside JSON text too, with the rule that did it."""
    made = Canon({"request_id": "volatile"})
    value = made.value({"a": [{"request_id": 1, "b": 2}], "c": '{"request_id": 3, "d": 4}', "request_id": 5})
    assert value == {"a": [{"b": 2}], "c": {"d": 4}}
    assert sorted(made.dropped) == [
        ("a[].request_id", "volatile"),
        ("c.request_id", "volatile"),
        ("request_id", "volatile"),
    ]


@pytest.mark.parametrize(
    "value", [{"message_id": 1}, {"filter": {"message_id": 1}}, {"x": {}, "message_id": 1}]
)
def test_nothing_goes_where_nothing_would_remain(value):
    """The only argument is the meaning, at whatever depth it stands."""
    made = Canon({"message_id": "volatile"})
    assert made.value(value) == value
    assert made.dropped == []
    assert made.value({"message_id": 1, "y": 2}) == {"y": 2}


def test_field_that_repeats_others():
    """An element reference goes where role and name say which element, and only there."""
    made = Canon({}, unless=(("ref", frozenset({"role", "name"}), "browser"),))
    assert made.value({"ref": "e1", "role": "button", "name": "Save"}) == {"role": "button", "name": "Save"}
    assert made.value({"ref": "e1", "role": "button"}) == {"ref": "e1", "role": "button"}


def test_verbatim_fields_keep_indentation():
    """In text that is written, leading white space is meaning, and JSON in it is left alone."""
    made = Canon({}, verbatim=frozenset({"new_string"}))
    assert made.value({"new_string": "  x", "path": " p "}) == {"new_string": "  x", "path": "p"}
    assert made.value({"new_string": '{"a":1}'}) == {"new_string": '{"a":1}'}


def test_payloads_become_type_size_and_digest():
    """Two images are equal if their bytes are; none is kept."""
    part = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400}}
    other = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "A" * 399 + "B"},
    }
    assert canon(part) == canon(dict(part)) != canon(other)
    assert b"AAAA" not in canon(part)
    url = canon({"url": "data:image/png;base64," + "A" * 400})
    assert b"AAAA" not in url
    assert b"image/png;400;" in url


def test_hostile_depth_is_refused():
    """A value nested beyond reason is not digested, and does not end the process."""
    deep = value = []
    for _ in range(5000):
        deep.append([])
        deep = deep[0]
    with pytest.raises(TooDeep):
        Canon({}).value(value)
    assert decode("[" * 100_000) == "[" * 100_000
    assert decode("{'a': " * 500) == "{'a': " * 500


def test_python_values_of_exports():
    """Literals of Python containers are read; nothing is evaluated."""
    assert decode("{'a': (1, None)}") == {"a": (1, None)}
    assert decode("[__import__('os').system('x')]") == "[__import__('os').system('x')]"
    assert canon("{'s': {2, 1}, 1: b'x'}") == canon({"s": {1, 2}, "1": b"x"})
    assert decode("{'re': '\\d'}") == {"re": "\\d"}


def test_lone_surrogates_are_digested():
    """Text that is not valid Unicode still has a text to digest."""
    assert canon({"a": "\ud83d"}) != canon({"a": "\ud83e"})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_canonical_value_is_stable(value):
    """Canonical form is a fixed point and does not depend on key order."""
    once = Canon({}).value(value)
    assert dumps(Canon({}).value(once)) == dumps(once)
    if isinstance(value, dict):
        assert canon(dict(reversed(list(value.items())))) == dumps(once)
