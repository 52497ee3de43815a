"""Acknowledgement limits per urgency class from censored latencies (CALIBRATION section 2.5).

After how long may silence be called lost? A(beta) is the silence that all but a share beta of the deliveries that
are ever acknowledged stay within. The limit given is its upper confidence limit, never the estimate: an estimate
lies too low half of the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from agentlens.calibrate.ack_checks import ack_checks
from agentlens.calibrate.ack_times import ACK_TIMES, ACKNOWLEDGED, SILENT, used, waits_of
from agentlens.calibrate.quantile import (
    Limit,
    follow_up,
    log_log_upper,
    lost_share,
    remaining_variance,
    upper_limit,
)
from agentlens.calibrate.survival import Incidence, Waits, incidence, silent_band
from agentlens.calibrate.thin_class import lognormal_limits
from agentlens.detect.handoff_limits import HandoffLimits, to_us
from agentlens.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

POOLED: Final = "*"
"""The name under which all classes together are reported; it is also the limit of a class that is not named."""
THIN_CLASS: Final = 20
CURVE_POINTS: Final = 1_000

ACK_LIMITS = pl.Schema(
    {
        "urgency": pl.String(),
        "handoffs": pl.Int64(),
        "acknowledged": pl.Int64(),
        "silent": pl.Int64(),
        "competing": pl.Int64(),
        "left_out": pl.Int64(),
        "follow_up": pl.String(),
        "lost_share": pl.Float64(),
        "lost_low": pl.Float64(),
        "lost_high": pl.Float64(),
        "estimate_us": pl.Int64(),
        "own_limit_us": pl.Int64(),
        "limit_us": pl.Int64(),
        "method": pl.String(),
        "pooled": pl.Boolean(),
        "silent_at_limit": pl.Float64(),
        "lost_given_silent": pl.Float64(),
        "cap_us": pl.Int64(),
        "cap_conflict": pl.Boolean(),
        "silent_at_cap": pl.Float64(),
        "silent_at_cap_high": pl.Float64(),
        "note": pl.String(),
    }
)
"""One row an urgency class (`POOLED` for all together), sorted.

``silent``: seen by nobody until observation ended. ``lost_share`` with limits: share never acknowledged, null where
``follow_up`` is ``short`` or ``none``. ``estimate_us``: A(beta); ``own_limit_us``: its upper confidence limit from
this class alone; ``limit_us``: the one to use, the pooled one where ``pooled``. ``silent_at_limit``: S0 there, the
false-alarm rate per good delivery. ``lost_given_silent``: P(lost | silent at the limit), null without a lost share.
``cap_conflict``: the limit exceeds the cap, at which ``silent_at_cap`` of good deliveries are still silent.
"""

ACK_CURVE = pl.Schema(
    {
        "urgency": pl.String(),
        "after_us": pl.Int64(),
        "at_risk": pl.Int64(),
        "acknowledged": pl.Int64(),
        "silent": pl.Float64(),
        "silent_low": pl.Float64(),
        "silent_high": pl.Float64(),
        "remaining": pl.Float64(),
        "remaining_high": pl.Float64(),
        "lost_given_silent": pl.Float64(),
    }
)
"""One row a class and latency seen; where there are very many, the last of each thousandth of silence.

``silent``: Kaplan-Meier with its log-log band. ``remaining``: S0 with a one-sided limit (null where ends compete).
``lost_given_silent``: null where the lost share is not known.
"""


@dataclass(frozen=True, kw_only=True)
class AckCalibration:
    """Acknowledgement limits with what they rest on: `ACK_LIMITS`, `ACK_CURVE`, `ack_checks.ACK_CHECKS`."""

    limits: pl.DataFrame
    curves: pl.DataFrame
    checks: pl.DataFrame
    beta: float
    delta: float

    def settings(self) -> dict[str, Any]:
        """Limits as the profile's table ``[handoffs]`` holds them; a limit the data do not give is left out."""
        rows = self.limits.filter(pl.col("limit_us").is_not_null())
        seconds = {row["urgency"]: row["limit_us"] / 1e6 for row in rows.iter_rows(named=True)}
        pooled = seconds.pop(POOLED, None)
        table: dict[str, Any] = {} if pooled is None else {"ack_limit_s": pooled}
        named = {name: value for name, value in seconds.items() if name}
        return table | ({"ack_limits": named} if named else {})

    def handoff_limits(self, base: HandoffLimits | None = None) -> HandoffLimits:
        """Put the calibrated limits in place of those of ``base`` (the defaults); others stay."""
        found = self.settings()
        return replace(base or HandoffLimits(), **found)


