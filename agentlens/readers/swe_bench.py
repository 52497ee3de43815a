"""SWE-bench reports: which instances the hidden tests call resolved, beside the trajectories that claim so.

Three files carry it: the report of one instance, the summary of an evaluation, and the short list of results that
is published with trajectories. The verdict goes to the run named like the instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentlens.model.enums import Outcome
from agentlens.model.raw import ABSENT, RawEvent
from agentlens.readers.base import Format
from agentlens.readers.blocks import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_GRADER: Final = "swe-bench"
_JUDGED: Final = frozenset(
    {"resolved", "patch_exists", "patch_is_None", "patch_successfully_applied", "tests_status"}
)
_SUMMARY: Final = {
    "resolved_ids": Outcome.PASSED,
    "resolved": Outcome.PASSED,
    "unresolved_ids": Outcome.FAILED,
    "empty_patch_ids": Outcome.FAILED,
    "error_ids": Outcome.UNKNOWN,  # the tests did not come to an end
    "incomplete_ids": Outcome.UNKNOWN,
    "no_logs": Outcome.UNKNOWN,
}
_SIGNS: Final = (
    frozenset({"resolved_ids", "unresolved_ids"}),
    frozenset({"resolved_ids", "completed_ids"}),
    frozenset({"resolved", "no_generation"}),
    frozenset({"resolved", "no_logs"}),
)


def claim(head: Head) -> int:
    """Claim a summary by its lists of ids, a report by what it says of each instance."""
    first = head.values[0] if head.values and not head.magic else None
    if not isinstance(first, dict):
        return 0
    if any(keys <= first.keys() for keys in _SIGNS):
        return 88
    judged = [value for value in list(first.values())[:8] if isinstance(value, dict) and _is_judgement(value)]
    return 88 if judged and len(judged) == len(list(first)[:8]) else 0


def _is_judgement(value: dict[str, Any]) -> bool:
    return isinstance(value.get("resolved"), bool) and len(value.keys() & _JUDGED) > 1


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield one verdict an instance."""
    document = source.document(report)
    if document is ABSENT:
        return
    if not isinstance(document, dict):
        report.quarantine(0, "no report: an object was expected", "byte")
        return
    found = dict(_outcomes(document))
    if not found:
        report.quarantine(0, "no report: neither instances nor lists of their ids are there", "byte")
    for place, (instance, outcome) in enumerate(sorted(found.items())):
        yield RawEvent(
            run_id=instance,
            position=(0, place),
            kind="verdict",
            tool=_GRADER,
            target=_GRADER,
            outcome=str(outcome),
            task_group=instance,
            identity=f"verdict/{_GRADER}",
        )


def _outcomes(document: dict[str, Any]) -> Iterator[tuple[str, Outcome]]:
    """Yield what is said of each instance; of several lists that name one, the later says it."""
    for name, value in document.items():
        if isinstance(value, dict) and _is_judgement(value):
            yield name, _judgement(value)
    for name, outcome in reversed(_SUMMARY.items()):
        ids = document.get(name)
        for instance in ids if isinstance(ids, list) else ():
            if own := text_of(instance):
                yield own, outcome


def _judgement(value: dict[str, Any]) -> Outcome:
    """A patch that was there and could not be applied is a failure; tests that left no status say nothing."""
    if value["resolved"] is True:
        return Outcome.PASSED
    status = value.get("tests_status")
    applied = value.get("patch_successfully_applied")
    return Outcome.UNKNOWN if applied is True and "tests_status" in value and not status else Outcome.FAILED


FORMAT = Format(
    name="swe-bench",
    version=1,
    title="SWE-bench reports (one instance, a summary, published results)",
    recognised_by="resolved beside patch_exists for each instance, or lists resolved_ids and unresolved_ids",
    proved_on="files made by hand after the harness",
    claim=claim,
    read=read,
    rank=10,
)
