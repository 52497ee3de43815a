"""Coarse facts about an action that need its text, taken once, before the text goes.

All of them are about what the action is, not about how it ended. None is "not known", never "no".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from agentlens.normalise import sql
from agentlens.normalise.clients import sql_given
from agentlens.normalise.commands import UNFINISHED, Command
from agentlens.normalise.resets import reset_of
from agentlens.normalise.wrappers import find_expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentlens.normalise.resets import Reset
    from agentlens.normalise.tables import Tables, Tool

_NO_OPS: Final = frozenset({":", "true"})
_SHORT_HELP: Final = frozenset({"git", "kubectl", "oc", "helm", "terraform", "tofu"})
# programs with subcommands: their own options that take a value and stand before the subcommand
_GIT_VALUED: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})
_KUBE_VALUED: Final = frozenset(
    {"-n", "--namespace", "--context", "--kubeconfig", "--cluster", "--user", "-s", "--server"}
)
_REDIS_VALUED: Final = frozenset({"-h", "-p", "-a", "-n", "-u", "-s", "-t", "--user", "--pass"})
_VALUED: Final[dict[str, frozenset[str]]] = {
    "git": _GIT_VALUED,
    "kubectl": _KUBE_VALUED,
    "oc": _KUBE_VALUED,
    "helm": frozenset({"-n", "--namespace", "--kube-context", "--kubeconfig"}),
    "docker": frozenset({"-H", "--host", "-c", "--context", "--config", "-l"}),
    "podman": frozenset({"-c", "--connection", "--url"}),
    "gh": frozenset({"-R", "--repo"}),
    "aws": frozenset({"--profile", "--region", "--endpoint-url", "--output"}),
    "redis-cli": _REDIS_VALUED,
    "valkey-cli": _REDIS_VALUED,
    "keydb-cli": _REDIS_VALUED,
    "mysqladmin": frozenset({"-u", "-h", "-P", "-S", "--user", "--host", "--port"}),
    "gsutil": frozenset({"-o", "-h", "-u"}),
    "gcloud": frozenset({"--project", "--account"}),
    "terraform": frozenset(),
    "tofu": frozenset(),
    "npm": frozenset({"--prefix", "-w", "--workspace"}),
    "pnpm": frozenset({"-C", "--dir", "--filter", "-F"}),
    "yarn": frozenset({"--cwd"}),
    "cargo": frozenset({"--manifest-path", "--config"}),
    "go": frozenset({"-C"}),
    "make": frozenset({"-C", "-f", "-j", "--directory", "--file"}),
}
_PYTHON: Final = re.compile(r"python(?:[23](?:\.\d+)?)?|pypy3?")
# names that a git operand would hardly have if it were a branch; a wrong "path" would report a reset that was none
_FILE_NAME: Final = re.compile(
    r"""(?x)(?:^|/)(?:Makefile|Dockerfile|README|LICENSE|Cargo\.lock|[^/]*\.(?:py|pyi|ipynb|js|jsx|ts|tsx|mjs|cjs|json|toml
    |ya?ml|md|rst|txt|cfg|ini|c|h|cc|cpp|cxx|hpp|cs|java|kt|go|rs|rb|php|swift|scala|sh|bash|sql|html?|css|scss|less|xml
    |csv|tsv|lock|proto|graphql|vue|svelte|tf|lua|pl|r|jl|ex|exs|hs|ml|clj|dart|zig|gradle|properties|conf|env|patch
    |diff|log|out|bak|po|tex))$"""
)
_CURL_WRITES: Final = (
    "-d",
    "--data",
    "--data-raw",
    "--data-binary",
    "--data-urlencode",
    "--json",
    "-F",
    "--form",
    "-T",
    "--upload-file",
)
_HTTP_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, slots=True)
class Facts:
    """What kind of action this is. ``reset``: class of a command that destroys or rewinds work, else None."""

    pause: bool | None = None
    change: bool | None = None
    check: bool | None = None
    external: bool | None = None
    reset: str | None = None


UNKNOWN: Final = Facts()


def of_tool(tool: Tool) -> Facts:
    """Return what the tables declare about a tool by its name alone."""
    return _of_families(tool.families)


@lru_cache(maxsize=256)
def _of_families(families: frozenset[str]) -> Facts:
    runs_text = not families.isdisjoint(("shell", "sql"))
    declared = bool(families) and not runs_text
    return Facts(
        pause=None if runs_text and "sleep" not in families else "sleep" in families,
        change=True
        if "change" in families
        else False
        if not families.isdisjoint(("read", "sleep"))
        else None,
        check=True if "check" in families else False if declared else None,
        external=True if "external" in families else False if declared else None,
    )


def of_sql(text: str) -> Facts:
    """Return the facts of SQL statements."""
    return Facts(pause=False, change=sql.changes(text), check=False, reset=sql.reset_class(text))


def of_commands(found: Sequence[Command], tables: Tables) -> Facts:
    """Return the facts of a command line from its simple commands.

    ``change`` and ``external`` are true if one command is known so, false if all are known not to be; a
    ``pause`` is a line of nothing but sleeps.
    """
    known = [_Judged(command, tables) for command in found]
    reads = all(judged.reads for judged in known)
    changes = any(judged.changes for judged in known)
    checks = any(judged.listed("check") for judged in known)
    external = any(judged.leaves() for judged in known)
    return Facts(
        pause=_only_sleeps(found),
        change=True if changes else False if reads else None,
        check=True if checks else False if reads or changes else None,
        external=True
        if external
        else False
        if reads or all(j.reads or j.listed("change") for j in known)
        else None,
        reset=next((name for name in (judged.reset() for judged in known) if name), None),
    )


def _only_sleeps(found: Sequence[Command]) -> bool | None:
    names = {command.name for command in found if command.name not in _NO_OPS}
    if found and found[-1] is UNFINISHED and names <= {"sleep", ""}:
        return None
    return names == {"sleep"}


class _Judged:
    """One simple command with what the word tables say about it."""

    __slots__ = ("changes", "command", "git", "operands", "reads", "tables")

    def __init__(self, command: Command, tables: Tables) -> None:
        self.tables = tables
        self.command = Command(_subcommand_first(command.words), command.writes, command.fed)
        self.git = self.command.words[1:] if command.name == "git" else ()
        self.operands = self.command.operands
        in_place = command.name in ("sed", "perl") and self.command.has("i", "--in-place")
        script = sql_given(command)
        of_script = sql.changes(script) if script is not None else None
        deletes = _find_deletes(command)
        fetches = command.name in ("curl", "wget") and (
            command.name == "wget" or command.has("oO", "--output")
        )
        self.changes = bool(
            command.writes
            or in_place
            or of_script
            or deletes
            or fetches
            or (self.listed("change") and not self._dry())
            or self.reset()
        )
        plain_filter = command.name in ("sed", "awk", "gawk", "find", "curl", "xargs")
        self.reads = not self.changes and (
            of_script is False
            or plain_filter
            or not command.words
            or self._dry()
            or self.listed("read")
            or self.listed("check")
        )

    def listed(self, fact: str) -> bool:
        """Whether a line of the table's word list begins this command."""
        lines = self.tables.commands.get(fact, {})
        words = self.command.words
        if words and _begins(lines.get(words[0], ()), words[1:], self.operands):
            return True
        script = _python_words(words)
        return bool(script) and _begins(lines.get(script[0], ()), script[1:], Command(script).operands)

    def leaves(self) -> bool:
        """Whether the effect leaves the machine."""
        command = self.command
        if command.name == "curl":
            words = command.words
            method = next((words[i + 1] for i, w in enumerate(words[:-1]) if w in ("-X", "--request")), "")
            glued = next((w[2:] for w in words if w.startswith("-X") and len(w) > 2), "")
            return (method or glued).upper() in _HTTP_WRITES or any(
                w in _CURL_WRITES or w.startswith(("--data", "--json=", "--form=")) for w in words
            )
        return self.listed("external") and not self._dry()

    def _dry(self) -> bool:
        return (
            self.command.has("", "--dry-run")
            or _asks_help(self.command)
            or (bool(self.git) and self.git[0] == "clean" and self.command.has("n"))
        )

    def reset(self) -> str | None:
        """Class of a destructive or rewinding command, by its words."""
        command = self.command
        if _asks_help(command):
            return None
        if self.git and (found := _git_reset(command, self.operands[1:])):
            return found
        if command.name == "rm" and command.has("rR", "--recursive"):
            return "rm_rf"
        if _find_deletes(command):
            return "find_delete"
        script = sql_given(command)
        if script is not None:
            return sql.reset_class(script)
        if (
            command.name in ("docker", "podman", "docker-compose")
            and "down" in self.operands
            and command.has("v", "--volumes")
        ):
            return "docker_volume_rm"
        if command.name == "terraform" and "apply" in self.operands and "-destroy" in command.words:
            return "terraform_destroy"
        return None if self._dry() else self._of_table()

    def _of_table(self) -> str | None:
        """Class that the table gives, by the program or by the script that an interpreter runs."""
        script = self.command._replace(words=_python_words(self.command.words))
        for command in (self.command, script):
            name = command.name
            found = reset_of(command, (*self.tables.resets.get(name, ()), *self._of_any_case(name)))
            if found:
                return found
        return None

    def _of_any_case(self, name: str) -> tuple[Reset, ...]:
        return () if name.islower() else self.tables.resets.get(name.lower(), ())


