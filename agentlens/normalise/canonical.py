r"""One text for values that mean the same: the form that is digested.

Keys sorted, no spaces, Unicode NFC, line ends ``\n``, outer white space trimmed, ``1.0`` is ``1`` where that is
exact, JSON inside text decoded (two levels), payloads such as images replaced by type, size and digest.
"""

from __future__ import annotations

import ast
import json
import math
import re
import unicodedata
import warnings
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_DEPTH: Final = 150
MAX_LITERAL: Final = 64 * 1024
_EXACT_FLOAT: Final = 2**53
_DIGITS: Final = bytes(48 if 48 <= byte < 58 else 32 for byte in range(256))
_LONG_NUMBER: Final = b"0" * 19  # what is shorter is exact in the fast decoder
_DATA_URL: Final = re.compile(r"\Adata:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,", re.ASCII)
_BASE64_MIN: Final = 256
_OPENS: Final = frozenset('{["')
_CLOSES: Final = frozenset('}]"')
_PARTS: Final = frozenset({"base64", "image", "image_url", "input_image", "blob", "audio", "document"})


class TooDeep(ValueError):  # noqa: N818 - a fact about the value, caught in this package
    """The value nests deeper than anything a tool is called with; nothing is said about it."""


def decode(text: str) -> Any:
    """Decode JSON text of an object or array, else a Python literal of one; the text itself if it is neither.

    Integers keep every digit, ``NaN`` and infinities become null, the last of duplicate keys stands.

    >>> decode('{"a": 100000000000000000001}'), decode("{'ok': True}"), decode("{not json")
    ({'a': 100000000000000000001}, {'ok': True}, '{not json')
    """
    stripped = text.strip()
    if not stripped or stripped[0] not in '{["':
        return text
    try:
        data = stripped.encode()
        if _LONG_NUMBER in data.translate(_DIGITS):
            return json.loads(stripped, parse_constant=_no_number)
        return orjson.loads(data)
    except (ValueError, RecursionError):
        pass
    if stripped[0] == '"':
        return text
    try:
        return json.loads(stripped, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return _literal(stripped, text)


def _no_number(_name: str) -> None:
    return None


def _literal(stripped: str, text: str) -> Any:
    """Python's ``repr`` of a container, as some exports write results. Literals only, nothing is evaluated."""
    if (
        len(stripped) > MAX_LITERAL
        or stripped[-1] not in "}]"
        or ("'" not in stripped and "None" not in stripped)
    ):
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(stripped)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, (dict, list)) else text


