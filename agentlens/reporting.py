"""The report: one self-contained page, and every table of it as Parquet."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import polars as pl

from agentlens.data import Data, Opened, action_kinds, open_data
from agentlens.errors import InputError
from agentlens.in_place import put_text, together
from agentlens.model.event import ACTIONS
from agentlens.model.select import Selection
from agentlens.results import page_file, put_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from agentlens.detect.handoff_limits import HandoffLimits
    from agentlens.detect.policies import Policies
    from agentlens.detect.profile_rules import RuleBook
    from agentlens.detect.rules import Rule
    from agentlens.detect.state_keys import StateKeys
    from agentlens.normalise.rows import Normaliser
    from agentlens.report.material import Material

    Progress: TypeAlias = Callable[[int, int | None, str], None]

T = TypeVar("T")
NO_LABELS: Final = "none"
BASE_RATE: Final = 0.01


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report made ready: its ``html``, and every table of it by name."""

    html: str
    tables: dict[str, pl.DataFrame]
    metadata: dict[str, str]

    def write(self, out: str | Path) -> list[Path]:
        """Write the page to ``out`` and the tables into the folder ``<name>_tables`` beside it, all of them or none.

        Tables that a report before it left there, and that this one does not have, are removed.

        Raises
        ------
        InputError
            When that cannot be written.
        """
        page = page_file(out)
        folder = page.with_name(f"{page.stem}_tables")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            frames = {folder / f"{name}.parquet": frame for name, frame in sorted(self.tables.items())}
            with together([page, *frames]) as fresh:
                put_text(fresh[page], self.html)
                for path, frame in frames.items():
                    put_table(frame, fresh[path], self.metadata)
            _remove_older(folder, self.tables)
        except OSError as error:
            with suppress(OSError):
                folder.rmdir()  # where it was made for this
            why = error.strerror or type(error).__name__
            raise InputError.at(
                str(out), f"can not be written ({why})", accepted="a path of a file"
            ) from error
        return [page, *frames]

    def _repr_html_(self) -> str:
        from agentlens.report.words import plural

        rows = "".join(
            f"<li><code>{name}</code>: {plural(frame.height, 'row')}</li>"
            for name, frame in sorted(self.tables.items())
        )
        return f"<p>A report; <code>.write(path)</code> it, or look at its <code>.tables</code>:</p><ul>{rows}</ul>"


