"""Records become events."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from agentlens.errors import SchemaError
from agentlens.model.event import CONTENT, EVENTS
from agentlens.model.record import RECORDS
from agentlens.normalise.assemble import assemble, assembled
from agentlens.normalise.evidence import AT_START

T0 = datetime(2026, 10, 5, 8, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def records(*rows: dict, **common: object) -> pl.LazyFrame:
    """Literal records; what is not given is null but for what every record carries."""
    always = {
        "run_id": "r",
        "agent": "",
        "kind": "tool",
        "tool": "search",
        "reader": "native",
        "reader_rank": 50,
    }
    always |= {"source_id": "s1", "source": "a.ndjson:1", "position_in": 0, "observed_version": "o1"}
    full = [
        dict.fromkeys(RECORDS) | always | {"position": place} | common | row
        for place, row in enumerate(rows, start=1)
    ]
    extra = {name: dtype for name, dtype in CONTENT.items() if any(name in row for row in rows)}
    return pl.LazyFrame(full, schema=dict(RECORDS) | extra)


def column(events: pl.LazyFrame, *names: str) -> list:
    frame = assemble(events).collect().select(names)
    return frame.rows() if len(names) > 1 else frame.to_series().to_list()


def test_schema_is_that_of_events():
    """The result has exactly the event table's columns and types, also for no rows at all."""
    assert assemble(records({})).collect().schema == EVENTS
    assert assemble(records()).collect().schema == EVENTS
    assert assemble(records({"args_text": "{}"})).collect().schema == pl.Schema(
        {**EVENTS, "args_text": pl.String()}
    )


def test_missing_column_is_named():
    """A frame that is no record table is refused by the name of what it lacks."""
    with pytest.raises(SchemaError, match="session"):
        assemble(records({}).drop("session"))


def test_start_and_end_of_one_call_are_one_event():
    """The end adds what the start did not know and never hides it; the place is that of the start."""
    rows = records(
        {"identity": "c1", "at": at(0), "action_signature": "x", "open": True, "source": "a:1"},
        {
            "identity": "c1",
            "ended_at": at(3),
            "observed_fingerprint": "f",
            "open": False,
            "tool": "",
            "source": "a:2",
        },
    )
    out = assemble(rows).collect()
    assert out.select("tool", "action_signature", "progress_fingerprint", "open", "source").rows() == [
        ("search", "x", "f", False, "a:1")
    ]
    assert out["ended_at"].to_list() == [at(3)]


def test_later_value_wins():
    """Of two values for one field the one of the later record stands."""
    rows = records(
        {"identity": "c", "at": at(0), "error_class": "rate_limit"},
        {"identity": "c", "ended_at": at(1), "error_class": "timeout"},
        {"identity": "c", "ended_at": at(2)},
    )
    assert column(rows, "error_class") == ["timeout"]


def test_identical_records_are_dropped_and_counted():
    """A record said again adds nothing; one without an identity is kept however often it stands there."""
    rows = records(
        {"identity": "c", "at": at(0)},
        {"identity": "c", "at": at(0), "source_id": "s2"},
        {"identity": "c", "ended_at": at(1)},
        {"at": at(2)},
        {"at": at(2)},
    )
    out = assembled(rows.collect())
    assert len(out.events) == 3
    assert out.counts.rows() == [("s1", 0, 1), ("s2", 1, 0)]


def test_nested_spans_of_one_call_are_one_event():
    """A span right inside one of the same call is told twice where no reader saw both; the next is another attempt."""
    span = {"reader": "otlp-json", "action_signature": "x"}
    rows = records(
        {**span, "span_id": "1", "identity": "span:1", "agent": None, "parent_span_id": "0", "at": at(0)},
        {**span, "span_id": "2", "identity": "span:2", "parent_span_id": "1", "at": at(1), "agent": None},
        {**span, "span_id": "3", "identity": "span:3", "parent_span_id": "1", "at": at(2), "agent": None},
        {**span, "span_id": "4", "identity": "span:4", "parent_span_id": "3", "at": at(3), "tool": "other"},
        {
            **span,
            "span_id": "5",
            "identity": "span:5",
            "parent_span_id": "4",
            "tool": "other",
            "action_signature": "y",
        },
        {**span, "span_id": "6", "parent_span_id": "2", "at": at(4), "agent": None, "tool": "below"},
        {**span, "span_id": "0", "identity": "span:0", "kind": "agent", "tool": "", "agent": "w"},
    )
    out = assembled(rows.collect())
    assert out.counts["folded"].sum() == 1
    tools = out.events.filter(kind="tool").sort("tool", "at").select("agent", "tool").rows()
    assert tools == [("w", "below"), ("", "other"), ("", "other"), ("w", "search"), ("w", "search")]
    native = rows.with_columns(reader=pl.lit("native"))
    assert assembled(native.collect()).counts.is_empty()