def plain_text(text: str) -> str:
    r"""Return the text in NFC with ``\n`` line ends, without a single other change."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def trimmed(text: str) -> str:
    r"""Return the text in NFC with ``\n`` line ends and without outer white space."""
    return plain_text(text).strip()


class Canon:
    """Rebuilds a value in canonical form, leaving out named fields.

    Parameters
    ----------
    drop : mapping of field name to the name of the rule that drops it
    unless : (field, other fields, rule): the field goes where all the others are there
    verbatim : names of fields whose text is neither trimmed nor decoded
    leaf : what is done to every other text
    refill : ``get_message(message_id)`` keeps its only argument; a result that only names its request is empty

    After a call, ``dropped`` holds (path, rule) of each field left out.

    """

    __slots__ = ("drop", "dropped", "leaf", "refill", "unless", "verbatim")

    def __init__(
        self,
        drop: Mapping[str, str],
        *,
        unless: tuple[tuple[str, frozenset[str], str], ...] = (),
        verbatim: frozenset[str] = frozenset(),
        leaf: Callable[[str], str] = trimmed,
        refill: bool = True,
    ) -> None:
        self.drop = drop
        self.unless = unless
        self.verbatim = verbatim
        self.leaf = leaf
        self.refill = refill
        self.dropped: list[tuple[str, str]] = []

    def value(self, value: Any) -> Any:
        """Return the canonical value; with ``refill``, all of it where leaving fields out would leave nothing.

        Raises
        ------
        TooDeep
            More than 150 levels.

        """
        self.dropped = []
        built = self._build(value, 2, 0, "")
        if self.refill and self.dropped and _empty(built):
            drop, unless = self.drop, self.unless
            self.drop, self.unless = {}, ()
            self.dropped = []
            try:
                built = self._build(value, 2, 0, "")
            finally:
                self.drop, self.unless = drop, unless
        return built

    def _build(self, value: Any, levels: int, depth: int, path: str) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(value, levels, depth, path)
        if value is None or kind is bool or kind is int:
            return value
        if kind is float:
            return number(value)
        if depth > MAX_DEPTH:
            raise TooDeep("more than 150 levels")
        if isinstance(value, dict):
            return self._object(value, levels, depth, path)
        if isinstance(value, (list, tuple)):
            return [self._build(item, levels, depth + 1, f"{path}[]") for item in value]
        return self._other(value, levels, depth, path)

    def _object(self, value: dict[Any, Any], levels: int, depth: int, path: str) -> dict[str, Any]:
        # the hot loop of the package: plain fields are finished here, without another call
        if "type" in value:
            value = _payload(value)
        drop, verbatim, leaf = self.drop, self.verbatim, self.leaf
        gone = self._repeats(value) if self.unless else {}
        built: dict[str, Any] = {}
        for key, item in value.items():
            name = key if type(key) is str else str(key)
            if name in drop or name in gone:
                self.dropped.append((f"{path}.{name}" if path else name, drop.get(name) or gone[name]))
                continue
            kind = type(item)
            done = item
            if kind is str:
                if name in verbatim:
                    done = plain_text(item)
                else:
                    done = leaf(item)
                    if done and (done[0] in _OPENS or len(done) > _BASE64_MIN):
                        done = self._opened(done, levels, depth + 1, f"{path}.{name}" if path else name)
            elif not (item is None or kind is bool or kind is int):
                done = self._build(item, levels, depth + 1, f"{path}.{name}" if path else name)
            built[name if name.isascii() else unicodedata.normalize("NFC", name)] = done
        return built

    def _repeats(self, value: dict[Any, Any]) -> dict[str, str]:
        """Fields that only repeat what other fields of the object say, with the rule that says so."""
        return {name: rule for name, others, rule in self.unless if name in value and others <= value.keys()}

    def _text(self, value: str, levels: int, depth: int, path: str) -> Any:
        text = self.leaf(value)
        if text and (text[0] in _OPENS or len(text) > _BASE64_MIN):
            return self._opened(text, levels, depth, path)
        return text

    def _opened(self, text: str, levels: int, depth: int, path: str) -> Any:
        """Look into text that may be JSON, a Python literal or an encoded payload."""
        if levels and text[0] in _OPENS and text[-1] in _CLOSES and len(text) > 1:
            decoded = decode(text)
            if type(decoded) is not str or (depth == 0 and decoded is not text):
                return self._build(decoded, levels - 1, depth, path)
        if len(text) > _BASE64_MIN and text.startswith("data:"):
            return _data_url(text)
        return text

    def _other(self, value: Any, levels: int, depth: int, path: str) -> Any:
        if isinstance(value, (set, frozenset)):
            items = [dumps(self._build(item, levels, depth + 1, path)) for item in value]
            return sorted(item.decode("utf-8", "replace") for item in items)
        if isinstance(value, (bytes, bytearray)):
            return f"bytes;{len(value)};{blake2b(value, digest_size=16).hexdigest()}"
        return str(value)


def number(value: float) -> float | int | None:
    """Return the integer a float equals exactly, null for NaN and infinities.

    >>> number(1.0), number(1.5), number(float("nan")), number(1e300)
    (1, 1.5, None, 1e+300)
    """
    if not math.isfinite(value):
        return None
    if value.is_integer() and abs(value) <= _EXACT_FLOAT:
        return int(value)
    return value


def dumps(value: Any) -> bytes:
    """Serialise a canonical value: sorted keys, no spaces, UTF-8; integers of any size."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError):  # more than 64 bits, or lone surrogates
        return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()


def _empty(value: Any) -> bool:
    """Whether nothing but containers is left."""
    if isinstance(value, dict):
        return all(_empty(item) for item in value.values())
    return isinstance(value, list) and all(_empty(item) for item in value)


def _payload(value: dict[Any, Any]) -> dict[Any, Any]:
    """Replace the base64 payload of an image or file part by its size and digest."""
    kind = value.get("type")
    if type(kind) is not str or kind not in _PARTS:
        return value
    source = value.get("source")
    if isinstance(source, dict):
        return {**value, "source": _payload({"type": "base64", **source})}
    data = value.get("data")
    if isinstance(data, str) and len(data) > _BASE64_MIN:
        return {**value, "data": _digest_of(data)}
    return value


def _data_url(text: str) -> str:
    found = _DATA_URL.match(text)
    if not found:
        return text
    return f"data:{found.group(1) or ''};{_digest_of(text[found.end() :])}"


def _digest_of(data: str) -> str:
    return f"{len(data)};{blake2b(data.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
