"""Inspect logs: archives and documents, all that is typed in them."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from agentlens.detect.inferred import inferred_receipts
from agentlens.detect.loops import loops
from agentlens.detect.rules import laps
from agentlens.lake.direct import read_file
from agentlens.readers import registry
from agentlens.readers.inspect_ai import verdict
from agentlens.readers.source import Source
from tests.readers.lanes_made import NORMALISER
from tests.readers.merging import merged, of_kind
from tests.readers.reading import records
from tests.readers.test_real_loops import events as assembled

if TYPE_CHECKING:
    from pathlib import Path

EVAL = {"eval_id": "e1", "run_id": "r1", "task": "quiz", "model": "m", "packages": {"inspect_ai": "0.3"}}


def at(second: int) -> str:
    return f"2026-10-05T08:00:{second:02}.000000+00:00"


def event(kind: str, second: int, **more: Any) -> dict[str, Any]:
    return {"event": kind, "timestamp": at(second), "uuid": f"{kind}-{second}", **more}


def tool(second: int, result: Any = "x", **more: Any) -> dict[str, Any]:
    base = {"id": f"c{second}", "function": "bash", "arguments": {"cmd": "ls"}, "completed": at(second + 1)}
    return event("tool", second, **{**base, "result": result, "events": [], **more})


def sample(*events: Any, **more: Any) -> dict[str, Any]:
    return {"id": "s", "epoch": 1, "events": list(events), **more}


def document(*samples: Any) -> bytes:
    return json.dumps({"version": 2, "status": "success", "eval": EVAL, "samples": list(samples)}).encode()


def zipped(*samples: Any, header: bool = True, kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", kind) as out:
        out.writestr("_journal/start.json", json.dumps({"version": 2, "eval": EVAL}))
        for one in samples:
            out.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        if header:
            out.writestr("header.json", json.dumps({"version": 2, "status": "success", "eval": EVAL}))
    return sink.getvalue()


def told(*events: Any, **more: Any) -> list[dict[str, Any]]:
    return merged(records(document(sample(*events, **more)))[0])


def test_archive_and_document_give_the_same() -> None:
    """Also an archive whose writer was killed before its header."""
    one = sample(tool(1), tool(3, "y"), scores={"includes": {"value": "C"}})
    two = {**sample(tool(1)), "epoch": 2}
    found = [
        merged(records(data)[0])
        for data in (document(one, two), zipped(one, two), zipped(one, two, header=False))
    ]
    assert found[0] == found[1] == found[2]
    assert {e["run_id"] for e in found[0]} == {"e1/s_epoch_1", "e1/s_epoch_2"}
    assert {e["task_group"] for e in found[0]} == {"quiz/s"}


def test_a_call_has_its_times_its_type_of_error_and_may_be_pending() -> None:
    """An error's message is the evidence where there is no result; a cut result is none."""
    found = of_kind(
        told(
            tool(1),
            tool(3, "", error={"type": "timeout", "message": "too slow"}),
            event("tool", 5, id="p", function="bash", arguments={}, pending=True),
            tool(7, "head...", truncated=[10, 5]),
            tool(9, "\nThe output of your call to bash was too long to be displayed.\nHere is"),
        ),
        "tool",
    )
    assert [(e.get("result"), e.get("error_class"), e["open"]) for e in found] == [
        ("x", None, False),
        ("too slow", "timeout", False),
        (None, None, True),
        (None, None, False),
        (None, None, False),
    ]
    assert found[0]["ended_at"] - found[0]["at"] == 1_000_000


def test_texts_stored_apart_are_put_back() -> None:
    """In arguments and results; an unknown reference stays one."""
    found = of_kind(
        told(
            tool(1, "attachment://aa", arguments={"cmd": ["tc://bb"]}),
            tool(3, "attachment://zz"),
            attachments={"aa": "long", "bb": "ls"},
        ),
        "tool",
    )
    assert [(e["args"], e["result"]) for e in found] == [
        ({"cmd": ["ls"]}, "long"),
        ({"cmd": "ls"}, "attachment://zz"),
    ]


