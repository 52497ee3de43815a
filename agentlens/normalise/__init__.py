"""Signatures, fingerprints, digests, versions: the floor where content ends."""

from __future__ import annotations

from agentlens.normalise.digest import Key
from agentlens.normalise.rows import Normaliser
from agentlens.normalise.tables import Tables

__all__ = ["Key", "Normaliser", "Tables"]
