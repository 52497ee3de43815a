"""Attributes and values of OTLP, as plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def unions(attributes: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield ``(name, union)`` of a list of OTLP attributes; what is none is passed over."""
    for attribute in attributes:
        if isinstance(attribute, dict) and isinstance(attribute.get("key"), str):
            yield attribute["key"], attribute.get("value")


def pairs(attributes: Any) -> Iterator[tuple[str, Any]]:
    """Yield ``(name, value)`` of a list of OTLP attributes."""
    for name, union in unions(attributes if isinstance(attributes, list) else []):
        yield name, value_of(union)


def value_of(union: Any) -> Any:
    """Return the value of an OTLP ``AnyValue``; None for an empty one.

    >>> value_of({"arrayValue": {"values": [{"intValue": "3"}, {"stringValue": "x"}]}})
    [3, 'x']
    """
    if not isinstance(union, dict):
        return union if isinstance(union, (str, int, float)) else None
    text = union.get("stringValue")
    if text is not None:
        return text if isinstance(text, str) else None
    whole = union.get("intValue")
    if whole is not None:
        return _integer(whole)
    for name, value in union.items():
        if value is None:
            continue
        return _decoded(name.replace("_", "").lower(), value)
    return None


def _decoded(name: str, value: Any) -> Any:
    if name == "stringvalue":
        return value if isinstance(value, str) else None
    if name == "intvalue":
        return _integer(value)
    if name == "doublevalue":
        return value if isinstance(value, (int, float)) else None
    if name in {"boolvalue", "bytesvalue"}:
        return value
    inner = value.get("values") if isinstance(value, dict) else None
    if name == "arrayvalue":
        return [value_of(item) for item in inner] if isinstance(inner, list) else None
    if name == "kvlistvalue":
        return dict(pairs(inner))
    return None


def _integer(value: Any) -> int | None:
    if value.__class__ is int:
        return value
    try:
        return int(value) if isinstance(value, str) and len(value) < 40 else None
    except ValueError:
        return None