def make_report(
    data: Data,
    *,
    labels: str | Path | pl.DataFrame | None = None,
    rule: Rule | RuleBook | str | Path | None = None,
    profile: str | Path | None = None,
    policies: Policies | str | Path | None = None,
    actions: str | Sequence[str] = ("tool", "handoff"),
    state_keys: StateKeys | str | Path | None = None,
    as_of: str | datetime | None = None,
    base_rate: float = BASE_RATE,
    link: str | None = None,
    reveal: bool = False,
    root: str | Path | None = None,
    any_version: bool = False,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    workflow: str | None = None,
    agent: str | None = None,
    normaliser: Normaliser | None = None,
    format: str | None = None,  # noqa: A002 - the word users type
    sql: str | Path | None = None,
    progress: Progress | None = None,
) -> Report:
    """Make the report: triage without labels, with labels what is wrong about the alerts and what would mend it.

    Parameters
    ----------
    data
        A lake, a trace export, or a frame of events.
    labels
        A label file or a frame of labels (`agentlens.model.label.LABELS`); ``"weak"`` derives them from outcomes. None
        takes those that the lake keeps, if any; ``"none"`` leaves them alone.
    rule, profile
        The rule in force: a rule, a name or a file; or the profile that ``agentlens calibrate`` wrote, whose status and
        bounds are then shown.
    base_rate
        Share of all runs that are incidents, for what an alert is worth.
    link
        Template of an address in the user's own trace viewer, with ``{trace_id}`` or ``{run_id}``.
    reveal
        Put raw content of the cases into the page, read through the source pointers of a lake; the page says so.
    root
        Folder that the names of sources are relative to.
    progress
        Called as ``progress(done, total, what)`` while the report is made.

    Returns
    -------
    Report
        Write it with ``.write("report.html")``. Equal inputs give equal bytes.

    Raises
    ------
    AgentlensError
        For data, labels or settings that can not be used.
    """
    from agentlens.api import check_rules
    from agentlens.calibrate.profile import load_profile
    from agentlens.detect.policies import Policies as PoliciesClass
    from agentlens.merging import distinct_arguments
    from agentlens.report.links import check_link
    from agentlens.report.pages import report_page
    from agentlens.report.stamp import command, library_versions, profile_stamp

    check_link(link)
    if not 0 < base_rate < 1:
        from agentlens.errors import SettingsError

        raise SettingsError.value("base_rate", base_rate, "a share above 0 and below 1")
    selection = Selection.parse(since, until, workflow, agent)
    opened = open_data(data, selection, normaliser=normaliser, format=format, sql=sql)
    kinds = action_kinds(actions)
    loaded = PoliciesClass.load(Path(policies)) if isinstance(policies, str | Path) else policies
    check_rules(opened, [profile, rule], kinds, loaded, any_version=any_version)
    told = None if profile is None else load_profile(profile)
    chosen = {"since": since, "until": until, "workflow": workflow, "agent": agent}
    read = {"normaliser": normaliser, "format": format, "sql": sql}
    tell = progress or silent
    made = gather(opened, profile or rule, policies, kinds, link=link, profile=profile, progress=tell)
    tell(0, None, "handoffs and resets")
    made = _with_boundaries(
        made, data, chosen | read, state_keys=state_keys, as_of=as_of, limits=_limits(profile, told)
    )
    known = known_labels(labels, opened)
    typed: dict[str, object] = {
        "labels": labels,
        "rule": rule,
        "profile": profile,
        "policies": policies,
        "state_keys": state_keys,
        "actions": kinds if kinds != ACTIONS else None,
        "as_of": as_of,
        "link": link,
        "reveal": reveal,
        "base_rate": base_rate if base_rate != BASE_RATE else None,
        "any_version": any_version,
    }
    stamp = {**made.stamp, **_label_stamp(known), **profile_stamp(told), **library_versions()}
    stamp["command"] = command(data, {**typed, **chosen, "format": format, "sql": sql})
    made = replace(made, selected=not selection.is_all, stamp=stamp)
    if opened.lake is not None:
        read_again = partial(distinct_arguments, opened.lake, root=Path(root) if root else None, sql=sql)
        made = replace(made, arguments=read_again)
    tell(0, None, "the page")
    if reveal:
        made = _revealed(made, opened, root, sql)
    told = None if told is None else {**told, "tables": calibration_tables(profile, told)}
    page = report_page(made, labels=known, profile=told, base_rate=base_rate)
    return Report(html=page.html, tables=page.tables, metadata=dict(made.stamp))


def silent(_done: int, _total: int | None, _what: str = "") -> None:
    """Nobody waits."""


def counted(parts: Iterable[T], total: int, progress: Progress, what: str) -> Iterator[T]:
    """Go through parts and tell how many are done."""
    progress(0, total or None, what)
    for done, part in enumerate(parts, 1):
        yield part
        progress(done, total or None, what)


def _remove_older(folder: Path, tables: Mapping[str, pl.DataFrame]) -> None:
    """Remove tables of a report that this one does not have; files of anything else stay."""
    for path in sorted(folder.glob("*.parquet")):
        if path.stem not in tables and path.is_file() and _is_ours(path):
            path.unlink()


def _is_ours(path: Path) -> bool:
    try:
        return "agentlens" in pl.read_parquet_metadata(path)
    except (OSError, pl.exceptions.PolarsError):
        return False


def write_report(data: Data, out: str | Path, **settings: Any) -> list[Path]:
    """Make a report and write it: the page to ``out``, its tables into ``<name>_tables`` beside it.

    Takes the settings of `make_report` and returns the paths written.
    """
    return make_report(data, **settings).write(out)


def calibration_tables(path: str | Path | None, profile: Mapping[str, Any]) -> dict[str, pl.DataFrame]:
    """Return the tables that `agentlens calibrate` wrote beside a profile, where they are of the same calibration."""
    found = {}
    for name in ("counterfactuals", "test"):
        file = Path(path or "").with_name(f"{name}.parquet")
        try:
            if pl.read_parquet_metadata(file).get("plan") == profile.get("made", {}).get("plan"):
                found[name] = pl.read_parquet(file)
        except (OSError, pl.exceptions.PolarsError):  # a profile that was moved alone is as good
            continue
    return found


def known_labels(labels: str | Path | pl.DataFrame | None, opened: Opened) -> pl.DataFrame | None:
    """Return the labels that were asked for: a file or frame, ``weak``, ``none``, or by default those of the lake.

    ``weak`` derives them from outcomes, ``none`` is none even where the lake has some. None where there are none.
    """
    from agentlens.calibrate.label_store import LabelStore
    from agentlens.calibrating import load_labels

    if isinstance(labels, str | Path) and str(labels) == NO_LABELS and not Path(labels).exists():
        return None
    if labels is None and (opened.lake is None or LabelStore.of(opened.lake).read().is_empty()):
        return None
    return load_labels(labels, opened, opened.parts)[0]


