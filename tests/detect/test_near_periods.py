"""One-edit periods by stitching equal the definition, word by word."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlens.detect.near_periods import NEAR_PERIODS, near_periods
from agentlens.errors import SettingsError


def frame(*words: str, evidence: list[str] | None = None) -> pl.LazyFrame:
    """One lane a word, one event a letter; `.` is an action that is not known."""
    rows = [
        {"run_id": f"r{n:02d}", "seq": 10 + i, "tool": "t", "action_signature": None if c == "." else c,
         "progress_fingerprint": "e" if evidence is None else evidence[n][i]}
        for n, word in enumerate(words)
        for i, c in enumerate(word)
    ]  # fmt: skip
    schema = {"run_id": pl.String, "seq": pl.Int64, "tool": pl.String, "action_signature": pl.String}
    return pl.LazyFrame(rows, schema={**schema, "progress_fingerprint": pl.String})


def is_periodic(word: list, p: int) -> bool:
    """By definition; `None` stands for a symbol that may be chosen, the same for all comparisons with it."""
    if None not in word:
        return all(word[j] == word[j - p] for j in range(p, len(word)))
    at = word.index(None)
    choices = {c for c in word if c is not None} | {"?"}
    return any(is_periodic([*word[:at], c, *word[at + 1 :]], p) for c in choices)


def by_definition(word: str, p: int) -> tuple[int, int]:
    """Longest exact and longest one-edit stretch: every segment, every edit, every symbol."""
    symbols = [c if c != "." else f"unknown {i}" for i, c in enumerate(word)]
    exact = near = 0
    for a in range(len(word)):
        for b in range(a, len(word)):
            part = symbols[a : b + 1]
            if is_periodic(part, p):
                exact = max(exact, len(part))
                near = max(near, len(part))
            for e in range(len(part)):
                if is_periodic([*part[:e], *part[e + 1 :]], p):  # the event was put in
                    near = max(near, len(part) - 1)
                if is_periodic([*part[:e], None, *part[e + 1 :]], p):  # it stands in another's place
                    near = max(near, len(part) - 1)
                if is_periodic([*part[:e], None, *part[e:]], p):  # one before it was left out
                    near = max(near, len(part))
    return exact, near


@given(
    words=st.lists(
        st.text("ab.", min_size=1, max_size=9) | st.text("abc", min_size=1, max_size=10),
        min_size=1,
        max_size=3,
    )
)
@settings(max_examples=120, deadline=None)
def test_stitched_runs_equal_the_definition(words):
    """Exact and near lengths of every lane and period, the lanes of one frame side by side."""
    found = near_periods(frame(*words), max_period=4).collect()
    assert found.schema == NEAR_PERIODS
    rows = {
        (run, p): (exact, near)
        for run, p, exact, near in found.select("run_id", "period", "exact", "near").rows()
    }
    for n, word in enumerate(words):
        for p in range(1, 5):
            assert rows[f"r{n:02d}", p] == by_definition(word, p), (word, p)


@given(word=st.text("abc", min_size=1, max_size=12))
@settings(max_examples=80, deadline=None)
def test_the_stretch_that_is_named_is_one(word):
    """What lies between ``from_seq`` and ``to_seq`` is periodic after the edit that is named, at its place."""
    for row in near_periods(frame(word), max_period=4).collect().iter_rows(named=True):
        part = list(word[row["from_seq"] - 10 : row["to_seq"] - 9])
        at = None if row["edit_seq"] is None else row["edit_seq"] - row["from_seq"]
        edited = {
            None: lambda part=part: part,
            "inserted": lambda part=part, at=at: [*part[:at], *part[at + 1 :]],
            "replaced": lambda part=part, at=at: [*part[:at], None, *part[at + 1 :]],
            "skipped": lambda part=part, at=at: [*part[:at], None, *part[at:]],
        }[row["edit"]]()
        assert is_periodic(edited, row["period"]), row
        assert row["near"] == len([c for c in edited if c is not None]), row


@pytest.mark.parametrize(
    ("word", "edit", "at", "exact", "near"),
    [
        ("abcabcxabcabc", "inserted", 16, 6, 12),
        ("abcabcaxcabcabc", "replaced", 17, 7, 14),
        ("abcabcbcabcabc", "skipped", 16, 8, 14),
        ("abcabcabc", None, None, 9, 9),
    ],
)
def test_each_edit_is_named_with_its_place(word, edit, at, exact, near):
    """A foreign event, a changed one and a missing one in the middle of a round of three."""
    row = near_periods(frame(word), max_period=3).collect().filter(pl.col("period") == 3).row(0, named=True)
    assert (row["edit"], row["edit_seq"], row["exact"], row["near"]) == (edit, at, exact, near)


def test_other_evidence_makes_another_event():
    """With ``lap`` the same actions with ever new evidence are no near period; ``none`` looks at actions alone."""
    lane = frame("abababab", evidence=["01234567"])
    assert near_periods(lane, max_period=2).collect()["near"].max() <= 3
    assert near_periods(lane, max_period=2, evidence="none").collect()["exact"].max() == 8


def test_a_milestone_and_a_human_turn_equal_nothing():
    """A stretch does not run over news."""
    lane = frame("aaaaaaaa").with_columns(milestone=pl.when(pl.col("seq").is_in([12, 15])).then(pl.lit("m")))
    row = near_periods(lane, max_period=1).collect().row(0, named=True)
    assert (row["exact"], row["near"]) == (2, 4)


@pytest.mark.parametrize("settings_", [{"max_period": 0}, {"evidence": "constant"}, {"evidence": "x"}])
def test_settings_out_of_range_are_refused(settings_):
    """One line says what is accepted."""
    with pytest.raises(SettingsError, match="accepted:"):
        near_periods(frame("ab"), **settings_)


def test_no_events_give_no_rows():
    """An empty table has the schema."""
    assert near_periods(frame()).collect().schema == NEAR_PERIODS