def test_identity_counts_inside_a_run_only():
    """Two runs may use the same call id."""
    rows = records({"identity": "c", "run_id": "a"}, {"identity": "c", "run_id": "b"})
    assert column(rows, "run_id") == ["a", "b"]


def test_session_names_the_run():
    """A trace with exactly one session, on whichever span it stands, is a run of that session."""
    rows = records(
        {"run_id": "t1"},
        {"run_id": "t1", "session": "s"},
        {"run_id": "t2", "session": "s"},
        {"run_id": "t3", "session": "u"},
        {"run_id": "t3", "session": "v"},
        {"run_id": "t4"},
    )
    assert column(rows, "run_id") == ["s", "s", "s", "t3", "t3", "t4"]


def test_identity_is_merged_after_the_session_is_known():
    """One span exported twice, once with the session and once without, is one event."""
    rows = records({"run_id": "t", "identity": "x"}, {"run_id": "t", "identity": "x", "session": "s"})
    assert column(rows, "run_id") == ["s"]


def test_agent_comes_from_the_nearest_span_that_names_one():
    """Depth does not matter; a named agent further down hides those above."""
    rows = records(
        {"agent": "root", "span_id": "1", "kind": "agent"},
        {"agent": None, "span_id": "2", "parent_span_id": "1", "tool": "a"},
        {"agent": None, "span_id": "3", "parent_span_id": "2", "tool": "b"},
        {"agent": "leaf", "span_id": "4", "parent_span_id": "3", "kind": "agent"},
        {"agent": None, "span_id": "5", "parent_span_id": "4", "tool": "c"},
        {"agent": None, "parent_span_id": "5", "tool": "d"},
        {"agent": None, "span_id": "9", "parent_span_id": "gone", "tool": "e"},
        {"agent": None, "tool": "f"},
    )
    got = dict(column(rows.with_columns(kind=pl.lit("tool")), "tool", "agent"))
    assert got == {"a": "root", "b": "root", "c": "leaf", "d": "leaf", "e": "", "f": "", "search": "root"}


def test_deep_chains_and_circles_of_spans():
    """A thousand spans deep is fine; spans that enclose each other name nobody and do not hang."""
    deep = [{"agent": "top", "span_id": "0"}]
    deep += [{"agent": None, "span_id": str(i), "parent_span_id": str(i - 1)} for i in range(1, 1000)]
    assert set(column(records(*deep), "agent")) == {"top"}
    circle = records(
        {"agent": None, "span_id": "a", "parent_span_id": "b"},
        {"agent": None, "span_id": "b", "parent_span_id": "a"},
        {"agent": None, "span_id": "c", "parent_span_id": "c"},
        {"agent": None, "span_id": "d", "parent_span_id": "a"},
    )
    assert column(circle, "agent") == [""] * 4


def test_span_of_another_run_is_no_parent():
    """Span ids are looked up inside the run."""
    rows = records(
        {"run_id": "a", "agent": "x", "span_id": "1"}, {"run_id": "b", "agent": None, "parent_span_id": "1"}
    )
    assert column(rows, "run_id", "agent") == [("a", "x"), ("b", "")]


def test_instances_of_one_name_are_lanes():
    """Several instances of a name are numbered by first appearance; a single one keeps the plain name."""
    rows = records(
        {"agent": "explore", "instance": "z", "at": at(0)},
        {"agent": "explore", "instance": "b", "at": at(1)},
        {"agent": "explore", "instance": "z", "at": at(2)},
        {"agent": "plan", "instance": "p", "at": at(3)},
        {"agent": "main", "at": at(4)},
        {"agent": "main", "instance": "m", "at": at(5)},
    )
    lanes = column(rows, "agent", "seq")
    assert lanes == [
        ("explore#1", 0),
        ("explore#1", 1),
        ("explore#2", 0),
        ("main", 0),
        ("main#1", 0),
        ("plan", 0),
    ]