@dataclass(frozen=True, kw_only=True)
class AckSettings:
    """How limits are chosen.

    ``beta``: share of good deliveries that may be silent at the limit. ``delta``: chance that the limit lies too
    low. ``caps_s``: per urgency class, the longest silence that is acceptable, whatever the data say. ``draws``,
    ``seed``: of cluster bootstraps.
    """

    beta: float = 0.05
    delta: float = 0.05
    caps_s: Mapping[str, float] = field(default_factory=dict)
    draws: int = 300
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no share or no duration."""
        for name in ("beta", "delta"):
            if not 0 < getattr(self, name) < 1:
                raise SettingsError.value(name, getattr(self, name), "a share above 0 and below 1")
        for name, cap in self.caps_s.items():
            if not cap > 0:
                raise SettingsError.value(f"caps_s.{name}", cap, "seconds above 0")
        if self.draws < 2:
            raise SettingsError.value("draws", self.draws, "at least 2")


def ack_limits(times: pl.DataFrame, settings: AckSettings | None = None) -> AckCalibration:
    """Calibrate acknowledgement limits.

    Parameters
    ----------
    times
        Schema `ACK_TIMES`, from `agentlens.calibrate.ack_times.ack_times`.
    settings
        Beta, delta, caps.

    Raises
    ------
    SettingsError
        When a cap names a class that the data do not have.

    Notes
    -----
    A class from whose acknowledgements alone no upper limit follows gets one from a log-normal model
    (`agentlens.calibrate.thin_class`) where that fits. With fewer than 20, or no fit, it gets the pooled limit and is
    marked. A cap below the limit is a conflict for a person to settle; neither is silently picked.

    Examples
    --------
    >>> from agentlens.datasets import synthetic_handoffs
    >>> from agentlens.detect.handoffs import handoffs
    >>> from agentlens.calibrate.ack_times import ack_times
    >>> drawn = synthetic_handoffs(400, seed=1)
    >>> found = ack_limits(ack_times(handoffs(drawn.receipts.lazy())).collect())
    >>> found.limits.select("urgency", "handoffs", "follow_up", "pooled").rows()
    [('*', 400, 'adequate', False), ('normal', 400, 'adequate', False)]
    """
    settings = settings or AckSettings()
    kept = used(times.cast(dict(ACK_TIMES)))  # type: ignore[arg-type]
    names = sorted({name or "" for name in kept["urgency"].to_list()})
    for name in settings.caps_s:
        if name not in {POOLED, *names}:
            raise SettingsError.unknown("urgency class", name, [POOLED, *names])
    pooled = _Class.of(POOLED, kept, times, settings)
    classes = [
        _Class.of(
            name,
            kept.filter(pl.col("urgency").fill_null("") == name),
            times.filter(pl.col("urgency").fill_null("") == name),
            settings,
        )
        for name in names
    ]
    modelled = _modelled(pooled, classes, settings)
    rows = [each.row(pooled, settings, modelled.get(each.name)) for each in (pooled, *classes)]
    curves = [each.curve_frame(settings.delta) for each in (pooled, *classes)]
    return AckCalibration(
        limits=pl.DataFrame(rows, schema=ACK_LIMITS).sort("urgency"),
        curves=pl.concat(curves).sort("urgency", "after_us"),
        checks=ack_checks(times),
        beta=settings.beta,
        delta=settings.delta,
    )


def _modelled(pooled: _Class, classes: list[_Class], settings: AckSettings) -> dict[str, Limit]:
    """Limits by the log-normal model, for independent waits whose lost can be told; used where nothing else is."""
    last = pooled.waits.last_event
    if last is None or pooled.lost is None or pooled.waits.groups < pooled.waits.size:
        return {}
    waits = {each.name: each.waits for each in classes}
    return lognormal_limits(waits, last, beta=settings.beta, delta=settings.delta)


@dataclass(frozen=True, kw_only=True)
class _Class:
    """One class with its curve and limit."""

    name: str
    rows: pl.DataFrame
    left_out: int
    waits: Waits
    curve: Incidence
    followed: str
    limit: Limit

    @classmethod
    def of(cls, name: str, kept: pl.DataFrame, all_rows: pl.DataFrame, settings: AckSettings) -> _Class:
        waits = waits_of(kept)
        followed = follow_up(waits, kept["watched_us"].to_numpy())
        limit = upper_limit(
            waits,
            followed,
            beta=settings.beta,
            delta=settings.delta,
            draws=settings.draws,
            seed=settings.seed,
        )
        return cls(
            name=name,
            rows=kept,
            left_out=all_rows.height - kept.height,
            waits=waits,
            curve=incidence(waits),
            followed=followed,
            limit=limit,
        )

    @property
    def lost(self) -> float | None:
        """Plateau of the silent share, where it can be told."""
        return self.curve.never if self.followed in {"complete", "adequate"} else None

    def given_silent(self, time: int | None) -> float | None:
        """P(lost | silent after ``time``)."""
        if time is None or self.lost is None:
            return None
        silent = self.curve.silent_at(time)
        return self.lost / silent if silent > 0 else None

    def remaining_high_at(self, time: int, delta: float) -> float:
        high = log_log_upper(self.curve.remaining, remaining_variance(self.curve), self.waits.events, delta)
        index = int(np.searchsorted(self.curve.at, time, side="right")) - 1
        return 1.0 if index < 0 else float(high[index])

    def row(self, pooled: _Class, settings: AckSettings, model: Limit | None = None) -> dict[str, Any]:
        thin = self.waits.events < THIN_CLASS
        chosen = self.limit
        if not thin and chosen.limit is None and chosen.method == "none" and model is not None:
            chosen = model
        borrowed = self is not pooled and (thin or chosen.limit is None)
        limit = pooled.limit.limit if borrowed else None if thin else chosen.limit
        judged = pooled if borrowed else self
        cap_s = settings.caps_s.get(self.name)
        cap = None if cap_s is None else to_us(cap_s)
        told = self.followed in {"complete", "adequate"} and self.waits.events > 0
        share, low, high = lost_share(self.waits) if told else (None, None, None)
        ended = self.rows["ended"]
        return {
            "urgency": self.name,
            "handoffs": self.rows.height,
            "acknowledged": int((ended == ACKNOWLEDGED).sum()),
            "silent": int((ended == SILENT).sum()),
            "competing": int((~ended.is_in([ACKNOWLEDGED, SILENT])).sum()),
            "left_out": self.left_out,
            "follow_up": self.followed,
            "lost_share": share,
            "lost_low": low,
            "lost_high": high,
            "estimate_us": self.limit.point,
            "own_limit_us": self.limit.limit,
            "limit_us": limit,
            "method": "none" if limit is None else pooled.limit.method if borrowed else chosen.method,
            "pooled": borrowed and limit is not None,
            "silent_at_limit": None if limit is None else judged.curve.remaining_at(limit),
            "lost_given_silent": judged.given_silent(limit),
            "cap_us": cap,
            "cap_conflict": None if cap is None or limit is None else limit > cap,
            "silent_at_cap": None if cap is None or not self.waits.events else self.curve.remaining_at(cap),
            "silent_at_cap_high": None
            if cap is None or not self.waits.events
            else self.remaining_high_at(cap, settings.delta),
            "note": self._note(limit, cap, thin=thin, borrowed=borrowed),
        }

    def _note(self, limit: int | None, cap: int | None, *, thin: bool, borrowed: bool) -> str | None:
        notes = []
        if thin:
            notes.append(f"{self.waits.events} acknowledgements, fewer than {THIN_CLASS}")
        elif self.limit.why:
            notes.append(self.limit.why)
            if not borrowed and limit is not None:
                notes.append("a log-normal model with the spread of all classes stands in")
        if borrowed:
            notes.append("no limit of all together either" if limit is None else "the pooled limit stands in")
            if limit is not None and (self.limit.point or 0) > limit:
                notes.append("and is shorter than the class's own estimate: expect false alarms")
        if self.followed == "short":
            notes.append("lost share not known: too little was watched past the latest acknowledgement")
        if cap is not None and limit is not None and limit > cap and self.waits.events:
            share = self.curve.remaining_at(cap)
            notes.append(f"conflict: at the cap {share:.1%} of good deliveries are still silent")
        return "; ".join(notes) or None

    def curve_frame(self, delta: float) -> pl.DataFrame:
        if not self.waits.size:
            return pl.DataFrame(schema=ACK_CURVE)
        curve = self.curve
        low, high = silent_band(self.waits, 1 - delta)
        simple = not self.rows["ended"].is_in(["closed", "superseded"]).any() and self.lost is not None
        upper = log_log_upper(curve.remaining, remaining_variance(curve), self.waits.events, delta)
        lost = self.lost
        given = [None if lost is None or s <= 0 else lost / s for s in curve.silent]
        frame = pl.DataFrame(
            {
                "urgency": pl.repeat(self.name, curve.at.size, eager=True),
                "after_us": curve.at,
                "at_risk": curve.at_risk.astype(np.int64),
                "acknowledged": curve.events.astype(np.int64),
                "silent": curve.silent,
                "silent_low": low,
                "silent_high": high,
                "remaining": curve.remaining if lost is not None else None,
                "remaining_high": upper if simple else None,
                "lost_given_silent": pl.Series(given, dtype=pl.Float64),
            }
        )
        return _drawable(frame.filter(pl.col("acknowledged") > 0)).select(
            pl.col(n).cast(t) for n, t in ACK_CURVE.items()
        )


def _drawable(curve: pl.DataFrame) -> pl.DataFrame:
    """Return at most some `CURVE_POINTS` rows: the last of each step that the silent share falls by, and both ends."""
    if curve.height <= CURVE_POINTS:
        return curve
    step = (pl.col("silent") * CURVE_POINTS).floor()
    ends = (pl.int_range(pl.len()) == 0) | (pl.int_range(pl.len()) == pl.len() - 1)
    return curve.filter((step != step.shift(-1)).fill_null(value=True) | ends)


def cost_limit(times: pl.DataFrame, *, false_alarm: float, delay_per_s: float) -> int | None:
    """Latency (microseconds) at which alarming is cheapest, by the user's own costs; None where the lost are unknown.

    Minimises ``false_alarm * (1 - pi) * S0(A) + delay_per_s * pi * A`` over the latencies seen: a lost delegation
    is found after exactly A on a timer, a good one that is slower than A raises a false alarm.

    Raises
    ------
    SettingsError
        When a cost is not above 0.
    """
    if min(false_alarm, delay_per_s) <= 0:
        raise SettingsError.value("false_alarm, delay_per_s", (false_alarm, delay_per_s), "costs above 0")
    kept = used(times)
    waits = waits_of(kept)
    if follow_up(waits, kept["watched_us"].to_numpy()) not in {"complete", "adequate"}:
        return None
    curve = incidence(waits)
    cost = false_alarm * curve.ever * curve.remaining + delay_per_s * curve.never * curve.at / 1e6
    best = np.flatnonzero((curve.events > 0) & (cost <= cost[curve.events > 0].min()))
    return int(curve.at[best[0]])
