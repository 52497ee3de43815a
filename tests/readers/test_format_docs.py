"""The page on formats names every format and every kind there is."""

from __future__ import annotations

import re

from agentlens.model.enums import Kind
from agentlens.readers import registry
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def test_every_format_is_on_the_page_and_no_other() -> None:
    """In the table that says what their runs and lanes are."""
    table = PAGE.split("## Runs and lanes")[1].split("## Kinds")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| ") and "---" not in row]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(named) == [found.name for found in registry.formats()]


def test_every_kind_is_on_the_page() -> None:
    """With what it is in the exports."""
    rows = [row.split("|")[1] for row in PAGE.split("## Kinds")[1].splitlines() if row.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert named == {str(kind) for kind in Kind}
