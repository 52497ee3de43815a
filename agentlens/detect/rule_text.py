"""Rules as text, the way tables and profiles print them: ``laps((4, 3, 2))``, ``full_window(6, 3, 2, confirm=2)``."""

from __future__ import annotations

import ast
from typing import Any

from agentlens.errors import SettingsError

_ACCEPTED = 'a rule with plain arguments, such as "laps(4, 3, 2)"'
_LONGEST = 500


def is_rule_text(text: str) -> bool:
    """Whether a text is meant as a rule with arguments rather than as a name or a file."""
    return "(" in text and text.rstrip().endswith(")")


def rule_table_of(text: str) -> dict[str, Any]:
    """Return the table that a rule file would hold for it; literals only, nothing is evaluated.

    Raises
    ------
    SettingsError
        When it is no call with literal arguments.

    Examples
    --------
    >>> rule_table_of("laps(4, 3, 2)") == rule_table_of("laps((4, 3, 2))")
    True
    >>> rule_table_of("full_window(6, 3, 2, confirm=2)")
    {'rule': 'full_window', 'window': 6, 'max_period': 3, 'min_repetitions': 2, 'confirm': 2}
    """
    try:
        call = ast.parse(text.strip()[:_LONGEST], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SettingsError.value("rule", text, _ACCEPTED) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise SettingsError.value("rule", text, _ACCEPTED)
    try:
        given = [ast.literal_eval(each) for each in call.args]
        named = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
    except (ValueError, TypeError, RecursionError):
        raise SettingsError.value("rule", text, _ACCEPTED) from None
    if len(named) < len(call.keywords):
        raise SettingsError.value("rule", text, _ACCEPTED)
    name = call.func.id
    if name == "laps" and given and all(isinstance(one, int) for one in given):
        given = [tuple(given)]
    names = _positional(name)
    if len(given) > len(names):
        raise SettingsError.value("rule", text, f"at most {len(names)} arguments: {', '.join(names)}")
    return {"rule": name, **dict(zip(names, given, strict=False)), **named}


def _positional(name: str) -> list[str]:
    """Names of what a builder takes by place."""
    from inspect import Parameter, signature

    from agentlens.detect.profile_rules import BUILDERS

    if name not in BUILDERS:
        raise SettingsError.unknown("rule", name, BUILDERS)
    kinds = signature(BUILDERS[name]).parameters.values()
    return [one.name for one in kinds if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
