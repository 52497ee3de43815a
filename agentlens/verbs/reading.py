"""What the verbs share: settings from the command line, and where results go."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlens.verbs.console import cell, plain
from agentlens.verbs.waiting import hush

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from agentlens.normalise.rows import Normaliser
    from agentlens.readers.base import Report
    from agentlens.results import Tables


def normaliser(args: Namespace) -> Normaliser:
    """Build the normaliser from ``--key-file``, ``--tables``, ``--keep-content``, ``--fingerprint``."""
    from agentlens.api import make_normaliser

    made = make_normaliser(
        key_file=args.key_file,
        tables=args.tables,
        keep_content=args.keep_content,
        fingerprint=args.fingerprint,
    )
    if made.key.made:
        note(f"a digest key was made ({made.key.origin}); keep it: digests of two keys can not be compared")
    return made


def chosen(args: Namespace) -> dict[str, Any]:
    """Return the selection options by name."""
    return {name: getattr(args, name) for name in ("since", "until", "workflow", "agent")}


def note_if_none(args: Namespace, what: str, *, none: bool) -> None:
    """Say that a selection left nothing, which looks like good news otherwise."""
    given = [f"--{name} {value}" for name, value in chosen(args).items() if value is not None]
    if none and given:
        note(f"{args.data}: no {what} of it is selected by {' '.join(given)}")


def note(text: str) -> None:
    """Say something beside the result, on standard error."""
    hush()
    print(plain(text), file=sys.stderr)  # noqa: T201


def tell_report(name: str, report: Report | None, limit: int = 5) -> None:
    """Say what of a directly read file was set aside, repaired or not known."""
    if report is None:
        return
    for fault in report.faults[:limit]:
        note(f"{name}: {fault.unit} {fault.position:,} set aside: {fault.reason}")
    if len(report.faults) > limit:
        note(f"{name}: … {len(report.faults) - limit:,} more set aside")
    for what, counts in (("repaired", report.repaired), ("not known, left out", report.unknown)):
        if counts:
            listed = ", ".join(f"{plain(key)} ({cell(value)})" for key, value in sorted(counts.items())[:8])
            note(f"{name}: {what}: {listed}")


def write_tables(result: Tables, folder: str) -> None:
    """Write result tables; a folder that can not be written is one line, not a traceback."""
    with writing(folder):
        result.write(Path(folder))


@contextmanager
def writing(folder: str) -> Iterator[None]:
    """Turn a failure to write into a folder into one line.

    Raises
    ------
    InputError
        When the folder can not be made or written, or the disk is full.
    """
    from agentlens.errors import InputError

    try:
        yield
    except OSError as error:
        raise InputError.at(
            folder,
            f"can not be written ({error.strerror or error})",
            accepted="a folder that can be made, on a disk with room",
        ) from error


def write_text(path: str, text: str) -> None:
    """Write one text file in UTF-8."""
    from agentlens import in_place
    from agentlens.errors import InputError

    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        in_place.write_text(Path(path), text)
    except OSError as error:
        raise InputError.at(
            path, f"can not be written ({error.strerror})", accepted="a path that can be written"
        ) from error
