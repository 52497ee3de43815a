"""Ingest: what ends up in a lake, and what a second ingest changes."""

from __future__ import annotations

import gzip
import io
import sys
from dataclasses import replace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from agentlens.errors import InputError, LakeError, SettingsError
from agentlens.lake import Lake, ingest, plan, read_file, rewrite
from agentlens.lake.store import bucket_of
from agentlens.model.event import CONTENT, EVENTS
from agentlens.model.receipt import canonical
from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables
from agentlens.readers import registry
from agentlens.readers.source import Source
from tests.lake.exports import NORMALISER, event, events, receipt, run_of, tree, write


def put(sources, lake, **more):
    return ingest(sources, lake, normaliser=more.pop("normaliser", NORMALISER), **more)


def statuses(report):
    return [source.status for source in report.sources]


def test_whole_runs_in_one_bucket_in_order(tmp_path):
    """Each bucket file holds whole runs sorted by run, lane and number; the manifest's counts are the rows."""
    rows = [row for seq in range(6) for run in range(40) for row in [event(f"r{run}", seq)]]
    report = put(write(tmp_path / "a.ndjson", *rows), tmp_path / "lake")
    lake = Lake.open(tmp_path / "lake")
    seen = []
    for part in lake.buckets():
        frame = part.collect()
        assert frame.schema == EVENTS
        assert_frame_equal(frame, frame.sort("run_id", "agent", "seq"))
        assert len({bucket_of(run, lake.manifest.bucket_count) for run in frame["run_id"]}) == 1
        seen += frame["run_id"].unique().to_list()
    assert sorted(seen) == sorted({f"r{run}" for run in range(40)})
    assert (report.runs, report.events, report.records) == (40, 240, 240)
    assert lake.events().collect().height == 240


def test_parts_are_in_the_order_of_buckets_but_for_huge_ones(tmp_path):
    """Each bucket once, whole; what is far larger than a part comes last, wherever its bucket stands."""
    rows = [row for run in range(40) for row in run_of(f"r{run}", 3)]
    put(write(tmp_path / "a.ndjson", *rows), tmp_path / "small")
    first = min(f"r{run}" for run in range(40) if bucket_of(f"r{run}", 4) == 0)
    put(write(tmp_path / "b.ndjson", *rows, *run_of(first, 400)), tmp_path / "lake")
    plain, lake = Lake.open(tmp_path / "small"), Lake.open(tmp_path / "lake")

    def buckets(found, rows):
        return [
            sorted({bucket_of(run, 4) for run in part.collect()["run_id"]}) for _, part in found.parts(rows)
        ]

    assert lake.manifest.bucket_count == 4
    assert buckets(plain, 1) == [[0], [1], [2], [3]]
    assert [number for part in buckets(lake, 60) for number in part] == [1, 2, 3, 0]
    assert [number for part in buckets(lake, 300) for number in part] == [0, 1, 2, 3]
    assert sum(count for count, _ in lake.parts(60)) == lake.events().collect().height


