"""The pictures of the README are those that the code makes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"


def test_the_pictures_of_the_readme_say_what_the_code_draws_today(tmp_path: Path) -> None:
    """Made anew from the shipped fleet: the same words, numbers and marks. Run docs/pictures.py when they are not."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.make(tmp_path)
    shown = re.findall(
        r"!\[[^\]]{20,}\]\((docs/pictures/[^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    assert sorted(shown) == sorted(f"docs/pictures/{path.name}" for path in made)
    for path in made:
        drawn = path.read_text(encoding="utf-8")
        kept = (PICTURES / path.name).read_text(encoding="utf-8")
        assert told(drawn) == told(kept), path.name
        assert len(kept) < 100_000


def told(svg: str) -> tuple[list[str], int]:
    """Words in a picture and how many marks it has: not where they stand, which fonts decide."""
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg), len(re.findall(r"<path aria-label", svg))