@pytest.mark.parametrize("names", [("z", "b", "m"), ("b", "m", "z")])
def test_instances_without_times_are_numbered_by_their_place(names):
    """The first to appear in the file is the first, whatever it is called."""
    rows = records(
        *({"agent": "explore", "instance": name, "call_id": f"{k}"} for k, name in enumerate(names * 2))
    )
    assert column(rows, "agent", "call_id") == [
        (f"explore#{k + 1}", f"{k + again}") for k in range(3) for again in (0, 3)
    ]


def test_inherited_agent_brings_its_instance():
    """Tools below two spans of one agent name are two lanes."""
    rows = records(
        {"agent": "w", "instance": "1", "span_id": "1", "at": at(0)},
        {"agent": "w", "instance": "2", "span_id": "2", "at": at(1)},
        {"agent": None, "parent_span_id": "2", "at": at(2)},
    )
    assert column(rows, "agent") == ["w#1", "w#2", "w#2"]


@pytest.mark.parametrize(
    ("rows", "tools", "seqs"),
    [
        ([{"seq_given": 7, "tool": "b"}, {"seq_given": 3, "tool": "a"}], "ab", [3, 7]),
        ([{"seq_given": 1, "tool": "b", "at": at(2)}, {"seq_given": 1, "tool": "a", "at": at(1)}], "ab", [0, 1]),
        ([{"at": at(2), "tool": "b"}, {"at": at(1), "tool": "a"}], "ab", [0, 1]),
        ([{"tool": "b"}, {"tool": "a"}], "ba", [0, 1]),
        ([{"at": at(5), "tool": "a"}, {"tool": "b"}, {"at": at(9), "tool": "c"}], "abc", [0, 1, 2]),
        ([{"seq_given": 4, "tool": "a"}, {"tool": "b", "kind": "message"}, {"seq_given": 9, "tool": "c"}], "acb", [4, 9, 10]),
        ([{"seq_given": 4, "tool": "a", "at": at(1)}, {"tool": "b", "at": at(0)}], "ba", [0, 1]),
    ],
    ids=["number", "number twice", "time", "place", "time missing", "fact without", "action without"],
)  # fmt: skip
def test_order_in_a_lane(rows, tools, seqs):
    """By the export's number, else by time, else as written; the number is kept only where it is unique."""
    assert column(records(*rows), "tool", "seq") == list(zip(tools, seqs, strict=True))


def test_given_fingerprints_hold_for_the_whole_run():
    """One record that carries the key makes the run's evidence the given one, null where it is not."""
    rows = records(
        {"given_fingerprint": "g", "has_given": True, "observed_fingerprint": "o"},
        {"observed_fingerprint": "o"},
        {"run_id": "z", "observed_fingerprint": "o"},
    )
    assert column(rows, "progress_fingerprint", "fingerprint_version") == [
        ("g", "given-1"),
        (None, "given-1"),
        ("o", "o1"),
    ]


def test_durable_state_is_carried_forward():
    """Reading changes nothing; a change without a known result makes the state unknown until the next."""
    rows = records(
        {"observed_fingerprint": "1"},
        {"durable_fingerprint": "A", "change": True},
        {"observed_fingerprint": "2"},
        {"durable_fingerprint": "?", "change": True},
        {"observed_fingerprint": "3"},
        {"durable_fingerprint": "B", "change": True},
        durable_version="code-1",
    )
    assert column(rows, "progress_fingerprint") == [AT_START, "A", "A", None, None, "B"]
    assert set(column(rows, "fingerprint_version")) == {"code-1"}


def test_human_turn_reaches_the_next_action_of_its_lane():
    """The first action after it carries the mark, no other does."""
    rows = records(
        {"at": at(0)},
        {"at": at(1), "kind": "message", "external_input": True},
        {"at": at(2), "kind": "model"},
        {"at": at(3)},
        {"at": at(4)},
        {"at": at(2), "agent": "other"},
    )
    marks = column(rows, "agent", "kind", "external_input")
    assert marks == [
        ("", "tool", False),
        ("", "message", True),
        ("", "model", False),
        ("", "tool", True),
        ("", "tool", False),
        ("other", "tool", False),
    ]


