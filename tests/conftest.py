"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("AGENTLENS_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real exports and reference cases; the test is skipped where it does not exist."""
    if not (SHARED / "traces").is_dir():
        pytest.skip("needs the folder of real exports (../shared), which is not here")
    return SHARED