def test_same_source_again_changes_no_byte(tmp_path):
    """A second ingest of an unchanged source leaves every file of the lake as it was."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    put(source, tmp_path / "lake")
    before = tree(tmp_path / "lake")
    report = put(source, tmp_path / "lake")
    assert statuses(report) == ["unchanged"]
    assert not report.changed
    assert tree(tmp_path / "lake") == before


def test_changed_source_replaces_its_own_rows(tmp_path):
    """After a change the lake is what a clean ingest of the same files makes; other sources keep theirs."""
    a = write(tmp_path / "a.ndjson", *run_of("r", 5), *run_of("gone", 3))
    b = write(tmp_path / "b.ndjson", *run_of("s", 4))
    put([a, b], tmp_path / "lake")
    write(a, *run_of("r", 7), *run_of("new", 2))
    report = put([a, b], tmp_path / "lake")
    assert statuses(report) == ["changed", "unchanged"]
    put([a, b], tmp_path / "clean")
    assert_frame_equal(events(tmp_path / "lake"), events(tmp_path / "clean"))
    assert "gone" not in events(tmp_path / "lake")["run_id"]


def test_order_and_number_of_ingests_do_not_matter(tmp_path):
    """A run spread over three files is assembled once, in whatever order and steps the files come."""
    rows = [event("r", seq, call_id=f"c{seq}") for seq in range(9)]
    files = [
        write(tmp_path / f"{name}.ndjson", *rows[low : low + 4])
        for name, low in (("a", 0), ("b", 3), ("c", 5))
    ]
    put(files, tmp_path / "at-once")
    for file in reversed(files):
        put(file, tmp_path / "one-by-one")
    expected = events(tmp_path / "at-once")
    assert expected["seq"].to_list() == list(range(9))
    assert_frame_equal(events(tmp_path / "one-by-one"), expected)


def test_growing_lake_gets_more_buckets(tmp_path, monkeypatch):
    """A lake that has outgrown its buckets gets more of them, and holds the same events as a clean ingest."""
    monkeypatch.setattr(rewrite, "BUCKET_ROWS", 10)
    first = write(tmp_path / "a.ndjson", *run_of("t", 3), event("t", 9, session="s"), *run_of("u", 6))
    put(first, tmp_path / "lake")
    assert Lake.open(tmp_path / "lake").manifest.bucket_count == 4
    second = write(tmp_path / "b.ndjson", *(row for run in range(40) for row in run_of(f"r{run}", 5)))
    write(first, *run_of("t", 4), *run_of("u", 6))
    put([first, second], tmp_path / "lake")
    assert Lake.open(tmp_path / "lake").manifest.bucket_count == 32
    put([first, second], tmp_path / "clean")
    assert_frame_equal(events(tmp_path / "lake"), events(tmp_path / "clean"))
    assert events(tmp_path / "lake").height == 210


def test_repeated_records_are_counted_for_their_source(tmp_path):
    """Records said twice across files are dropped once and reported."""
    rows = [event("r", seq, call_id=f"c{seq}") for seq in range(4)]
    files = [write(tmp_path / "a.ndjson", *rows), write(tmp_path / "b.ndjson", *rows[:3])]
    report = put(files, tmp_path / "lake")
    assert (report.events, report.dropped) == (4, 3)
    sources = Lake.open(tmp_path / "lake").sources()
    assert sources["dropped"].sum() == 3


def test_later_file_brings_the_session_of_an_earlier_trace(tmp_path):
    """The trace's events move to the run of the session, and back when that file loses it."""
    early = write(tmp_path / "early.ndjson", *run_of("trace-1", 3))
    late = write(tmp_path / "late.ndjson", event("trace-1", 7, session="s"), event("trace-2", 1, session="s"))
    put(early, tmp_path / "lake")
    put(late, tmp_path / "lake")
    assert events(tmp_path / "lake")["run_id"].to_list() == ["s"] * 5
    put([late, early], tmp_path / "clean")
    assert_frame_equal(events(tmp_path / "lake"), events(tmp_path / "clean"))
    write(late, event("trace-1", 7))
    put(late, tmp_path / "lake")
    assert events(tmp_path / "lake")["run_id"].to_list() == ["trace-1"] * 4


@pytest.mark.parametrize("seed", range(6))
def test_random_steps_equal_a_clean_ingest(tmp_path, seed):
    """Whatever sequence of changed, new and repeated files, the events are those of a clean ingest."""
    import random

    draw = random.Random(seed)
    files = [tmp_path / f"{name}.ndjson" for name in "abcd"]
    for _ in range(6):
        for file in draw.sample(files, 2):
            rows = [
                event(f"t{draw.randrange(6)}", draw.randrange(50), call_id=f"c{draw.randrange(20)}")
                | ({"session": f"s{draw.randrange(2)}"} if draw.random() < 0.3 else {})
                for _ in range(draw.randrange(1, 12))
            ]
            write(file, *rows)
        put([file for file in files if file.exists()], tmp_path / "lake")
    put([file for file in files if file.exists()], tmp_path / "clean")
    assert_frame_equal(events(tmp_path / "lake"), events(tmp_path / "clean"))


