"""A source is read as a format or through a mapping, not both."""

from __future__ import annotations

import pytest

from agentlens.errors import SettingsError
from agentlens.lake import ingest, read_file
from tests.lake.exports import NORMALISER, run_of, write


def test_a_format_beside_a_mapping_is_refused(tmp_path):
    """One of them would be left unused without a word."""
    source = write(tmp_path / "a.ndjson", *run_of("r"))
    with pytest.raises(SettingsError, match="one of the two"):
        ingest(source, tmp_path / "lake", normaliser=NORMALISER, format="native", sql="adk")
    with pytest.raises(SettingsError, match="one of the two"):
        read_file(source, NORMALISER, format="native", sql="SELECT 1")
    assert not (tmp_path / "lake").exists()
