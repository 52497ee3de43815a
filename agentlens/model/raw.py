"""What a reader yields: facts of one record, with arguments and results still readable.

A reader never digests, orders, pairs across records or invents: the steps after it do that once for all
formats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


class _Absent:
    """The mark of a value that the export does not carry (``{}`` and "not exported" differ)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = _Absent()


@dataclass(slots=True, kw_only=True)
class RawEvent:
    """Facts of one record. Times are integer microseconds since 1970 UTC; None is "not in the source".

    ``identity``: text that two records of the same action share inside a run (a span id; a message id and
    a call id); records with equal ``(run_id, identity)`` are merged, the later non-null value winning.
    None: never merged, never dropped.

    ``agent``: the lane. ``None`` means "inherit": from the nearest ancestor span (``parent_span_id``) that
    names one, else "". ``instance`` tells apart agents of one name (a sub-agent id); where it is given and
    a name has several in one run, the lane is ``name#k`` in order of first appearance.

    ``session``: a conversation or session id that may stand on only some spans of a trace. The run id of a
    trace with exactly one session is that session; else the trace id.

    ``position``: where the record stands in its source (line number, row or byte offset, then order inside).
    ``line``: the line to point at, where a source out of order is read in another order and ``position`` is
    the place in that one.
    """

    run_id: str
    position: tuple[int, int] = (0, 0)
    line: int | None = None
    agent: str | None = ""
    instance: str | None = None
    seq: int | None = None
    at: int | None = None
    ended_at: int | None = None
    kind: str = "tool"
    tool: str = ""
    args: Any = ABSENT
    result: Any = ABSENT
    scope: Any = None  # destination, permission scope: changes what the action means
    action_signature: str | None = None
    progress_fingerprint: str | None = None
    has_fingerprint: bool = False  # the record carries the key, null included
    milestone: str | None = None
    error_class: str | None = None
    attempt: int | None = None
    retry_policy: dict[str, Any] | None = None
    lease: dict[str, Any] | None = None  # deadline in microseconds
    external_input: bool | None = None
    reachable: bool | None = None
    hard_failure: str | None = None
    workflow: str | None = None
    model: str | None = None
    agent_version: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    call_id: str | None = None
    session: str | None = None
    identity: str | None = None
    open: bool | None = None
    target: str | None = None
    outcome: str | None = None
    parent_run_id: str | None = None
    parent_agent: str | None = None
    task_group: str | None = None
    extra: dict[str, Any] | None = field(default=None)

    @property
    def shown(self) -> tuple[int, int]:
        """The place that a pointer names: line (row, byte offset) in the source, then order inside."""
        return (self.position[0] if self.line is None else self.line, self.position[1])


@dataclass(slots=True, kw_only=True)
class RawReceipt:
    """One native handoff receipt, as decoded (SPEC section 4)."""

    fields: dict[str, Any]
    position: tuple[int, int] = (0, 0)


@dataclass(slots=True, kw_only=True)
class RawBranch:
    """One native branch receipt, as decoded (SPEC section 5)."""

    fields: dict[str, Any]
    position: tuple[int, int] = (0, 0)