def _begins(lines: Iterable[tuple[str, ...]], words: tuple[str, ...], operands: tuple[str, ...]) -> bool:
    """Whether one of the word lists begins the words, with or without the options between."""
    return any(line in (words[: len(line)], operands[: len(line)]) for line in lines)


def _python_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words of the module or script that ``python [options] -m NAME`` or ``python [options] FILE`` runs."""
    if not words or not _PYTHON.fullmatch(words[0]):
        return ()
    for at, word in enumerate(words[1:], start=1):
        if word == "-m":
            return words[at + 1 :]
        if word == "-c":
            return ()
        if not word.startswith("-") and words[at - 1] not in ("-X", "-W"):
            return (word.rsplit("/", 1)[-1], *words[at + 1 :])
    return ()


def _subcommand_first(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words with the subcommand right after the program: ``git -C x status`` is ``git status``."""
    valued = _VALUED.get(words[0]) if words else None
    if valued is None:
        return words
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        at += 2 if words[at] in valued else 1
    return (words[0], *words[at:])


def _git_reset(command: Command, operands: tuple[str, ...]) -> str | None:
    verb = command.words[1]
    first = operands[0] if operands else ""
    if verb == "reset":
        return "git_reset_hard" if command.has("", "--hard", "--merge", "--keep") else None
    if verb == "clean":
        return "git_clean" if command.has("f", "--force") and not command.has("n", "--dry-run") else None
    if verb == "restore":
        return (
            None
            if command.has("S", "--staged") and not command.has("W", "--worktree")
            else "git_checkout_path"
        )
    if verb == "stash":
        # options, and nothing else, may stand where the subcommand would: then it is a push
        said = command.words[2:3]
        if first in ("drop", "clear") and said == (first,):
            return "git_stash_drop"
        return "git_stash" if not said or said[0].startswith("-") or first in ("push", "save") else None
    if verb == "checkout":
        return _git_checkout(command, operands)
    if verb == "switch":
        return "git_checkout_force" if command.has("f", "--force", "--discard-changes") else None
    if verb == "push":
        forced = command.has("f", "--force", "--force-with-lease") or any(o.startswith("+") for o in operands)
        return "git_push_force" if forced else None
    if verb == "branch":
        return "git_branch_delete" if command.has("D") else None
    return None