def test_better_reader_keeps_the_steps():
    """Steps come from one reader; what only the other knows stays, what both tell is not counted twice."""
    timed = {"reader": "atif", "reader_rank": 60}
    rows = records(
        {**timed, "tool": "bash", "at": at(0)},
        {**timed, "kind": "model", "tokens_in": 5, "at": at(1)},
        {"reader": "stream", "tool": "bash"},
        {"reader": "stream", "kind": "model", "tokens_in": 5},
        {"reader": "stream", "kind": "claim", "target": "success"},
        {"reader": "result", "reader_rank": 10, "kind": "verdict", "outcome": "failed"},
    )
    assert sorted(column(rows, "reader", "kind")) == [
        ("atif", "model"),
        ("atif", "tool"),
        ("result", "verdict"),
        ("stream", "claim"),
    ]


def test_facts_of_a_run_stand_on_every_row():
    """A workflow named once holds for its run; two names fill nothing."""
    rows = records(
        {"workflow": "w"},
        {},
        {"run_id": "x", "workflow": "a"},
        {"run_id": "x", "workflow": "b"},
        {"run_id": "x"},
    )
    assert column(rows, "workflow") == ["w", "w", "a", "b", None]


def _random_records(seed: int) -> pl.DataFrame:
    draw = random.Random(seed)
    rows = []
    for place in range(80):
        timed = draw.random() < 0.9
        rows.append(
            {
                "run_id": draw.choice("abc"),
                "session": draw.choice([None, None, "s"]),
                "agent": draw.choice([None, "", "x"]),
                "instance": draw.choice([None, None, "1", "2"]),
                "span_id": str(place),
                "parent_span_id": draw.choice([None, str(draw.randrange(80))]),
                "identity": draw.choice([None, f"i{draw.randrange(30)}"]),
                "at": at(place) if timed else None,
                "kind": draw.choice(["tool", "tool", "message", "model"]),
                "external_input": draw.choice([None, True]),
                "source_id": draw.choice(["s1", "s2"]),
                "observed_fingerprint": draw.choice([None, "f", "g"]),
                "reader": draw.choice(["native", "other"]),
            }
        )
    return records(*rows).collect()


@pytest.mark.parametrize("seed", range(12))
def test_order_of_arrival_changes_nothing(seed):
    """The same records in any order, and any of them twice, give the same events."""
    frame = _random_records(seed)
    expected = assemble(frame.lazy()).collect()
    assert expected.select("run_id", "agent", "seq").is_unique().all()
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=seed)
    assert_frame_equal(assemble(shuffled.lazy()).collect(), expected)
    again = pl.concat([shuffled, frame.filter(pl.col("identity").is_not_null()).head(20)])
    assert_frame_equal(assemble(again.lazy()).collect(), expected)


@pytest.mark.parametrize("seed", range(4))
def test_an_unrelated_run_changes_nothing(seed):
    """Events of a run depend on that run's records alone."""
    frame = _random_records(seed).with_columns(session=pl.lit(None, pl.String))
    whole = assemble(frame.lazy()).collect()
    for run in ("a", "b", "c"):
        alone = assemble(frame.lazy().filter(pl.col("run_id") == run)).collect()
        assert_frame_equal(whole.filter(pl.col("run_id") == run), alone)


def test_struct_columns_are_merged():
    """A policy on the start and a lease on the end both reach the event."""
    policy = {
        "errors": ["*"],
        "interval_s": 1.0,
        "max_attempts": 3,
        "backoff_rate": 2.0,
        "max_delay_s": None,
        "jitter": 0.0,
    }
    lease = {"owner": "ops", "waits_on": "approval", "deadline": at(60), "renewals": 0, "max_renewals": 3}
    rows = records(
        {"identity": "c", "retry_policy": policy},
        {"identity": "c", "lease": lease},
        {"identity": "c", "lease": lease},
    )
    assert column(rows, "retry_policy", "lease") == [(policy, lease)]
