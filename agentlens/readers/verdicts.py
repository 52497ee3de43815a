"""What an evaluation said, whichever span or log record carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentlens.readers import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentlens.model.raw import RawEvent

_PASSED: Final = frozenset({"pass", "passed", "success", "succeeded", "true", "yes", "correct", "resolved"})
_FAILED: Final = frozenset({"fail", "failed", "failure", "false", "no", "incorrect", "unresolved"})


def verdict(event: RawEvent, facts: Mapping[str, Any], about: str | None) -> RawEvent:
    """Make an event the verdict of an evaluation on the span ``about``: passed, failed, else unknown."""
    name = facts.get("score_name", "")
    event.kind = "verdict"
    event.outcome = _outcome(facts)
    event.target = name or "evaluation"
    event.tool = ""
    if event.identity is None:
        event.span_id, event.parent_span_id = None, about
        event.ended_at = None
        event.identity = f"verdict:{about}:{name}:{event.at}"
    return event


def _outcome(facts: Mapping[str, Any]) -> str:
    """Read the label, else a score of 0 or 1; where an evaluator's output is all there is, the label or score in it."""
    label, score = facts.get("score_label"), facts.get("score")
    if label is None and score is None:
        told = facts.get("output")
        told = decode.attempt(told) if isinstance(told, str) else told
        if isinstance(told, dict):
            label, score = told.get("label"), told.get("score")
    word = str(label).strip().lower() if isinstance(label, (str, bool)) else ""
    if word in _PASSED:
        return "passed"
    if word in _FAILED:
        return "failed"
    if word or isinstance(score, bool) or score not in (0, 1):
        return "unknown"
    return "passed" if score else "failed"
