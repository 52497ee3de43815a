"""What README and docs show is run, and what they link to is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from agentlens.cli import VERBS
from agentlens.detect.policies import Policies
from agentlens.detect.profile_rules import RuleBook

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of the checkout."""
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_python_of_the_readme_runs() -> None:
    """Examples are tests."""
    shown = blocks(ROOT / "README.md", "python")
    assert shown
    for code in shown:
        exec(compile(code, "README.md", "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_rules_and_policies_that_are_shown_are_accepted(page: Path) -> None:
    """A TOML block that says which file it is can be loaded as that."""
    for text in blocks(page, "toml"):
        facts = tomllib.loads(text)
        if text.startswith("# rule.toml"):
            assert len(RuleBook.from_mapping(facts).rules) == 3
        elif text.startswith("# policies.toml"):
            assert Policies.from_mapping(facts).retries


def test_the_readme_names_every_verb_and_both_commands() -> None:
    """What can be typed is written down."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install -e . && agentlens demo" in text
    assert "pip install -e '.[test]' && pytest" in text
    for verb in VERBS:
        assert f"`{verb}" in text, verb
