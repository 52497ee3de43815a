"""Chains of rules, strict to loose, that a certificate may walk (CALIBRATION 2.4, 3.4).

Every rule of a chain alerts wherever the one before it does: each threshold is at most as large. So a chain that is
walked from its strict end never has to be chosen by its results.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentlens.calibrate.grid import Setting, lap_settings, surprises
from agentlens.detect.rules import Evidence, Rule, full_window

_LAPS = ((8, 6, 4), (7, 5, 4), (6, 4, 3), (5, 4, 3), (5, 3, 2), (4, 3, 2), (3, 3, 2), (3, 2, 2), (2, 2, 2))
_LOOSER = ((4, 2, 2), (4, 2, 2, 2), (4, 2, 2, 2, 2), (3, 2, 2, 2, 2), (2, 2, 2, 2, 2))


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Named settings, each nested in the next."""

    name: str
    settings: tuple[Setting, ...]


def nested(strict: Rule, loose: Rule) -> bool:
    """Whether `loose` alerts wherever `strict` does, by their thresholds."""
    if (strict.evidence, strict.max_gap_us) != (loose.evidence, loose.max_gap_us):
        return False
    if strict.head_repetitions is not None or loose.head_repetitions is not None:
        return strict == loose
    return len(strict.thresholds) <= len(loose.thresholds) and all(
        t >= u for t, u in zip(strict.thresholds, loose.thresholds, strict=False)
    )


def chains() -> list[Chain]:
    """Return the chains that *explore* may choose from; the first is the one used where there is nothing to explore."""
    found = [Chain(name="laps", settings=tuple(lap_settings(_LAPS)))]
    modes: tuple[Evidence, ...] = ("lap", "constant")
    for evidence in modes:
        name = "equal surprise" + (", constant evidence" if evidence == "constant" else "")
        settings = tuple(surprises(range(16, 0, -1), 6, evidence=evidence))
        found.append(Chain(name=name, settings=settings))
        name = "full window" + (", constant evidence" if evidence == "constant" else "")
        found.append(Chain(name=name, settings=_windows(evidence)))
    found.append(
        Chain(name="laps, constant evidence", settings=tuple(lap_settings(_LAPS, evidence="constant")))
    )
    return found


def loosened(incumbent: Setting) -> Chain:
    """Return the chain that starts at the rule in use and loosens it, a period and a lap at a time.

    A share of false alarms does not fall as a rule gets stricter (both its counts do), so this chain, unlike the
    others, begins where the data are, at the rule in use.
    """
    kept = [incumbent]
    for setting in lap_settings(_LOOSER, evidence=incumbent.rule.evidence):
        if nested(kept[-1].rule, setting.rule):
            kept.append(setting)
    return Chain(name=f"loosened from {incumbent.text}", settings=tuple(kept))


def _windows(evidence: Evidence) -> tuple[Setting, ...]:
    mode = "" if evidence == "lap" else f", evidence={evidence!r}"
    return tuple(
        Setting(
            family="full_window",
            text=f"full_window({w}, 3, 2, short_starts=False{mode})",
            rule=full_window(w, 3, 2, short_starts=False, evidence=evidence),
        )
        for w in range(24, 5, -1)
    )