def test_ranges_of_lines_give_the_same_as_the_whole(tmp_path, monkeypatch):
    """A file cut into many ranges, read by two processes, gives the same rows, line numbers included."""
    rows = [row for run in range(30) for row in run_of(f"r{run}", 10, result="x" * 300)]
    source = write(tmp_path / "a.ndjson", *rows[:100], "{broken", *rows[100:])
    put(source, tmp_path / "whole")
    monkeypatch.setattr(plan, "CHUNK", 4_000)
    report = put(source, tmp_path / "ranges", workers=2)
    assert_frame_equal(events(tmp_path / "ranges"), events(tmp_path / "whole"))
    assert Lake.open(tmp_path / "ranges").sources().equals(Lake.open(tmp_path / "whole").sources())
    assert [(fault.position, fault.unit) for fault in report.sources[0].faults] == [(101, "line")]
    assert statuses(put(source, tmp_path / "ranges")) == ["unchanged"]


def test_long_lines_in_ranges(tmp_path, monkeypatch):
    """A range that begins with a line longer than what a format is told from is still read as lines."""
    rows = [event("r", seq, result="x" * (150_000 if seq % 2 else 10)) for seq in range(12)]
    source = write(tmp_path / "a.ndjson", *rows)
    monkeypatch.setattr(plan, "CHUNK", 100_000)
    put(source, tmp_path / "lake")
    assert events(tmp_path / "lake")["seq"].to_list() == list(range(12))


def _otlp_span(span: str, parent: str, **facts: str) -> dict:
    attributes = [
        {"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in facts.items()
    ]
    made = {"traceId": "a" * 32, "spanId": span * 16, "parentSpanId": parent * 16, "name": "x"}
    made |= {"startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000001000000000"}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [made | {"attributes": attributes}]}]}]}


def test_call_told_twice_across_ranges(tmp_path, monkeypatch):
    """Two nested instrumentations tell one call, and their spans stand in two ranges: it is still one event."""
    facts = {"gen_ai__tool__name": "search", "gen_ai__tool__call__arguments": '{"q": 1}'}
    inner = _otlp_span("b", "c", gen_ai__operation__name="execute_tool", **facts)
    outer = _otlp_span(
        "c", "d", openinference__span__kind="TOOL", tool__name="search", input__value='{"q": 1}'
    )
    source = write(tmp_path / "a.jsonl", inner, outer)
    monkeypatch.setattr(plan, "CHUNK", 300)
    report = put(source, tmp_path / "lake")
    assert report.sources[0].format == "otlp-json"
    assert events(tmp_path / "lake").filter(kind="tool").height == 1
    direct = read_file(source, NORMALISER).events.collect().filter(kind="tool")
    same = ["run_id", "agent", "at", "tool", "action_signature", "progress_fingerprint", "call_id"]
    assert_frame_equal(events(tmp_path / "lake").filter(kind="tool").select(same), direct.select(same))


def test_many_small_files(tmp_path):
    """Files of a folder are read in handfuls; each is a source of its own."""
    for number in range(300):
        write(tmp_path / "in" / f"{number}.ndjson", *run_of(f"r{number}", 2))
    report = put(tmp_path / "in", tmp_path / "lake", workers=2)
    assert (report.count("new"), report.runs, report.events) == (300, 300, 600)


def test_compressed_source(tmp_path):
    """A gzip file is read like the plain one."""
    plain = write(tmp_path / "a.ndjson", *run_of("r"))
    packed = tmp_path / "b.ndjson.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    put(packed, tmp_path / "lake")
    put(plain, tmp_path / "other")
    assert_frame_equal(events(tmp_path / "lake").drop("source"), events(tmp_path / "other").drop("source"))


def test_what_comes_through_pipes_does_not_replace_what_came_before(tmp_path, monkeypatch):
    """Standard input has no name, so its content names it: the same is known again, another is added."""
    for text, status in ((run_of("a"), "new"), (run_of("b"), "new"), (run_of("a"), "unchanged")):
        stream = io.TextIOWrapper(io.BytesIO(write(tmp_path / "x", *text).read_bytes()))
        monkeypatch.setattr(sys, "stdin", stream)
        assert statuses(put("-", tmp_path / "lake")) == [status]
    assert events(tmp_path / "lake")["run_id"].unique().sort().to_list() == ["a", "b"]


