"""Log records by themselves: a call is one action, told once, and spans of the same run win."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import zstandard

from agentlens.lake.direct import read_file
from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.readers import proto_made
from tests.readers.lanes_made import NORMALISER
from tests.readers.reading import events, records
from tests.readers.spans_made import T0, TRACE, agent, attributes, lines, request, sid, tool, value

if TYPE_CHECKING:
    from pathlib import Path

    from agentlens.model.raw import RawEvent


def logs(*rows: tuple[str, Any, dict[str, Any], dict[str, Any]]) -> bytes:
    """Return one request a record: name, body, attributes and what else it carries."""
    return lines(
        *(
            {
                "resourceLogs": [
                    {
                        "scopeLogs": [
                            {
                                "logRecords": [
                                    {
                                        "timeUnixNano": str(T0 + n * 10**9),
                                        "eventName": name,
                                        "body": value(body),
                                        "attributes": attributes(plain),
                                        **more,
                                    }
                                ]
                            }
                        ]
                    }
                ]
            }
            for n, (name, body, plain, more) in enumerate(rows)
        )
    )


def asked(call_id: str, name: str, args: str) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": args}}
    return {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [call]}}


AT = {"traceId": TRACE, "spanId": sid(2)}
ROWS = (
    ("gen_ai.choice", asked("c1", "find", '{"q": "größe"}'), {}, AT),
    ("gen_ai.tool.message", {"id": "c1", "content": "7"}, {}, AT | {"spanId": sid(3)}),
    ("gen_ai.tool.message", {"id": "c1", "content": "7"}, {}, AT | {"spanId": sid(4)}),
    ("gen_ai.choice", asked("c2", "transfer_to_writer", "{}"), {}, AT),
)


def test_a_call_and_its_answer_are_one_action_however_often_prompts_repeat_it() -> None:
    """The call comes with the answer of the model, the result with the next prompt and every one after it."""
    first, second, third = events(logs(*ROWS))
    assert (first.kind, first.tool, first.call_id, first.open) == ("tool", "find", "c1", True)
    assert (second.identity, second.result, second.open) == (first.identity, "7", False)
    assert second.ended_at == T0 // 1000 + 1_000_000
    assert (third.kind, third.target) == ("handoff", "writer")


def test_spans_of_the_same_run_tell_its_calls_better(tmp_path: Path) -> None:
    """Nothing is counted twice where both signals were exported."""
    tmp_path.joinpath("logs.jsonl").write_bytes(logs(*ROWS))
    spans = request(agent(1, "Finder"), tool(2, "find", '{"q": "größe"}', "7"))
    tmp_path.joinpath("spans.jsonl").write_bytes(lines(spans))
    actions = (
        read_file(tmp_path, NORMALISER).events.filter(pl.col("kind").is_in(["tool", "handoff"])).collect()
    )
    assert actions.select("tool", "agent", "reader").rows() == [("find", "Finder", "otlp-json")]
    alone = read_file(tmp_path / "logs.jsonl", NORMALISER).events.collect()
    assert alone.filter(pl.col("kind") == "tool").select("tool", "open").rows() == [("find", False)]


def test_the_messages_of_the_newer_event_tell_the_same() -> None:
    """Parts of the output ask, parts of the input answer; both may be JSON text."""
    call = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": 1}}
    answer = {"type": "tool_call_response", "id": "c1", "response": {"exit_code": 2}}
    name = "gen_ai.client.inference.operation.details"
    found = events(
        logs(
            (
                name,
                "",
                {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [call]}])},
                AT,
            ),
            (name, "", {"gen_ai.input.messages": [{"role": "tool", "parts": [answer]}]}, AT),
        )
    )
    assert [(one.tool, one.call_id, one.error_class) for one in found] == [
        ("find", "c1", None),
        ("find", "c1", "exit_2"),
    ]


def test_what_coding_agents_write_is_whole_actions() -> None:
    """A record at the end of a call has its name, arguments and length; a session is the run."""
    plain = {"session.id": "s1", "tool_name": "Bash", "duration_ms": "1500", "tool_use_id": "u1"}
    failed = plain | {"success": "false", "tool_parameters": '{"bash_command": "ls"}'}
    found = events(
        logs(
            ("claude_code.user_prompt", "", {"session.id": "s1"}, {}),
            ("claude_code.tool_result", "", failed, {}),
            ("claude_code.api_error", "", {"session.id": "s1", "error": "x", "status_code": "529", "attempt": 2}, {}),
            ("codex.tool_result", "", {"conversation.id": "s2", "tool_name": "shell", "arguments": "{}", "output": "", "success": "true"}, {}),
            ("gemini_cli.tool_call", "", {"session.id": "s3", "function_name": "glob", "success": False, "error_type": "invalid"}, {}),
            ("claude_code.tool_decision", "", {"session.id": "s1", "tool_name": "Edit", "decision": "reject"}, {}),
        )
    )  # fmt: skip
    assert [(one.run_id, one.kind, one.tool, one.error_class) for one in found] == [
        ("s1", "message", "user", None),
        ("s1", "tool", "Bash", "tool_error"),
        ("s1", "model", "", "overloaded"),
        ("s2", "tool", "shell", None),
        ("s3", "tool", "glob", "invalid"),
        ("s1", "approval", "Edit", "rejected_by_user"),
    ]
    bash = found[1]
    assert bash.ended_at is not None
    assert (bash.at, bash.call_id, found[2].attempt) == (bash.ended_at - 1_500_000, "u1", 2)


def test_junk_is_a_report() -> None:
    """Wrong types anywhere cost only themselves."""
    rows = [(name, junk, {"gen_ai.output.messages": junk, "session.id": "s"}, AT) for name in ("gen_ai.choice", "gen_ai.tool.message", "tool_result", "gen_ai.client.inference.operation.details") for junk in (1, "x", [1, {"parts": 3}], {"message": [], "tool_calls": [3]})]  # fmt: skip
    found, report = records(logs(*rows), "otlp-logs")
    assert not report.faults
    assert all(one.kind == "tool" for one in found)  # type: ignore[union-attr]


def test_protobuf_tells_the_same_as_json(tmp_path: Path) -> None:
    """One request, several behind their lengths (plain, zstd, JSON); records with and without a trace, or a time."""
    plain = {"session.id": "s1", "tool_name": "Bash", "duration_ms": "1500", "tool_use_id": "u1"}
    seen = {"observedTimeUnixNano": str(T0)}
    for rows in (
        ROWS,
        (("claude_code.tool_result", {"success": "false"}, plain, seen), *ROWS),
        (("claude_code.user_prompt", "", {"session.id": "s1"}, {}),),
    ):
        data = logs(*rows)
        requests = [json.loads(line) for line in data.splitlines()]
        if seen in [row[3] for row in rows]:
            del requests[0]["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["timeUnixNano"]
            data = lines(*requests)
        messages = [proto_made.request(one) for one in requests]
        expected = [_shown(one) for one in events(data)]
        assert expected
        for written in (
            b"".join(messages),
            proto_made.prefixed(*messages),
            proto_made.prefixed(*map(zstandard.compress, messages)),
            proto_made.prefixed(*data.splitlines()),
        ):
            path = tmp_path / "logs.bin"
            path.write_bytes(written)
            assert registry.sniff(Source.of(path).head()).name == "otlp-logs"
            assert [_shown(one) for one in events(path)] == expected
            assert read_file(path, NORMALISER).events.collect().height


def _shown(one: RawEvent) -> tuple[Any, ...]:
    names = (
        "run_id",
        "kind",
        "tool",
        "args",
        "result",
        "at",
        "ended_at",
        "error_class",
        "call_id",
        "identity",
    )
    return tuple(getattr(one, name) for name in names)


def test_a_text_with_a_line_of_json_hides_no_protobuf(tmp_path: Path) -> None:
    """The bytes of a request may hold whole lines of JSON: they are words of a span."""
    one = request(tool(2, "find", 'first\n{"role": "user", "content": "x"}\nlast', "7"))
    path = tmp_path / "spans.pb"
    path.write_bytes(proto_made.request(one))
    assert registry.sniff(Source.of(path).head()).name == "otlp-proto"
