"""Declared retry policies and waiting tools, for the exports that record neither (SPEC section 3, line 4)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self, TypeVar

from agentlens.errors import SettingsError
from agentlens.settings import read_toml

if TYPE_CHECKING:
    from pathlib import Path

_T = TypeVar("_T")

SLEEPING_TOOLS = ("sleep", "wait")
"""Tools that are an explicit sleep by name, besides events marked ``pause``."""


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """A bounded retry: which error classes, how often, how far apart; for all events or one tool or workflow.

    The first attempt counts towards ``max_attempts``. ``jitter`` is a fraction of the delay.
    """

    errors: tuple[str, ...]
    interval_s: float
    max_attempts: int
    backoff_rate: float = 1.0
    max_delay_s: float | None = None
    jitter: float = 0.0
    tool: str | None = None
    workflow: str | None = None

    def __post_init__(self) -> None:
        """Refuse policies without a bound."""
        if (
            not self.errors
            or not isinstance(self.errors, tuple)
            or not all(isinstance(name, str) for name in self.errors)
        ):
            raise SettingsError.value("errors", self.errors, 'a list of error classes, or ["*"]')
        if (
            not isinstance(self.max_attempts, int)
            or isinstance(self.max_attempts, bool)
            or self.max_attempts < 1
        ):
            raise SettingsError.value("max_attempts", self.max_attempts, "a whole number from 1")
        _check_amount("interval_s", self.interval_s)
        _check_amount("backoff_rate", self.backoff_rate)
        if self.max_delay_s is not None:
            _check_amount("max_delay_s", self.max_delay_s)
        _check_amount("jitter", self.jitter, most=1)
        _check_names(self.tool, self.workflow)


@dataclass(frozen=True, kw_only=True)
class WaitingTool:
    """A tool that waits for someone: its events carry a lease from the first such event of the lane on.

    "Such" events are those of the tool with the same action signature: waiting for another thing starts
    another lease.
    """

    tool: str
    owner: str
    longest_wait_s: float
    waits_on: str | None = None
    workflow: str | None = None

    def __post_init__(self) -> None:
        """Refuse a wait without an owner or an end."""
        if not isinstance(self.tool, str) or not self.tool:
            raise SettingsError.value("tool", self.tool, "the name of the waiting tool")
        if not isinstance(self.owner, str) or not self.owner:
            raise SettingsError.value("owner", self.owner, "who is waited for")
        _check_amount("longest_wait_s", self.longest_wait_s)
        _check_names(self.waits_on, self.workflow)


@dataclass(frozen=True, kw_only=True)
class Policies:
    """What a policies file declares.

    Examples
    --------
    >>> Policies(waits=(WaitingTool(tool="approval", owner="ops", longest_wait_s=3600),)).waits[0].owner
    'ops'
    """

    retries: tuple[RetryPolicy, ...] = ()
    waits: tuple[WaitingTool, ...] = ()
    sleeping_tools: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a TOML file of ``[[retry]]``, ``[[wait]]`` and ``sleeping_tools = [..]``.

        Raises
        ------
        SettingsError
            When the file cannot be read, is no TOML, or holds something that is not accepted.
        """
        facts = read_toml(path, "policies file")
        try:
            return cls.from_mapping(facts)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from error

    @classmethod
    def from_mapping(cls, facts: Mapping[str, Any]) -> Self:
        """Build from decoded TOML."""
        accepted = ("retry", "sleeping_tools", "wait")
        for name in facts:
            if name not in accepted:
                raise SettingsError.unknown("table of the policies file", name, accepted)
        sleeping = facts.get("sleeping_tools", [])
        if not isinstance(sleeping, list) or not all(isinstance(name, str) for name in sleeping):
            raise SettingsError.value("sleeping_tools", sleeping, "a list of tool names")
        return cls(
            retries=tuple(_build(RetryPolicy, table, "retry") for table in _tables(facts, "retry")),
            waits=tuple(_build(WaitingTool, table, "wait") for table in _tables(facts, "wait")),
            sleeping_tools=tuple(sleeping),
        )

    @property
    def digest(self) -> str:
        """Digest of every setting, 32 hex characters."""
        return blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=16).hexdigest()

    def by_precedence(self) -> tuple[RetryPolicy, ...]:
        """Retry policies, the most specific first: tool and workflow, tool, workflow, any; then as in the file."""
        return tuple(sorted(self.retries, key=lambda p: (p.tool is None, p.workflow is None)))


def _check_amount(name: str, value: object, most: float = math.inf) -> None:
    good = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value <= most
    )
    if not good:
        raise SettingsError.value(
            name, value, "a number from 0" + ("" if most == math.inf else f" to {most:g}")
        )


def _check_names(*names: object) -> None:
    for name in names:
        if name is not None and not isinstance(name, str):
            raise SettingsError.value("name", name, "a text")


def _tables(facts: Mapping[str, Any], name: str) -> list[Any]:
    tables = facts.get(name, [])
    if not isinstance(tables, list):
        raise SettingsError.value(name, tables, f"tables [[{name}]]")
    return tables


def _build(kind: type[_T], table: Any, name: str) -> _T:
    if not isinstance(table, Mapping):
        raise SettingsError.value(name, table, f"tables [[{name}]]")
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise SettingsError.unknown(f"setting of [[{name}]]", key, known)
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    try:
        return kind(**settings)
    except TypeError as error:
        raise SettingsError.value(name, dict(table), f"the settings {', '.join(known)} ({error})") from error