def test_agents_are_lanes_and_a_handoff_is_accepted_by_the_span_below_it(tmp_path: Path) -> None:
    """The call names the span of the agent it started; what a grader does is not the agent's."""
    rows = [
        event("span_begin", 1, id="main", type="solver", name="react", parent_id=None),
        event("span_begin", 2, id="t", type="tool", name="transfer_to_web", parent_id="main"),
        event("span_begin", 3, id="web", type="agent", name="web", parent_id="t"),
        tool(4, span_id="web"),
        event("span_end", 6, id="web"),
        tool(2, "ok", function="transfer_to_web", agent="web", agent_span_id="web", span_id="main", uuid="h"),
        event("span_begin", 8, id="sc", type="scorer", name="grade", parent_id=None),
        event("model", 9, model="m", output={"usage": {"input_tokens": 5, "output_tokens": 1}}, span_id="sc"),
    ]
    path = tmp_path / "log.json"
    path.write_bytes(document(sample(*rows)))
    frame = assembled([path])
    assert dict(frame.group_by("kind").agg(pl.col("agent").sort()).rows()) == {
        "message": [""],
        "agent": ["web"],
        "tool": ["web"],
        "handoff": [""],
        "model": ["scorer"],
    }
    receipts = inferred_receipts(frame.lazy()).collect()
    assert receipts["event"].to_list() == ["delegated", "accepted", "progress", "completed"]
    assert receipts["recipient"][0] == "web"


def test_nested_events_of_old_logs_belong_to_the_agent_of_the_call() -> None:
    """Before spans, a call held the events of the agent it ran."""
    found = told(tool(1, function="ask_web", agent="web", events=[tool(2)]), tool(5, events=[tool(6)]))
    assert [(e["agent"], e["call_id"]) for e in of_kind(found, "tool")] == [
        ("web", "c2"),
        ("", "c5"),
        ("", "c6"),
    ]


def test_facts_between_the_calls() -> None:
    """Approvals, interruptions, compaction, checkpoints, branches and limits are events, none an action."""
    call = {"id": "c", "function": "bash", "arguments": {}}
    found = told(
        event("approval", 1, call=call, approver="human", decision="reject"),
        event("approval", 2, call=call, approver="auto", decision="approve"),
        event("interrupt", 3, source="user"),
        event("compaction", 4),
        event("checkpoint", 5, checkpoint_id="k1"),
        event("branch", 6, from_anchor="a1"),
        event("sample_limit", 7, type="message", limit=5),
        event(
            "model",
            8,
            model="m",
            retries=2,
            output={"usage": {"input_tokens": 3, "input_tokens_cache_read": 4}},
        ),
        event("invented", 9),
    )[1:]
    assert [(e["kind"], e.get("target"), e.get("error_class"), e.get("external_input")) for e in found] == [
        ("approval", "human", "reject", True),
        ("approval", "auto", None, None),
        ("wait", "user", None, True),
        ("compaction", None, None, None),
        ("checkpoint", "k1", None, None),
        ("fork", "a1", None, None),
        ("log", None, "limit_message", None),
        ("model", None, None, None),
        ("log", None, None, None),
    ]
    assert (found[7]["tokens_in"], found[7]["attempt"]) == (7, 3)


def test_attempts_at_a_sample_that_failed_are_told_and_kept_apart() -> None:
    """Each with the class of its error; what was done in it stands in its own lane."""
    tries = [{"message": "x", "traceback": "Traceback\n  f\nValueError: bad\n", "events": [tool(1)]}]
    found = told(tool(5), error_retries=tries)
    assert [(e["attempt"], e["error_class"]) for e in of_kind(found, "retry")] == [(1, "ValueError")]
    assert [e["agent"] for e in of_kind(found, "tool")] == ["attempt-1", ""]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("C", "passed"), (1, "passed"), (True, "passed"), ("1", "passed"), ("I", "failed"), (0.0, "failed"),
        (False, "failed"), (0.5, "unknown"), ("P", "unknown"), ("N", "unknown"), ({"a": 1}, "unknown"), (None, "unknown"),
    ],
)  # fmt: skip
def test_a_score_is_passed_failed_or_says_neither(value: Any, found: str) -> None:
    """A part of a score has no pass mark here."""
    assert str(verdict(value)) == found


