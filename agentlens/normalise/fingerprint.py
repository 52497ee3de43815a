"""Progress fingerprints: which durable observation would differ if this step had helped (SPEC section 2).

``observed``: what came back. ``durable:NAME``: what an action left behind, by a definition of the tables; it is
carried forward over the events that change nothing when lanes are put together. ``given`` ones pass unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from agentlens.errors import SettingsError
from agentlens.model.raw import ABSENT
from agentlens.normalise.canonical import Canon, TooDeep, decode, dumps
from agentlens.normalise.tables import CODE_VERSION, Durable, Tables, Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.normalise.facts import Facts
    from agentlens.normalise.results import Evidence

OBSERVED: Final = "observed"
UNKNOWN_STATE: Final = "?"
"""Stands in ``durable_fingerprint`` where an event changed the durable state and nobody can say into what."""
_PREFIX: Final = "durable:"


def durable_of(choice: str, tables: Tables) -> Durable | None:
    """Return the durable definition that a setting names, None for ``observed``.

    Raises
    ------
    SettingsError
        Neither ``observed`` nor ``durable:NAME`` with a known name.

    """
    if choice == OBSERVED:
        return None
    if choice.startswith(_PREFIX):
        return tables.durable_definition(choice.removeprefix(_PREFIX))
    accepted = ", ".join([OBSERVED, *(_PREFIX + name for name in sorted(tables.durable))])
    raise SettingsError.value("fingerprint", choice, accepted)


def observed_version(tables: Tables) -> str:
    """Name and version of the observed definition; it changes with the code and with the tables."""
    return f"{OBSERVED}.{CODE_VERSION}-{tables.version}"


def durable_version(definition: Durable, tables: Tables) -> str:
    """Name and version of a durable definition."""
    return f"{_PREFIX}{definition.name}.{definition.version}.{CODE_VERSION}-{tables.version}"


def observed_material(seen: Evidence, error_class: str | None) -> bytes | None:
    """Bytes to digest: the result with its error class, the class alone, or None where nothing is known.

    A stub is unknown even beside an error class: the class was there before the text went. The class
    ``unknown`` (a failure whose details were not exported) is no known class.
    """
    error = (error_class or "").encode("utf-8", "surrogatepass")
    if seen.text is not None:
        return b"result\x00" + error + b"\x00" + seen.text.encode("utf-8", "surrogatepass")
    if error and error != b"unknown" and seen.why == "no result":
        return b"class\x00" + error
    return None


class Done(NamedTuple):
    """What a durable definition looks at: an action in canonical form, what came back, how it was judged."""

    tool: Tool
    arguments: Any
    result: Any
    seen: Evidence
    facts: Facts
    error_class: str | None


def durable_material(definition: Durable, done: Done, tables: Tables) -> bytes | Literal["?"] | None:
    """Bytes to digest where this event changes the durable state of a definition, else None.

    The first source of the definition that covers the event and finds something counts. A failed action
    leaves nothing behind, except that a failing check is a result. Where a source takes everything (``*``)
    and nothing was exported, the state is unknown: `UNKNOWN_STATE`.
    """
    tool = done.tool
    lost = False
    for source in definition.sources:
        if not tables.matches(source["tools"], tool.names, tool.families):
            continue
        if tables.matches(source["without"], tool.names, tool.families):
            continue
        if any(getattr(done.facts, fact, None) is not True for fact in source["facts"]):
            continue
        if done.error_class and source["args"]:
            continue
        found = _found(source, done)
        if found:
            return dumps(found)
        lost = lost or "*" in source["args"] or "*" in source["result"]
    return UNKNOWN_STATE if lost else None


def _found(source: Mapping[str, tuple[str, ...]], done: Done) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for side, whole in (("args", done.arguments), ("result", done.result)):
        names = source[side]
        if not names or whole is ABSENT or whole is None:
            continue
        if "*" in names:
            everything = done.seen.text if side == "result" else whole
            if everything is not None:
                found[side] = everything
            continue
        value = decode(whole) if isinstance(whole, str) else whole
        named = (
            {name: value[name] for name in names if value.get(name) is not None}
            if isinstance(value, dict)
            else {}
        )
        if named:
            try:
                found[side] = Canon({}).value(named)
            except (TooDeep, RecursionError):
                continue
    return found
