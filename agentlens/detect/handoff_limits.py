"""Settings of the handoff judgement (SPEC section 4)."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from agentlens.errors import InputError, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

_MICROSECONDS: Final = 1_000_000
_LONGEST_S: Final = 100 * 366 * 86_400


@dataclass(frozen=True, kw_only=True)
class HandoffLimits:
    """Limits of time, in seconds, and what is known of retries.

    Parameters
    ----------
    ack_limit_s
        How long a delegation may stay unaccepted; an example until it is calibrated.
    ack_limits
        The same per urgency class; a class that is not named has ``ack_limit_s``.
    evidence_window_s
        How old the newest sign of work may be before an accepted handoff is stuck.
    verification_limit_s
        How long after completion the verification may still come.
    clock_skew_s
        How far two receipts may stand in the wrong order before they disagree.
    wait_limit_s
        How long a wait without a deadline holds.
    retry_limit
        Attempts an operation may have in all; None where it is not known, and then none is suggested.

    Examples
    --------
    >>> HandoffLimits(ack_limits={"page": 30}).ack_limits_us
    {'page': 30000000}
    """

    ack_limit_s: float = 120.0
    ack_limits: Mapping[str, float] = field(default_factory=dict)
    evidence_window_s: float = 900.0
    verification_limit_s: float = 0.0
    clock_skew_s: float = 5.0
    wait_limit_s: float = 86_400.0
    retry_limit: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits that are negative, endless or no numbers."""
        for name in (
            "ack_limit_s",
            "evidence_window_s",
            "verification_limit_s",
            "clock_skew_s",
            "wait_limit_s",
        ):
            _check(name, getattr(self, name))
        if not isinstance(self.ack_limits, Mapping):
            raise SettingsError.value("ack_limits", self.ack_limits, "a table of urgency class to seconds")
        for urgency, limit in self.ack_limits.items():
            _check(f"ack_limits.{urgency}", limit)
        object.__setattr__(self, "ack_limits", dict(sorted(self.ack_limits.items())))
        if self.retry_limit is not None and (
            isinstance(self.retry_limit, bool)
            or not isinstance(self.retry_limit, int)
            or self.retry_limit < 1
        ):
            raise SettingsError.value("retry_limit", self.retry_limit, "a whole number from 1, or nothing")

    @property
    def ack_limits_us(self) -> dict[str, int]:
        """Limit of each named urgency class, in microseconds."""
        return {urgency: to_us(limit) for urgency, limit in self.ack_limits.items()}

    @property
    def digest(self) -> str:
        """Digest of all settings, for the metadata of outputs."""
        values = {
            each.name: dict(value) if isinstance(value := getattr(self, each.name), Mapping) else value
            for each in fields(self)
        }
        return hashlib.blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=16).hexdigest()

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str = "limits") -> HandoffLimits:
        """Build from a TOML table; an unknown name is refused with the nearest one.

        Raises
        ------
        SettingsError
            For a name or value that is not accepted.
        """
        known = {each.name for each in fields(cls)}
        for name in table:
            if name not in known:
                raise SettingsError.unknown(f"setting in {where}", name, known)
        return cls(**table)

    @classmethod
    def load(cls, path: Path) -> HandoffLimits:
        """Read the table ``[handoffs]`` of a TOML file (a profile, or a file of its own).

        Raises
        ------
        InputError
            When the file cannot be read or is no TOML.
        SettingsError
            When it holds no such table, or a setting that is not accepted.
        """
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as wrong:
            raise InputError.at(
                str(path), f"cannot be read as TOML ({wrong})", accepted="a TOML file"
            ) from wrong
        if not isinstance(table.get("handoffs"), dict):
            raise SettingsError(f"{path}: no table [handoffs]; accepted: [handoffs] with ack_limit_s, ...")
        return cls.from_table(table["handoffs"], f"{path} [handoffs]")


def to_us(seconds: float) -> int:
    """Seconds to whole microseconds."""
    return round(seconds * _MICROSECONDS)


def _check(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LONGEST_S:
        raise SettingsError.value(name, value, "seconds from 0 to a hundred years")
