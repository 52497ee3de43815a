"""Benchmarks run from end to end at a small scale, agree with the literal references, and can be compared. Not timed."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import _measure
from benchmarks._measure import GROWTH, Row, growing

if TYPE_CHECKING:
    from pathlib import Path

RATIOS = {
    "handoffs": "literal rules in plain Python",
    "ingest": "orjson.loads",
    "loops": "NumPy kernel",
    "report": "scan",
    "resets": "literal",
    "sweep": "one loops pass",
}


@pytest.mark.parametrize("name", sorted(RATIOS))
def test_a_benchmark_measures_three_sizes_beside_its_reference(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = tmp_path / "found.jsonl"
    benchmarks.main([name, "--scale", "0.001", "--json", str(found)])
    rows = [json.loads(line) for line in found.read_text().splitlines()]
    assert {row["growth"] for row in rows} == set(GROWTH)
    assert {row["benchmark"] for row in rows} == {name}
    assert all(row["seconds"] > 0 and row["events"] > 0 and row["peak_mb"] > 0 for row in rows)
    largest = next(row for row in rows if row["growth"] == GROWTH[-1])
    assert any(RATIOS[name] in said for said in largest["ratios"]), largest["ratios"]
    assert "time, times that of 1x" in largest["ratios"]
    differ = [v for row in rows for what, v in row.get("told", {}).items() if "none may" in what]
    assert not any(differ)

    capsys.readouterr()
    benchmarks.main(["compare", str(found), str(found)])
    said = capsys.readouterr().out
    assert all(row["part"] in said for row in rows)


def test_a_measurement_counts_the_middle_of_its_repeats(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 3.0, 10.0, 11.0, 20.0, 29.0])
    monkeypatch.setattr(_measure.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(sys, "argv", ["", "tests.test_benchmarks:nothing", "[7]", "3"])
    _measure.child()
    found = json.loads(capsys.readouterr().out)
    assert (found["seconds"], found["told"]) == (3.0, 7)


def nothing(told: int):
    """Give work that only tells."""
    return lambda: told


def test_growth_is_against_the_smallest_size_before_and_after() -> None:
    """A machine that gets slower in between makes nothing look steeper."""
    told = iter([(2.0, 4.0), (12.0, 24.0), (4.0, 8.0), (80.0, 160.0), (6.0, 12.0)])

    def measure(times: int, size: float) -> Row:
        assert size == times * 10
        seconds, cpu_s = next(told)
        return Row(part="x", growth=times, seconds=seconds, cpu_s=cpu_s)

    rows = [*growing(measure, 160)]
    assert [row.growth for row in rows] == [1, 4, 16]
    assert [row.ratios.get("time, times that of 1x") for row in rows] == [None, 4.0, 16.0]
    assert rows[2].ratios == {"time, times that of 1x": 16.0, "processor time, times that of 1x": 16.0}


def test_an_unknown_benchmark_or_scale_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, said in ((["nothing"], "accepted: formats"), (["loops", "--scale", "0"], "above 0")):
        with pytest.raises(SystemExit, match="2"):
            benchmarks.main(argv)
        assert said in capsys.readouterr().err
