"""A repository of a made-up harbour service, worked on with the tools of a coding agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.datasets.story import Call

if TYPE_CHECKING:
    from agentlens.datasets.draws import Draws

ROOT = "/srv/tidewatch"
FILES = (
    "tidewatch/gauge.py",
    "tidewatch/forecast.py",
    "tidewatch/berths.py",
    "tidewatch/alerts.py",
    "tidewatch/moorings.py",
    "tidewatch/calendar.py",
    "tests/test_gauge.py",
    "tests/test_forecast.py",
    "tests/test_berths.py",
    "docs/operators.md",
)
NAMES = (
    "SpringTide",
    "read_gauge",
    "berth_for",
    "slack_water",
    "wind_setup",
    "draught_limit",
    "queue_vessel",
    "surge_window",
    "datum_shift",
    "low_water",
)
LOST = ("TideTabel", "berth_lock_v2", "legacy_datum", "GaugeProxyFactory", "surge_cache_key")


class CodeWorld:
    """Coding agent sessions (`World`)."""

    name = "code"
    format = "claude_code"
    workflow = "tidewatch"
    agent = ""
    helper_agent = "explorer"
    models: tuple[str, ...] = ("claude-sonnet-4-5", "claude-haiku-4-5")
    versions: tuple[str, ...] = ("2.1.4", "2.1.9")
    tasks: tuple[str, ...] = (
        "Fix the off-by-one in the slack water table",
        "Make the berth planner respect draught limits",
        "Add a surge warning to the alert feed",
        "Speed up the gauge import",
        "Document the datum shift for operators",
        "Remove the second calendar of spring tides",
        "Make the forecast tests independent of the time zone",
        "Log which mooring was chosen and why",
    )

    def work(self, draws: Draws, i: int) -> Call:
        """Return reading, searching, editing or running, each with something new in it."""
        path = f"{ROOT}/{draws.pick(FILES)}"
        name = draws.pick(NAMES)
        line = draws.between(10, 400)
        kind = draws.below(5)
        if kind == 0:
            text = "\n".join(f"{line + k}\tdef {draws.pick(NAMES)}_{draws.hex(2)}(level):" for k in range(3))
            return Call("Read", {"file_path": path, "offset": line, "limit": 40}, text)
        if kind == 1:
            hits = "\n".join(f"{draws.pick(FILES)}:{draws.between(5, 300)}: {name}" for _ in range(3))
            return Call(
                "Grep", {"pattern": name, "path": f"{ROOT}/tidewatch", "output_mode": "content"}, hits
            )
        if kind == 2:
            old, new = f"return {name}(level)", f"return {name}(level, step={i})"
            done = f"The file {path} has been updated: line {line} now reads `{new}`"
            return Call("Edit", {"file_path": path, "old_string": old, "new_string": new}, done)
        if kind == 3:
            out = f"{draws.between(2, 40)} passed in {draws.between(1, 9)}.{draws.between(10, 99)}s"
            return Call(
                "Bash",
                {"command": f"pytest -q {draws.pick(FILES[6:9])}", "description": "Run some tests"},
                out,
            )
        out = f"{draws.hex(7)} {name}: tidy units\n{draws.hex(7)} gauge: read millimetres"
        command = f"git log --oneline -n 2 -- {draws.pick(FILES)}"
        return Call("Bash", {"command": command, "description": "Look at the history"}, out)

    def probe(self, draws: Draws) -> Call:
        """Return a search for a name that is nowhere."""
        args = {"pattern": draws.pick(LOST), "path": ROOT, "output_mode": "files_with_matches"}
        return Call("Grep", args, "No files found")

    def ring(self, draws: Draws, period: int) -> list[Call]:
        """Return a round of reading and testing that changes nothing."""
        failing = draws.pick(("test_neap_crossing", "test_datum_2009", "test_two_highs"))
        test = Call(
            "Bash",
            {"command": f"pytest -q -k {failing}", "description": "Run the failing test"},
            f"FAILED tests/test_gauge.py::{failing} - assert 412 == 409\n1 failed",
            "exit_1",
        )
        reads = [
            Call(
                "Read", {"file_path": f"{ROOT}/{path}"}, f"1\t# {path}\n2\tLEVEL = {draws.between(400, 499)}"
            )
            for path in draws.several(FILES, period)
        ]
        return [test, *reads][:period]

    def undo(self, draws: Draws) -> list[Call]:
        """Return an edit and its reverse."""
        path = f"{ROOT}/{draws.pick(FILES[:6])}"
        name = draws.pick(NAMES)
        a, b = f"{name}(level)", f"{name}(level, datum=DATUM)"
        done = f"The file {path} has been updated"
        return [
            Call("Edit", {"file_path": path, "old_string": a, "new_string": b}, f"{done} ({b})"),
            Call("Edit", {"file_path": path, "old_string": b, "new_string": a}, f"{done} ({a})"),
        ]

    def poll(self, shown: str) -> Call:
        """Return a look at a continuous-integration job."""
        args = {"command": "ci status --branch slack-water", "description": "See how the build is doing"}
        return Call("Bash", args, f"build slack-water: {shown}")

    def page(self, draws: Draws, i: int) -> Call:
        """Return the next stretch of a long log."""
        path = f"{ROOT}/var/import.log"
        text = "\n".join(f"{i * 200 + k}\timported gauge {draws.hex(6)}" for k in range(2))
        return Call("Read", {"file_path": path, "offset": i * 200, "limit": 200}, text)

    def refused(self, error: str) -> Call:
        """Return a fetch that the server turned down."""
        return Call("WebFetch", self._fetch(), f"Error: {error}: try again later", error)

    def served(self, draws: Draws) -> Call:
        """Return the same fetch, answered."""
        return Call("WebFetch", self._fetch(), f"station 14: {draws.between(300, 700)} mm above datum")

    def wander(self, draws: Draws, i: int) -> Call:
        """Return searches in ever new places for a name that is nowhere."""
        args = {"pattern": f"{draws.pick(LOST)}_{i}", "path": f"{ROOT}/{draws.pick(FILES)}"}
        return Call("Grep", args, "No matches found")

    def write(self, draws: Draws) -> Call:
        """Return a write of one notes file."""
        args = {"file_path": f"{ROOT}/NOTES.md", "content": f"# Notes\n\nslack water: {draws.pick(NAMES)}\n"}
        return Call("Write", args, f"File written: {ROOT}/NOTES.md")

    def look(self, draws: Draws, i: int) -> Call:
        """Return the state of the work tree, which is another every time."""
        args = {"command": "git diff --stat", "description": "What has changed so far"}
        return Call("Bash", args, f" {draws.pick(FILES)} | {i + 2} {'+' * (i + 2)}\n {i + 1} files changed")

    def check(self, draws: Draws, *, passed: bool) -> Call:
        """Return the whole test suite."""
        args = {"command": "pytest -q", "description": "Run the whole suite"}
        if passed:
            return Call("Bash", args, f"{draws.between(80, 140)} passed in {draws.between(6, 20)}.31s")
        return Call("Bash", args, f"{draws.between(1, 4)} failed, {draws.between(80, 140)} passed", "exit_1")

    def delegate(self, draws: Draws) -> Call:
        """Return a task for the sub-agent that only reads."""
        name = draws.pick(NAMES)
        prompt = f"Find every caller of {name} in {ROOT} and report file and line."
        args = {
            "description": f"Find callers of {name}",
            "prompt": prompt,
            "subagent_type": self.helper_agent,
        }
        return Call("Task", args, f"{name} is called in {draws.between(2, 9)} places")

    def _fetch(self) -> dict[str, str]:
        return {"url": "https://gauges.example/stations/14.json", "prompt": "Give the newest level"}