def _git_checkout(command: Command, operands: tuple[str, ...]) -> str | None:
    words = command.words[2:]
    if "--" in words:
        return "git_checkout_path" if words[words.index("--") + 1 :] else None
    if command.has("", "--pathspec-from-file", "--ours", "--theirs") or command.has("p", "--patch"):
        return "git_checkout_path"
    if command.has("bBt", "--orphan", "--detach", "--track"):
        return None
    if len(operands) > 1 or (operands and _is_path(operands[0])):
        return "git_checkout_path"
    return "git_checkout_force" if command.has("f", "--force") else None


def _is_path(operand: str) -> bool:
    return (
        operand in (".", "..", ":/")
        or operand.startswith(("./", "../", "/", ":/", ":("))
        or operand.endswith("/")
        or "*" in operand
        or bool(_FILE_NAME.search(operand))
    )


def _find_deletes(command: Command) -> bool:
    return command.name == "find" and ("-delete",) in find_expression(command.words)


def _asks_help(command: Command) -> bool:
    """Whether the program only prints how it is used."""
    if command.has("", "--help") or (command.name == "rm" and command.has("", "--version")):
        return True
    if command.name in _SHORT_HELP:
        return "-h" in command.words or (command.name in ("terraform", "tofu") and "-help" in command.words)
    return False
