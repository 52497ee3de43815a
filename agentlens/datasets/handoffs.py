"""Planted handoffs: receipts of the press office's editors, checkers and printers, with their labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentlens.datasets.draws import Draws
from agentlens.datasets.records import stamp
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

FATES: tuple[tuple[str, int], ...] = (
    ("verified", 8),
    ("late", 3),
    ("lost", 4),
    ("redelivered", 2),
    ("never_verified", 3),
    ("failed", 2),
    ("waiting", 2),
    ("stuck", 2),
    ("rejected", 1),
    ("two_takers", 1),
)
"""What can become of a handoff, and how often it does in a planted set."""

LOST_WORK = frozenset({"lost", "never_verified", "failed", "stuck", "two_takers"})


@dataclass(frozen=True, kw_only=True)
class Handoffs:
    """Receipts in the order written, and one label row (scope ``handoff``) for each handoff."""

    receipts: list[dict[str, Any]]
    labels: list[dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Writes the receipts of one handoff and keeps its clock, in milliseconds."""

    draws: Draws
    operation: str
    recipient: str
    urgency: str
    ms: int
    attempt: int = 1
    rows: list[dict[str, Any]] = field(default_factory=list)

    def write(self, event: str, author: str, *, after_s: int = 0, **more: Any) -> None:
        self.ms += after_s * 1_000
        row = {
            "operation_id": self.operation,
            "handoff_id": f"{self.operation}/h{self.attempt}",
            "event": event,
            "at": stamp(self.ms),
            "author": author,
            "expected_artifact": f"{self.operation}-proof",
        }
        self.rows.append(row | more)

    def delegate(self) -> None:
        self.write("delegated", "desk-editor", recipient=self.recipient, urgency=self.urgency)

    def accept(self, after_s: int | None = None) -> None:
        self.write(
            "accepted", self.recipient, after_s=self.draws.between(3, 60) if after_s is None else after_s
        )

    def work(self, laps: int = 2) -> None:
        for _ in range(laps):
            self.write("progress", self.recipient, after_s=self.draws.between(60, 500))

    def complete(self) -> None:
        self.write("completed", self.recipient, after_s=self.draws.between(60, 500))

    def verify(self, outcome: str) -> None:
        self.write("outcome_verified", "proof-checker", outcome=outcome, after_s=self.draws.between(1, 30))


def _verified(w: _Writer) -> None:
    w.delegate()
    w.accept()
    w.work(w.draws.between(1, 3))
    w.complete()
    w.verify("passed")


def _late(w: _Writer) -> None:
    w.delegate()
    w.accept(w.draws.between(130, 600))
    w.work()
    w.complete()
    w.verify("passed")


def _lost(w: _Writer) -> None:
    w.delegate()


def _redelivered(w: _Writer) -> None:
    w.delegate()
    w.ms += 400_000
    w.attempt = 2
    _verified(w)


def _never_verified(w: _Writer) -> None:
    w.delegate()
    w.accept()
    w.work()
    w.complete()


def _failed(w: _Writer) -> None:
    _never_verified(w)
    w.verify("failed")


def _waiting(w: _Writer) -> None:
    w.delegate()
    w.accept()
    deadline = stamp(w.ms + 40 * 86_400_000)
    w.write("waiting", w.recipient, reason="rights", owner="picture-archive", deadline=deadline, after_s=90)


def _stuck(w: _Writer) -> None:
    w.delegate()
    w.accept()
    w.work()


def _rejected(w: _Writer) -> None:
    w.delegate()
    w.write("rejected", w.recipient, reason="out-of-scope", after_s=20)


def _two_takers(w: _Writer) -> None:
    w.delegate()
    w.accept()
    w.write("accepted", "night-shift", after_s=15)


_WRITE: dict[str, Callable[[_Writer], None]] = {
    "verified": _verified,
    "late": _late,
    "lost": _lost,
    "redelivered": _redelivered,
    "never_verified": _never_verified,
    "failed": _failed,
    "waiting": _waiting,
    "stuck": _stuck,
    "rejected": _rejected,
    "two_takers": _two_takers,
}


_EVERY_MS = 1_200_000
_FIRST_MS, _LAST_MS = -62_135_596_800_000 + 86_400_000, 253_402_300_800_000 - 30 * 86_400_000
"""Years 1 to 9999, with room for what comes before and after a delegation."""


def handoffs(
    *, seed: int, start_ms: int, count: int = 56, urgencies: tuple[str, ...] = ("normal", "urgent")
) -> Handoffs:
    """Plant handoffs of every fate, one every twenty minutes.

    Parameters
    ----------
    seed, start_ms
        Any integer; milliseconds since 1970 UTC of the first delegation.
    count
        How many operations; a redelivered one has two handoffs.
    urgencies
        Urgency classes, dealt at random.

    Raises
    ------
    SettingsError
        For a count below 1, no urgency class, or a time that no calendar has.

    Examples
    --------
    >>> len(handoffs(seed=1, start_ms=0, count=3).labels) >= 3
    True
    """
    if count < 1:
        raise SettingsError.value("count", count, "an integer of at least 1")
    if not urgencies:
        raise SettingsError.value("urgencies", urgencies, "at least one name")
    if not _FIRST_MS <= start_ms <= _LAST_MS - count * _EVERY_MS:
        raise SettingsError.value("start_ms", start_ms, "milliseconds since 1970 within the years 1 to 9999")
    cards = [name for name, weight in FATES for _ in range(weight)]
    draws = Draws(seed, "handoffs")
    fates: list[str] = []
    while len(fates) < count:
        fates += draws.shuffled(cards)
    receipts: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    for i, fate in enumerate(fates[:count]):
        own = draws.child(i)
        recipient = own.pick(("fact-checker", "layout", "translator", "print-shop"))
        ms = start_ms + i * _EVERY_MS
        writer = _Writer(
            draws=own, operation=f"op-{i:03d}", recipient=recipient, urgency=own.pick(urgencies), ms=ms
        )
        _WRITE[fate](writer)
        receipts += writer.rows
        labels += _labels(writer, fate)
    return Handoffs(receipts=receipts, labels=labels)


def _labels(writer: _Writer, fate: str) -> list[dict[str, Any]]:
    ids = list(dict.fromkeys(row["handoff_id"] for row in writer.rows))
    last = len(ids) - 1
    bad = [fate in LOST_WORK or (fate == "redelivered" and i < last) for i in range(len(ids))]
    return [
        {
            "operation_id": writer.operation,
            "handoff_id": handoff,
            "scope": "handoff",
            "label": "incident" if is_bad else "healthy",
            "kind": "lost" if fate == "redelivered" and is_bad else fate,
            "source": "planted",
            "task_group": writer.recipient,
        }
        for handoff, is_bad in zip(ids, bad, strict=True)
    ]
