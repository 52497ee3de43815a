"""Signatures, evidence and facts on real exports (skipped where the folder is not there)."""

from __future__ import annotations

import gzip
import json
import re
from itertools import groupby

import pytest

from tests.normalise.norm import facts, normaliser


def loaded(path):
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def lines(path):
    for line in loaded(path).splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def blocks(path, kind):
    for record in lines(path):
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        yield from (b for b in content or [] if isinstance(b, dict) and b.get("type") == kind)


def alert(signatures, fingerprints):
    """First event at which the default rule holds, by its definition."""
    for at in range(len(signatures)):
        for period, needed in ((1, 4), (2, 6), (3, 6)):
            start = at - needed + 1
            if start >= 0 and all(
                signatures[j] == signatures[j - period] and fingerprints[j] is not None
                and fingerprints[j] == fingerprints[j - period]
                for j in range(start + period, at + 1)
            ):  # fmt: skip
                return at
    return None


def test_discarded_edits_in_seven_runs(shared):
    """``git checkout <file>`` throws away edits in 7 of the 72 runs, and nowhere is a mention taken for one."""
    runs = set()
    for path in sorted((shared / "traces/mini-swe-gemini3/runs").iterdir()):
        for message in json.loads(loaded(path))["messages"]:
            found = re.findall(r"```bash\n(.*?)\n```", str(message["content"]), re.DOTALL)
            if (
                message["role"] == "assistant"
                and len(found) == 1
                and facts(found[0]).reset == "git_checkout_path"
            ):
                runs.add(path.name)
    assert len(runs) == 7


def test_polls_of_a_running_process_are_no_stand_still(shared):
    """20 polls of one shell: never four in a row with the same evidence."""
    made = normaliser()
    (path,) = (shared / "traces/terminal-bench-claude-code/runs").glob(
        "coder--jupyter-notebook-server.stream.jsonl*"
    )
    polls = {b["id"] for b in blocks(path, "tool_use") if b["name"] == "BashOutput"}
    seen = [
        made.seen("BashOutput", b["content"], None).fingerprint
        for b in blocks(path, "tool_result")
        if b["tool_use_id"] in polls
    ]
    assert len(seen) >= 20
    assert max(len(list(same)) for _, same in groupby(seen)) < 4


def test_no_op_commands_repeat(shared):
    """Empty and ``:`` commands are the same action each time, whatever their description says."""
    made = normaliser()
    signatures = {}
    for path in sorted((shared / "traces/terminal-bench-kimi").glob("*/agent/claude-code.txt*")):
        for block in blocks(path, "tool_use"):
            called = block["input"]
            plain = block["name"] == "Bash" and called.keys() <= {
                "command",
                "description",
            }  # a new timeout is news
            if plain and called.get("command", "x").strip() in ("", ":"):
                signatures.setdefault(called["command"].strip(), set()).add(
                    made.call("Bash", called).signature
                )
    assert signatures.keys() == {"", ":"}
    assert all(len(found) == 1 for found in signatures.values())


def test_equal_failures_of_a_shell_are_equal_evidence(shared):
    """Three equal failures whose output begins with a chunk id and a wall time have one fingerprint."""
    made = normaliser()
    prints = []
    for path in sorted((shared / "samples/codex").glob("rollout-*.jsonl")):
        for record in lines(path):
            payload = record.get("payload", {})
            output = payload.get("output")
            if payload.get("type") == "function_call_output" and "can't open file" in str(output):
                prints.append(made.seen("exec_command", output, None).fingerprint)
    assert len(prints) == 3
    assert len(set(prints)) == 1


@pytest.mark.slow
def test_intercode_alerts(shared):
    """2,514 runs alert on trimmed text; words of commands and queries add five, and bring others forward.

    The added runs repeat one query that only its spacing, keyword case or alias spelling (``AS``) tells apart.
    """
    made = normaliser()
    trimmed, words = set(), {}
    for path in sorted((shared / "traces/intercode").glob("*/*.json.gz")):
        tool = "bash" if path.parent.name == "bash" else "sql"
        for number, run in json.loads(loaded(path)).items():
            history = run["turn_history"]
            seen = [made.seen("env", text, None).fingerprint for text in history["observations"]]
            actions = history["actions"]
            seen += [None] * (len(actions) - len(seen))
            name = f"{path.parent.name}/{path.name}#{number}"
            if alert([made.call("env", {"action": a}).signature for a in actions], seen) is not None:
                trimmed.add(name)
            found = alert([made.call(tool, a).signature for a in actions], seen)
            if found is not None:
                words[name] = found
    assert len(trimmed) == 2514
    assert trimmed <= words.keys()
    assert sorted(words.keys() - trimmed) == [
        "sql/ic_sql_multiturn_gpt-3.5_10_turns.json.gz#412",
        "sql/ic_sql_multiturn_gpt-3.5_10_turns.json.gz#599",
        "sql/ic_sql_multiturn_starchat_10_turns.json.gz#859",
        "sql/ic_sql_multiturn_vicuna_10_turns.json.gz#22",
        "sql/ic_sql_multiturn_vicuna_10_turns.json.gz#441",
    ]