def test_a_sample_that_broke_is_not_judged_and_claims_nothing() -> None:
    """A score of an attempt that ended in an error, and a limit, leave the outcome open."""
    done = {"choices": [{"message": {"role": "assistant", "content": "x"}, "stop_reason": "stop"}]}
    score = {"includes": {"value": "I"}}
    broken = told(tool(1), scores=score, output=done, error={"message": "RuntimeError: x", "traceback": ""})
    stopped = told(tool(1), scores=score, output=done, limit={"type": "token", "limit": 5})
    fine = told(tool(1), scores=score, output=done)
    outcomes = [[e["outcome"] for e in of_kind(found, "verdict")] for found in (broken, stopped, fine)]
    assert outcomes == [["unknown"], ["failed"], ["failed"]]
    assert [len(of_kind(found, "claim")) for found in (broken, stopped, fine)] == [0, 0, 1]


def test_a_log_without_events_is_read_from_its_messages() -> None:
    """Calls and answers are paired by id; an answer without its call is an action that is not known."""
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": "bash", "arguments": {"cmd": "ls"}},
                                                            {"id": "b", "function": "bash", "arguments": {"cmd": "x"}}]},
        {"role": "tool", "tool_call_id": "a", "function": "bash", "content": "ok"},
        {"role": "tool", "tool_call_id": "z", "function": "bash", "content": "", "error": {"type": "permission", "message": "no"}},
    ]  # fmt: skip
    found = of_kind(told(messages=messages), "tool")
    assert [(e.get("args"), e.get("result"), e.get("error_class"), e["open"]) for e in found] == [
        ({"cmd": "ls"}, "ok", None, False),
        (None, "no", "permission", False),
        ({"cmd": "x"}, None, None, True),
    ]


def test_hostile_members_are_set_aside_and_the_others_read() -> None:
    """Paths that lead out, encryption flags, broken JSON, growth without end, damage: one fault each."""
    good = sample(tool(1))
    sink = io.BytesIO(zipped(good))
    with zipfile.ZipFile(sink, "a", zipfile.ZIP_DEFLATED) as out:
        out.writestr("../samples/evil_epoch_1.json", "{}")
        out.writestr("/samples/evil_epoch_1.json", "{}")
        out.writestr("samples/bad_epoch_1.json", "{")
        out.writestr("samples/bomb_epoch_1.json", b" " * (300 << 20))
    found, report = records(sink.getvalue())
    assert len(of_kind(merged(found), "tool")) == 1
    assert len(report.faults) == 4
    for cut, kept in ((100, 0), (len(zipped(good)) - 30, 1)):
        found, report = records(zipped(good)[:cut], "inspect")
        assert len(of_kind(merged(found), "tool")) == kept
        assert report.faults
    flipped = bytearray(zipped(good, kind=zipfile.ZIP_STORED))
    place = flipped.index(b'"event"')
    flipped[place + 2] ^= 255
    assert len(records(bytes(flipped))[1].faults) == 1


def test_a_member_whose_name_is_empty_is_set_aside() -> None:
    """A name ends at its first zero byte."""
    data = zipped(sample(tool(1)), {**sample(), "id": "x"}).replace(
        b"samples/x_epoch_1", b"\0amples/x_epoch_1"
    )
    found, report = records(data)
    assert len(of_kind(merged(found), "tool")) == 1
    assert [fault.reason for fault in report.faults] == ["member '': it has no name"]


