"""How one decoded native record becomes typed values: the checks that receipts and branches share."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,32}))?([Zz]|[+-]\d\d:?\d\d)", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SECOND: Final = 253_402_300_799  # 9999-12-31T23:59:59Z
FIRST_US: Final = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z. What lies before it, or after `LAST_US`, has no date in UTC and is no time."""
LAST_US: Final = _LAST_SECOND * 1_000_000 + 999_999

# What an identifier must not look like: these warn, they never decide.
_SUSPICIOUS: Final = (
    ("path", re.compile(r"^(?:/|~/|\.{1,2}/|[A-Za-z]:[\\/]|\\\\|file:)")),
    (
        "address",
        re.compile(r"^[a-z][a-z0-9+.-]*://|^[^\s@]+@[^\s@]+\.[^\s@]+$|^\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?$"),
    ),
    (
        "secret",
        re.compile(
            r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
            r"|\bxox[a-z]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\beyJ[\w-]{10,}\.[\w-]{10,}\."
            r"|-----BEGIN |\b[Bb]earer \S{12,}"
        ),
    ),
)
_LONG: Final = 512


class WrongValueError(ValueError):
    """A field of a native record has a type or value it may not have; the record is set aside."""

    @classmethod
    def expected(cls, name: str, accepted: str, value: object) -> WrongValueError:
        """Build ``name: expected X, found Y``; the value itself is not repeated, it may be content."""
        return cls(f"{name}: expected {accepted}, found {_kind_of(value)}")


@dataclass(slots=True, kw_only=True)
class Typed:
    """Typed rows of one source, and everything that did not become one.

    ``faults``: ``(line, reason)`` of each record set aside. ``unknown``: names of dropped fields with their
    counts. ``warned``: ``field: looks like a path`` and the like, with counts.
    """

    frame: pl.DataFrame
    faults: list[tuple[int, str]] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    warned: Counter[str] = field(default_factory=Counter)


def moment(value: Any, name: str) -> int | None:
    """Microseconds since 1970 of an RFC 3339 text or of epoch seconds; digits below a microsecond are cut.

    Raises
    ------
    WrongValueError
        For anything else, a time without its zone included: a zone is never guessed; and for a time that in
        UTC is not in the years 1 to 9999, which no date can show.

    Examples
    --------
    >>> moment("2026-10-05T08:00:00.5Z", "at")
    1791187200500000
    >>> moment(1.5, "at")
    1500000
    """
    if value is None:
        return None
    if isinstance(value, str):
        found = _RFC3339.fullmatch(value.strip())
        if found is None:
            raise WrongValueError.expected(name, "RFC 3339 time with a zone, or epoch seconds", value)
        try:
            at = _from_parts(*found.groups())
        except (ValueError, OverflowError):
            raise WrongValueError.expected(name, "a time that exists", value) from None
        return _in_range(at, f"{name}: not in the years 1 to 9999 of UTC")
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        raise WrongValueError.expected(name, "RFC 3339 time or epoch seconds", value)
    wrong = f"{name}: epoch seconds out of range (are these milliseconds?)"
    if not abs(value) <= _LAST_SECOND + 1:  # whole numbers of any size stay out of the arithmetic
        raise WrongValueError(wrong)
    return _in_range(int((Decimal(repr(value)) * 1_000_000).to_integral_value()), wrong)


def _in_range(at: int, wrong: str) -> int:
    if not FIRST_US <= at <= LAST_US:
        raise WrongValueError(wrong)
    return at


def _from_parts(
    year: str, month: str, day: str, hour: str, minute: str, second: str, fraction: str | None, zone: str
) -> int:
    leap = second == "60"  # a leap second counts as the first instant of the next minute
    at = datetime(
        int(year), int(month), int(day), int(hour), int(minute), 59 if leap else int(second), tzinfo=UTC
    )
    micros = 0 if leap else int((fraction or "").ljust(6, "0")[:6])
    ahead = timedelta(0)
    if zone not in {"Z", "z"}:
        ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:])) * (-1 if zone[0] == "-" else 1)
    return (at - _EPOCH - ahead + timedelta(seconds=leap)) // timedelta(microseconds=1) + micros


def text(value: Any, name: str) -> str | None:
    """Text or None. Lone surrogates, which no UTF-8 file can hold, become U+FFFD."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise WrongValueError.expected(name, "text", value)
    return (
        value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if _has_surrogate(value)
        else value
    )


def named(value: Any, name: str) -> str | None:
    """Text or None of an id or a name; a whole number of any size is its decimal digits, never rounded.

    >>> named(340282366920938463463374607431768211455, "trace_id")
    '340282366920938463463374607431768211455'
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return text(value, name)


def required(value: Any, name: str) -> str:
    """Text that must be there and must not be empty."""
    found = text(value, name)
    if not found:
        raise WrongValueError(f"{name}: missing" if found is None else f"{name}: empty")
    return found


def flag(value: Any, name: str) -> bool | None:
    """True, false or None; nothing else is taken for one of them."""
    if value is None or isinstance(value, bool):
        return value
    raise WrongValueError.expected(name, "true or false", value)


def texts(value: Any, name: str) -> list[str] | None:
    """Return a list of texts, or None."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise WrongValueError.expected(name, "a list of texts", value)
    return [required(item, f"{name}[{at}]") for at, item in enumerate(value)]


def part(value: Any, name: str) -> Mapping[str, Any] | None:
    """Return an object, or None."""
    if value is None or isinstance(value, dict):
        return value
    raise WrongValueError.expected(name, "an object", value)


def parts(value: Any, name: str) -> list[Mapping[str, Any]] | None:
    """Return a list of objects, or None."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise WrongValueError.expected(name, "a list of objects", value)
    for at, item in enumerate(value):
        if not isinstance(item, dict):
            raise WrongValueError.expected(f"{name}[{at}]", "an object", item)
    return value


def count_unknown(
    found: Iterable[str], known: frozenset[str], counter: Counter[str], prefix: str = ""
) -> None:
    """Count the names that are not in the contract; their values are dropped by whoever calls."""
    for name in found:
        if name not in known:
            counter[prefix + str(name)[:80]] += 1


def warn_identifiers(values: Mapping[str, Any], counter: Counter[str]) -> None:
    """Count identifiers that look like paths, addresses, secrets or prose: they should be opaque."""
    for name, value in values.items():
        if not isinstance(value, str):
            continue
        for kind, pattern in _SUSPICIOUS:
            if pattern.search(value):
                counter[f"{name}: looks like {'an' if kind == 'address' else 'a'} {kind}"] += 1
                break
        else:
            if len(value) > _LONG:
                counter[f"{name}: longer than {_LONG} characters"] += 1


def _has_surrogate(value: str) -> bool:
    return not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value)


def _kind_of(value: object) -> str:
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return "null" if value is None else names.get(type(value), "something else")
