"""What happened to one record on its way to digests: dropped, masked, kept, and by which rule.

The answer holds content of the record itself and is meant for the screen of whoever holds that record; it is
never stored.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.normalise import fingerprint as prints
from agentlens.normalise import signature
from agentlens.normalise.canonical import decode
from agentlens.normalise.digest import ACTION, EVIDENCE
from agentlens.normalise.results import Evidence, evidence

if TYPE_CHECKING:
    from agentlens.normalise.rows import Normaliser
    from agentlens.normalise.tables import Tool


def explain(event: RawEvent, normaliser: Normaliser) -> dict[str, Any]:
    """Explain how one raw event becomes a signature, a fingerprint and facts.

    Returns
    -------
    dict
        ``tool``: what the tables say of its name; ``action``: signature, canonical text, fields kept and dropped
        with the rule of each; ``evidence``: fingerprint, canonical text, masks that changed it, fields dropped,
        or why there is none; ``facts``; ``versions``.

    >>> from agentlens.normalise import Key, Normaliser, Tables
    >>> made = Normaliser(key=Key.public_demo(), tables=Tables.load())
    >>> told = explain(RawEvent(run_id="r", tool="find", args={"q": "x", "request_id": "7"}), made)
    >>> told["action"]["dropped"], told["action"]["kept"], told["evidence"]["why"]
    ([{'field': 'request_id', 'rule': 'volatile'}], ['q'], 'no result')

    """
    tables = normaliser.tables
    tool = tables.tool(str(event.tool))
    action = signature.action(tool, event.args, event.scope, tables)
    seen = evidence(tool, event.result, tables, explain=True)
    return {
        "tool": _tool(tool),
        "action": _action(event, action, normaliser),
        "evidence": _evidence(event, seen, normaliser),
        "facts": asdict(action.facts) if event.kind == "tool" else {},
        "hard_failure": event.hard_failure or tables.hard_failures.get(event.error_class or ""),
        "versions": {
            "normaliser_version": normaliser.version,
            "fingerprint_version": prints.observed_version(tables),
            "key_id": normaliser.key.key_id,
        },
    }


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "looked_up_as": list(tool.names),
        "families": sorted(tool.families),
        "rules": sorted(set(tool.drop.values()) | {rule for *_, rule in tool.unless}),
    }


def _action(event: RawEvent, action: signature.Action, normaliser: Normaliser) -> dict[str, Any]:
    told: dict[str, Any] = {
        "signature": event.action_signature,
        "given": event.action_signature is not None,
        "text": action.text,
        "kept": _fields(action.arguments),
        "dropped": [{"field": field, "rule": rule} for field, rule in action.dropped],
        "command_in": action.command or None,
        "why": "",
    }
    if event.action_signature is None and action.material is not None:
        told["signature"] = normaliser.key.digest(action.material, ACTION)
    if told["signature"] is None:
        told["why"] = "arguments not exported" if event.args is ABSENT else "nested too deeply"
    elif (
        _whole(event.args)
        and not action.dropped
        and set(_fields(action.arguments)) & set(normaliser.tables.tool(str(event.tool)).drop)
    ):
        told["why"] = "volatile fields kept: nothing else would remain"
    return told


def _whole(args: Any) -> bool:
    return isinstance(decode(args) if isinstance(args, str) else args, dict)


def _evidence(event: RawEvent, seen: Evidence, normaliser: Normaliser) -> dict[str, Any]:
    material = prints.observed_material(seen, event.error_class)
    return {
        "given": event.has_fingerprint,
        "given_fingerprint": event.progress_fingerprint,
        "fingerprint": None if material is None else normaliser.key.digest(material, EVIDENCE),
        "text": seen.text,
        "error_class": event.error_class,
        "dropped": [{"field": field, "rule": rule} for field, rule in seen.dropped],
        "masked": list(seen.masked),
        "why": "digest of the error class" if material is not None and seen.text is None else seen.why,
    }


def _fields(value: Any, path: str = "") -> list[str]:
    """Paths of the fields that are left."""
    if isinstance(value, dict):
        return [
            name for key in sorted(value) for name in _fields(value[key], f"{path}.{key}" if path else key)
        ]
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return sorted({name for item in value for name in _fields(item, f"{path}[]")})
    return [path] if path else []
