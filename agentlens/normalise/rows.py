"""From what a reader yields to rows of the record table: the floor where content ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import orjson
import polars as pl

from agentlens.model.event import CONTENT
from agentlens.model.raw import ABSENT, RawEvent
from agentlens.model.record import RECORDS
from agentlens.normalise import results as seen_after
from agentlens.normalise import fingerprint as prints
from agentlens.normalise import signature
from agentlens.normalise.canonical import Canon, TooDeep, dumps
from agentlens.normalise.digest import ACTION, DURABLE, EVIDENCE, Key
from agentlens.normalise.facts import UNKNOWN, Facts
from agentlens.normalise.tables import CODE_VERSION, Durable, Tables

_CACHE_ROWS: Final = 50_000
_CACHE_TEXT: Final = 2_000
_MAX_GIVEN: Final = 256
_MAX_CLASS: Final = 128

# columns that are copied as they are
_COPIED: Final = {
    "run_id": "run_id", "agent": "agent", "at": "at", "ended_at": "ended_at", "workflow": "workflow", "model": "model",
    "agent_version": "agent_version", "tokens_in": "tokens_in", "tokens_out": "tokens_out", "cost_usd": "cost_usd",
    "kind": "kind", "tool": "tool", "external_input": "external_input", "milestone": "milestone", "attempt": "attempt",
    "retry_policy": "retry_policy", "lease": "lease", "reachable": "reachable", "trace_id": "trace_id",
    "span_id": "span_id", "parent_span_id": "parent_span_id", "call_id": "call_id", "open": "open", "target": "target",
    "outcome": "outcome", "parent_run_id": "parent_run_id", "parent_agent": "parent_agent", "task_group": "task_group",
    "seq_given": "seq", "has_given": "has_fingerprint", "identity": "identity", "session": "session",
    "instance": "instance",
}  # fmt: skip
_GETTERS: Final[dict[str, Callable[[RawEvent], Any]]] = {name: attrgetter(of) for name, of in _COPIED.items()}
_MEASURES: Final = attrgetter("kind", "tool", "args", "result", "scope", "error_class")


@dataclass(frozen=True, slots=True)
class _Call:
    """What of an action is the same each time it is called so. ``arguments`` only where they are still needed."""

    signature: str | None
    facts: Facts
    arguments: Any
    text: str | None


@dataclass(frozen=True, slots=True)
class _Seen:
    """What of a result is the same each time it is seen."""

    fingerprint: str | None
    evidence: seen_after.Evidence


@dataclass(frozen=True, kw_only=True)
class Normaliser:
    """Turns raw events into rows of the record table. It can be sent to worker processes.

    Parameters
    ----------
    key : Key
        Every digest is made with it; its id is on every row.
    tables : Tables
        Volatile names, masks, stubs, declared effects.
    keep_content : bool
        Keep canonical arguments and results, and unknown fields, beside the digests.
    fingerprint : str
        ``observed``, or ``durable:NAME`` for a definition of the tables.

    Raises
    ------
    SettingsError
        ``fingerprint`` names no known definition.

    >>> made = Normaliser(key=Key.public_demo(), tables=Tables.load())
    >>> calls = [RawEvent(run_id="r", tool="Bash", args={"command": c}, result="") for c in ("ls|wc", "ls | wc")]
    >>> made.frame(calls, source="a", source_id="s", reader="native", reader_rank=1)["action_signature"].n_unique()
    1

    """

    key: Key
    tables: Tables
    keep_content: bool = False
    fingerprint: str = prints.OBSERVED
    _durable: Durable | None = field(init=False, repr=False, compare=False)
    _calls: dict[Any, _Call] = field(init=False, repr=False, compare=False)
    _results: dict[Any, _Seen] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Resolve the definition of evidence and begin with nothing remembered."""
        object.__setattr__(self, "_durable", prints.durable_of(self.fingerprint, self.tables))
        object.__setattr__(self, "_calls", {})
        object.__setattr__(self, "_results", {})

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is remembered: another process starts afresh."""
        return {**self.__dict__, "_calls": {}, "_results": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the settings."""
        self.__dict__.update(state)

    @property
    def version(self) -> str:
        """Value of ``normaliser_version``: the code's version and the digest of the tables."""
        return f"n{CODE_VERSION}-{self.tables.version}"

    def frame(
        self, events: Iterable[RawEvent], *, source: str, source_id: str, reader: str, reader_rank: int
    ) -> pl.DataFrame:
        """Return one row an event, in the order given, with the schema ``RECORDS`` (and ``CONTENT`` if kept).

        Parameters
        ----------
        events : iterable of RawEvent
            Of one source.
        source, source_id : str
            Shown name and digest of the source; ``source`` of a row is ``name:position``.
        reader, reader_rank : str, int
            Which format it was read as, and its rank among readers of one run.

        Values of a wrong type (a reader's slip, a hostile record) become null, never an error.

        """
        rows = events if isinstance(events, list) else list(events)
        columns: dict[str, pl.Series] = {
            name: _series(name, list(map(getter, rows))) for name, getter in _GETTERS.items()
        }
        measured = self._measure(rows)
        columns.update({name: _series(name, values) for name, values in measured.items()})
        frame = pl.DataFrame(list(columns.values()))
        frame = frame.with_columns(
            pl.lit(source_id).alias("source_id"),
            pl.lit(reader).alias("reader"),
            pl.lit(reader_rank, pl.Int64).alias("reader_rank"),
            pl.lit(self.version).alias("normaliser_version"),
            pl.lit(self.key.key_id).alias("key_id"),
            pl.lit(prints.observed_version(self.tables)).alias("observed_version"),
            pl.lit(
                prints.durable_version(self._durable, self.tables) if self._durable else None, pl.String
            ).alias("durable_version"),
            _pointer(source),
        )
        schema = {**RECORDS, **CONTENT} if self.keep_content else RECORDS
        return frame.select([pl.col(name).cast(dtype) for name, dtype in schema.items()])

    def call(self, tool: str, args: Any, scope: Any = None) -> _Call:
        """Digest one action; repeated ones are remembered, within bounds."""
        raw = args if type(args) is str else _raw(args)
        if raw is None or scope is not None or len(raw) > _CACHE_TEXT:
            return self._call(tool, args, scope)
        place = (tool, raw)
        found = self._calls.get(place)
        if found is None:
            if len(self._calls) >= _CACHE_ROWS:
                self._calls.clear()
            found = self._calls[place] = self._call(tool, args, None)
        return found

    def _call(self, tool: str, args: Any, scope: Any) -> _Call:
        action = signature.action(self.tables.tool(tool), args, scope, self.tables)
        return _Call(
            signature=None if action.material is None else self.key.digest(action.material, ACTION),
            facts=action.facts,
            arguments=action.arguments if self._durable else ABSENT,
            text=action.text if self.keep_content else None,
        )

    def seen(self, tool: str, result: Any, error_class: str | None) -> _Seen:
        """Digest one result; repeated short ones are remembered, within bounds."""
        if type(result) is not str or len(result) > _CACHE_TEXT:
            return self._seen(tool, result, error_class)
        place = (tool, result, error_class)
        found = self._results.get(place)
        if found is None:
            if len(self._results) >= _CACHE_ROWS:
                self._results.clear()
            found = self._results[place] = self._seen(tool, result, error_class)
        return found

    def _seen(self, tool: str, result: Any, error_class: str | None) -> _Seen:
        evidence = seen_after.evidence(self.tables.tool(tool), result, self.tables)
        material = prints.observed_material(evidence, error_class)
        keeps = self.keep_content or self._durable is not None
        return _Seen(
            fingerprint=None if material is None else self.key.digest(material, EVIDENCE),
            evidence=evidence if keeps else _NO_EVIDENCE,
        )

    def _measure(self, rows: list[RawEvent]) -> dict[str, list[Any]]:
        """Columns that need arguments, results or error classes."""
        signatures: list[str | None] = []
        observed: list[str | None] = []
        durable: list[str | None] = []
        facts: list[Facts] = []
        classes: list[str | None] = []
        args_texts: list[str | None] = []
        result_texts: list[str | None] = []
        nothing = _Call(None, UNKNOWN, ABSENT, None)
        blank = _Seen(None, _NO_EVIDENCE)
        for kind, tool, args, result, scope, error in map(_MEASURES, rows):
            tool = tool if type(tool) is str else str(tool)  # noqa: PLW2901
            error = _class(error) if error is not None else None  # noqa: PLW2901
            is_tool = kind == "tool"
            call = self.call(tool, args, scope) if is_tool or args is not ABSENT else nothing
            seen = self.seen(tool, result, error) if result is not ABSENT or error is not None else blank
            signatures.append(call.signature)
            observed.append(seen.fingerprint)
            facts.append(call.facts if is_tool else UNKNOWN)
            classes.append(error)
            if self._durable is not None:
                durable.append(self._durable_print(tool, call, result, seen, error) if is_tool else None)
            if self.keep_content:
                args_texts.append(call.text)
                result_texts.append(seen.evidence.text)
        hard = self.tables.hard_failures
        columns: dict[str, list[Any]] = {
            "action_signature": [
                _given(e.action_signature, self.key) or s for e, s in zip(rows, signatures, strict=True)
            ],
            "given_fingerprint": [_given(e.progress_fingerprint, self.key) for e in rows],
            "observed_fingerprint": observed,
            "durable_fingerprint": durable or [None] * len(rows),
            "error_class": classes,
            "hard_failure": [e.hard_failure or hard.get(c or "") for e, c in zip(rows, classes, strict=True)],
            "pause": [f.pause for f in facts],
            "change": [f.change for f in facts],
            "check": [f.check for f in facts],
            "external": [f.external for f in facts],
            "reset": [f.reset for f in facts],
            "position": [e.position[0] for e in rows],
            "position_in": [e.position[1] for e in rows],
        }
        if self.keep_content:
            columns["args_text"] = args_texts
            columns["result_text"] = result_texts
            columns["extra"] = [_extra(e.extra) for e in rows]
        return columns

    def _durable_print(
        self, tool: str, call: _Call, result: Any, seen: _Seen, error: str | None
    ) -> str | None:
        if self._durable is None:
            return None
        material = prints.durable_material(
            self._durable,
            self.tables.tool(tool),
            call.arguments,
            result,
            seen.evidence,
            call.facts,
            error,
            self.tables,
        )
        return None if material is None else self.key.digest(material, DURABLE)


