"""Statements as SQL words: what a query says, apart from spacing, comments and the case of its keywords."""

from __future__ import annotations

import re
from typing import Final

# what is never closed runs to the end and nothing is tried twice: hostile text takes linear time
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>--[^\n]*|/\*(?!\+).*?(?:\*/|\Z))
    |(?P<quoted>'(?:[^'\\]|\\.|''|\\\Z)*+(?:'|\Z)|"(?:[^"\\]|\\.|""|\\\Z)*+(?:"|\Z)|`[^`]*+(?:`|\Z)|\[[^\[\]\n]{0,128}\])
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
    """Class of the first statement that destroys data: a dropped or emptied table, a delete of every row."""
    for statement in statements(text):
        words = [word.lower() for word in statement]
        if words[0] == "drop" and words[1:2] in (["table"], ["database"], ["schema"]):
            return "drop_" + words[1]
        if words[0] == "truncate":
            return "truncate_table"
        if words[:2] == ["delete", "from"] and "where" not in words and "limit" not in words:
            return "delete_all_rows"
    return None
