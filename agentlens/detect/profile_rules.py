"""Rule books: a default rule and overrides by workflow, agent and tool, as a TOML file holds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from agentlens.detect import rules
from agentlens.detect.rules import Rule
from agentlens.errors import SettingsError
from agentlens.settings import read_toml

if TYPE_CHECKING:
    from pathlib import Path

BUILDERS: dict[str, Callable[..., Rule]] = {
    "equal_surprise": rules.equal_surprise,
    "full_window": rules.full_window,
    "gemini_cli": rules.gemini_cli,
    "laps": rules.laps,
    "openhands": rules.openhands,
    "same_call": rules.same_call,
}
"""Named rules that a file may use as ``rule = "..."``; their arguments stand beside it."""

_WHERE = ("workflow", "agent", "tool")


@dataclass(frozen=True, kw_only=True)
class Override:
    """A rule for the events that match every one of the given names.

    The rule that matches an event judges that event. A tool override therefore judges the events of that
    tool, by the whole lane's sequence; the other events of the lane keep theirs.
    """

    rule: Rule
    workflow: str | None = None
    agent: str | None = None
    tool: str | None = None

    def __post_init__(self) -> None:
        """Refuse an override of everything."""
        if all(getattr(self, name) is None for name in _WHERE):
            raise SettingsError.value("override", "(no name)", "at least one of workflow, agent, tool")

    @property
    def weight(self) -> tuple[int, bool, bool, bool]:
        """More names win; then a tool over an agent over a workflow."""
        given = [getattr(self, name) is not None for name in ("tool", "agent", "workflow")]
        return (sum(given), *given)  # type: ignore[return-value]

    def matches(self) -> pl.Expr:
        """Boolean expression over events, never null."""
        tests = [
            pl.col(name).eq_missing(getattr(self, name)) for name in _WHERE if getattr(self, name) is not None
        ]
        return pl.all_horizontal(tests)


@dataclass(frozen=True, kw_only=True)
class RuleBook:
    """A default rule and overrides.

    The override with the most names wins, then tool over agent over workflow, then the first in the file.

    Examples
    --------
    >>> polls = {"tool": "poll", "rule": "same_call", "n": 9}
    >>> book = RuleBook.from_mapping({"default": {"rule": "laps"}, "override": [polls]})
    >>> [rule.thresholds for rule in book.rules]
    [(4, 6, 6), (9,)]
    """

    default: Rule
    overrides: tuple[Override, ...] = ()

    @classmethod
    def of(cls, rule: Rule | RuleBook) -> RuleBook:
        """Take a rule for a book without overrides."""
        return rule if isinstance(rule, RuleBook) else cls(default=rule)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a rule file: a table ``[default]`` and tables ``[[override]]``.

        Each names a ``rule`` with its arguments, or ``thresholds = [..]`` with ``evidence`` and ``max_gap_s``.

        Raises
        ------
        SettingsError
            When the file cannot be read, is no TOML, or holds a setting that is not accepted.
        """
        facts = read_toml(path, "rule file")
        try:
            return cls.from_mapping(facts)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from error

    @classmethod
    def from_mapping(cls, facts: Mapping[str, Any]) -> Self:
        """Build from decoded TOML; tables besides ``default`` and ``override`` belong to other readers of the file."""
        default = facts.get("default", {"rule": "laps"})
        overrides = facts.get("override", [])
        if not isinstance(overrides, list):
            raise SettingsError.value("override", overrides, "tables [[override]]")
        if "default" not in facts and not overrides:
            made = facts.get("profile")
            if isinstance(made, dict) and "status" in made:
                why = made.get("reason", made["status"])
                raise SettingsError(f"this calibration found no rule ({why}); accepted: another profile")
            raise SettingsError.value("rule file", sorted(facts), "a table [default] or tables [[override]]")
        return cls(default=rule_from(default), overrides=tuple(_override(table) for table in overrides))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The default and the rules of the overrides, in order."""
        return (self.default, *(override.rule for override in self.overrides))

    @property
    def digest(self) -> str:
        """Digest of every setting; that of a lone rule is the rule's own."""
        if not self.overrides:
            return self.default.digest
        facts = [[o.rule.digest, o.workflow, o.agent, o.tool] for o in self.overrides]
        return blake2b(json.dumps([self.default.digest, facts]).encode(), digest_size=16).hexdigest()

    @property
    def name(self) -> str:
        """What the book is called in outputs."""
        return self.default.name + (f" with {len(self.overrides)} overrides" if self.overrides else "")

    def number(self) -> pl.Expr:
        """Position in `rules` of the rule that judges each event, Int32."""
        order = sorted(
            range(len(self.overrides)), key=lambda i: (tuple(-w for w in self.overrides[i].weight), i)
        )
        choice = pl.lit(0, dtype=pl.Int32)
        for index in reversed(order):
            choice = (
                pl.when(self.overrides[index].matches())
                .then(pl.lit(index + 1, dtype=pl.Int32))
                .otherwise(choice)
            )
        return choice


def rule_from(table: Any) -> Rule:
    """Build a rule from one decoded table: ``rule`` and its arguments, or ``thresholds``."""
    if not isinstance(table, Mapping):
        raise SettingsError.value("rule", table, 'a table with rule = "..." or thresholds = [..]')
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    name = settings.pop("rule", None)
    if name is None:
        return _build(Rule, settings, "thresholds")
    if name not in BUILDERS:
        raise SettingsError.unknown("rule", str(name), BUILDERS)
    return _build(BUILDERS[name], settings, str(name))


def _build(builder: Callable[..., Rule], settings: Mapping[str, Any], name: str) -> Rule:
    try:
        return builder(**settings)
    except TypeError as error:
        raise SettingsError.value(name, dict(settings), f"the arguments of {name} ({error})") from error


def _override(table: Any) -> Override:
    if not isinstance(table, Mapping):
        raise SettingsError.value("override", table, "tables [[override]]")
    where = {name: table[name] for name in _WHERE if name in table}
    for name, value in where.items():
        if not isinstance(value, str):
            raise SettingsError.value(name, value, "a text")
    return Override(rule=rule_from({k: v for k, v in table.items() if k not in _WHERE}), **where)