_NO_EVIDENCE: Final = seen_after.Evidence(None)
_TYPES: Final = {**RECORDS, **CONTENT}


def _series(name: str, values: list[Any]) -> pl.Series:
    """Build a column; values of a wrong type become null."""
    dtype = _TYPES[name]
    physical = pl.Int64() if dtype == pl.Datetime else dtype
    try:
        series = pl.Series(name, values, dtype=physical)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        series = pl.Series(
            name, [_fitting(value, physical) for value in values], dtype=physical, strict=False
        )
    return series.cast(dtype)


def _fitting(value: Any, dtype: pl.DataType) -> Any:
    if isinstance(dtype, pl.String):
        return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else None
    if isinstance(dtype, pl.Boolean):
        return value if isinstance(value, bool) else None
    if isinstance(dtype, pl.Int64):
        return value if type(value) is int and -(2**63) <= value < 2**63 else None
    if isinstance(dtype, pl.Float64):
        try:
            return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        except OverflowError:
            return None
    if isinstance(dtype, pl.Struct):
        if not isinstance(value, dict):
            return None
        return {f.name: _fitting(value.get(f.name), _plain(f.dtype)) for f in dtype.fields}
    if isinstance(dtype, pl.List):
        items = value if isinstance(value, list) else []
        return [item for item in (_fitting(v, _plain(dtype.inner)) for v in items) if item is not None]
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _plain(dtype: Any) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype


