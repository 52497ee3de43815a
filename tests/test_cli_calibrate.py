"""``agentlens calibrate`` and ``agentlens label``: files, ledgers, profiles and one-line errors."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import polars as pl
import pytest

import agentlens
from agentlens.cli import main
from agentlens.errors import SettingsError

HEALTHY, STUCK = 90, 12


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test touches the user's key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("AGENTLENS_KEY", "a key for the tests, long enough")


def records() -> list[dict]:
    """Healthy runs that page, stuck runs that repeat; one after the other in time; a handoff with receipts."""
    rows = []
    for n in range(HEALTHY + STUCK):
        stuck = n % 8 == 3 and n // 8 < STUCK
        for i in range(7):
            query = "same" if stuck and i > 0 else f"q{i}"
            at = 1_790_000_000 + 1000 * n + 10 * i
            result = "nothing" if stuck and i > 0 else f"{n} {i}"
            rows.append(
                {
                    "run_id": f"r{n:03d}",
                    "seq": i,
                    "at": at,
                    "tool": "search",
                    "args": {"q": query},
                    "result": result,
                }
            )
    return rows


def is_stuck(n: int) -> bool:
    return n % 8 == 3 and n // 8 < STUCK


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An export and its labels."""
    folder = tmp_path_factory.mktemp("data")
    events, told = folder / "events.ndjson", folder / "labels.csv"
    events.write_text("".join(json.dumps(r) + "\n" for r in records()), encoding="utf-8")
    lines = ["run_id,scope,label,onset_seq,end_seq,task_group"]
    for n in range(HEALTHY + STUCK):
        tail = f"interval,incident,1,6,t{n}" if is_stuck(n) else f"run,healthy,,,t{n}"
        lines.append(f"r{n:03d},{tail}")
    told.write_text("\n".join(lines) + "\n")
    return events, told


