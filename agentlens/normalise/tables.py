"""What is known about names: volatile fields, per-tool rules, result masks, stubs, declared effects.

All of it is data (`tables.toml` beside this file); a user's own tables merge over the shipped ones.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import SettingsError
from agentlens.normalise.resets import Reset, read_resets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CODE_VERSION: Final = 1
"""Counts changes of the code that alter a digest; the tables have a digest of their own."""

FAMILIES: Final = ("shell", "sql", "sleep", "check", "change", "read", "external")
FACTS: Final = ("read", "change", "check", "external")
_NAMED: Final = ("tool", "mask", "stub", "reset")
_LISTS: Final = ("volatile", "keep", "addressing", "verbatim")
_TABLES: Final = ("families", "command", "commands", "hard_failure", "durable", "disable")
_MAX_SEEN: Final = 4096


@dataclass(frozen=True, slots=True)
class Mask:
    """A pattern of result text that is taken out before the text is digested.

    ``contains``: the pattern is tried only where one of these texts is found (a plain search is cheap).
    """

    name: str
    tools: tuple[str, ...]
    contains: tuple[str, ...]
    pattern: re.Pattern[str]
    replace: str


@dataclass(frozen=True, slots=True)
class Stub:
    """A pattern of text that stands where a result was. ``at_end``: it ends a text that was cut there."""

    name: str
    contains: tuple[str, ...]  # in lower case
    pattern: re.Pattern[str]
    at_end: bool


@dataclass(frozen=True, slots=True)
class ToolRule:
    """Names dropped or kept for some tools. ``unless``: field dropped only where all the others are there."""

    name: str
    tools: tuple[str, ...]
    drop: frozenset[str]
    keep: frozenset[str]
    unless: tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True, slots=True)
class Durable:
    """One definition of durable evidence: which events change it, and which of their fields it consists of."""

    name: str
    version: int
    sources: tuple[Mapping[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """Everything the tables say about one tool name.

    ``drop`` maps a field name of the arguments to the rule that drops it, ``drop_results`` one of the results.
    """

    name: str
    names: tuple[str, ...]
    families: frozenset[str]
    drop: Mapping[str, str]
    drop_results: Mapping[str, str]
    unless: tuple[tuple[str, frozenset[str], str], ...]
    command: tuple[str, ...]
    verbatim: frozenset[str]
    masks: tuple[Mask, ...]
    prefix: bytes  # what the name adds to the bytes of a signature


@dataclass(frozen=True, slots=True)
class Tables:
    """The merged tables. ``version``: 8 hex characters over everything in them."""

    version: str
    volatile: frozenset[str]
    keep: frozenset[str]
    addressing: frozenset[str]
    verbatim: frozenset[str]
    families: Mapping[str, frozenset[str]]
    command: Mapping[str, tuple[str, ...]]
    rules: tuple[ToolRule, ...]
    masks: tuple[Mask, ...]
    stubs: tuple[Stub, ...]
    hard_failures: Mapping[str, str]
    resets: Mapping[str, tuple[Reset, ...]]
    commands: Mapping[str, Mapping[str, tuple[tuple[str, ...], ...]]]
    durable: Mapping[str, Durable]
    _seen: dict[str, Tool] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, *user_paths: str | Path) -> Tables:
        """Read the shipped tables and merge the user's over them, in order.

        Raises
        ------
        SettingsError
            A table cannot be read, has an unknown key, or a pattern that does not compile.

        >>> sorted(Tables.load().tool("Bash").families)
        ['shell']
        """
        shipped = files("agentlens.normalise").joinpath("tables.toml").read_text(encoding="utf-8")
        merged = _checked(tomllib.loads(shipped), "tables.toml")
        for path in user_paths:
            try:
                text = Path(path).read_text(encoding="utf-8")
                user = tomllib.loads(text)
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
                raise SettingsError(f"{path}: not a readable TOML table ({error})") from error
            merged = _merge(merged, _checked(user, str(path)))
        return _build(merged)

    def tool(self, name: str) -> Tool:
        """Return what the tables say about a tool; looked up by its name, then by the name's last part."""
        found = self._seen.get(name)
        if found is None:
            if len(self._seen) >= _MAX_SEEN:
                self._seen.clear()
            found = self._seen[name] = self._resolve(name)
        return found

    def durable_definition(self, name: str) -> Durable:
        """Return a definition of durable evidence by name, or raise `SettingsError` with the known names."""
        if name not in self.durable:
            raise SettingsError.unknown("durable fingerprint", name, self.durable)
        return self.durable[name]

    def matches(self, patterns: Iterable[str], names: tuple[str, ...], families: frozenset[str]) -> bool:
        """Whether one of ``patterns`` (a name, ``family:NAME`` or ``*``) covers the tool."""
        return any(
            pattern == "*" or pattern in names or (pattern.startswith("family:") and pattern[7:] in families)
            for pattern in patterns
        )

    def _resolve(self, name: str) -> Tool:
        names = lookup_names(name)
        families = frozenset(f for f, members in self.families.items() if not members.isdisjoint(names))
        kept = set(self.keep) | self._addressed(names)
        drop = dict.fromkeys(sorted(self.volatile), "volatile")
        unless: list[tuple[str, frozenset[str], str]] = []
        for rule in self.rules:
            if self.matches(rule.tools, names, families):
                drop.update(dict.fromkeys(sorted(rule.drop), rule.name))
                unless += [(field_name, others, rule.name) for field_name, others in rule.unless]
                kept |= rule.keep
        command: tuple[str, ...] = next((self.command[f] for f in ("shell", "sql") if f in families), ())
        return Tool(
            name=name,
            names=names,
            families=families,
            drop_results=dict.fromkeys(sorted(self.volatile - kept), "volatile"),
            drop={field_name: why for field_name, why in drop.items() if field_name not in kept},
            unless=tuple(item for item in unless if item[0] not in kept),
            command=command,
            verbatim=self.verbatim | frozenset(command),
            prefix=name.strip().encode("utf-8", "surrogatepass") + b"\x00",
            masks=tuple(m for m in self.masks if not m.tools or self.matches(m.tools, names, families)),
        )

    def _addressed(self, names: tuple[str, ...]) -> set[str]:
        """Names that say which record a tool like ``get_message`` works on: there they are no noise."""
        kept = set()
        for name in names:
            words = re.split(r"[_\-. ]+", name)
            if words[0] in self.addressing:
                kept |= {f"{word.removesuffix('s')}_id" for word in words[1:] if word}
        return kept & self.volatile