def test_faults_are_kept_with_line_and_reason(tmp_path):
    """What cannot be read is in the quarantine table; the rest of the file is in the lake."""
    source = write(tmp_path / "a.ndjson", event("r", 0), "{broken", event("r", 1), '{"run_id": "r", "tool"')
    report = put(source, tmp_path / "lake")
    assert (report.records, report.quarantined) == (2, 2)
    found = Lake.open(tmp_path / "lake").quarantine().collect()
    assert found.select("unit", "position").rows() == [("line", 2), ("line", 4)]
    assert found["reason"].str.len_chars().min() > 5
    write(source, event("r", 0))
    put(source, tmp_path / "lake")
    assert Lake.open(tmp_path / "lake").quarantine().collect().is_empty()


def test_unknown_files_are_refused_and_the_rest_goes_on(tmp_path):
    """A folder may hold other files: each is named with its reason, and the lake holds the rest."""
    write(tmp_path / "in" / "a.ndjson", *run_of("r"))
    (tmp_path / "in" / "notes.txt").write_text("nothing to see\n")
    (tmp_path / "in" / "empty.jsonl").write_text("")
    report = put(tmp_path / "in", tmp_path / "lake")
    assert sorted(statuses(report)) == ["new", "refused", "refused"]
    assert all(source.reason for source in report.sources if source.status == "refused")
    assert list(Lake.open(tmp_path / "lake").manifest.sources) == [str(tmp_path / "in" / "a.ndjson")]


