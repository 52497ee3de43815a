"""From what a reader yields to rows of the record table: the floor where content ends."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
import polars as pl

from agentlens.model.event import CONTENT
from agentlens.model.raw import ABSENT, RawEvent
from agentlens.model.record import RECORDS
from agentlens.normalise import fingerprint as prints
from agentlens.normalise import signature
from agentlens.normalise.canonical import Canon, TooDeep, dumps
from agentlens.normalise.columns import column, is_blank
from agentlens.normalise.digest import ACTION, DURABLE, EVIDENCE, Key
from agentlens.normalise.facts import UNKNOWN, Facts
from agentlens.normalise.results import Evidence, evidence
from agentlens.normalise.tables import CODE_VERSION, Durable, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CACHE_ROWS: Final = 50_000
_CACHE_TEXT: Final = 2_000
_MAX_GIVEN: Final = 256
_MAX_CLASS: Final = 128

# column: the attribute it copies
_COPIED: Final = {
    **{name: name for name in (
        "run_id", "agent", "at", "ended_at", "workflow", "model", "agent_version", "tokens_in", "tokens_out",
        "cost_usd", "kind", "tool", "external_input", "milestone", "attempt", "retry_policy", "lease", "reachable",
        "trace_id", "span_id", "parent_span_id", "call_id", "open", "target", "outcome", "parent_run_id",
        "parent_agent", "task_group", "identity", "session", "instance",
    )},
    "seq_given": "seq",
    "has_given": "has_fingerprint",
}  # fmt: skip
_COPY: Final[dict[str, Callable[[RawEvent], Any]]] = {name: attrgetter(of) for name, of in _COPIED.items()}


class _Call(NamedTuple):
    """What of an action is the same each time it is called so.

    ``fact``: number of its facts in the normaliser's list; ``arguments`` and ``text`` only where still needed.
    """

    signature: str | None
    fact: int
    facts: Facts = UNKNOWN
    arguments: Any = ABSENT
    text: str | None = None


class _Seen(NamedTuple):
    """What of a result is the same each time it is seen."""

    fingerprint: str | None
    evidence: Evidence


_NO_EVIDENCE: Final = Evidence(None)
_NOTHING: Final = _Call(None, 0)
_BLANK: Final = _Seen(None, _NO_EVIDENCE)


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
    _facts: dict[Facts, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Resolve the definition of evidence and begin with nothing remembered."""
        object.__setattr__(self, "_durable", prints.durable_of(self.fingerprint, self.tables))
        self.__dict__.update(_nothing_remembered())

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is remembered: another process starts afresh."""
        return {**self.__dict__, **_nothing_remembered()}

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
        # a column at a time: a tuple an event would cost more in collecting garbage than in copying
        values: dict[str, list[Any]] = {name: list(map(copy, rows)) for name, copy in _COPY.items()}
        values.update(self._measure(rows))
        kept = [column(name, found) for name, found in values.items() if not is_blank(found)]
        definition = self._durable
        made = {
            "source_id": pl.lit(source_id),
            "reader": pl.lit(reader),
            "reader_rank": pl.lit(reader_rank, pl.Int64),
            "normaliser_version": pl.lit(self.version),
            "key_id": pl.lit(self.key.key_id),
            "observed_version": pl.lit(prints.observed_version(self.tables)),
            "durable_version": pl.lit(
                prints.durable_version(definition, self.tables) if definition else None, pl.String
            ),
            "source": _pointer(source, rows),
        }
        there = {series.name for series in kept}
        schema = {**RECORDS, **CONTENT} if self.keep_content else RECORDS
        if not rows:
            return pl.DataFrame(schema=schema)
        return pl.DataFrame(kept).select(
            made[name].alias(name)
            if name in made
            else pl.col(name)
            if name in there
            else pl.lit(None, dtype).alias(name)
            for name, dtype in schema.items()
        )

    def call(self, tool: str, args: Any, scope: Any = None) -> _Call:
        """Digest one action; repeated ones are remembered, within bounds."""
        raw = args if type(args) is str else _raw(args)
        if raw is None or scope is not None or len(raw) > _CACHE_TEXT:
            return self._call(tool, args, scope)
        calls = self._calls
        found = calls.get((tool, raw))
        if found is None:
            if len(calls) >= _CACHE_ROWS:
                calls.clear()
            found = calls[tool, raw] = self._call(tool, args, None)
        return found

    def _call(self, tool: str, args: Any, scope: Any) -> _Call:
        action = signature.action(self.tables.tool(tool), args, scope, self.tables)
        numbers = self._facts
        return _Call(
            None if action.material is None else self.key.digest(action.material, ACTION),
            numbers.setdefault(action.facts, len(numbers)),
            action.facts,
            action.arguments if self._durable else ABSENT,
            action.text if self.keep_content else None,
        )

    def seen(self, tool: str, result: Any, error_class: str | None) -> _Seen:
        """Digest one result; repeated short ones are remembered, within bounds."""
        if type(result) is not str or len(result) > _CACHE_TEXT:
            return self._seen(tool, result, error_class)
        results = self._results
        found = results.get((tool, result, error_class))
        if found is None:
            if len(results) >= _CACHE_ROWS:
                results.clear()
            found = results[tool, result, error_class] = self._seen(tool, result, error_class)
        return found

    def _seen(self, tool: str, result: Any, error_class: str | None) -> _Seen:
        seen = evidence(self.tables.tool(tool), result, self.tables)
        material = prints.observed_material(seen, error_class)
        keeps = self.keep_content or self._durable is not None
        return _Seen(
            None if material is None else self.key.digest(material, EVIDENCE), seen if keeps else _NO_EVIDENCE
        )

    def _measure(self, rows: list[RawEvent]) -> dict[str, list[Any]]:
        """Columns that need arguments, results or error classes."""
        calls: list[_Call] = []
        seen: list[_Seen] = []
        classes: list[str | None] = []
        facts: list[int] = []
        for event in rows:
            args, result = event.args, event.result
            tool = event.tool if type(event.tool) is str else str(event.tool)
            error = None if event.error_class is None else _class(event.error_class)
            is_tool = event.kind == "tool"
            call = self.call(tool, args, event.scope) if is_tool or args is not ABSENT else _NOTHING
            calls.append(call)
            facts.append(call.fact if is_tool else 0)
            classes.append(error)
            seen.append(
                self.seen(tool, result, error) if result is not ABSENT or error is not None else _BLANK
            )
        given, hard = self._given, self.tables.hard_failures
        values: dict[str, list[Any]] = {
            "action_signature": [
                call.signature if event.action_signature is None else given(event.action_signature)
                for event, call in zip(rows, calls, strict=True)
            ],
            "given_fingerprint": [
                None if event.progress_fingerprint is None else given(event.progress_fingerprint)
                for event in rows
            ],
            "observed_fingerprint": [one.fingerprint for one in seen],
            "durable_fingerprint": self._durable_prints(rows, calls, seen, classes),
            "error_class": classes,
            "hard_failure": [
                event.hard_failure or (None if error is None else hard.get(error))
                for event, error in zip(rows, classes, strict=True)
            ],
            "position": [event.position[0] for event in rows],
            "position_in": [event.position[1] for event in rows],
        }
        if self.keep_content:
            values["args_text"] = [call.text for call in calls]
            values["result_text"] = [one.evidence.text for one in seen]
            values["extra"] = [_extra(event.extra) for event in rows]
        known = list(self._facts)
        for name in _FACT_NAMES:
            of = [getattr(fact, name) for fact in known]
            values[name] = [of[number] for number in facts]
        return values

    def _durable_prints(
        self, rows: list[RawEvent], calls: list[_Call], seen: list[_Seen], classes: list[str | None]
    ) -> list[str | None]:
        definition = self._durable
        if definition is None:
            return [None] * len(rows)
        found: list[str | None] = []
        for event, call, one, failed in zip(rows, calls, seen, classes, strict=True):
            if event.kind != "tool":
                found.append(None)
                continue
            tool = self.tables.tool(str(event.tool))
            done = prints.Done(tool, call.arguments, event.result, one.evidence, call.facts, failed)
            material = prints.durable_material(definition, done, self.tables)
            found.append(self.key.digest(material, DURABLE) if isinstance(material, bytes) else material)
        return found

    def _given(self, value: Any) -> str:
        """A digest that the export itself carries; one that is longer than any digest is digested."""
        text = value if isinstance(value, str) else dumps(value).decode("utf-8", "replace")
        return (
            text
            if len(text) <= _MAX_GIVEN
            else self.key.digest(text.encode("utf-8", "surrogatepass"), EVIDENCE)
        )


_FACT_NAMES: Final = tuple(field.name for field in fields(Facts))


def _nothing_remembered() -> dict[str, Any]:
    return {"_calls": {}, "_results": {}, "_facts": {UNKNOWN: 0}}


def _pointer(source: str, rows: list[RawEvent]) -> pl.Expr:
    line = pl.col("position")
    if any(event.line is not None for event in rows):
        told = [event.shown[0] for event in rows]
        line = pl.lit(column("position", told))
    place = pl.concat_str(pl.lit(source), line, separator=":")
    inner = pl.concat_str(place, "position_in", separator=".")
    return pl.when(pl.col("position_in") > 0).then(inner).otherwise(place).alias("source")


def _raw(args: Any) -> bytes | None:
    """Bytes that stand for decoded arguments in the cache; None where they cannot be had cheaply."""
    if args is ABSENT:
        return b""
    try:
        return orjson.dumps(args)
    except (TypeError, orjson.JSONEncodeError, RecursionError):
        return None


def _class(error: Any) -> str | None:
    return str(error).strip()[:_MAX_CLASS] or None


def _extra(extra: dict[str, Any] | None) -> str | None:
    if not extra:
        return None
    try:
        return dumps(Canon({}).value(extra)).decode("utf-8", "replace")
    except (TooDeep, RecursionError):
        return None