def lookup_names(name: str) -> tuple[str, ...]:
    """Return the names under which a tool is looked up, in lower case: whole, then its last part.

    >>> lookup_names("mcp__git__Git_Diff"), lookup_names("functions.Bash")
    (('mcp__git__git_diff', 'git_diff'), ('functions.bash', 'bash'))
    """
    whole = name.strip().lower()
    last = re.split(r"__|[./:]", whole)[-1]
    return (whole, last) if last and last != whole else (whole,)


def _checked(data: dict[str, Any], where: str) -> dict[str, Any]:
    known = (*_LISTS, *_TABLES, *_NAMED)
    for key, value in data.items():
        if key not in known:
            raise SettingsError(f"{where}: " + str(SettingsError.unknown("table", key, known)))
        expected = list if key in _LISTS or key in _NAMED else dict
        if not isinstance(value, expected):
            raise SettingsError(f"{where}: {key} is no {'list' if expected is list else 'table'}")
        if key in _LISTS:
            _names(value, f"{where}: {key}")
        if key in _NAMED:
            for entry in value:
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise SettingsError(f"{where}: every [[{key}]] needs a name")
    return data


def _merge(base: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in user.items():
        if key in _LISTS:
            merged[key] = [*base.get(key, []), *value]
        elif key in _NAMED:
            names = {entry["name"] for entry in value}
            merged[key] = [entry for entry in base.get(key, []) if entry["name"] not in names] + value
        elif key == "durable":
            merged[key] = {**base.get(key, {}), **value}
        else:
            table = dict(base.get(key, {}))
            for name, members in value.items():
                # a user's names come first: where order decides (command arguments), the user wins
                table[name] = [*members, *table.get(name, [])] if isinstance(members, list) else members
            merged[key] = table
    return merged


def _build(data: dict[str, Any]) -> Tables:
    disabled = {
        kind: set(data.get("disable", {}).get(kind, [])) for kind in ("tools", "masks", "stubs", "resets")
    }
    resets: dict[str, list[Reset]] = {}
    for entry in _enabled(data, "reset", disabled["resets"]):
        for line in read_resets(entry):
            resets.setdefault(line.words[0], []).append(line)
    text = json.dumps(data, sort_keys=True, ensure_ascii=True)
    return Tables(
        version=blake2b(text.encode(), digest_size=4).hexdigest(),
        volatile=frozenset(data.get("volatile", [])),
        keep=frozenset(data.get("keep", [])),
        addressing=frozenset(data.get("addressing", [])),
        verbatim=frozenset(data.get("verbatim", [])),
        families={
            name: frozenset(tool.lower() for tool in _names(members, f"families.{name}"))
            for name, members in _known(data.get("families", {}), FAMILIES, "family").items()
        },
        command={
            name: tuple(_names(members, f"command.{name}"))
            for name, members in data.get("command", {}).items()
        },
        rules=tuple(_rule(entry) for entry in _enabled(data, "tool", disabled["tools"])),
        masks=tuple(_mask(entry) for entry in _enabled(data, "mask", disabled["masks"])),
        stubs=tuple(_stub(entry) for entry in _enabled(data, "stub", disabled["stubs"])),
        hard_failures={
            error: kind
            for kind, errors in _known(
                data.get("hard_failure", {}), ("outcome_failed", "permission_lost"), "hard failure"
            ).items()
            for error in _names(errors, f"hard_failure.{kind}")
        },
        resets={first: tuple(found) for first, found in resets.items()},
        commands={
            fact: _by_first(_names(lines, f"commands.{fact}"))
            for fact, lines in _known(data.get("commands", {}), FACTS, "command list").items()
        },
        durable={name: _durable(name, entry) for name, entry in data.get("durable", {}).items()},
    )


def _enabled(data: dict[str, Any], key: str, disabled: set[str]) -> list[dict[str, Any]]:
    return [entry for entry in data.get(key, []) if entry["name"] not in disabled]


def _known(table: dict[str, Any], known: tuple[str, ...], what: str) -> dict[str, Any]:
    for name in table:
        if name not in known:
            raise SettingsError.unknown(what, name, known)
    return table


def _names(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise SettingsError(f"{where} is no list of names")
    return value


def _lower(value: Any, where: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in _names(value, where))


def _pattern(entry: dict[str, Any], what: str) -> re.Pattern[str]:
    try:
        return re.compile(entry.get("pattern", ""))
    except (re.error, TypeError) as error:
        raise SettingsError(f"{what} {entry['name']!r}: the pattern does not compile ({error})") from error


def _rule(entry: dict[str, Any]) -> ToolRule:
    where = f"tool rule {entry['name']!r}"
    return ToolRule(
        name=entry["name"],
        tools=_lower(entry.get("tools", []), where),
        drop=frozenset(_names(entry.get("drop", []), where)),
        keep=frozenset(_names(entry.get("keep", []), where)),
        unless=tuple(
            (name, frozenset(_names(others, where)))
            for name, others in sorted(entry.get("drop_if_present", {}).items())
        ),
    )


def _mask(entry: dict[str, Any]) -> Mask:
    where = f"mask {entry['name']!r}"
    contains = entry.get("contains", [])
    mask = Mask(
        name=entry["name"],
        tools=_lower(entry.get("tools", []), where),
        contains=tuple(_names([contains] if isinstance(contains, str) else contains, where)) or ("",),
        pattern=_pattern(entry, "mask"),
        replace=str(entry.get("replace", "")),
    )
    try:
        mask.pattern.sub(mask.replace, "")
    except (re.error, IndexError) as error:
        raise SettingsError(f"{where}: the replacement does not fit the pattern ({error})") from error
    return mask


def _stub(entry: dict[str, Any]) -> Stub:
    where = f"stub {entry['name']!r}"
    place = entry.get("where", "whole")
    if place not in ("whole", "end"):
        raise SettingsError.value(f"{where}: where", place, "whole, end")
    contains = entry.get("contains", [])
    return Stub(
        name=entry["name"],
        contains=_lower([contains] if isinstance(contains, str) else contains, where) or ("",),
        pattern=_pattern(entry, "stub"),
        at_end=place == "end",
    )


def _by_first(lines: list[str]) -> dict[str, tuple[tuple[str, ...], ...]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for line in lines:
        words = tuple(line.split())
        found.setdefault(words[0], []).append(words[1:])
    return {first: tuple(rest) for first, rest in found.items()}


def _durable(name: str, entry: Any) -> Durable:
    where = f"durable.{name}"
    if not isinstance(entry, dict) or not isinstance(entry.get("from"), list):
        raise SettingsError(f"{where} needs a list `from` of the events that change it")
    sources = []
    for source in entry["from"]:
        known = _known(source, ("tools", "without", "facts", "args", "result"), f"{where} field")
        tools = _lower(known.get("tools", ["*"]), where)
        sources.append(
            {
                **{key: tuple(_names(known.get(key, []), where)) for key in ("facts", "args", "result")},
                "tools": tools,
                "without": _lower(known.get("without", []), where),
            }
        )
    return Durable(name=name, version=int(entry.get("version", 1)), sources=tuple(sources))
