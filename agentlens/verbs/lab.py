"""``agentlens lab``: JupyterLab on a copy of the notebooks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from agentlens import lab
from agentlens.data import is_lake
from agentlens.errors import InputError
from agentlens.verbs.console import dump
from agentlens.verbs.reading import note

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Check what was given, copy the notebooks, and open JupyterLab."""
    given = {lab.LAKE: args.lake, lab.LABELS: args.labels, lab.POLICIES: args.policies}
    for name, text in given.items():
        path = None if text is None else Path(text).resolve()
        if path is None:
            os.environ.pop(name, None)
            continue
        if name == lab.LAKE and not is_lake(path):
            raise InputError.at(str(text), "no lake", accepted="a folder that agentlens ingest made")
        if not path.exists():
            raise InputError.at(str(text), "no such file", accepted="a file that is there")
        os.environ[name] = str(path)
    if args.lake is None and (args.labels or args.policies):
        raise InputError.at(
            "lab", "labels and policies belong to a lake", accepted="agentlens lab LAKE --labels FILE"
        )
    os.environ[lab.ROOT] = str(Path.cwd())
    written, kept = lab.copy_notebooks(args.into)
    note(f"{args.into}: {len(written)} notebooks written, {len(kept)} there already and left alone")
    if args.json:
        for path in sorted([*written, *kept]):
            print(dump({"notebook": str(path), "written": path in written}))  # noqa: T201
    if not args.copy_only:
        lab.start(args.into)
    return 0