def test_a_zip_of_something_else_is_not_claimed() -> None:
    """Only the names of an Inspect log's members count."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as out:
        out.writestr("photo.jpg", "x")
    with pytest.raises(Exception, match="no known format"):
        records(sink.getvalue())


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [None], True])
def test_a_wrong_type_anywhere_is_never_an_exception(junk: Any) -> None:
    """Each field of events, samples and the log is replaced in turn."""
    rows = [tool(1, error={"type": "x"}), event("model", 2, output={"usage": {}}), event("span_begin", 3, id="a", type="agent"),
            event("span_end", 4, id="a"), event("approval", 5, call={"id": "c"})]  # fmt: skip
    for place, row in enumerate(rows):
        for key in row:
            records(document(sample(*rows[:place], {**row, key: junk}, *rows[place + 1 :])), "inspect")
    whole = sample(
        *rows, messages=[], scores={}, error_retries=[{}], attachments={}, transcript={}, output={}
    )
    for key in whole:
        records(document({**whole, key: junk}, junk), "inspect")
    for key in ("eval", "samples"):
        records(json.dumps({"eval": EVAL, "samples": [whole], key: junk}).encode(), "inspect")


def test_samples(shared: Path) -> None:
    """An archive whose five equal calls are a loop; every type of error; a graded answer about a picture."""
    folder = shared / "samples" / "inspect"
    paths = sorted(folder.iterdir())
    assert {registry.sniff(Source.of(path).head()).name for path in paths} == {"inspect"}
    frame = assembled([folder / "log_message_deduplication.eval"])
    calls = frame.filter(pl.col("kind") == "tool")
    assert calls["tool"].to_list() == ["bash"] * 5
    assert loops(frame.lazy(), laps()).collect()["verdict"].to_list() == ["working"] * 3 + ["stuck_loop"] * 2
    errors = assembled([folder / "log_tool_call_error.json"]).filter(pl.col("kind") == "tool")
    assert errors["error_class"].to_list() == [
        "parsing", "timeout", "parsing", "unicode_decode", "permission", "file_not_found", "is_a_directory",
        "limit", "approval", "unknown", "output_limit",
    ]  # fmt: skip
    assert errors["action_signature"].null_count() == 11
    graded = assembled([folder / "log_images_tc.json"]).filter(pl.col("kind") == "verdict")
    assert graded["outcome"].to_list() == ["failed"]


def test_a_real_archive_and_the_same_log_as_a_document_agree(shared: Path, tmp_path: Path) -> None:
    """The document is put together from the members."""
    path = shared / "samples" / "inspect" / "log_message_deduplication.eval"
    with zipfile.ZipFile(path) as opened:
        header = json.loads(opened.read("header.json"))
        header["samples"] = [
            json.loads(opened.read(name)) for name in opened.namelist() if name.startswith("samples/")
        ]
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(header))
    one, two = (assembled([each]).drop("source") for each in (path, whole))
    assert one.equals(two)


def test_what_a_subtask_did_is_kept() -> None:
    """Logs without spans nest the events of a subtask in its own."""
    inner = event("subtask", 1, name="web", events=[event("tool", 2, id="in", function="f", arguments={})])
    found = told(event("subtask", 0, name="outer", events=[inner]), tool(3))
    assert [(e["kind"], e["at"] // 1_000_000 % 60) for e in found if e["kind"] == "tool"] == [
        ("tool", 2),
        ("tool", 3),
    ]


@pytest.mark.parametrize("first", [True, False])
def test_a_refused_call_is_refused_once(first: bool) -> None:
    """Where the approver tells of it, the error of the call says nothing new."""
    call = {"id": "c", "function": "bash", "arguments": {}}
    refused = tool(2, "", id="c", error={"type": "approval", "message": "no"})
    approval = event("approval", 3 - 2 * first, call=call, approver="human", decision="reject")
    found = told(*([approval, refused] if first else [refused, approval]))
    assert [e.get("target") for e in found if e["kind"] == "approval"] == ["human"]
    assert sum(e["kind"] == "approval" for e in told(refused)) == 1


def test_an_attempt_given_up_is_named_by_its_message_where_its_traceback_names_nothing() -> None:
    """Either may be empty or cut."""
    found = told(error_retries=[{"message": "RateLimitError('x')", "traceback": "t"}])
    assert [e["error_class"] for e in found if e["kind"] == "retry"] == ["RateLimitError"]


def test_a_retried_evaluation_counts_its_copies_once(tmp_path: Path) -> None:
    """A sample that was done is copied into the new log; one that failed is carried out anew, a run of its own."""
    done = sample(tool(1), tool(3, "y"), uuid="u1", scores={"includes": {"value": "C"}})
    failed = {**sample(tool(5), uuid="u2", error={"message": "x"}), "id": "b"}
    again = {**sample(tool(7), uuid="u3"), "id": "b"}
    for name, own, samples in (("one.json", "e1", (done, failed)), ("two.json", "e2", (done, again))):
        about = EVAL | {"eval_id": own, "run_id": f"r-{own}", "task_id": "t1"}
        log = {**json.loads(document(*samples)), "eval": about}
        (tmp_path / name).write_text(json.dumps(log))
    found = read_file(tmp_path, NORMALISER).events.filter(pl.col("kind").is_in(["tool", "verdict"])).collect()
    assert found.group_by("run_id", "kind").len().sort("run_id", "kind").rows() == [
        ("t1/b_epoch_1/u2", "tool", 1),
        ("t1/b_epoch_1/u3", "tool", 1),
        ("t1/s_epoch_1/u1", "tool", 2),
        ("t1/s_epoch_1/u1", "verdict", 1),
    ]
