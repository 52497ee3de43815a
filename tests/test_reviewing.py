"""Review: what goes out tells nothing, what comes back becomes labels, and how far reviewers agree."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest

from agentlens.calibrate.agreement import agreement
from agentlens.calibrate.label_store import LabelStore
from agentlens.cli import main
from agentlens.errors import InputError
from agentlens.lake import Lake
from agentlens.report.decisions import COLUMNS, read_decisions
from agentlens.reviewing import review_decisions, review_queue
from tests.report.test_page import words
from tests.report.test_triage import in_a_browser

FORMULA = "=1+1"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six stuck runs (one named like a formula) and thirty that work."""
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rows = []
    for n in range(36):
        run = FORMULA if n == 0 else f"r{n:02d}"
        for i in range(6):
            stuck = n < 6 and i > 0
            rows.append(
                {
                    "run_id": run,
                    "seq": i,
                    "tool": "t",
                    "args": {"q": 1 if stuck else i},
                    "result": "x" if stuck else i,
                }
            )
    source = tmp_path / "events.ndjson"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["ingest", str(source), "--into", str(tmp_path / "lake")]) == 0
    return tmp_path / "lake"


def decide(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def answers(key: pl.DataFrame, reviewer: str, *, onset: int = 1) -> list[dict[str, object]]:
    """What somebody who knows would say."""
    return [
        {
            "item": row["item"],
            "run_id": row["run_id"],
            "agent": row["agent"],
            "decision": "incident" if row["stratum"] == "flagged" else "healthy",
            "onset_seq": onset if row["stratum"] == "flagged" else "",
            "reviewer": reviewer,
        }
        for row in key.iter_rows(named=True)
    ]


def test_the_queue_mixes_flagged_runs_and_controls_and_shows_no_verdict(lake: Path) -> None:
    """Flagged runs and as many silent ones by known probability, in an order that tells nothing."""
    queue = review_queue(lake, size=6)
    assert dict(queue.key.group_by("stratum").len().iter_rows()) == {"flagged": 6, "silent": 6}
    assert queue.key.filter(pl.col("stratum") == "silent")["probability"].unique().to_list() == [6 / 30]
    strata = queue.key.sort("item")["stratum"].to_list()
    assert strata not in (sorted(strata), sorted(strata, reverse=True))
    body = queue.html.split("<main")[1].split("</main>")[0]
    for given in ("stuck_loop", "is-working", 'flagged"', "▼", 'class="inside'):
        assert given not in body
    assert "laps" not in words(queue.html.split("<script")[0])
    assert queue.html == review_queue(lake, size=6).html


def test_a_run_named_like_a_formula_is_inert_in_the_csv_and_comes_back(lake: Path, tmp_path: Path) -> None:
    """The cell begins with an apostrophe, and the name is the run's again when it is read."""
    queue = review_queue(lake, size=6)
    assert f'"\'{FORMULA}"' in queue.csv
    assert f'"{FORMULA}"' not in queue.csv
    path = tmp_path / "back.csv"
    blank = '"",' * 5 + '""'
    lines = [line.removesuffix(blank) + '"healthy","","","","","me"' for line in queue.csv.splitlines()[1:]]
    path.write_text("\n".join([queue.csv.splitlines()[0], *lines]), encoding="utf-8")
    told = read_decisions(path)
    assert set(told["run_id"]) == set(queue.key["run_id"])
    assert told["decision"].unique().to_list() == ["healthy"]


def test_decisions_become_labels_in_the_lake(lake: Path, tmp_path: Path) -> None:
    """Incidents with an onset are intervals; they carry reviewer and how they were found, and are appended once."""
    queue = review_queue(lake, size=6)
    path = decide(tmp_path / "a.csv", answers(queue.key, "ann"))
    found = review_decisions(lake, [path], queue.key)
    stored = LabelStore.of(Lake.open(lake)).read()
    assert stored.equals(found.labels.sort(stored.columns))
    ill = stored.filter(pl.col("label") == "incident")
    assert ill.select("scope", "onset_seq", "found_by", "source", "reviewer").unique().rows() == [
        ("interval", 1, "rule", "human", "ann")
    ]
    assert stored.filter(pl.col("label") == "healthy")["found_by"].unique().to_list() == ["audit"]
    estimated = {row["stratum"]: row for row in found.estimates.iter_rows(named=True)}
    assert (estimated["flagged"]["incidents"], estimated["flagged"]["estimated"]) == (6, 6.0)
    assert (estimated["silent"]["incidents"], estimated["silent"]["of"]) == (0, 30)
    assert 0.3 < estimated["silent"]["high"] < 0.5
    again = review_queue(lake, size=20)
    assert not set(again.key["run_id"]) & set(queue.key["run_id"])


def test_the_same_decisions_read_twice_are_labels_once(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is said again, under no newer version either; a decision that is taken back and given again is."""
    queue = review_queue(lake, size=6)
    path = decide(tmp_path / "a.csv", answers(queue.key, "ann"))
    first = review_decisions(lake, [path], queue.key)
    stored = LabelStore.of(Lake.open(lake)).read()
    again = review_decisions(lake, [path], queue.key)
    assert again.labels.is_empty()
    assert (first.metadata["already"], again.metadata["already"]) == ("0", str(stored.height))
    assert LabelStore.of(Lake.open(lake)).read().equals(stored)
    other = [row | {"decision": "healthy", "onset_seq": ""} for row in answers(queue.key, "ann")]
    changed = review_decisions(lake, [decide(tmp_path / "b.csv", other)], queue.key)
    assert set(changed.labels["label_version"]) == {"2"}
    back = review_decisions(lake, [path], queue.key)
    assert set(back.labels["label_version"]) == {"3"}


def test_reviewers_that_disagree_exclude_the_run_and_two_onsets_make_an_interval(
    lake: Path, tmp_path: Path
) -> None:
    """Nothing is settled by whoever came last."""
    queue = review_queue(lake, size=6)
    one, other = answers(queue.key, "ann"), answers(queue.key, "bob", onset=2)
    silent = next(i for i, row in enumerate(other) if row["decision"] == "healthy")
    other[silent] |= {"decision": "incident", "onset_seq": 0}
    paths = [decide(tmp_path / f"{n}.csv", rows) for n, rows in enumerate((one, other))]
    found = review_decisions(lake, paths, queue.key, append=False)
    row = found.labels.filter(pl.col("run_id") == other[silent]["run_id"]).row(0, named=True)
    assert (row["label"], row["kind"], row["reviewer"]) == ("exclude", "reviewers disagree", "ann+bob")
    ill = found.labels.filter(pl.col("label") == "incident")
    assert ill.select("onset_seq", "onset_hi_seq").unique().rows() == [(1, 2)]
    assert LabelStore.of(Lake.open(lake)).read().is_empty()
    assert found.agreement.select("items", "agreed", "onsets", "onset_median", "onset_overlap").rows() == [
        (12, 11, 6, 1.0, 0)
    ]


def test_a_newer_decision_is_a_newer_version(lake: Path, tmp_path: Path) -> None:
    """A flagged run that was labelled healthy is in the queue again, and the new label replaces the old one."""
    first = review_queue(lake, size=6)
    wrong = [row | {"decision": "healthy", "onset_seq": ""} for row in answers(first.key, "ann")]
    review_decisions(lake, [decide(tmp_path / "a.csv", wrong)], first.key)
    second = review_queue(lake, size=6)
    flagged = second.key.filter(pl.col("stratum") == "flagged")
    assert set(flagged["run_id"]) == set(first.key.filter(pl.col("stratum") == "flagged")["run_id"])
    found = review_decisions(lake, [decide(tmp_path / "b.csv", answers(second.key, "bob"))], second.key)
    assert found.labels.filter(pl.col("label") == "incident")["label_version"].unique().to_list() == ["2"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"decision": "maybe"}, "accepted: incident, healthy, unsure"),
        ({"reviewer": ""}, "no reviewer"),
        ({"onset_seq": "1e3"}, "onset_seq '1e3'"),
        ({"item": 99}, "item 99"),
        ({"decision": "healthy"}, "onset_seq beside the decision healthy; accepted: places of incidents"),
        ({"decision": "unsure", "onset_seq": "", "end_seq": 3}, "end_seq beside the decision unsure"),
        ({"onset_seq": "", "end_seq": 3}, "end_seq without onset_seq"),
        ({"onset_seq": 3, "onset_hi_seq": 2}, "places out of order"),
        ({"onset_seq": 1, "onset_hi_seq": 3, "end_seq": 2}, "places out of order"),
        ({"run_id": "another"}, "not in this queue"),
    ],
)
def test_what_is_no_decision_is_named_by_its_row(lake: Path, tmp_path: Path, row: dict, said: str) -> None:
    """One line: where, what, and what would do."""
    queue = review_queue(lake, size=6)
    rows = answers(queue.key, "ann")
    rows[3] |= row
    with pytest.raises(InputError, match=said):
        review_decisions(lake, [decide(tmp_path / "a.csv", rows)], queue.key)


def test_kappa_collapses_where_one_word_is_rare_and_ac1_does_not() -> None:
    """A worked example: 118 of 125 agreed, five times both say incident."""
    pairs = [("healthy", "healthy")] * 118 + [("healthy", "incident")] * 5 + [("incident", "healthy")] * 2
    rows = [(i, who, word) for i, pair in enumerate(pairs) for who, word in zip("ab", pair, strict=True)]
    frame = pl.DataFrame(rows, schema=["item", "reviewer", "decision"], orient="row")
    nothing = pl.lit(None, pl.Int64)
    found = agreement(frame.with_columns(onset_seq=nothing, onset_hi_seq=nothing)).row(0, named=True)
    assert found["observed"] == 118 / 125
    chance = (123 / 125) * (120 / 125) + (2 / 125) * (5 / 125)
    assert found["kappa"] == pytest.approx((118 / 125 - chance) / (1 - chance))
    assert found["kappa"] < 0
    rare = (2 / 125 + 5 / 125) / 2
    assert found["ac1"] == pytest.approx((118 / 125 - 2 * rare * (1 - rare)) / (1 - 2 * rare * (1 - rare)))
    assert found["ac1"] > 0.9
    assert found["onset_median"] is None


def test_review_from_the_command_line(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A queue, its CSV and key; decisions back as one label a line; nothing but a lake will do."""
    page = tmp_path / "queue" / "review.html"
    assert main(["review", str(lake), "--out", str(page), "--size", "3"]) == 0
    key = pl.read_parquet(page.with_name("review_key.parquet"))
    path = decide(tmp_path / "a.csv", answers(key, "ann"))
    capsys.readouterr()
    assert (
        main(["review", str(lake), "--out", str(page), "--decisions", str(path), "--dry-run", "--json"]) == 0
    )
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert main(["review", str(lake), "--out", str(page), "--decisions", str(path)]) == 0
    assert main(["review", str(tmp_path)]) == 2
    assert "kept in a lake" in capsys.readouterr().err


def test_a_browser_shows_the_forms_without_complaint(lake: Path, tmp_path: Path) -> None:
    """The page's own script is allowed by its digest, and nothing is decided yet."""
    dom, complaints = in_a_browser(tmp_path, review_queue(lake, size=6).html)
    assert complaints == ""
    assert "0 of 12 decided" in dom
    assert dom.count('class="ask"') == 12


def test_a_mistyped_onset_is_refused_before_it_is_stored(lake: Path, tmp_path: Path) -> None:
    """A place that the run does not have would stop every later calibration; with or without storing it is told."""
    queue = review_queue(lake)
    rows = answers(queue.key, "ann", onset=99)
    for append in (True, False):
        with pytest.raises(InputError, match="99"):
            review_decisions(lake, [decide(tmp_path / "a.csv", rows)], queue.key, append=append)
    assert LabelStore.of(Lake.open(lake)).read().is_empty()


def test_a_page_that_its_own_table_would_replace_is_refused(lake: Path, tmp_path: Path) -> None:
    """The CSV stands beside the page under the page's name."""
    with pytest.raises(InputError, match="would replace it"):
        review_queue(lake).write(tmp_path / "queue.csv")
    assert not (tmp_path / "queue.csv").exists()


def test_alerts_among_healthy_labels_are_never_the_whole_queue(lake: Path, tmp_path: Path) -> None:
    """With every run labelled healthy, as many that do not alert are drawn beside the six that do."""
    runs = review_queue(lake, size=36).key["run_id"]
    rows = "".join(f"{run},run,healthy\n" for run in runs)
    path = tmp_path / "labels.csv"
    path.write_text("run_id,scope,label\n" + rows, encoding="utf-8")
    queue = review_queue(lake, labels=path)
    assert dict(queue.key.group_by("stratum").len().iter_rows()) == {"flagged": 6, "control": 6}
    controls = queue.key.filter(pl.col("stratum") == "control")
    assert controls.select("of", "taken").unique().rows() == [(30, 6)]
    strata = queue.key.sort("item")["stratum"].to_list()
    assert strata not in (sorted(strata), sorted(strata, reverse=True))
    found = review_decisions(
        lake, [decide(tmp_path / "a.csv", answers(queue.key, "ann"))], queue.key, labels=path
    )
    assert set(found.labels.filter(pl.col("label") == "healthy")["found_by"]) == {"audit"}
    assert found.estimates.filter(pl.col("stratum") == "control")["of"].item() == 30


@pytest.mark.parametrize("text", ["", "run_id,label\n", "item;run_id;decision\n"])
def test_a_file_without_the_columns_is_refused_though_it_has_no_row(tmp_path: Path, text: str) -> None:
    """Nothing decided is something else than the wrong file."""
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"no column (item|agent)"):
        read_decisions(path)
