"""``agentlens demo``: the main job on the shipped fleet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentlens.demo import demo
from agentlens.verbs.console import console

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Run it into ``--out``."""
    return demo(Path(args.out), console())
