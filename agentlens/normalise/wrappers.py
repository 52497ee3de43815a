"""Programs that run another program, and how: which of their words are the command that runs in the end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentlens.normalise.shell import parse_start

if TYPE_CHECKING:
    from collections.abc import Iterator

ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
"""Parts of a ``find`` expression that run a command."""
_FIND_TAKES_ONE: Final = frozenset({
    "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-lname",
    "-ilname", "-type", "-xtype", "-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-newer",
    "-anewer", "-cnewer", "-maxdepth", "-mindepth", "-perm", "-user", "-group", "-uid", "-gid", "-links",
    "-inum", "-samefile", "-fstype", "-used", "-printf", "-fprint", "-fprint0", "-fls", "-context",
    "-regextype", "-files0-from", "-D",
})  # fmt: skip
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
_ESCAPE: Final = re.compile(r"\\[nt\\]")
_FORMAT: Final = re.compile(r"%[sb%]")
_MAX_PRINTED: Final = 65_536

# wrappers: name -> options that take a value; the command starts at the first word that is neither
_WRAPPERS: Final[dict[str, frozenset[str]]] = {
    "sudo": frozenset(
        {"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U", "-r", "-t", "--user", "--group"}
    ),
    "doas": frozenset({"-u", "-C"}),
    "env": frozenset({"-u", "-C", "--unset", "--chdir"}),
    "nohup": frozenset(),
    "time": frozenset({"-f", "-o"}),
    "command": frozenset(),
    "builtin": frozenset(),
    "exec": frozenset({"-a"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "setsid": frozenset(),
    "unbuffer": frozenset(),
    "caffeinate": frozenset({"-t", "-w"}),
    "busybox": frozenset(),
    "toybox": frozenset(),
    "flock": frozenset({"-w", "--timeout", "-E", "--conflict-exit-code"}),
    "parallel": frozenset(
        {
            "-j",
            "--jobs",
            "-N",
            "-n",
            "-I",
            "-a",
            "--arg-file",
            "-P",
            "--max-procs",
            "-d",
            "--delimiter",
            "-C",
            "--colsep",
            "--delay",
            "--timeout",
            "--retries",
            "--joblog",
            "--results",
            "-S",
            "--sshlogin",
        }
    ),
    "xargs": frozenset(
        {"-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s", "--max-args", "--max-procs", "--delimiter"}
    ),
    "timeout": frozenset({"-s", "-k", "--signal", "--kill-after"}),
    "uv": frozenset({"--with", "--python", "-p", "--directory", "--project"}),
    "poetry": frozenset({"-C", "--directory"}),
    "pipenv": frozenset(),
    "pdm": frozenset({"-p"}),
    "rye": frozenset(),
    "hatch": frozenset({"-e"}),
    "npx": frozenset({"-p", "--package"}),
    "conda": frozenset({"-n", "--name", "-p", "--prefix"}),
}
_RUN_WORD: Final = frozenset(
    {"uv", "poetry", "pipenv", "pdm", "rye", "hatch", "conda"}
)  # only "<name> run ..." wraps
_SKIPS_ONE: Final = frozenset({"timeout", "flock"})  # one operand of its own (the duration, the lock)
_KEEPS_INPUT: Final = frozenset(
    {"xargs", "parallel"}
)  # what they read are arguments; the command reads nothing

# commands run on another machine or in a container: after the options, one operand (where), then the command
_RUN_IN: Final = frozenset({
    "-e", "--env", "-u", "--user", "-w", "--workdir", "--env-file", "-v", "--volume", "--name", "-p",
    "--publish", "--network", "--net", "--entrypoint", "--mount", "-m", "--memory", "--cpus", "--platform",
    "-h", "--hostname", "-l", "--label", "--add-host", "--gpus", "--ipc", "--pid", "--restart", "--cap-add",
    "--cap-drop", "--device", "--dns", "--ulimit", "--shm-size", "--security-opt", "--tmpfs",
    "--volumes-from", "--log-driver", "--log-opt", "--cidfile", "-a", "--attach", "--pull", "--runtime",
    "--userns", "--link", "--expose", "--ip", "--stop-signal", "--stop-timeout",
})  # fmt: skip
_EXEC_IN: Final = frozenset({"-e", "--env", "-u", "--user", "-w", "--workdir", "--env-file", "--index"})
_ELSEWHERE: Final[dict[tuple[str, ...], frozenset[str]]] = {
    ("ssh",): frozenset(
        {"-i", "-p", "-l", "-o", "-F", "-J", "-L", "-R", "-D", "-b", "-c", "-E", "-m", "-S", "-W", "-w"}
    ),
    ("docker", "exec"): _EXEC_IN,
    ("docker", "container", "exec"): _EXEC_IN,
    ("docker", "run"): _RUN_IN,
    ("docker", "container", "run"): _RUN_IN,
    ("docker", "compose", "exec"): _EXEC_IN,
    ("docker", "compose", "run"): _RUN_IN,
    ("docker-compose", "exec"): _EXEC_IN,
    ("docker-compose", "run"): _RUN_IN,
    ("podman", "exec"): _EXEC_IN,
    ("podman", "run"): _RUN_IN,
    ("kubectl", "exec"): frozenset({"-c", "--container", "-n", "--namespace", "--context"}),
}
# options of those programs that take a value and stand before or between their subcommands
_BETWEEN: Final = frozenset({
    "-H", "--host", "-c", "--context", "--config", "-f", "--file", "-p", "--project-name", "--profile",
    "--env-file", "--project-directory", "-n", "--namespace", "--kubeconfig", "--cluster",
})  # fmt: skip
# options of shells that take a value of their own
_SHELL_VALUED: Final = frozenset({"-O", "+O", "--rcfile", "--init-file"})


def wrapped(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the words of the command that a wrapper runs, None if this is no wrapper.

    >>> wrapped(("docker", "run", "--rm", "image", "rm", "-rf", "x"))
    ('rm', '-rf', 'x')
    """
    name = words[0]
    if name not in _WRAPPERS:
        return _elsewhere(words)
    start = 1
    if name in _RUN_WORD:
        if words[1:2] != ("run",):
            return None
        start = 2
    if name == "env" and (split := _split_by_env(words)):
        return split
    at = _skip_options(words, start, _WRAPPERS[name])
    if name == "env":
        while at < len(words) and ASSIGNMENT.match(words[at]):
            at += 1
    if name in _SKIPS_ONE:
        at += 1
    rest = words[at:]
    if name == "flock" and rest[:1] in (("-c",), ("--command",)):
        rest = ("sh", *rest)
    if name == "parallel":
        stop = next((i for i, word in enumerate(rest) if word.startswith(":::")), len(rest))
        rest = ("sh", "-c", " ".join(rest[:stop])) if stop else ()
    return rest or None