def test_nothing_readable_is_an_error_and_leaves_nothing(tmp_path):
    """Where no source can be read there is one error, and no folder is left behind."""
    (tmp_path / "notes.txt").write_text("nothing to see\n")
    with pytest.raises(InputError, match=r"notes\.txt"):
        put(tmp_path / "notes.txt", tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


def test_source_that_cannot_be_read_any_more_keeps_its_rows(tmp_path):
    """A file that became unreadable is refused; what was read of it stays."""
    a = write(tmp_path / "a.ndjson", *run_of("r"))
    b = write(tmp_path / "b.ndjson", *run_of("s"))
    put([a, b], tmp_path / "lake")
    a.write_text("no trace any more\n")
    write(b, *run_of("s", 6))
    report = put([a, b], tmp_path / "lake")
    assert statuses(report) == ["refused", "changed"]
    assert events(tmp_path / "lake").group_by("run_id").len().sort("run_id").rows() == [("r", 5), ("s", 6)]


@pytest.mark.parametrize(
    "how",
    [{"format": "codex"}, {"sql": "SELECT run_id, tool FROM read_json(getvariable('source')) WHERE false"}],
)
def test_reading_that_gives_nothing_takes_nothing_away(tmp_path, how):
    """A wrong format, or a mapping that matches nothing, is refused for a source that has rows in the lake."""
    source, other = write(tmp_path / "a.ndjson", *run_of("r")), write(tmp_path / "b.ndjson", *run_of("s"))
    put([source, other], tmp_path / "lake")
    before = tree(tmp_path / "lake")
    with pytest.raises(InputError, match=r"no record was read .*stays") as raised:
        put(source, tmp_path / "lake", **how)
    assert ("the mapping gives no row" if "sql" in how else "payload") in str(raised.value)
    assert {**tree(tmp_path / "lake"), ".lock": ""} == {**before, ".lock": ""}
    assert statuses(put(source, tmp_path / "lake")) == ["unchanged"]


def test_source_whose_records_are_all_gone_keeps_its_rows_and_the_rest_goes_on(tmp_path):
    """A file all of whose lines are set aside now is refused; one that shrank to other records is not."""
    gone, shrunk = write(tmp_path / "a.ndjson", *run_of("r")), write(tmp_path / "b.ndjson", *run_of("s"))
    put([gone, shrunk], tmp_path / "lake")
    write(gone, {"record": "event", "kind": 3})
    write(shrunk, event("t", 0))
    report = put([gone, shrunk], tmp_path / "lake")
    assert statuses(report) == ["refused", "changed"]
    assert sorted(Lake.open(tmp_path / "lake").events().collect()["run_id"].unique()) == ["r", "t"]
    assert Lake.open(tmp_path / "lake").quarantine().collect().is_empty()


def test_source_without_any_record_says_so(tmp_path):
    """Where nothing was set aside and nothing came, the reason is told."""
    source = tmp_path / "s.jsonl"
    source.write_text('{"type":"summary","summary":"x","leafUuid":"u"}\n')
    (line,) = put(source, tmp_path / "lake").sources
    assert (line.status, line.records, line.reason) == ("new", 0, "no record was read as claude-code")


def test_dry_run_says_and_does_nothing(tmp_path):
    """A dry run tells what would be read; there is no lake afterwards."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    report = put(source, tmp_path / "lake", dry_run=True)
    assert (statuses(report), report.dry_run, report.changed) == (["new"], True, False)
    assert not (tmp_path / "lake").exists()
    put(source, tmp_path / "lake")
    assert statuses(put(source, tmp_path / "lake", dry_run=True)) == ["unchanged"]


def test_dry_run_names_formats_and_what_would_be_refused(tmp_path):
    """The format of each source as it would be read, or was; a file of no known one would be refused."""
    source, other = write(tmp_path / "a.ndjson", *run_of("r")), tmp_path / "notes.txt"
    other.write_text("no trace\n")
    for status in ("new", "unchanged"):
        report = put([source, other], tmp_path / "lake", dry_run=True)
        told = [(one.status, one.format) for one in report.sources]
        assert told == [(status, "native"), ("refused", "")]
        assert not report.nothing_read
        put(source, tmp_path / "lake")
    assert put(other, tmp_path / "lake", dry_run=True).nothing_read


def test_new_reader_key_or_settings_read_again(tmp_path, monkeypatch):
    """Rows made by another reader, key or definition are made again, and the report says which."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    other = write(tmp_path / "b.ndjson", *run_of("s"))
    put([source, other], tmp_path / "lake")
    key = Normaliser(key=Key(b"another key of at least sixteen bytes"), tables=Tables.load())
    report = put(source, tmp_path / "lake", normaliser=key)
    assert statuses(report) == ["reread"]
    assert report.sources[0].reason.startswith("key ")
    assert any("another key" in note for note in report.notes)
    kept = Normaliser(key=key.key, tables=key.tables, keep_content=True)
    assert statuses(put(source, tmp_path / "lake", normaliser=kept)) == ["reread"]
    newer = tuple(replace(found, version=found.version + 1) for found in registry.FORMATS)
    monkeypatch.setattr(registry, "FORMATS", newer)
    report = put(source, tmp_path / "lake", normaliser=kept)
    assert statuses(report) == ["reread"]
    assert "reader native" in report.sources[0].reason


def test_content_is_kept_only_when_asked_for(tmp_path):
    """Text stands in the lake only with the option; buckets written without it read as null."""
    put(write(tmp_path / "a.ndjson", *run_of("secret-less", result="top secret")), tmp_path / "lake")
    assert all(
        b"top secret" not in path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()
    )
    keeping = Normaliser(key=NORMALISER.key, tables=NORMALISER.tables, keep_content=True)
    put(write(tmp_path / "b.ndjson", *run_of("open", result="seen")), tmp_path / "lake", normaliser=keeping)
    found = events(tmp_path / "lake")
    assert found.schema == pl.Schema({**EVENTS, **CONTENT})
    texts = found.select("run_id", "result_text").unique().sort("run_id").rows()
    assert texts == [("open", "seen"), ("secret-less", None)]


def test_receipts_and_branches_are_kept_and_replaced(tmp_path):
    """Native receipts and branch receipts come back typed, and go with their source's next version."""
    branch = {"branch_id": "b", "parent_id": "p", "fork_point": "c1"}
    source = write(tmp_path / "a.ndjson", receipt("op-1"), branch, receipt("op-2", event_name=3))
    report = put(source, tmp_path / "lake")
    lake = Lake.open(tmp_path / "lake")
    assert lake.receipts().collect()["operation_id"].to_list() == ["op-1"]
    assert lake.branches().collect()["branch_id"].to_list() == ["b"]
    assert (report.sources[0].receipts, report.sources[0].quarantined) == (1, 1)
    write(source, receipt("op-9"))
    put(source, tmp_path / "lake")
    lake = Lake.open(tmp_path / "lake")
    assert lake.receipts().collect()["operation_id"].to_list() == ["op-9"]
    assert lake.branches().collect().is_empty()


def test_reading_without_a_lake_gives_the_same_events(tmp_path):
    """Events read directly are those a lake holds."""
    source = write(tmp_path / "a.ndjson", *run_of("r"), *run_of("s"), receipt("op-1"))
    put(source, tmp_path / "lake")
    direct = read_file(source, NORMALISER)
    assert_frame_equal(direct.events.collect(), events(tmp_path / "lake"))
    assert direct.receipts.collect().height == 1
    assert direct.report.records == 11


def test_progress_is_told(tmp_path):
    """Every step counts up to what was read, and the last one says done."""
    steps = []
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    put([source, write(tmp_path / "b.ndjson", *run_of("s"))], tmp_path / "lake", progress=steps.append)
    assert [step.events for step in steps] == sorted(step.events for step in steps)
    assert (steps[-1].stage, steps[-1].files_done, steps[-1].files, steps[-1].events) == ("done", 2, 2, 10)
    assert steps[-1].bytes_done == steps[-1].bytes > 0


def test_source_objects_and_settings_are_checked(tmp_path):
    """A `Source` is taken as it is; wrong settings and missing files are one clear line."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    put([Source(name="mine", path=source)], tmp_path / "lake")
    assert events(tmp_path / "lake")["source"].to_list()[0].startswith("mine:")
    for absurd in (0, 65, 100_000):
        with pytest.raises(SettingsError, match=f"workers = {absurd} is not allowed; accepted: 1 to 64"):
            put(source, tmp_path / "lake", workers=absurd)
    with pytest.raises(SettingsError, match="format"):
        put(source, tmp_path / "lake", format="nativ")
    with pytest.raises(InputError, match="nowhere"):
        put(tmp_path / "nowhere", tmp_path / "lake")
    with pytest.raises(InputError):
        put([], tmp_path / "lake")


def test_folder_that_holds_the_lake_too(tmp_path):
    """The lake's own files are no sources, so reading the folder around it again changes nothing."""
    write(tmp_path / "a.ndjson", *run_of("r"))
    assert statuses(put(tmp_path, tmp_path / "lake")) == ["new"]
    assert statuses(put(tmp_path, tmp_path / "lake")) == ["unchanged"]


def test_two_files_of_one_name_are_refused(tmp_path):
    """Rows could not be told apart; the same file given twice is one source."""
    one = Source.of(write(tmp_path / "a.ndjson", *run_of("r")))
    other = replace(Source.of(write(tmp_path / "b.ndjson", *run_of("s"))), name=one.name)
    with pytest.raises(InputError, match="two sources"):
        put([one, other], tmp_path / "lake")
    assert statuses(put([one, one], tmp_path / "lake")) == ["new"]
    assert events(tmp_path / "lake").height == 5


def test_folder_with_other_things_is_no_lake(tmp_path):
    """A folder that holds anything else is never written into."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    with pytest.raises(LakeError, match=r"a\.ndjson"):
        put(source, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.ndjson"]


def test_a_signed_field_outside_the_contract_is_checked_in_the_file_and_never_stored(tmp_path):
    """Read directly the text that was signed is at hand; a lake keeps nothing of the field."""
    plain = {"operation_id": "o", "handoff_id": "o/1", "event": "delegated", "at": 0, "author": "lead"}
    odd = {**plain, "note": "top secret", "deep": [[["x"]]], "mac": "00"}
    source = write(tmp_path / "receipts.ndjson", odd)
    direct = read_file(source, NORMALISER).receipts.collect()
    assert direct["signed"].item() == canonical(odd)
    put(source, tmp_path / "lake")
    assert Lake.open(tmp_path / "lake").receipts().collect()["signed"].to_list() == [None]
    stored = [path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    assert not any(b"top secret" in content for content in stored)
