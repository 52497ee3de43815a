"""Addresses in the user's own trace viewer."""

from __future__ import annotations

from urllib.parse import quote

from agentlens.errors import SettingsError


def address(template: str | None, run_id: str, trace_id: str | None) -> str | None:
    """Fill a link template; None where there is none, or the run has no trace id that it needs.

    Examples
    --------
    >>> address("https://t.example/{trace_id}", "r", 'a"/b')
    'https://t.example/a%22%2Fb'
    """
    if template is None or ("{trace_id}" in template and not trace_id):
        return None
    return template.replace("{trace_id}", quote(trace_id or "", safe="")).replace(
        "{run_id}", quote(run_id, safe="")
    )


def check_link(template: str | None) -> None:
    """Refuse a template that is no web address, or names something else than a trace or a run.

    Raises
    ------
    SettingsError
        With what would be accepted.
    """
    if template is None:
        return
    rest = template.replace("{trace_id}", "").replace("{run_id}", "")
    plain = all(33 <= ord(letter) < 127 and letter not in "<>\"'`\\{}" for letter in rest)
    host = rest.split("://", 1)[-1]
    if not template.lower().startswith(("https://", "http://")) or not plain or not host or rest == template:
        raise SettingsError.value(
            "link",
            template,
            "an http(s) address with {trace_id} or {run_id}, such as https://tracer.example/t/{trace_id}",
        )