def takes_input(name: str) -> bool:
    """Whether the command that this wrapper runs reads the standard input."""
    return name not in _KEEPS_INPUT


def _split_by_env(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Words that ``env -S TEXT`` makes of its text."""
    for at, word in enumerate(words[1:], start=1):
        if not word.startswith("-") and not ASSIGNMENT.match(word):
            return None
        text = None
        if word in ("-S", "--split-string") or (word.endswith("S") and word[1:-1] in ("i", "v", "iv", "vi")):
            text, after = " ".join(words[at + 1 : at + 2]), words[at + 2 :]
        elif word.startswith(("-S", "--split-string=")):
            text, after = word.removeprefix("-S").removeprefix("--split-string="), words[at + 1 :]
        if text is not None:
            return (
                *(token.plain for token in parse_start(text).tokens if not token.operator),
                *after,
            ) or None
    return None


def _elsewhere(words: tuple[str, ...]) -> tuple[str, ...] | None:
    for prefix, valued in _ELSEWHERE.items():
        start = _after(words, prefix)
        if start is None:
            continue
        at = _skip_options(words, start, valued) + 1
        if prefix[0] == "kubectl" and "--" in words:  # `kubectl exec pod -c main -- ls`
            at = words.index("--") + 1
        elif words[at : at + 1] == ("--",):
            at += 1
        rest = words[at:]
        if prefix == ("ssh",):  # the other side's shell reads one line, or its standard input
            return ("sh", "-c", " ".join(rest)) if rest else ("sh",) if at <= len(words) else None
        options = words[start : at - 1]
        entry = next((o[13:] for o in options if o.startswith("--entrypoint=")), "")
        if "--entrypoint" in options[:-1]:
            entry = options[options.index("--entrypoint") + 1]
        return ((entry, *rest) if entry else rest) or None
    return None


def _after(words: tuple[str, ...], prefix: tuple[str, ...]) -> int | None:
    """Place after a program and its subcommands, options between them passed over."""
    if words[0] != prefix[0]:
        return None
    at = 1
    for part in prefix[1:]:
        at = _skip_options(words, at, _BETWEEN)
        if words[at : at + 1] != (part,):
            return None
        at += 1
    return at


def _skip_options(words: tuple[str, ...], at: int, valued: frozenset[str]) -> int:
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            return at + 1
        at += 2 if words[at] in valued else 1
    return at


def script_of(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the command text given to a shell (``bash -lc TEXT``), ``eval`` or ``su -c``.

    ``()`` for a shell that reads its commands from the standard input, None where no such text is here: a
    script in a file, a shell that only checks what it reads.
    """
    name = words[0]
    if name == "eval":
        return (" ".join(words[1:]),)
    if name in SHELLS:
        return _shell_script(words)
    if name == "su":
        for at, word in enumerate(words[1:-1], start=1):
            if word == "--command" or (word[:1] == "-" and word[:2] != "--" and word.endswith("c")):
                return (words[at + 1],)
    return None


def _shell_script(words: tuple[str, ...]) -> tuple[str, ...] | None:
    at, letters = 1, ""
    while at < len(words) and words[at][:1] in ("-", "+") and len(words[at]) > 1:
        word = words[at]
        at += 1
        if word == "--":
            break
        if word in _SHELL_VALUED:
            at += 1
        elif word in ("--help", "--version"):
            return None
        elif not word.startswith("--"):
            if word[0] == "-":
                letters += word[1:]
            for _ in range(word.count("o")):  # `-euo pipefail`
                letters += "n" if word[0] == "-" and words[at : at + 1] == ("noexec",) else ""
                at += 1
    rest = words[at:]
    if "n" in letters:  # read, not run
        return None
    if "c" in letters:
        return rest[:1] or None
    return () if "s" in letters or not rest or rest == ("-",) else None


def find_expression(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the parts of a ``find`` expression, each with its own values: ``-name "-delete"`` deletes nothing.

    >>> list(find_expression(("find", ".", "-name", "-delete", "-exec", "rm", "{}", ";")))
    [('.',), ('-name', '-delete'), ('-exec', 'rm', '{}')]
    """
    at = 1
    while at < len(words):
        word = words[at]
        stop = at + 1
        if word in FIND_RUNS:
            stop = next((i for i in range(at + 1, len(words)) if words[i] in (";", "+")), len(words))
            yield words[at:stop]
            at = stop + 1
            continue
        if word in _FIND_TAKES_ONE or word.startswith("-newer"):
            stop += 1
        elif word == "-fprintf":
            stop += 2
        yield words[at:stop]
        at = stop


def printed(words: tuple[str, ...], fed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts that a simple command prints, as far as its words show them; () where they do not.

    >>> printed(("echo", "-n", "a b"), ()), printed(("cat",), ("x",)), printed(("cat", "file"), ())
    (('a b',), ('x',), ())
    """
    while words and ASSIGNMENT.match(words[0]):
        words = words[1:]
    name, rest = (words[0].rsplit("/", 1)[-1], words[1:]) if words else ("", ())
    if name == "echo":
        escaped = False
        while rest and rest[0] in ("-n", "-e", "-E", "-ne", "-en"):
            escaped = escaped or "e" in rest[0]
            rest = rest[1:]
        text = " ".join(rest)
        return (_unescaped(text) if escaped else text,)
    if name == "printf":
        rest = rest[1:] if rest[:1] == ("--",) else rest
        return (_formatted(rest[0], rest[1:]),) if rest else ()
    if (name == "cat" and all(word == "-" for word in rest)) or name == "tee":
        return fed
    return ()


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES[found.group()], text)


def _formatted(form: str, values: tuple[str, ...]) -> str:
    """What ``printf`` makes of its format, used again while values are left."""
    form = _unescaped(form)
    slots = form.count("%s") + form.count("%b")
    left = list(reversed(values))
    text = ""
    while True:
        text += _FORMAT.sub(lambda found: "%" if found.group() == "%%" else left.pop() if left else "", form)
        if not left or not slots or len(text) > _MAX_PRINTED:
            return text
