"""What the values of attributes are: texts, counts, amounts, a person's words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agentlens.model.raw import ABSENT
from agentlens.readers import decode

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_turn(facts: Mapping[str, Any]) -> bool:
    """Say whether the input of an outermost span is a person's: plain text, or a chat that a user speaks last in."""
    told = facts.get("messages", facts.get("input"))
    value = decode.attempt(told) if isinstance(told, str) else told
    if value is ABSENT:
        return bool(text_of(told).strip())
    if isinstance(value, dict):
        if value.get("resume") is not None and "goto" in value:
            return True  # a graph is called again with the answer to its question
        value = value.get("messages")
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        last = value[-1]
        return text_of(last.get("role")) in {"user", "human"} or last.get("type") == "human"
    return isinstance(value, str) and bool(value.strip())


def text_of(value: Any) -> str:
    """Return a text as it is, a whole number or a truth value as text, anything else as ""."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else ""


def count(value: Any) -> int | None:
    """Return a count, given as a number of any kind or as its digits; None for anything else."""
    if value is None:
        return None
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def attempt(resent: Any) -> int | None:
    """Return which attempt a request was, from how often it had been sent again."""
    again = count(resent)
    return None if again is None else again + 1


def amount(value: Any) -> float | None:
    """Return an amount that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
