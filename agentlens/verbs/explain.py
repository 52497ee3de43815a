"""``agentlens explain``: what was dropped, masked and kept for one event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentlens.explaining import explain
from agentlens.verbs.console import console, dump, print_pairs
from agentlens.verbs.reading import normaliser

if TYPE_CHECKING:
    from argparse import Namespace

_SHOWN = (
    "run_id",
    "agent",
    "seq",
    "kind",
    "tool",
    "error_class",
    "source",
    "normaliser_version",
    "fingerprint_version",
)


def run(args: Namespace) -> int:
    """Explain and print."""
    told = explain(
        args.lake,
        args.run,
        args.seq,
        agent=args.agent,
        normaliser=normaliser(args),
        root=args.root,
        sql=args.sql,
    )
    if args.json:
        print(dump(told))  # noqa: T201
        return 0
    out = console()
    print_pairs(out, [(name.replace("_", " "), told["event"][name]) for name in _SHOWN])
    if not told["same_key"]:
        out.print("The key is not the one of the ingest: digests below differ from the lake's.")
    for title, part in (("Action", told["action"]), ("Evidence", told["evidence"]), ("Facts", told["facts"])):
        out.print(f"\n{title}")
        print_pairs(out, [(f"  {name.replace('_', ' ')}", _short(value)) for name, value in part.items()])
    return 0


def _short(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [" by ".join(str(item) for item in entry.values()) for entry in value]
    text = str(value) if isinstance(value, str) else value
    return text[:400] + " …" if isinstance(text, str) and len(text) > 400 else text