@pytest.fixture
def lake(made: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "lake"
    assert main(["ingest", str(made[0]), "--into", str(path), "--workers", "1"]) == 0
    capsys.readouterr()
    return path


def calibrated(lake: Path, labels: Path | str, out: Path, *more: str) -> int:
    return main(
        ["calibrate", str(lake), "--labels", str(labels), "--out", str(out), "--max-fpr", "0.1", *more]
    )


def test_calibrate_writes_a_profile_that_loops_uses_and_another_normaliser_voids(
    lake, made, tmp_path, capsys, monkeypatch
):
    """The certified rule is read back by loops --rule; a lake of another key refuses it unless told."""
    out = tmp_path / "out"
    assert calibrated(lake, made[1], out) == 0
    said = capsys.readouterr().out
    assert said.startswith("CERTIFIED")
    assert "opened 1 times" in said
    profile = tomllib.loads((out / "profile.toml").read_text())
    assert profile["profile"]["status"] == "CERTIFIED"
    assert profile["bounds"]["false_alarms"] == 0
    assert profile["made"]["placed_by"] == "time"
    found = tmp_path / "found"
    assert main(["loops", str(lake), "--rule", str(out / "profile.toml"), "--out", str(found)]) == 0
    alarmed = pl.read_parquet(found / "runs.parquet").filter(pl.col("alerts") > 0)["run_id"].to_list()
    assert alarmed == [f"r{n:03d}" for n in range(HEALTHY + STUCK) if is_stuck(n)]
    capsys.readouterr()
    monkeypatch.setenv("AGENTLENS_KEY", "another key for the tests, long enough")
    rule = ["--rule", str(out / "profile.toml")]
    assert main(["loops", str(made[0]), *rule]) == 2
    assert "made for key_id" in capsys.readouterr().err
    assert main(["loops", str(made[0]), *rule, "--any-version"]) == 0


def test_the_same_inputs_give_the_same_bytes_and_one_opening(lake, made, tmp_path, capsys):
    """Every file of two runs is equal; a different question opens the test split a second time, and says so."""
    one, two = tmp_path / "one", tmp_path / "two"
    assert calibrated(lake, made[1], one) == 0
    assert calibrated(lake, made[1], two) == 0
    names = sorted(p.name for p in one.iterdir())
    assert "profile.toml" in names
    assert "rates.parquet" in names
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    capsys.readouterr()
    assert calibrated(lake, made[1], tmp_path / "three", "--within", "4") == 0
    assert "opened 2 times" in capsys.readouterr().out
    assert len((lake / "labels" / "openings.ndjson").read_text().splitlines()) == 2


def test_every_rate_comes_with_its_count(lake, made, tmp_path, capsys):
    """The table on screen gives alarmed of healthy runs and detected of incidents, and says where cells are thin."""
    assert calibrated(lake, made[1], tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "0/" in said
    assert "thin" in said
    rates = pl.read_parquet(tmp_path / "out" / "rates.parquet")
    assert rates.filter(pl.col("fpr").is_not_null())["healthy_runs"].null_count() == 0
    assert rates["thin"].all()  # fewer than twenty incidents
    settings = pl.read_parquet(tmp_path / "out" / "settings.parquet")
    assert settings.height > 6960
    assert settings["cell"].n_unique() == rates.height


def test_labels_live_in_the_lake(lake, made, tmp_path, capsys):
    """Import adds once, add adds one, list and export give them back; calibrate then needs no file."""
    assert main(["label", "import", str(lake), str(made[1])]) == 0
    assert f"{HEALTHY + STUCK} labels added" in capsys.readouterr().err
    assert main(["label", "import", str(lake), str(made[1])]) == 0
    assert "0 labels added" in capsys.readouterr().err
    words = [
        "--run-id",
        "r000",
        "--scope",
        "run",
        "--label",
        "exclude",
        "--label-version",
        "2",
        "--reviewer",
        "me",
    ]
    assert main(["label", "add", str(lake), *words]) == 0
    capsys.readouterr()
    assert main(["label", "list", str(lake), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == HEALTHY + STUCK + 1
    assert main(["label", "list", str(lake)]) == 0
    assert "103 labels" in capsys.readouterr().out
    for name in ("l.csv", "l.ndjson", "l.parquet"):
        assert main(["label", "export", str(lake), str(tmp_path / name)]) == 0
        capsys.readouterr()
        assert main(["label", "import", str(lake), str(tmp_path / name)]) == 0
        assert "0 labels added" in capsys.readouterr().err
    out = tmp_path / "out"
    assert main(["calibrate", str(lake), "--max-fpr", "0.1", "--out", str(out)]) == 0
    made_of = tomllib.loads((out / "profile.toml").read_text())["made"]
    assert (made_of["labels_from"], made_of["excluded_runs"]) == ("store", 1)
    rule = ["loops", str(lake), "--rule", str(out / "profile.toml")]
    assert main(rule) == 0
    more = ["--run-id", "r001", "--scope", "run", "--label", "exclude", "--label-version", "2"]
    assert main(["label", "add", str(lake), *more]) == 0
    capsys.readouterr()
    profile = str(out / "profile.toml")
    for typed in (
        rule,
        ["report", str(lake), "--profile", profile, "--out", str(tmp_path / "r.html")],
        ["report", str(lake), "--rule", profile, "--out", str(tmp_path / "r.html")],
        ["compare", str(lake), "--against", profile],
        ["compare", str(lake), "--rule", profile, "--against", "same_call"],
    ):
        assert main(typed) == 2, typed
        assert "made for labels" in capsys.readouterr().err
        assert main([*typed, "--any-version"]) == 0, typed
    review = ["review", str(lake), "--rule", profile, "--out", str(tmp_path / "q.html")]
    capsys.readouterr()
    assert main(review) == 2
    assert "every run is labelled" in capsys.readouterr().err  # new labels are what it is for
    assert main([*review, "--policies", str(_policies(tmp_path))]) == 2
    assert "made with policies" in capsys.readouterr().err


def _policies(tmp_path):
    """Write some policies."""
    policies = tmp_path / "policies.toml"
    policies.write_text('sleeping_tools = ["pause"]\n')
    return policies


def test_a_profile_is_used_with_the_actions_and_policies_it_was_made_with(lake, made, tmp_path, capsys):
    """Both decide which events are alarms: others are refused unless told."""
    policies = tmp_path / "policies.toml"
    policies.write_text('sleeping_tools = ["pause"]\n')
    out, page = tmp_path / "out", tmp_path / "page.html"
    assert calibrated(lake, made[1], out, "--policies", str(policies)) == 0
    profile = str(out / "profile.toml")
    verbs = (
        ["loops", str(lake), "--rule", profile],
        ["report", str(lake), "--profile", profile, "--out", str(page)],
        ["compare", str(lake), "--rule", profile, "--against", "same_call"],
    )
    for verb in verbs:
        capsys.readouterr()
        assert main(verb) == 2
        assert "made with policies" in capsys.readouterr().err
        assert main([*verb, "--policies", str(policies), "--actions", "tool"]) == 2
        assert (
            "made with actions handoff,tool, here tool; accepted: the same --actions"
            in capsys.readouterr().err
        )
        assert main([*verb, "--policies", str(policies)]) == 0
        assert main([*verb, "--any-version"]) == 0
    with pytest.raises(SettingsError, match="made with policies"):
        agentlens.loops(lake, rule=profile)


def test_the_screen_says_what_folds_are_and_what_else_is_limited(lake, made, tmp_path, capsys):
    """Where the groups would do, PROVISIONAL is for the cross-validation that was asked for, not for want of them."""
    assert calibrated(lake, made[1], tmp_path / "o", "--folds", "4", "--max-uncertain", "0.2") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "PROVISIONAL: looks fine, but cross-validation promises no rule" in said
    assert "needed 0 more task groups" in said
    assert "too few task groups" not in said
    assert "uncertain at most 0.2 of healthy runs" in said


def test_a_label_of_no_run_is_an_error_that_names_it(lake, tmp_path, capsys):
    """Unmatched labels are never dropped in silence, neither on import nor in a calibration."""
    bad = tmp_path / "bad.csv"
    bad.write_text("run_id,scope,label\nr001,run,healthy\nzz1,run,healthy\nzz2,run,incident\n")
    for verb in (
        ["label", "import", str(lake), str(bad)],
        ["calibrate", str(lake), "--labels", str(bad), "--out", "x"],
    ):
        assert main(verb) == 2
        said = capsys.readouterr().err
        assert "2 runs not in the" in said
        assert "zz1, zz2" in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--max-fpr", "0"], "max_fpr = 0.0"),
        (["--max-fpr", "1"], "max_fpr = 1.0"),
        (["--delta", "1"], "delta = 1.0"),
        (["--incumbent", "lapps"], "unknown rule 'lapps' (did you mean 'laps'?)"),
        (["--objective", "f1"], "unknown objective 'f1'"),
        (["--shares", "1,2"], "shares = '1,2'"),
        (["--shares", "0.5,0,0.5"], "shares = (0.5, 0.0, 0.5)"),
        (["--grace", "-1"], "grace_events = -1"),
        (["--seed", "-1"], "seed = -1"),
        (["--largest", "2"], "largest = 2"),
        (["--only", f"laps({10**20})"], f"laps = {10**20}"),
        (["--only", "laps(" + "4, " * 200 + "4)"], "is not allowed"),
        (["--incumbent", "x" * 400], "unknown rule 'xxx"),
        (["--labels", "gone.csv"], "gone.csv: cannot be read as CSV"),
        (["--labels", "weak"], "no outcome in the data"),
    ],
)
def test_a_bad_setting_is_one_line(lake, made, tmp_path, capsys, more, said):
    """Limits of 0 and 1, unknown names, shares that are none: exit 2 and one line."""
    assert calibrated(lake, made[1], tmp_path / "out", *more) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "accepted:" in error
    assert error.count("\n") == 1


def test_labels_outside_the_selection_are_left_out_and_counted(lake, made, tmp_path, capsys):
    """A time limit in the middle of a run keeps it whole; labels of runs before it are counted, not refused."""
    out = tmp_path / "out"
    since = ["--since", "2026-09-21T19:43:20Z"]  # 20 s into run r006; r003 is the first stuck run
    share = ["--objective", "share", "--max-fpr", "0.1"]
    assert calibrated(lake, made[1], out, *since, *share) == 0
    said = capsys.readouterr().out
    profile = tomllib.loads((out / "profile.toml").read_text())
    first = min(r for r in pl.read_parquet(out / "splits.parquet")["run_id"])
    left_out = int(first[1:])
    assert 0 < left_out < HEALTHY
    assert profile["made"]["labels_outside_selection"] == left_out
    assert f"{left_out} labels outside the selection" in said.replace("\n", " ")
    assert calibrated(lake, made[1], out, "--since", "2030-01-01") == 2
    assert "all 102 are of runs outside the selection" in capsys.readouterr().err
    bad = tmp_path / "bad.csv"
    bad.write_text(made[1].read_text() + "ghost,run,healthy,,,t1\n")
    assert calibrated(lake, bad, out, *since) == 2
    assert "1 run not in the data: ghost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("r000,interval,incident,99,", "onset outside the run: r000 (onset_seq 99"),
        ("r000,run,healthy,,\nr000,run,incident,,", "healthy and incident at once: r000"),
        ("r003,run,healthy,,", "healthy and incident at once: r003"),
    ],
)
def test_the_store_takes_no_label_that_calibrate_would_refuse(lake, tmp_path, capsys, rows, said):
    """Onsets outside their run, and contradictions within the file or with what is stored, are refused before adding."""
    one = ["--run-id", "r003", "--scope", "interval", "--label", "incident", "--onset-seq", "1"]
    assert main(["label", "add", str(lake), *one]) == 0
    bad = tmp_path / "bad.csv"
    bad.write_text(f"run_id,scope,label,onset_seq,end_seq\nr001,run,healthy,,\n{rows}\n")
    capsys.readouterr()
    assert main(["label", "import", str(lake), str(bad)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert main(["label", "list", str(lake), "--json"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_a_share_says_on_screen_and_in_the_profile_how_it_was_made(lake, made, tmp_path, capsys):
    """M and what fixed it, the stake, runs left out, where the chain's start came from, and that no test was kept."""
    out = tmp_path / "out"
    assert calibrated(lake, made[1], out, "--objective", "share", "--shares", "0.2,0.8,0") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "M = 1 (the largest group)" in said
    assert "its start chosen on explore" in said
    assert "closed: no split was kept for it" in said
    profile = tomllib.loads((out / "profile.toml").read_text())["profile"]
    assert profile["largest"] == 1
    assert profile["largest_from"] == "the largest group"
    assert (profile["largest_group"], profile["larger_groups"]) == (1, 0)
    assert profile["stake"] == pytest.approx(0.75 / 0.9)
    assert (profile["chain_from"], profile["test_split"]) == ("explore", False)
    assert calibrated(lake, made[1], out, "--objective", "share", "--shares", "0,1,0", "--largest", "1") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "M = 1 (given)" in said
    assert "fixed beforehand, no explore split" in said


def test_without_labels_the_verb_says_where_they_may_come_from(lake, tmp_path, capsys):
    """A lake without labels and no file: one line with the three ways."""
    assert main(["calibrate", str(lake), "--out", str(tmp_path / "out")]) == 2
    assert "--labels FILE, --labels weak, or a lake with imported labels" in capsys.readouterr().err


def test_incidents_without_an_onset_are_found_or_missed_and_nothing_is_said_of_delay(lake, tmp_path):
    """As weak labels are: one row a shown rule, of unit run, and no curve."""
    rows = [
        {
            "run_id": f"r{n:03d}",
            "scope": "run",
            "label": "incident" if is_stuck(n) else "healthy",
            "task_group": f"t{n}",
        }
        for n in range(HEALTHY + STUCK)
    ]
    found = agentlens.calibrate(lake, labels=pl.DataFrame(rows), max_fpr=0.1)
    row = found.detection.filter(pl.col("rule") == "laps((4, 3, 2))").row(0, named=True)
    assert (row["unit"], row["onset"], row["incidents"], row["detected"]) == ("run", "unknown", 10, 10)
    assert row["share_low"] < row["share"] == 1.0
    assert row["median"] is None
    assert found.detection_curve.is_empty()


def test_a_name_that_no_file_system_takes_is_one_line(lake, made, tmp_path, capsys):
    """As data, source or lake, alone or in a pattern: nothing there, or nothing that can be made."""
    name = "x" * 400
    for verb, said in (
        (["loops", name], "no such file or folder"),
        (["ingest", name, "--into", str(tmp_path / "new")], "no such file or folder"),
        (
            ["ingest", str(made[0]), "--into", str(tmp_path / name)],
            "cannot be made a lake: File name too long",
        ),
        (["loops", str(lake), "--rule", name], "unknown rule"),
    ):
        assert main(verb) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
