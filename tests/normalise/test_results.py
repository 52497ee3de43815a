"""What counts as evidence, and when two results are the same."""

from __future__ import annotations

import pytest

from agentlens.model.raw import ABSENT
from agentlens.normalise.results import evidence
from tests.normalise.norm import TABLES, fingerprint, normaliser


@pytest.mark.parametrize(
    "result",
    [
        ABSENT,
        None,
        "[REDACTED]",
        "<redacted>",
        "[REMOVED]",
        "***",
        "REDACTED",
        "[content omitted for privacy]",
        "Error details are redacted.",
        "[Old tool result content cleared]",
        "[output truncated]",
        "... [truncated]",
        "attachment://a1b2c3",
        "the first half of a long text ... [truncated]",
        "x" * 1000 + "\u2026 (truncated)",
        [{"type": "text", "text": "[REDACTED]"}],
        {"output": "[REDACTED]"},
        '{"output": "[REDACTED]"}',
    ],
)
def test_no_evidence(result):
    """A missing result, a redaction mark, a stub: null, never a digest of the mark."""
    assert fingerprint(result) is None


@pytest.mark.parametrize(
    "result",
    [
        "",
        " ",
        "ok",
        "removed",
        "3 lines removed from x [see log]",
        "table truncated",
        "0",
        0,
        False,
        [],
        {},
        "hidden files: a, b",
        {"output": "[REDACTED]", "rows": 5},
        "a ... [5 lines truncated] ... b",
        "[]",
        "xx",
    ],
)
def test_evidence(result):
    """An empty text is a result; so is a text that only mentions such words, or was cut in the middle as shown."""
    assert fingerprint(result) is not None


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a\r\nb", "a\nb"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("10%\r50%\r100%", "100%"),
        ("10%\r100%\r\nend", "100%\nend"),
        (" x\n", "x"),
        ('{"a": 1, "request_id": "x"}', {"a": 1, "request_id": "y"}),
        ({"a": 1.0}, '{"a":1}'),
        ("{'ok': True}", {"ok": True}),
        ([{"type": "text", "text": "x"}], "x"),
        ({"request_id": "x"}, {"request_id": "y"}),
    ],
)
def test_same_evidence(one, two):
    """Colours, progress bars, line ends, volatile names and encodings are no difference."""
    assert fingerprint(one) == fingerprint(two) is not None


@pytest.mark.parametrize(
    ("one", "two"), [("a", "b"), ("1", "2"), ("", "x"), ('{"a":1}', '{"a":2}'), ("a b", "a  b"), ([], {})]
)
def test_different_evidence(one, two):
    """Numbers and inner spacing count for tools without masks."""
    assert fingerprint(one) != fingerprint(two)


@pytest.mark.parametrize(
    ("tool", "one", "two"),
    [
        ("exec_command", "Chunk ID: 910dda\nWall time: 0.0 seconds\nProcess exited with code 2\nx", "Chunk ID: 0373b4\nWall time: 1.5 seconds\nProcess exited with code 2\nx"),
        ("run_shell_command", {"output": "Exit Code: 2\nProcess Group PGID: 16383\n"}, {"output": "Exit Code: 2\nProcess Group PGID: 9\n"}),
        ("Bash", "[1] 4711", "[1] 4712"),
        ("Bash", "== 1 failed, 2 passed in 0.12s ==", "== 1 failed, 2 passed in 3.40s =="),
        ("Bash", "no tests ran in 0.01s", "no tests ran in 0.02s"),
        ("Bash", "== 2 errors in 0.12s ==", "== 2 errors in 1.12s =="),
        ("Bash", "Ran 3 tests in 0.002s\n\nOK", "Ran 3 tests in 1.9s\n\nOK"),
        ("Bash", "ok  \tpkg/a\t0.012s", "ok  \tpkg/a\t1.3s"),
        ("Bash", "<a.B object at 0x7f2a4c01d0a0>", "<a.B object at 0x7f2a4c01ffff>"),
        ("Bash", "real\t0m1.234s", "real\t0m9.1s"),
        ("Bash", "test result: FAILED. 1 passed; 1 failed; finished in 0.00s", "test result: FAILED. 1 passed; 1 failed; finished in 0.02s"),
    ],
)  # fmt: skip
def test_masks_of_shell_output(tool, one, two):
    """Chunk ids, process ids, durations and addresses name the call, not what was seen."""
    assert fingerprint(one, tool=tool) == fingerprint(two, tool=tool) is not None


@pytest.mark.parametrize(
    ("tool", "one", "two"),
    [
        ("exec_command", "Chunk ID: 910dda\nWall time: 0.0 seconds\nProcess exited with code 2\nx", "Chunk ID: 910dda\nWall time: 0.0 seconds\nProcess exited with code 0\nx"),
        ("Bash", "== 1 failed, 2 passed in 0.12s ==", "== 3 passed in 0.12s =="),
        ("search", "Ran 3 tests in 0.002s", "Ran 3 tests in 1.9s"),
        ("Bash", "rows in 5s window", "rows in 6s window"),
    ],
)  # fmt: skip
def test_masks_leave_the_rest(tool, one, two):
    """Exit codes and counts stay, and tools that are no shell keep every number."""
    assert fingerprint(one, tool=tool) != fingerprint(two, tool=tool)


def test_poll_of_a_background_process():
    """While the process runs each poll is a wait and sees the clock; once it has ended the clock is no progress."""

    def poll(status, time):
        text = f"<status>{status}</status>\n<stdout>\nx\n</stdout>\n<timestamp>{time}</timestamp>"
        return fingerprint(text, tool="BashOutput")

    assert poll("running", "07:11:51") != poll("running", "07:11:54")
    assert poll("completed", "07:11:51") == poll("completed", "07:11:54") is not None


def test_error_class_is_part_of_the_evidence():
    """Equal texts with different error classes differ; a class alone is evidence; a stub stays unknown."""
    assert fingerprint("x", error_class="timeout") != fingerprint("x")
    assert fingerprint(error_class="timeout") == fingerprint(None, error_class="timeout") is not None
    assert fingerprint(error_class="timeout") != fingerprint(error_class="rate_limit")
    assert fingerprint("", error_class="timeout") != fingerprint(error_class="timeout")
    assert fingerprint("[REDACTED]", error_class="timeout") is None


def test_images_in_results():
    """Screens are equal if their bytes are; the payload is in no digest text."""
    shots = [
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": c * 300}}]
        for c in "AAB"
    ]
    assert fingerprint(shots[0]) == fingerprint(shots[1]) != fingerprint(shots[2])
    told = evidence(TABLES.tool("look"), shots[0], TABLES)
    assert "AAAA" not in told.text


def test_progress_bar_takes_linear_time():
    """A long line that is overwritten is read once."""
    assert fingerprint("a" * 500_000 + "\rb" * 200_000 + "\nc") == fingerprint("b\nc")


def test_explained_masks_and_fields():
    """On request the masks that changed something and the fields left out are named."""
    tool = TABLES.tool("exec_command")
    told = evidence(tool, "Chunk ID: 1a\nWall time: 0.1 seconds\nx", TABLES, explain=True)
    assert (told.text, told.masked) == ("x", ("codex header",))
    told = evidence(TABLES.tool("t"), {"a": 1, "nonce": 2}, TABLES)
    assert told.dropped == (("nonce", "volatile"),)


def test_hostile_result_is_no_evidence():
    """Nesting beyond reason says nothing, and ends nothing."""
    deep = []
    for _ in range(3000):
        deep = [deep]
    assert fingerprint(deep) is None
    assert normaliser().seen("t", "[" * 50_000, None).fingerprint is not None
