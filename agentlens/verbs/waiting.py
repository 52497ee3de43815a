"""The bar that a terminal sees while a verb takes longer than a second; what is printed afterwards takes its place."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S: Final = 1.0
_CURRENT: list[Bar] = []


class Bar:
    """A bar on standard error that begins to be drawn after `PATIENCE_S`, from a thread of its own."""

    def __init__(self, title: str) -> None:
        self.title, self.state = title, (0, None, "")
        self.lock = threading.Lock()
        self.drawn: Any = None
        self.task: Any = None
        self.over = False
        self.timer = threading.Timer(PATIENCE_S, self.draw)
        self.timer.daemon = True
        self.timer.start()

    def draw(self) -> None:
        """Begin to draw, unless there is nothing to wait for any more."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from agentlens.verbs.console import bar_console

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
        )
        with self.lock:
            if self.over:
                return
            self.drawn = Progress(*columns, console=bar_console(), transient=True)
            done, total, text = self.state
            self.task = self.drawn.add_task(self.title, completed=done, total=total, text=text)
            self.drawn.start()

    def tell(self, done: int, total: int | None, text: str) -> None:
        """Show how far it is."""
        with self.lock:
            self.state = (done, total, text)  # type: ignore[assignment]
            if self.drawn is not None and not self.over:
                self.drawn.update(self.task, completed=done, total=total, text=text)

    def end(self) -> None:
        """Take the bar away; what it stood on is free for what is printed."""
        self.timer.cancel()
        with self.lock:
            self.over = True
            if self.drawn is not None:
                self.drawn.stop()
                self.drawn = None


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show a bar on a terminal's standard error while the body runs, from its second second until something is said."""
    if not sys.stderr.isatty():
        yield
        return
    _CURRENT.append(Bar(title))
    try:
        yield
    finally:
        hush()


def hush() -> None:
    """Take the bar away, before anything else is written."""
    while _CURRENT:
        _CURRENT.pop().end()


def tell(done: int, total: int | None, text: str = "") -> None:
    """Show how far the verb is, where a bar is waited with: a callback for the functions behind the verbs."""
    for bar in _CURRENT:
        bar.tell(done, total, text)
