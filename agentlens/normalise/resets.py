"""The table of destructive commands: which words, options and scripts make a command destroy or rewind work.

A command is judged by what it is given to run. A name that stands in a message, a search or a dry run destroys
nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentlens.normalise.commands import Command

_KEYS: Final = frozenset({"name", "words", "needs", "unless", "script", "pattern", "any_case"})
_QUOTED: Final = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`]*`")
_COMMENT: Final = re.compile(r"//[^\n]*")
_SHORT: Final = 2  # length of an option of one letter


@dataclass(frozen=True, slots=True)
class Reset:
    """One line of the table: a command that begins with these words is of this class.

    ``needs``: only with one of these options. ``unless``: not with any of these. ``pattern``: only where a script that
    the command is given, by one of the options ``script`` or on its standard input, matches. ``any_case``: words and
    options are compared without case.
    """

    name: str
    words: tuple[str, ...]
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    script: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    any_case: bool = False

    def covers(self, command: Command) -> bool:
        """Whether the command is of this class; a dry run is the caller's to find."""
        if self.any_case:
            command = command._replace(words=tuple(word.lower() for word in command.words))
        rest, size = self.words[1:], len(self.words) - 1
        if rest not in (command.words[1 : size + 1], command.operands[:size]):
            return False
        if self.needs and not any(_given(command, option) for option in self.needs):
            return False
        if any(_given(command, option) for option in self.unless):
            return False
        return self.pattern is None or any(
            self.pattern.search(_bare(text)) for text in self._scripts(command)
        )

    def _scripts(self, command: Command) -> Iterator[str]:
        yield from command.fed
        for at, word in enumerate(command.words[1:], start=1):
            if word in self.script:
                yield from command.words[at + 1 : at + 2]
            name, mark, given = word.partition("=")
            if mark and name in self.script:
                yield given


def read_resets(entry: dict[str, Any]) -> Iterator[Reset]:
    """Read one ``[[reset]]`` of a table, one `Reset` a line of its words.

    Raises
    ------
    SettingsError
        For a key, a list of words or a pattern that can not be read.
    """
    where = f"reset {entry['name']}"
    for key in entry:
        if key not in _KEYS:
            raise SettingsError.unknown(f"key of {where}", key, _KEYS)
    options = {name: tuple(_words(entry[name], f"{where}: {name}")) for name in _LISTS if name in entry}
    pattern = entry.get("pattern")
    try:
        compiled = None if pattern is None else re.compile(pattern)
    except (re.error, TypeError) as wrong:
        raise SettingsError(f"{where}: the pattern does not compile ({wrong})") from None
    any_case = entry.get("any_case", False) is True
    for line in _words(entry.get("words"), where):
        yield Reset(
            name=entry["name"],
            words=tuple((line.lower() if any_case else line).split()),
            pattern=compiled,
            any_case=any_case,
            **options,
        )


_LISTS: Final = ("needs", "unless", "script")


def reset_of(command: Command, table: Iterable[Reset]) -> str | None:
    """Class of the first line of the table that covers the command."""
    return next((line.name for line in table if line.covers(command)), None)


def _given(command: Command, option: str) -> bool:
    """Whether an option is there: ``-f`` in any cluster, ``--x`` with or without a value, ``-s 0`` as two words.

    A star at the end stands for the rest of the word.
    """
    words = command.words[1:]
    if option.endswith("*"):
        return any(word.startswith(option[:-1]) for word in words)
    if option.startswith("--") and " " not in option:
        return command.has("", option)
    if len(option) == _SHORT and option[0] == "-":
        return command.has(option[1])
    asked = tuple(option.split())
    return any(words[at : at + len(asked)] == asked for at in range(len(words)))


def _bare(script: str) -> str:
    """Return a script without its quoted texts and line comments: what they mention is not run."""
    return _COMMENT.sub("", _QUOTED.sub("''", script))


def _words(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise SettingsError(f"{where} is no list of names")
    return value
