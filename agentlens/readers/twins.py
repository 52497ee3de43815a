"""Calls that nested instrumentations tell twice, and spans that an exporter sent twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from agentlens.model.raw import ABSENT
from agentlens.readers import decode

if TYPE_CHECKING:
    from agentlens.readers.spans import Span


@dataclass(slots=True)
class _Twin:
    """A tool or model span that a directly nested or enclosing span may tell a second time."""

    kind: str
    tool: str
    args: Any
    identity: str
    inner: bool = False  # told again by a span right inside


_ById: TypeAlias = dict[str | None, _Twin]
_ByParent: TypeAlias = dict[tuple[str, str, str], _Twin]


@dataclass(slots=True)
class Twins:
    """Remembers the tool and model spans of one source, trace by trace."""

    _traces: dict[str, tuple[_ById, _ByParent]] = field(default_factory=dict)
    _trace: str = ""  # the trace of the span before, which most often is that of the next
    _by_id: _ById = field(default_factory=dict)
    _by_parent: _ByParent = field(default_factory=dict)

    def identity(self, span: Span, kind: str, tool: str, args: Any) -> tuple[str | None, bool]:
        """Return the identity of a call, and whether it is that of another span told before.

        A span of the same tool with the same arguments right inside one is the same call; the next one inside is
        another attempt, not another telling.
        """
        span_id, parent_id = span.span_id, span.parent_id
        if span_id is None:
            return None, False
        if span.trace_id != self._trace:
            self._trace = span.trace_id
            self._by_id, self._by_parent = self._traces.setdefault(span.trace_id, ({}, {}))
        by_id, by_parent = self._by_id, self._by_parent
        own = _Twin(kind, tool, args, f"span:{span_id}")
        known = by_id.get(span_id)
        if known is not None and known.kind == kind and known.tool == tool:  # sent again
            return known.identity, known.identity != own.identity
        twin = None
        above = by_id.get(parent_id)
        if above is not None and not above.inner and _same(above, own):
            twin, above.inner = above, True
        else:
            below = by_parent.get((span_id, kind, tool))
            if below is not None and _same(below, own):
                twin, own.inner = below, True
        if twin is not None:
            own.identity = twin.identity
        by_id[span_id] = own
        if parent_id is not None:
            by_parent.setdefault((parent_id, kind, tool), own)
        return own.identity, twin is not None


def _same(one: _Twin, other: _Twin) -> bool:
    if one.kind != other.kind or one.tool != other.tool:
        return False
    if one.args is ABSENT or other.args is ABSENT:
        return True
    return bool(one.args == other.args or _decoded(one.args) == _decoded(other.args))


def _decoded(args: Any) -> Any:
    if not isinstance(args, str):
        return args
    value = decode.attempt(args)
    return args if value is ABSENT else value
