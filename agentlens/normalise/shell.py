"""Commands as shell words: what a command line says, apart from how it is spaced and quoted.

The standard library's `shlex` removes quotes, after which ``echo '*'`` and ``echo *`` (or ``'|'`` and ``|``)
are the same; here a quoted character stays a quoted character. Nothing is ever run or expanded.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SPACE: Final = re.compile(r"(?:[ \t\r\f\v]|\\\r?\n)+")
_COMMENT: Final = re.compile(r"#[^\n]*")
_HEREDOC: Final = re.compile(r"[0-9]*<<-?(?!<)")
_OP: Final = re.compile(
    r"[0-9]*(?:<<<|>>|>&|<&|>\||<>|>(?!\()|<(?!\())|[<>]\(|&>>|&>|\|\||&&|\|&|;;&|;;|;&|[|;&()]"
)
_SIMPLE: Final = re.compile(r"[\w@%+=:,./*?~^-]++(?=[\s|&;()<>]|\Z)")
_PLAIN: Final = re.compile(r"[^\s|&;()<>\"'\\`$]+")
_NEEDS_MARK: Final = re.compile(r"([^\w@%+=:,./-])")
_DQ_PLAIN: Final = re.compile(r"[^\"\\`$]+")
_VARIABLE: Final = re.compile(r"\$(?:\{[^}]*\}|\w+|[@*#?$!-])")
_ANSI_C: Final = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_DOUBLE: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_QUOTES: Final = frozenset("'\"\\")
_MAX_NESTING: Final = 20

CONTROL: Final = frozenset({";", "&", "&&", "||", "|", "|&", ";;", ";&", ";;&", "(", ")"})
_TAKES_NEWLINE: Final = CONTROL - {")"}
_OPENERS: Final = frozenset({"do", "then", "else", "{"})


class Unparseable(ValueError):  # noqa: N818 - a fact about the text, caught in this package
    """The text is no command line that this module understands (an open quote, say)."""


class Token(NamedTuple):
    """One operator or word.

    ``text``: canonical form; ``plain``: the word without quotes; ``inner``: command lines inside it
    (``$(...)`` and backticks), which run too.
    """

    text: str
    plain: str = ""
    operator: bool = False
    inner: tuple[str, ...] = ()


class Line(NamedTuple):
    """A command line: its tokens, and the bodies of its here-documents in order.

    ``running``: for each body the command lines inside it that run (none where the delimiter is quoted).
    ``cut``: the text ends inside a word; the tokens before it are here.
    """

    tokens: tuple[Token, ...]
    heredocs: tuple[str, ...] = ()
    running: tuple[tuple[str, ...], ...] = ()
    cut: bool = False


def canonical(text: str) -> str:
    r"""Return the command with one space between words and operators and one form of quoting.

    Comments and line continuations go, line ends become ``;``. A here-document or a text that cannot be
    parsed stays as it is, trimmed: what is inside would have to be compared to the letter anyway.

    >>> canonical('ls  -la|grep "a b"') == canonical("ls -la | grep 'a b'")
    True
    >>> canonical("echo 2 >x") == canonical("echo 2>x"), canonical("ls '*'") == canonical("ls *")
    (False, False)
    """
    try:
        return words_of(parse(text), text)
    except Unparseable:
        return text.strip()


def words_of(line: Line, text: str) -> str:
    """Return the canonical text of a parsed command line; the text where nothing of it would remain (a comment)."""
    if line.heredocs or not line.tokens:
        return text.strip()
    return " ".join([token.text for token in line.tokens])


def parse(text: str, nesting: int = 0) -> Line:
    """Split a command line into tokens.

    Raises
    ------
    Unparseable
        A quote, a parenthesis or a here-document is never closed.

    """
    if nesting > _MAX_NESTING:
        raise Unparseable("nested too deeply")
    return _Scanner(text, nesting).line()


def parse_start(text: str, nesting: int = 0) -> Line:
    """Split a command line into tokens as far as it goes: a quote may be left open at its end.

    >>> line = parse_start("ls a; echo 'b")
    >>> [token.text for token in line.tokens], line.cut
    (['ls', 'a', ';', 'echo'], True)
    """
    if nesting > _MAX_NESTING:
        raise Unparseable("nested too deeply")
    scanner = _Scanner(text, nesting)
    try:
        return scanner.line()
    except Unparseable:
        return Line(tuple(scanner.tokens), tuple(scanner.bodies), tuple(scanner.running), cut=True)


class _Scanner:
    __slots__ = ("bodies", "end", "nesting", "pending", "pos", "running", "text", "tokens")

    def __init__(self, text: str, nesting: int) -> None:
        self.text = text
        self.pos = 0
        self.end = len(text)
        self.nesting = nesting
        self.tokens: list[Token] = []
        self.pending: list[tuple[str, bool, bool]] = []
        self.bodies: list[str] = []
        self.running: list[tuple[str, ...]] = []

    def line(self) -> Line:
        text, tokens = self.text, self.tokens
        while self.pos < self.end:
            char = text[self.pos]
            if char == "\n":
                self.newline()
                continue
            if char == "#" and (comment := _COMMENT.match(text, self.pos)):
                self.pos = comment.end()
                continue
            if char in " \t\\\r\f\v" and (space := _SPACE.match(text, self.pos)):
                self.pos = space.end()
                continue
            if char in "<>|&;()" or char.isdigit():
                if heredoc := _HEREDOC.match(text, self.pos):
                    self.heredoc(heredoc)
                    continue
                if operator := _OP.match(text, self.pos):
                    tokens.append(Token(operator.group(), "", True))
                    self.pos = operator.end()
                    continue
            if simple := _SIMPLE.match(text, self.pos):
                word = simple.group()
                tokens.append(Token(word, word))
                self.pos = simple.end()
            else:
                tokens.append(self.word())
        if self.pending:
            raise Unparseable("a here-document has no body")
        while tokens and tokens[-1].operator and tokens[-1].text == ";":
            tokens.pop()
        return Line(tuple(tokens), tuple(self.bodies), tuple(self.running))

    def newline(self) -> None:
        self.pos += 1
        for delimiter, strip_tabs, quoted in self.pending:
            self.body(delimiter, strip_tabs)
            self.running.append(() if quoted else self.substitutions(self.bodies[-1]))
        self.pending.clear()
        last = self.tokens[-1] if self.tokens else None
        if last is not None and last.text not in (_TAKES_NEWLINE if last.operator else _OPENERS):
            self.tokens.append(Token(";", operator=True))

    def heredoc(self, found: re.Match[str]) -> None:
        self.tokens.append(Token(found.group(), operator=True))
        self.pos = found.end()
        if space := _SPACE.match(self.text, self.pos):
            self.pos = space.end()
        start = self.pos
        word = self.word() if self.pos < self.end and self.text[self.pos] != "\n" else None
        if word is None or not word.plain:
            raise Unparseable("a here-document has no delimiter")
        self.tokens.append(word)
        quoted = not _QUOTES.isdisjoint(self.text[start : self.pos])
        self.pending.append((word.plain, found.group().endswith("-"), quoted))

    def substitutions(self, body: str) -> tuple[str, ...]:
        """Command lines that run inside a here-document; quotes mean nothing there."""
        inner: list[str] = []
        if "`" in body or "$(" in body:
            scanner = _Scanner(body, self.nesting + 1)
            try:
                scanner.expansions(inner, "")
            except Unparseable:
                return tuple(inner)
        return tuple(inner)

    def expansions(self, inner: list[str], stop: str) -> None:
        """Go over the expansions up to an unquoted ``stop``, or to the end."""
        while self.pos < self.end:
            char = self.text[self.pos]
            if char == stop:
                return
            if char == "\\":
                self.pos += 2
            elif char in "$`":
                self.expansion(inner)
            else:
                self.pos += 1

    def body(self, delimiter: str, strip_tabs: bool) -> None:
        lines: list[str] = []
        while self.pos < self.end:
            stop = self.text.find("\n", self.pos)
            stop = self.end if stop < 0 else stop
            line = self.text[self.pos : stop].rstrip("\r")
            self.pos = min(stop + 1, self.end)
            if (line.lstrip("\t") if strip_tabs else line) == delimiter:
                break
            lines.append(line)
        # a body that runs to the end of the text is what a shell accepts too, with a warning
        self.bodies.append("\n".join(lines))

    def word(self) -> Token:
        text = self.text
        canon: list[str] = []
        plain: list[str] = []
        inner: list[str] = []
        start = self.pos
        while self.pos < self.end:
            char = text[self.pos]
            if found := _PLAIN.match(text, self.pos):
                canon.append(found.group())
                plain.append(found.group())
                self.pos = found.end()
            elif char == "'":
                self.quoted(self.until("'", self.pos + 1), canon, plain)
            elif char == '"':
                self.pos += 1
                self.double(canon, plain, inner)
            elif char == "\\":
                if self.pos + 1 >= self.end:
                    raise Unparseable("ends in a backslash")
                if text[self.pos + 1] == "\n":
                    self.pos += 2
                    continue
                self.quoted(text[self.pos + 1], canon, plain)
                self.pos += 1
            elif char in "$`":
                if text.startswith("$'", self.pos):
                    self.ansi(canon, plain)
                    continue
                raw = self.expansion(inner)
                canon.append(raw)
                plain.append(raw)
            else:
                break
        if self.pos == start:
            raise Unparseable(f"unexpected {text[self.pos]!r}")
        form = "".join(canon) or "''"
        if form[0] == "#":  # ""#x is a word, #x would be a comment
            form = "\\" + form
        return Token(form, "".join(plain), inner=tuple(inner))

    def quoted(self, value: str, canon: list[str], plain: list[str]) -> None:
        marked = _NEEDS_MARK.sub(r"\\\1", value)
        # a backslash before a line end would continue the line instead of keeping it
        canon.append(marked.replace("\\\n", "'\n'") if "\n" in marked else marked)
        plain.append(value)
        self.pos += 1

    def until(self, mark: str, start: int) -> str:
        stop = self.text.find(mark, start)
        if stop < 0:
            raise Unparseable(f"{mark} is never closed")
        self.pos = stop
        return self.text[start:stop]

    def ansi(self, canon: list[str], plain: list[str]) -> None:
        found = _ANSI_C.match(self.text, self.pos)
        if not found:
            raise Unparseable("$' is never closed")
        canon.append(found.group())
        plain.append(found.group(1))
        self.pos = found.end()

    def double(self, canon: list[str], plain: list[str], inner: list[str]) -> None:
        text = self.text
        while self.pos < self.end:
            char = text[self.pos]
            if char == '"':
                self.pos += 1
                return
            if found := _DQ_PLAIN.match(text, self.pos):
                value = found.group()
                self.pos = found.end() - 1
                self.quoted(value, canon, plain)
            elif char == "\\" and self.pos + 1 < self.end:
                following = text[self.pos + 1]
                self.pos += 1
                if following == "\n":
                    self.pos += 1
                else:
                    self.quoted(following if following in '"\\$`' else "\\" + following, canon, plain)
            elif char in "$`":
                raw = self.expansion(inner)
                canon.append('"' + raw + '"' if len(raw) > 1 else "\\" + raw)
                plain.append(raw)
            else:
                break
        raise Unparseable('" is never closed')

    def expansion(self, inner: list[str]) -> str:
        text, start = self.text, self.pos
        if text[start] == "`":
            inner.append(self.until("`", start + 1))
            self.pos += 1
        elif text.startswith("$(", start):
            self.pos = self.balanced(start + 1)
            if not text.startswith("$((", start):
                inner.append(text[start + 2 : self.pos - 1])
        elif found := _VARIABLE.match(text, start):
            self.pos = found.end()
            if text[start + 1] == "{" and ("`" in found.group() or "$(" in found.group()):
                self.braced(start + 2, inner)
        elif text.startswith("${", start):
            raise Unparseable("${ is never closed")
        else:
            self.pos = start + 1
        return text[start : self.pos]

    def braced(self, start: int, inner: list[str]) -> None:
        """Go over what stands in ``${...}``: the default of a variable may run commands."""
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            raise Unparseable("nested too deeply")
        self.pos = start
        self.expansions(inner, "}")
        if self.pos >= self.end:
            raise Unparseable("${ is never closed")
        self.pos += 1
        self.nesting -= 1

    def balanced(self, start: int) -> int:
        """Position after the parenthesis that closes the one at ``start``; quotes hide parentheses."""
        text, depth, at = self.text, 0, start
        while at < self.end:
            char = text[at]
            if char == "(":
                depth += 1
                if depth > _MAX_NESTING:
                    raise Unparseable("nested too deeply")
            elif char == ")":
                depth -= 1
                if depth == 0:
                    return at + 1
            elif char == "\\":
                at += 1
            elif char == "'":
                at = text.find("'", at + 1)
                if at < 0:
                    break
            elif char == '"':
                found = _DOUBLE.match(text, at)
                if not found:
                    break
                at = found.end() - 1
            at += 1
        raise Unparseable("a parenthesis is never closed")
