"""The report with labels: what it counts, where it puts the blame, and what a browser shows of it."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

from agentlens.calibrate.labels import conform_labels
from agentlens.detect.profile_rules import RuleBook
from agentlens.errors import InputError
from agentlens.model.handoff import HANDOFFS
from agentlens.report import charts
from agentlens.report.cases import Bench
from agentlens.report.causes import CAUSES, causes
from agentlens.report.evaluation import evaluate
from agentlens.report.labelled import truth_of
from agentlens.report.misses import near_misses
from agentlens.report.pages import report_page
from agentlens.report.slices import slices
from tests.report.lanes import START, filled
from tests.report.made import events, lane, material
from tests.report.test_page import words
from tests.report.test_triage import HOSTILE, in_a_browser


def told(**runs: str) -> pl.DataFrame:
    """Labels: ``run="healthy"``, or the onset of an incident as a number."""
    rows = []
    for run, what in runs.items():
        row = {
            "run_id": run,
            "scope": "run",
            "label": what,
            "onset_seq": None,
            "task_group": f"task of {run}",
        }
        if what.isdigit():
            row |= {"scope": "interval", "label": "incident", "onset_seq": int(what), "kind": "loop"}
        rows.append(row)
    return conform_labels(pl.DataFrame(rows, infer_schema_length=None))


def fleet() -> tuple[pl.DataFrame, pl.DataFrame]:
    """A detected incident, a missed one, a false alert on a poll, calm runs, a run nobody labelled."""
    frame = events(
        lane("ill", "PQ" + "AB" * 5, "pq" + "xy" * 5),
        lane("missed", "PQ" + "AAA" + "RS", "pq" + "xxx" + "rs"),
        lane("poll", "A" * 6 + "AR", "xxxxxx" + "zr"),
        *[lane(f"calm{i}", "ABCDEFG") for i in range(3)],
        lane("nobody", "A" * 5, "x" * 5),
    )
    calm = {f"calm{i}": "healthy" for i in range(3)}
    return frame, told(ill="2", missed="2", poll="healthy", **calm)


def held(frame: pl.DataFrame, labels: pl.DataFrame, **more: object):
    made = material(frame, **more)
    found = evaluate(made, labels, None)
    return made, found, Bench.of(made, truth_of(found))


def test_the_verdict_box_counts_runs_and_incidents() -> None:
    """One of four healthy runs alarms, one of two incidents is found; unlabelled is counted apart."""
    frame, labels = fleet()
    page = report_page(material(frame), labels=labels)
    box = dict(page.tables["verdict_box"].select("measure", "counts").iter_rows())
    assert box["false-positive rate per healthy run, averaged over task groups"] == "1 of 4 runs in 4 groups"
    assert box["incidents detected"] == "1 of 2"
    ledger = {row["label"]: row for row in page.tables["ledger"].iter_rows(named=True)}
    assert {name: (row["runs"], row["flagged_runs"]) for name, row in ledger.items()} == {
        "healthy": (4, 1),
        "incident": (2, 1),
        "unlabelled": (1, 1),
    }
    said = words(page.html)
    assert "In force: laps, without a certificate." in said
    assert "label: healthy run; false alert; cause: poll" in said


def test_a_profile_shows_its_status_and_what_flatters() -> None:
    """Status, limit and the numbers of the calibration; labels it was calibrated on are named as such."""
    from agentlens.calibrate.labels import labels_digest

    frame, labels = fleet()
    profile = {
        "profile": {
            "status": "CERTIFIED",
            "objective": "fpr",
            "max_fpr": 0.01,
            "delta": 0.05,
            "p_value": 0.04,
        },
        "bounds": {"fpr": 0.0, "fpr_high": 0.009, "healthy_runs": 400, "detected": 3, "incidents": 4},
        "versions": {"labels": labels_digest(labels)},
    }
    said = words(report_page(material(frame), labels=labels, profile=profile).html)
    assert "In force: laps: CERTIFIED. It is void when" in said
    assert (
        "at most 1.0 % (false-positive rate per healthy run), wrong with a chance of at most 5.0 %; p = 0.04."
        in said
    )
    assert "on 400 healthy runs; 3 of 4 incidents detected." in said
    assert "part of choosing it" in said


def cause_of(frame: pl.DataFrame, *, source: str = "human", **more: object) -> str:
    labels = told(r="healthy", **{f"calm{i}": "healthy" for i in range(2)}).with_columns(
        source=pl.lit(source)
    )
    calm = events(*[lane(f"calm{i}", "ABCDEFGHIJ" + "KLMNO") for i in range(2)])
    _, found, bench = held(pl.concat([frame, calm]), labels, **more)
    counted = causes(bench, found)
    assert counted.height == 1
    return counted["cause"][0]


def test_each_false_alert_has_the_first_cause_that_fits() -> None:
    """One run for every cause that traces can show."""
    loop = ("PQ" + "AB" * 6 + "RS", "pq" + "xy" * 6 + "rs")
    stuck = events(lane("r", *loop))
    assert cause_of(stuck) == "unexplained"
    assert cause_of(stuck, source="weak") == "label in doubt"
    assert cause_of(events(lane("r", *loop, change=False, external=False))) == "idempotent sweep"
    assert cause_of(events(lane("r", "A" * 6 + "A", "x" * 6 + "z"))) == "poll"
    assert cause_of(events(lane("r", *loop, pause=True))) == "poll"
    failing = lane("r", "PQ" + "A" * 6, "pq" + "x" * 6, error_class="timeout")
    failing += [row | {"seq": row["seq"] + 8} for row in lane("r", "A", "z")]
    assert cause_of(events(failing)) == "retry that succeeded"
    claims = pl.DataFrame({"run_id": ["r"], "claimed": [None], "outcome": ["failed"]})
    assert cause_of(stuck, boundaries={"claims": claims}) == "label in doubt"
    out = {"run_id": "r", "handoff_id": "h", "delegated_at": START, "ack_limit_us": 10**9}
    assert cause_of(stuck, boundaries={"handoffs": filled([out], HANDOFFS)}) == "open handoff"
    done = out | {"completed_at": START + timedelta(seconds=1)}
    assert cause_of(stuck, boundaries={"handoffs": filled([done], HANDOFFS)}) == "unexplained"


def test_an_alert_that_coincidence_explains_is_chance() -> None:
    """Two actions in any order repeat by themselves, and their results never differ."""
    calm = [lane(f"calm{i:02d}", "AABABBABAABBABAABABB" * 3, "?" * 60) for i in range(20)]
    frame = events(lane("r", "PPPPPABB" + "A" * 4, "?" * 8 + "x" * 4), *calm)
    labels = told(r="healthy", **{f"calm{i:02d}": "healthy" for i in range(20)})
    made = material(frame)
    health = made.health.clear()
    found = evaluate(made, labels, None)
    from dataclasses import replace

    bench = Bench.of(replace(made, health=health), truth_of(found))
    assert causes(bench, found)["cause"].to_list() == ["chance"]


def test_every_cause_is_listed_even_where_none_has_it() -> None:
    """The table is exhaustive."""
    frame, labels = fleet()
    page = report_page(material(frame), labels=labels)
    assert page.tables["causes"]["cause"].to_list() == list(CAUSES)
    assert page.tables["causes"]["alerts"].sum() == page.tables["false_alerts"].height == 1


def test_a_near_miss_says_how_near_and_what_broke_it() -> None:
    """Three of four, broken by the next action; or by its evidence; or the lane ended."""
    frame = events(
        lane("action", "PQAAAR", "pqxxxr"),
        lane("evidence", "PQAAAA", "pqxxxz"),
        lane("end", "PQAAA", "pqxxx"),
        lane("calm", "ABC"),
    )
    labels = told(action="2", evidence="2", end="2", calm="healthy")
    made, found, _ = held(frame, labels)
    rows = {row["run_id"]: row for row in near_misses(made, found).iter_rows(named=True)}
    assert {name: (row["stretch"], row["needed"], row["broken_by"]) for name, row in rows.items()} == {
        "action": (3, 4, "both"),
        "evidence": (3, 4, "evidence"),
        "end": (3, 4, "end"),
    }
    assert rows["action"]["broken_at"] == 5


def test_a_near_miss_says_what_one_edit_would_make_of_it() -> None:
    """A foreign event before the fourth: 3 of 4, and 4 with it put right; what lies before is no part."""
    frame = events(
        lane("foreign", "PQAAARA", "pqxxxyx"), lane("end", "AAPQAAA", "xxpqxxx"), lane("calm", "ABC")
    )
    made, found, _ = held(frame, told(foreign="2", end="4", calm="healthy"))
    rows = {row["run_id"]: row for row in near_misses(made, found).iter_rows(named=True)}
    assert {name: (r["stretch"], r["near"], r["edit"], r["edit_seq"]) for name, r in rows.items()} == {
        "foreign": (3, 4, "replaced", 5),
        "end": (3, 3, None, None),
    }
    drawn = charts.near_misses(near_misses(made, found)).to_dict()["datasets"]["near_misses"]
    assert [(r["what"], r["length"]) for r in drawn if "foreign" in r["incident"]] == [
        ("as it was", 3),
        ("with one edit", 4),
        ("needed for an alert", 4),
    ]
    page = report_page(made, labels=told(foreign="2", end="4", calm="healthy"))
    assert "How near silent incidents came" in page.html


def test_one_edit_is_not_known_where_evidence_is_constant() -> None:
    """The column is empty, the rest of the row is not."""
    frame = events(lane("foreign", "PQAARAA", "pqxxyxx"), lane("calm", "ABC"))
    book = RuleBook.from_mapping({"default": {"rule": "laps", "evidence": "constant"}})
    made, found, _ = held(frame, told(foreign="2", calm="healthy"), rule=book)
    assert near_misses(made, found).select("near", "edit", "needed").rows() == [(None, None, 4)]


def test_overrides_count_in_the_rates() -> None:
    """A tool with a rule of its own alarms by that rule in the verdict box too."""
    frame, labels = fleet()
    book = RuleBook.from_mapping(
        {"default": {"rule": "laps"}, "override": [{"tool": "tool_a", "rule": "same_call", "n": 99}]}
    )
    made, found, _ = held(frame, labels, rule=book)
    assert found.force()["alarmed_runs"] == 0
    assert made.episodes["run_id"].to_list() == ["ill"]


def test_slices_are_shrunken_and_bounded_for_all_of_them() -> None:
    """A slice with all the alarms stands first; its adjusted p is at least its own; thin slices have no rate."""
    bad = [lane(f"bad{i:02d}", "A" * 5, "x" * 5, workflow="nightly") for i in range(12)]
    good = [lane(f"good{i:02d}", "ABCDE", workflow="daily") for i in range(40)]
    few = [lane(f"few{i}", "ABCDE", workflow="rare") for i in range(3)]
    frame = events(*bad, *good, *few)
    labels = told(**dict.fromkeys(frame["run_id"].unique().sort(), "healthy"))
    made, found, _ = held(frame, labels)
    table = slices(made, found).filter(pl.col("by") == "workflow")
    rows = {row["slice"]: row for row in table.iter_rows(named=True)}
    assert rows["nightly"]["rate"] == 1.0
    assert 12 / 55 < rows["nightly"]["shrunken"] < 1.0
    assert rows["nightly"]["p_value"] < rows["nightly"]["p_holm"] < 1e-6
    assert 0.5 < rows["nightly"]["holm_low"] < 0.8
    assert rows["rare"]["thin"]
    assert rows["rare"]["rate"] is None
    assert rows["daily"]["p_holm"] == 1.0


def test_labels_that_do_not_fit_the_data_are_refused_in_one_line() -> None:
    """Runs that are not there are named; of a selection they are left out and counted."""
    frame, labels = fleet()
    more = pl.concat([labels, told(ghost="healthy")])
    with pytest.raises(InputError, match="ghost"):
        report_page(material(frame), labels=more)
    said = words(report_page(material(frame, selected=True), labels=more).html)
    assert "1 labelled run lie outside the selection" in said


def test_the_labelled_page_is_the_same_whatever_the_order_and_draws_in_a_browser(tmp_path) -> None:
    """Equal bytes; hostile names in labels, tools and runs stay text; every chart draws."""
    frame, labels = fleet()
    frame = frame.with_columns(
        tool=pl.lit(HOSTILE), run_id=pl.concat_str("run_id", pl.lit(HOSTILE)), workflow=pl.lit(HOSTILE)
    )
    labels = labels.with_columns(run_id=pl.concat_str("run_id", pl.lit(HOSTILE)), kind=pl.lit(HOSTILE))
    html = report_page(material(frame), labels=labels).html
    assert html == report_page(material(frame.reverse()), labels=labels.reverse()).html
    dom, complaints = in_a_browser(tmp_path, html)
    assert complaints == ""
    assert "<title>Loops, handoffs and resets in finished runs</title>" in dom
    assert dom.count('role="graphics-document"') == dom.count("data-spec=") == 11
    assert "could not be drawn" not in dom


def test_the_same_arguments_by_one_signature_or_not() -> None:
    """A false alert on actions that the sources tell apart is one of a signature that merges them."""
    frame = events(
        lane("ill", "AB" * 5, "xy" * 5),
        lane("merged", "A" * 6, "x" * 6),
        lane("honest", "B" * 6, "x" * 6),
        *[lane(f"calm{i}", "ABCDEFG") for i in range(3)],
    ).with_columns(change=pl.lit(value=True), source=pl.concat_str("run_id", pl.lit(":"), "seq"))
    labels = told(ill="0", merged="healthy", honest="healthy", **{f"calm{i}": "healthy" for i in range(3)})

    def arguments(rows: pl.DataFrame) -> dict[tuple[str, str, int], str]:
        assert rows.columns == ["run_id", "agent", "seq", "kind", "source"]
        return {
            (run, agent, seq): str(seq % 2 if run == "merged" else 0)
            for run, agent, seq in rows.select("run_id", "agent", "seq").iter_rows()
        }

    _, found, bench = held(frame, labels, arguments=arguments)
    said = dict(causes(bench, found).select("run_id", "cause").iter_rows())
    assert said["merged"] == "distinct actions merged"
    assert said["honest"] != "distinct actions merged"
    _, found, bench = held(frame, labels)
    assert "distinct actions merged" not in causes(bench, found)["cause"].to_list()


def test_a_certificate_is_outlined_on_the_grid_and_a_limit_drawn() -> None:
    """What the profile certifies, nothing without one; selection stability asks at the profile's own limit."""
    frame, labels = fleet()
    profile = {
        "profile": {
            "status": "CERTIFIED",
            "objective": "fpr",
            "max_fpr": 0.3,
            "delta": 0.05,
            "p_value": 0.01,
        },
        "default": {"thresholds": [4, 6, 6], "evidence": "lap", "name": "laps"},
        "versions": {"labels": "other"},
        "made": {},
    }
    said = words(report_page(material(frame), labels=labels, profile=profile).html)
    assert "Outlined: certified." in said
    assert "certified tiles" in said
    assert "at a rate of false alarms of at most 30.0 %" in said
    bare = words(report_page(material(frame), labels=labels).html)
    assert "Nothing is outlined: without a profile nothing is certified." in bare
    profile["profile"]["status"] = "PROVISIONAL"
    assert "the profile is PROVISIONAL and speaks for none" in words(
        report_page(material(frame), labels=labels, profile=profile).html
    )


def test_fixes_of_a_calibration_are_shown_by_whatever_kind() -> None:
    """The table beside the profile, with kinds that this page does not make itself."""
    frame, labels = fleet()
    tried = pl.DataFrame(
        {
            "fix": ["link the receipt"],
            "kind": ["handoff"],
            "suggested_by": [2],
            "false_alerts_cleared": [2],
            "incidents_lost": [0],
        }
    )
    profile = {
        "profile": {"status": "PROVISIONAL"},
        "versions": {},
        "made": {},
        "tables": {"counterfactuals": tried},
    }
    said = words(report_page(material(frame), labels=labels, profile=profile).html)
    assert "What the calibration tried" in said
    assert "link the receipt handoff 2 2 0" in said