def _label_stamp(labels: pl.DataFrame | None) -> dict[str, str]:
    from agentlens.calibrate.labels import labels_digest

    return {} if labels is None else {"labels": labels_digest(labels)}


def gather(
    opened: Opened,
    rule: Rule | RuleBook | str | Path | None,
    policies: Policies | str | Path | None,
    actions: tuple[str, ...],
    *,
    link: str | None = None,
    profile: str | Path | None = None,
    progress: Progress | None = None,
) -> Material:
    """Judge data and gather what reports of loops are made from."""
    from agentlens.api import loop_parts, rule_book
    from agentlens.detect.policies import Policies as PoliciesClass
    from agentlens.normalise.health import health
    from agentlens.report.material import Material as MaterialClass
    from agentlens.results import Loops

    book = rule_book(rule)
    loaded = PoliciesClass.load(Path(policies)) if isinstance(policies, str | Path) else policies
    told = counted(
        loop_parts(opened, book, loaded, actions), len(opened.parts), progress or silent, "judging loops"
    )
    result = Loops.concat(told)
    events = opened.events().drop("args_text", "result_text", "extra", strict=False).collect()
    stamp = {name.replace("_", " "): value for name, value in result.metadata.items() if value}
    stamp["rule thresholds"] = "; ".join(str(list(one.thresholds)) for one in book.rules)
    stamp["data"] = _manifest_digest(opened) or _events_digest(events)
    if profile is not None:
        stamp["profile"] = _file_digest(Path(profile))
    return MaterialClass(
        events=events.lazy(),
        verdicts=result.verdicts,
        episodes=result.episodes,
        runs=result.runs,
        boundaries={},
        health=health(events.lazy()).collect(),
        book=book,
        actions=actions,
        link=link,
        stamp=stamp,
        policies=loaded,
    )


def _with_boundaries(
    made: Material,
    data: Data,
    settings: Mapping[str, Any],
    *,
    state_keys: StateKeys | str | Path | None,
    as_of: str | datetime | None,
    limits: HandoffLimits | None,
) -> Material:
    from agentlens.boundaries import handoffs, resets

    given = handoffs(data, limits=limits, as_of=as_of, **settings)
    branched = resets(data, state_keys=state_keys, **settings)
    return replace(made, boundaries={**given.tables(), **branched.tables()})


def _limits(profile: str | Path | None, told: Mapping[str, Any] | None) -> HandoffLimits | None:
    """Limits of a profile that holds some; the usual ones where it does not."""
    from agentlens.detect.handoff_limits import HandoffLimits

    return HandoffLimits.load(Path(profile)) if profile is not None and told and "handoffs" in told else None


def _revealed(made: Material, opened: Opened, root: str | Path | None, sql: str | Path | None) -> Material:
    from agentlens.report.cases import CASES
    from agentlens.report.material import costed
    from agentlens.revealing import raw_content

    if opened.lake is None:
        raise InputError.at("--reveal", "only events of a lake name their source", accepted="a lake")
    shown = costed(made).head(CASES).select("run_id", "agent", "onset_seq", "alert_seq")
    inside = made.events.filter(pl.col("kind").is_in(made.actions)).join(shown.lazy(), on=["run_id", "agent"])
    wanted = inside.filter(pl.col("seq").is_between("onset_seq", "alert_seq"))
    rows = (
        wanted.select("run_id", "agent", "seq", "kind", "source")
        .unique()
        .sort("run_id", "agent", "seq")
        .collect()
    )
    return replace(made, revealed=raw_content(opened.lake, rows, Path(root) if root else None, sql))


def _manifest_digest(opened: Opened) -> str:
    """Digest over names and digests of the lake's sources: what was read, whatever order it came in."""
    if opened.lake is None:
        return ""
    from hashlib import blake2b

    rows = (
        opened.lake.sources()
        .select("source", "digest", "reader", "reader_version")
        .sort("source", "digest")
        .rows()
    )
    return blake2b(repr(rows).encode(), digest_size=16).hexdigest()


def _events_digest(events: pl.DataFrame) -> str:
    from hashlib import blake2b

    columns = ["run_id", "agent", "seq", "action_signature", "progress_fingerprint"]
    kept = events.select(name for name in columns if name in events.columns).sort(pl.all())
    return blake2b(kept.write_csv().encode(), digest_size=16).hexdigest()


def _file_digest(path: Path) -> str:
    from hashlib import blake2b

    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
