"""The bar of a verb that takes longer than a second: on a terminal's standard error, and gone before anything is said."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from agentlens.verbs import waiting
from agentlens.verbs.console import console, dump

ROOT = Path(__file__).resolve().parents[1]
_SLOW = """
import sys, time
from agentlens.verbs import waiting
from agentlens.verbs.console import console
waiting.PATIENCE_S = 0.05
with waiting.waiting("agentlens loops"):
    waiting.tell(3, 8, "buckets")
    time.sleep(1.5)
    console().print("said")
"""


class Terminal(io.StringIO):
    """Something that says it is a terminal."""

    def isatty(self) -> bool:
        """It does."""
        return True


def no_patience(monkeypatch: pytest.MonkeyPatch, said: io.StringIO) -> None:
    """Standard error is given, and the bar is drawn at once."""
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(waiting, "PATIENCE_S", 0)


def in_a_terminal(code: str) -> tuple[str, str]:
    """Run code with standard error on a terminal; give what stood there and on standard output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    seen = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            got = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not got:
            break
        seen += got
    out = process.stdout.read().decode() if process.stdout else ""
    process.wait(60)
    if process.stdout:
        process.stdout.close()
    os.close(ours)
    return seen.decode(), out


def test_a_terminal_sees_what_is_waited_for_and_nothing_of_it_stays() -> None:
    """The name of the verb, what it is at, the time; cleared, and never on standard output."""
    seen, out = in_a_terminal(_SLOW)
    assert "agentlens loops" in seen
    assert "buckets" in seen
    assert "0:00:0" in seen
    assert "\x1b[2K" in seen.rsplit("0:00:0", 1)[1]
    assert out == "said\n"


def test_no_terminal_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe or a log gets no bar, however long it takes."""
    said = io.StringIO()
    no_patience(monkeypatch, said)
    with waiting.waiting("agentlens loops"):
        waiting.tell(1, 2, "x")
        assert waiting._CURRENT == []
    assert said.getvalue() == ""


@pytest.mark.parametrize("say", [lambda: console().print("x"), lambda: dump({})], ids=["print", "json"])
def test_whatever_is_said_takes_the_place_of_the_bar(monkeypatch: pytest.MonkeyPatch, say) -> None:
    """Text and JSON end it; telling how far it is afterwards does nothing."""
    no_patience(monkeypatch, Terminal())
    with waiting.waiting("agentlens loops"):
        assert len(waiting._CURRENT) == 1
        say()
        assert waiting._CURRENT == []
        waiting.tell(1, 2, "x")


def test_an_error_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of a bad input stands alone."""
    no_patience(monkeypatch, Terminal())

    def fails() -> None:
        with waiting.waiting("agentlens loops"):
            raise ValueError("bad input")

    with pytest.raises(ValueError, match="bad input"):
        fails()
    assert waiting._CURRENT == []
