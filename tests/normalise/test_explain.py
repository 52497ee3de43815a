"""What is told about one record."""

from __future__ import annotations

import json

from agentlens.model.raw import RawEvent
from agentlens.normalise.explain import explain
from tests.normalise.norm import frame, normaliser


def told(**fields):
    return explain(RawEvent(run_id="r", **fields), normaliser())


def test_digests_are_those_of_the_row():
    """The explanation shows the very signature and fingerprint that the table holds."""
    event = {
        "tool": "Bash",
        "args": {"command": "ls|wc", "description": "d"},
        "result": "1\r\n",
        "error_class": "e",
    }
    (row,) = frame(event).to_dicts()
    answer = told(**event)
    assert answer["action"]["signature"] == row["action_signature"]
    assert answer["evidence"]["fingerprint"] == row["observed_fingerprint"]
    assert answer["versions"]["normaliser_version"] == row["normaliser_version"]
    assert answer["facts"]["change"] is row["change"]


def test_dropped_and_kept_with_the_rule():
    """Each field left out names its rule; nested ones have a path; the command is named."""
    answer = told(tool="Bash", args={"command": "ls  -a", "description": "d", "o": {"nonce": 1, "n": 2}})
    assert answer["action"]["dropped"] == [
        {"field": "description", "rule": "shell prose"},
        {"field": "o.nonce", "rule": "volatile"},
    ]
    assert answer["action"]["kept"] == ["command", "o.n"]
    assert answer["action"]["command_in"] == "command"
    assert answer["action"]["text"] == '{"command":"ls -a","o":{"n":2}}'


def test_why_there_is_none():
    """Missing arguments, missing results, stubs and kept volatile fields are said in words."""
    assert told(tool="a")["action"]["why"] == "arguments not exported"
    assert told(tool="a", result="[REDACTED]")["evidence"]["why"] == "stub: redacted"
    assert told(tool="a", error_class="timeout")["evidence"]["why"] == "digest of the error class"
    assert told(tool="x", args={"message_id": 1})["action"]["why"].startswith("volatile fields kept")
    assert told(tool="x", args={"a": 1})["action"]["why"] == ""


def test_masks_are_named():
    """A mask that took something out of the result is named."""
    assert told(tool="Bash", result="[1] 99")["evidence"]["masked"] == ["job number"]


def test_given_digests_are_shown_as_given():
    """What the export carries is shown and marked."""
    answer = told(tool="a", action_signature="s", progress_fingerprint="f", has_fingerprint=True)
    assert answer["action"]["signature"] == "s"
    assert answer["action"]["given"]
    assert answer["evidence"]["given_fingerprint"] == "f"


def test_answer_is_plain_data():
    """The explanation can be printed as JSON."""
    json.dumps(told(tool="a", args={"x": [1, {"y": "z"}]}, result={"k": None}))
