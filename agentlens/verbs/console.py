"""What is printed: tables that fit 100 columns, JSON lines, a progress bar on a terminal's standard error."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import orjson

from agentlens.verbs.waiting import hush

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import polars as pl
    from rich.console import Console

WIDTH = 100
SHORT = 8
_HIDDEN = dict.fromkeys((*range(8203, 8208), *range(8234, 8239), *range(8294, 8298), 65279))
_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), "�") | _HIDDEN


def plain(value: object) -> str:
    """Text of a trace, harmless to a terminal: no control, escape or direction-changing characters."""
    return str(value).translate(_CONTROL)


def console(*, stderr: bool = False) -> Console:
    """Return a console of at most 100 columns that interprets no markup; the first word on it takes a bar's place."""
    return _sized(_talking()(stderr=stderr, markup=False, highlight=False, emoji=False))


def bar_console() -> Console:
    """Return the console that a bar is drawn on."""
    from rich.console import Console

    return _sized(Console(stderr=True, markup=False, highlight=False, emoji=False))


def _sized(target: Console) -> Console:
    if target.width > WIDTH or not target.is_terminal:
        target.width = WIDTH
    return target


@lru_cache(maxsize=1)
def _talking() -> type[Console]:
    from rich.console import Console

    class Talking(Console):
        """A console that takes the bar away before it says something."""

        def print(self, *words: Any, **how: Any) -> None:
            hush()
            super().print(*words, **how)

    return Talking


def cell(value: object) -> str:
    """One value as a person reads it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if 10_000 <= abs(value) < 1e15 else f"{value:,.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(plain(item) for item in value)
    return plain(value)


def print_table(
    out: Console, title: str, frame: pl.DataFrame, *, limit: int = 20, wrap: Sequence[str] = ("reason",)
) -> None:
    """Print the first rows of a frame; say how many are not shown."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    shown = [[cell(value) for value in row] for row in frame.head(limit).rows()]
    room = WIDTH - 3 * frame.width - 2  # two of padding and a line between columns
    widths = [
        max([len(name), *(len(row[place]) for row in shown)]) for place, name in enumerate(frame.columns)
    ]
    text = [place for place, dtype in enumerate(frame.dtypes) if not dtype.is_numeric()]
    while text and sum(widths) > room and max(widths[place] for place in text) > SHORT:
        widths[max(text, key=lambda place: widths[place])] -= 1  # the widest text gives way first
    for place, (name, dtype) in enumerate(frame.schema.items()):
        # one line a row: numbers and short words stay whole, long text is cut here and whole in --json and --out
        table.add_column(
            Text(name.replace("_", " ")),
            justify="right" if dtype.is_numeric() else "left",
            no_wrap=name not in wrap,
            overflow="ellipsis",
            width=None if name in wrap else widths[place],
        )
    for row in shown:
        table.add_row(*(Text(text) for text in row))
    out.print(table)
    if frame.height > limit:
        out.print(f"  … and {frame.height - limit:,} more")


def print_pairs(out: Console, pairs: Sequence[tuple[str, object]]) -> None:
    """Print aligned names and values."""
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        room = max(WIDTH - width - 2, SHORT)
        # a long word (a path, a digest) stays whole, to be copied
        lines = wrap(cell(value), room, break_long_words=False, break_on_hyphens=False) or [""]
        for number, line in enumerate(lines):
            out.print(f"{('' if number else name).ljust(width)}  {line}", soft_wrap=True)


def _default(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    raise TypeError


def dump(value: Any) -> str:
    """One JSON text; times in RFC 3339 with a ``Z``."""
    hush()
    return orjson.dumps(value, default=_default, option=orjson.OPT_UTC_Z).decode()


def print_json(frame: pl.DataFrame) -> None:
    """Print one JSON object a row on standard output."""
    hush()
    write = sys.stdout.write
    for part in frame.iter_slices(20_000):
        for row in part.iter_rows(named=True):
            write(dump(row) + "\n")


def print_files(paths: Sequence[Path]) -> None:
    """Print one JSON object a file that was written: ``file`` and ``bytes``."""
    for path in paths:
        sys.stdout.write(dump({"file": str(path), "bytes": path.stat().st_size}) + "\n")


@contextmanager
def progress_bar(title: str) -> Iterator[Any]:
    """Yield a callback ``(done, total, text)`` that draws on a terminal's standard error, else does nothing."""
    if not sys.stderr.isatty():
        yield lambda _done, _total, _text="": None
        return
    hush()
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=bar_console(), transient=True) as bar:
        task = bar.add_task(title, total=None, text="")

        def update(done: int, total: int | None, text: str = "") -> None:
            bar.update(task, completed=done, total=total, text=plain(text))

        yield update


def failing(found: Sequence[str | None], wanted: str | None, known: Sequence[str]) -> int:
    """Exit code for ``--fail-on``: 1 when any named verdict or state was found, else 0.

    Raises
    ------
    SettingsError
        For a name that is none of the known ones.
    """
    if not wanted:
        return 0
    from agentlens.errors import SettingsError

    names = [name.strip() for name in wanted.split(",") if name.strip()]
    if not names:
        raise SettingsError.value("--fail-on", wanted, f"one or more of {', '.join(map(str, known))}")
    for name in names:
        if name not in known:
            raise SettingsError.unknown("--fail-on name", name, known)
    return int(bool(set(names) & set(found)))
