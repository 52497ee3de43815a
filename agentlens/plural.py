"""Counts with their nouns."""

from __future__ import annotations


def plural(value: int, noun: str) -> str:
    """Return the count with its noun.

    >>> plural(1, "event"), plural(2, "event")
    ('1 event', '2 events')
    """
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"
