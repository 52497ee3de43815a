"""Statements as SQL words: what a query says, apart from spacing, comments and the case of its keywords."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

# what is never closed runs to the end and nothing is tried twice: hostile text takes linear time
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>--[^\n]*|/\*(?!\+).*?(?:\*/|\Z))
    |(?P<quoted>'(?:[^'\\]|\\.|''|\\\Z)*+(?:'|\Z)|"(?:[^"\\]|\\.|""|\\\Z)*+(?:"|\Z)|`[^`]*+(?:`|\Z)|\[[^\[\]\n]{0,128}\])
    |(?P<dollar>\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<word>[^\W\d]\w*)
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<operator><=>|<>|!=|>=|<=|\|\||::|:=|->>|->)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
# reserved in every dialect we met, so a bare one is never a name whose case could matter
_KEYWORDS: Final = frozenset({
    "select", "distinct", "from", "where", "and", "or", "not", "in", "is", "null", "like", "between", "exists", "join",
    "left", "right", "inner", "outer", "full", "cross", "on", "using", "group", "by", "having", "order", "asc", "desc",
    "limit", "offset", "union", "all", "intersect", "except", "case", "when", "then", "else", "end", "as", "insert",
    "into", "values", "update", "set", "delete", "create", "alter", "drop", "table", "truncate", "with",
})  # fmt: skip
_READS: Final = frozenset({"select", "show", "desc", "describe", "explain", "pragma", "values", "use"})
_WRITES: Final = frozenset(
    {
        "insert",
        "update",
        "delete",
        "create",
        "alter",
        "drop",
        "truncate",
        "replace",
        "merge",
        "grant",
        "revoke",
        "copy",
    }
)

_DROPPED: Final = frozenset({"table", "database", "schema", "view"})
_DROP_MARKS: Final = frozenset({"temporary", "temp", "external", "foreign", "materialized"})
_BLOCK_OPENERS: Final = frozenset({"begin", "then", "loop", "else"})
_MAX_DEPTH: Final = 4
_MAX_DELETES: Final = 16


def canonical(text: str) -> str:
    """Return the statements with one space between tokens, without comments and without a last semicolon.

    >>> canonical("SELECT a,b FROM t ;") == canonical("select a , b from t")
    True
    >>> canonical("SELECT 'A  B'") == canonical("SELECT 'A B'")
    False
    """
    return " ; ".join(" ".join(statement) for statement in statements(text)) or text.strip()


def statements(text: str) -> list[list[str]]:
    """Split a text into statements, each a list of tokens; keywords are in lower case."""
    found: list[list[str]] = [[]]
    for match in _TOKEN.finditer(text):
        kind, text_of = match.lastgroup, match.group()
        if kind in ("space", "comment"):
            continue
        if kind == "other" and text_of == ";":
            found.append([])
            continue
        lowered = text_of.lower()
        found[-1].append(lowered if kind == "word" and lowered in _KEYWORDS else text_of)
    return [statement for statement in found if statement]


def changes(text: str) -> bool | None:
    """Whether the statements change data: True if one does, False if all only read, None if not known."""
    known = True
    for statement in statements(text):
        words = [word.lower() for word in statement]
        if words[0] in _WRITES or (words[0] == "with" and not _WRITES.isdisjoint(words)):
            return True
        known = known and (words[0] in _READS or words[0] == "with")
    return False if known else None


def reset_class(text: str) -> str | None:
    """Class of the first statement that destroys data: a dropped or emptied table, a delete of every row.

    >>> reset_class("with old as (delete from t returning id) select * from old"), reset_class("drop view v")
    ('delete_all_rows', 'drop_view')
    """
    return _reset_class(text, 0)


def _reset_class(text: str, depth: int) -> str | None:
    if depth > _MAX_DEPTH:
        return None
    for statement in statements(text):
        words = [word.lower() for word in statement]
        if words[0] == "do":  # an anonymous block runs at once; the body of a function only when it is called
            bodies = [_undollared(token) for token in statement if token.startswith("$") and len(token) > 1]
            found = next((name for body in bodies if (name := _of_block(body, depth + 1))), None)
        else:
            found = _of_statement(words)
        if found:
            return found
    return None


def _of_statement(words: list[str]) -> str | None:
    """Class of one statement, from its lowered tokens."""
    if words[0] == "drop":
        named = next((word for word in words[1:3] if word not in _DROP_MARKS), "")
        return "drop_" + named if named in _DROPPED else None
    if words[0] == "truncate":
        return "truncate_table"
    starts = [0] if words[0] == "delete" else range(len(words)) if words[0] == "with" else []
    deletes = (at for at in starts if words[at : at + 2] == ["delete", "from"])
    # only the first few deletes are looked at closely: hostile text takes linear time
    for at in islice(deletes, _MAX_DELETES):
        if _deletes_all(words, at + 2):
            return "delete_all_rows"
    return None


def _deletes_all(words: list[str], at: int) -> bool:
    """Whether the delete whose words begin here has no condition of its own."""
    depth = 0
    for word in words[at:]:
        depth += (word == "(") - (word == ")")
        if depth < 0:
            return True
        if depth == 0 and word in ("where", "limit"):
            return False
    return True


def _undollared(token: str) -> str:
    mark = token[: token.index("$", 1) + 1]
    return token[len(mark) :].removesuffix(mark)


def _of_block(body: str, depth: int) -> str | None:
    """Class of the first destroying statement inside the body of an anonymous block."""
    for statement in statements(body):
        words = [word.lower() for word in statement]
        at = max((at + 1 for at, word in enumerate(words) if word in _BLOCK_OPENERS), default=0)
        if at >= len(words):
            continue
        if words[at] == "execute":
            texts = (token[1:-1] for token in statement[at:] if token.startswith("'"))
            found = next((name for text in texts if (name := _reset_class(text, depth + 1))), None)
        else:
            found = _of_statement(words[at:])
        if found:
            return found
    return None
