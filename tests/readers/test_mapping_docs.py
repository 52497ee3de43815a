"""The page on mappings says what is so, and the list of formats names them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from agentlens.errors import AgentlensError
from agentlens.model.enums import Kind
from agentlens.model.raw import ABSENT
from agentlens.readers.base import Report
from agentlens.readers.sql import COLUMNS, about, mapped, shipped
from agentlens.verbs.formats import listing
from tests.conftest import ROOT
from tests.readers.test_sql import kept, through

if TYPE_CHECKING:
    from pathlib import Path

    from agentlens.model.raw import RawEvent

PAGE = (ROOT / "docs" / "mappings.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"```(json|sql|text)\n(.*?)```", PAGE, re.DOTALL))


def test_the_example_gives_what_the_page_says(tmp_path: Path) -> None:
    """Log, query and result of the page belong together."""
    found, report = through(BLOCKS["sql"], kept(tmp_path, BLOCKS["json"].encode()))
    assert (report.faults, report.unknown) == ([], {})
    assert (
        "".join(
            f"{e.run_id} {e.seq} {e.kind} {e.tool} rate_limit={e.error_class == 'rate_limit'} result={e.result is not ABSENT}\n"
            for e in found
        )
        == BLOCKS["text"]
    )
    assert (found[0].at, found[2].target) == (1_772_359_200_500_000, "approver")


def test_every_column_and_kind_is_on_the_page() -> None:
    """A column that is not listed there does not exist for whoever writes a mapping."""
    table = PAGE.split("## Columns", 1)[1]
    named = set(re.findall(r"`(\w+)`", table))
    assert named >= COLUMNS
    assert named >= set(Kind)


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_mapping_can_be_used_and_says_what_it_reads(name: str) -> None:
    """It is one SELECT, and its comment has a title short enough for a list."""
    assert mapped(name).claim(None) == 0  # type: ignore[arg-type]
    assert 10 < len(about(name).title) < 140


def test_formats_lists_mappings_with_the_option_that_asks_for_them() -> None:
    """Formats first, then mappings, each once."""
    rows = listing().select("name", "use").rows()
    assert ("langgraph", "--format langgraph") in rows
    assert [name for name, use in rows if use.startswith("--sql")] == shipped()
    assert len({use for _, use in rows}) == len(rows)


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("data", [b"words", b'{"events": [', json.dumps([{"id": {}}, None, 1]).encode()])
def test_a_mapping_on_anything_else_is_a_report(name: str, data: bytes, tmp_path: Path) -> None:
    """No action, and a fault or an error in words: never another exception."""
    found: list[RawEvent] = []
    report = Report()
    with suppress(AgentlensError):
        found, report = through(name, kept(tmp_path, data))
    assert not [event for event in found if event.kind in {"tool", "handoff"}]
    assert all(fault.reason for fault in report.faults)
