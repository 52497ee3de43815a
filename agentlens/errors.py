"""What can go wrong, each with a message that says what, where, and what would be accepted."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable


class AgentlensError(Exception):
    """Base of every error the package raises on purpose. The command line prints it and exits with 2."""


class InputError(AgentlensError):
    """A source cannot be read at all, or is not what it was said to be."""

    @classmethod
    def at(cls, where: str, what: str, *, accepted: str = "") -> Self:
        """Build ``where: what; accepted: ...``."""
        return cls(f"{where}: {what}" + (f"; accepted: {accepted}" if accepted else ""))


class SettingsError(AgentlensError):
    """A setting is out of range, unknown, or contradicts another."""

    @classmethod
    def unknown(cls, kind: str, name: str, known: Iterable[str]) -> Self:
        """Build a message that lists the known names and the nearest one."""
        names = sorted(str(one) for one in known)
        near = get_close_matches(name, names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return cls(f"unknown {kind} {name!r}{hint}; accepted: {', '.join(names)}")

    @classmethod
    def value(cls, name: str, value: object, accepted: str) -> Self:
        """Build ``name = value is not allowed; accepted: ...``."""
        return cls(f"{name} = {value!r} is not allowed; accepted: {accepted}")


class LakeError(AgentlensError):
    """A lake is missing, damaged, locked, or of another schema version."""


class SchemaError(AgentlensError):
    """A frame lacks columns, has other types, or breaks a key or order it must keep."""


class EngineError(AgentlensError):
    """An engine for several machines is not there, cannot start, or ended a job with an error."""