def _pointer(source: str) -> pl.Expr:
    place = pl.format("{}:{}", pl.lit(source), pl.col("position"))
    inner = pl.format("{}.{}", place, pl.col("position_in"))
    return pl.when(pl.col("position_in") > 0).then(inner).otherwise(place).alias("source")


def _raw(args: Any) -> bytes | None:
    """Bytes that stand for decoded arguments in the cache; None where they cannot be had cheaply."""
    if args is ABSENT:
        return b""
    try:
        return orjson.dumps(args)
    except (TypeError, orjson.JSONEncodeError, RecursionError):
        return None


def _class(error: Any) -> str:
    return str(error).strip()[:_MAX_CLASS]


def _given(value: Any, key: Key) -> str | None:
    """A digest that the export itself carries; one that is longer than any digest is digested."""
    if value is None:
        return None
    text = value if isinstance(value, str) else dumps(value).decode("utf-8", "replace")
    return text if len(text) <= _MAX_GIVEN else key.digest(text.encode("utf-8", "surrogatepass"), EVIDENCE)


def _extra(extra: dict[str, Any] | None) -> str | None:
    if not extra:
        return None
    try:
        return dumps(Canon({}).value(extra)).decode("utf-8", "replace")
    except (TooDeep, RecursionError):
        return None
