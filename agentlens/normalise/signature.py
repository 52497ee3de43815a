"""The action signature: what an action means, as a keyed digest (SPEC section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentlens.model.raw import ABSENT
from agentlens.normalise import facts, shell, sql
from agentlens.normalise.canonical import Canon, decode, dumps
from agentlens.normalise.commands import Command, commands, from_words, of_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentlens.normalise.facts import Facts
    from agentlens.normalise.tables import Tables, Tool

_MAX_COMMAND: Final = 256 * 1024


class Action(NamedTuple):
    """An action in canonical form.

    ``material``: the bytes to digest, None for an unknown action (arguments not exported, or nested beyond
    reason). ``arguments``: their canonical value. ``dropped``: (path, rule) of each field left out.
    ``command``: the argument that was read as a command or a query, "" where there is none.
    """

    material: bytes | None
    facts: Facts
    arguments: Any = ABSENT
    dropped: tuple[tuple[str, str], ...] = ()
    command: str = ""

    @property
    def text(self) -> str | None:
        """Canonical arguments as JSON text; None where they are not known."""
        return None if self.arguments is ABSENT else dumps(self.arguments).decode("utf-8", "replace")


def action(tool: Tool, arguments: Any, scope: Any, tables: Tables) -> Action:
    """Bring a call into canonical form.

    Parameters
    ----------
    tool : Tool
        What the tables say about the tool's name.
    arguments : decoded JSON, JSON text, plain text, or ``ABSENT``
        ``{}`` (called without arguments) and ``ABSENT`` (not exported) are different.
    scope : decoded JSON or None
        Destination or permission scope: it changes what the same arguments mean.
    tables : Tables
        For the words of commands.

    """
    if arguments is ABSENT:
        return Action(None, facts.of_tool(tool))
    canon = Canon(tool.drop, unless=tool.unless, verbatim=tool.verbatim)
    try:
        if tool.command and isinstance(arguments, str):
            # a bare command line is not JSON, even where it looks like it: `[ -f x ]`, `{ ls; }`
            decoded = decode(arguments)
            value = canon.value(decoded) if isinstance(decoded, dict) or _is_vector(decoded) else arguments
        else:
            value = canon.value(arguments)
        scoped = b"" if scope is None else b"\x00" + dumps(Canon({}).value(scope))
        name = ""
        if tool.command:
            value, found, name = _with_command(tool, value, tables)
        else:
            found = facts.of_tool(tool)
        material = tool.prefix + dumps(value) + scoped
    except (ValueError, RecursionError):  # too deep, or an integer of thousands of digits
        return Action(None, facts.of_tool(tool))
    return Action(material, found, value, tuple(canon.dropped), name)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _with_command(tool: Tool, value: Any, tables: Tables) -> tuple[Any, Facts, str]:
    """Bring the command or query among the arguments into canonical form and judge it."""
    name = ""
    command = value
    if isinstance(value, dict):
        name = next((n for n in tool.command if isinstance(value.get(n), (str, list))), "")
        if not name:
            return value, facts.of_tool(tool), ""
        command = value[name]
    text, found = _canonical_command(tool, command, tables)
    if name:
        return {**value, name: text}, found, name
    return text, found, "(all)"


def _canonical_command(tool: Tool, command: Any, tables: Tables) -> tuple[Any, Facts]:
    if isinstance(command, list):
        if not _is_vector(command):
            return command, facts.of_tool(tool)
        words = list(command)
        if (
            len(words) == 3
            and words[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh")
            and words[1] in ("-c", "-lc")
        ):
            words[2] = shell.canonical(words[2])
        return words, _judged(from_words(command), tables)
    if not isinstance(command, str):
        return command, facts.of_tool(tool)
    if len(command) > _MAX_COMMAND:
        return command.strip(), facts.UNKNOWN
    if "sql" in tool.families and "shell" not in tool.families:
        return sql.canonical(command), facts.of_sql(command)
    try:
        line = shell.parse(command)
    except shell.Unparseable:
        return command.strip(), _judged(commands(command), tables)
    return shell.words_of(line, command), _judged(of_line(line), tables)


def _judged(found: Sequence[Command] | None, tables: Tables) -> Facts:
    return facts.UNKNOWN if found is None else facts.of_commands(found, tables)
