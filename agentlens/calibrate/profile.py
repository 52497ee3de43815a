"""The profile file: the rule, its status and bounds, what it holds for, and how it was made; as TOML.

Its tables ``[default]`` and ``[handoffs]`` are what ``loops --rule`` and ``handoffs --profile`` read. A profile is void
for data of another normaliser, fingerprint, or key: what a threshold counts would be something else.
"""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlens.calibrate.certificate import Status
from agentlens.errors import InputError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentlens.detect.policies import Policies
    from agentlens.detect.rules import Rule

VERSIONS = ("normaliser_version", "fingerprint_version", "key_id")
"""What must be the same in the data a profile is used on."""

_SETTINGS = {"actions": "--actions", "policies": "--policies"}
"""What else changes which events are alarms, by its name under ``[made]`` and on the command line."""

_HEAD = (
    "# A threshold profile of agentlens. It holds for data of the versions below and is void for others.\n"
)


def rule_table(rule: Rule, name: str) -> dict[str, Any]:
    """Return a rule as the table that `agentlens.detect.profile_rules.rule_from` reads back."""
    facts = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(rule).items()}
    return {**{key: value for key, value in facts.items() if value is not None}, "name": name}


def to_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Write tables of plain values as TOML; None is left out."""
    parts = [_HEAD]
    for name, table in tables.items():
        lines, below = [f"[{name}]"], []
        for key, value in table.items():
            if isinstance(value, dict):
                below.append(
                    f"[{name}.{_key(key)}]\n"
                    + "\n".join(f"{_key(k)} = {_value(v)}" for k, v in value.items())
                )
            elif value is not None:
                lines.append(f"{_key(key)} = {_value(value)}")
        parts += ["\n".join(lines), *below]
    return "\n".join([parts[0], "\n\n".join(parts[1:]), ""])


def _key(key: str) -> str:
    return key if key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key) else _text(key)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return _text(str(value))


def load_profile(path: str | Path) -> dict[str, Any] | None:
    """Return the tables of a profile; None where the file is a rule file without versions.

    Raises
    ------
    InputError
        When the file cannot be read or is no TOML.
    """
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError.at(
            str(path), f"cannot be read as TOML ({error})", accepted="a profile or rule file"
        ) from None
    return tables if isinstance(tables.get("profile"), dict) or _versions(tables) is not None else None


def _versions(tables: Mapping[str, Any]) -> dict[str, Any] | None:
    told = tables.get("versions")
    return told if isinstance(told, dict) else None


def settings_of(actions: Iterable[str], policies: Policies | None) -> dict[str, str]:
    """Return what `check_profile` compares beside versions: which kinds take part, and which policies are declared.

    Examples
    --------
    >>> settings_of(["tool", "handoff"], None)
    {'actions': 'handoff,tool', 'policies': 'none'}
    """
    return {
        "actions": ",".join(sorted(actions)),
        "policies": "none" if policies is None else policies.digest,
    }


def check_profile(
    path: str | Path, found: Mapping[str, str], *, any_version: bool = False, needs_rule: bool = True
) -> None:
    """Refuse a profile that does not hold for the data.

    Parameters
    ----------
    path
        A profile, or any rule file: one without ``[versions]`` says nothing and is let through.
    found
        Versions of the data by name, several separated by commas; names that are absent or empty are not compared.
        ``labels``: version of the lake's label store, compared where the profile was made from it. ``actions`` and
        ``policies`` (`settings_of`) are compared with those it was made with.
    any_version
        Use it all the same.
    needs_rule
        Whether its loop rule is used; the limits of handoffs stand without one.

    Raises
    ------
    SettingsError
        When a version or a setting differs, a certificate does not say which versions it holds for, or the profile
        holds no rule because none was feasible.
    """
    tables = load_profile(path)
    if tables is None:
        return
    profile = tables.get("profile")
    if needs_rule and isinstance(profile, dict) and profile.get("status") == str(Status.INFEASIBLE):
        why = profile.get("reason", Status.INFEASIBLE)
        raise SettingsError(f"{path}: this calibration found no rule ({why}); accepted: another profile")
    if any_version:
        return
    versions = _versions(tables) or {}
    made = tables.get("made")
    made = made if isinstance(made, dict) else {}
    # labels from a file are not at hand here; those of the lake's own store are
    stored = made.get("labels_from") == "store"
    for name in (*VERSIONS, "labels") if stored else VERSIONS:
        wanted, here = str(versions.get(name, "")), found.get(name, "")
        if wanted and here and wanted != here:
            raise SettingsError(
                f"{path}: made for {name} {wanted}, the data have {here}; accepted: calibrate again, or --any-version"
            )
    # limits of receipts alone were made without events: a rule would need versions, a duration does not
    unversioned = (
        not needs_rule and isinstance(profile, dict) and "reason" in profile and "default" not in tables
    )
    absent = [] if unversioned else [n for n in VERSIONS if found.get(n) and not versions.get(n)]
    if isinstance(profile, dict) and absent:
        raise SettingsError(
            f"{path}: does not say which {', '.join(absent)} it was made for; accepted: calibrate again, or"
            " --any-version"
        )
    _check_settings(path, made, found)


def _check_settings(path: str | Path, made: Mapping[str, Any], found: Mapping[str, str]) -> None:
    """Refuse other kinds of actions or other policies than a profile was made with, where it says which."""
    kinds = made.get("actions")
    if not isinstance(kinds, list):
        return
    wanted = {"actions": ",".join(sorted(map(str, kinds))), "policies": str(made.get("policies", "none"))}
    for name, option in _SETTINGS.items():
        here = found.get(name, wanted[name])
        if here != wanted[name]:
            raise SettingsError(
                f"{path}: made with {name} {wanted[name]}, here {here}; accepted: the same {option}, calibrate"
                " again, or --any-version"
            )
