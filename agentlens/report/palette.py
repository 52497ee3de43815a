"""Fixed colours: one verdict has one colour everywhere, told apart by people who see colours differently."""

from __future__ import annotations

from typing import Final

from agentlens.model.enums import Verdict

COLOURS: Final[dict[str, str]] = {
    Verdict.WORKING.value: "#009e73",
    Verdict.WAITING.value: "#56b4e9",
    Verdict.RETRYING.value: "#e6c229",
    Verdict.UNCERTAIN.value: "#a3a3a3",
    Verdict.STUCK_LOOP.value: "#d55e00",
    Verdict.FAILED_OUTCOME.value: "#aa3377",
}
"""Fill of each verdict, in ascending order of how bad it is; after Okabe and Ito, 2008."""

NEUTRAL: Final = "#777777"
"""What is no verdict."""

INK: Final[dict[str, str]] = {
    name: "#ffffff" if name == Verdict.FAILED_OUTCOME else "#000000" for name in COLOURS
}
"""Text on that fill: at least 4.5 to 1."""

EVIDENCE: Final[dict[str, str]] = {"new": "diamond", "seen before": "circle", "unknown": "cross"}
"""Shape of what an event showed: shapes, because colour is the verdict's."""

PERIODS: Final[tuple[str, ...]] = ("#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#d55e00")
"""Fill of periods 1 to 6; longer ones share the last."""
