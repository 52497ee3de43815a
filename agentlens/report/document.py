"""Parts of a self-contained HTML page, and how they become one.

A page needs no network: the Vega libraries stand in it once, charts are specifications beside them, and the
browser is told to load nothing and to run no script but the two whose digests the page names. Text of a trace
reaches the page only through the template's escaping or inside escaped JSON.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from agentlens.errors import SettingsError
from agentlens.report.vega import vega_library

if TYPE_CHECKING:
    import altair as alt

PAGE_ROWS = 25  # table rows shown at once
PAGE_CASES = 5  # cases shown at once
_MARKED = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


@dataclass(frozen=True, kw_only=True)
class Badge:
    """A word of a fixed vocabulary that has a colour of its own (see `agentlens.report.palette`)."""

    word: str


@dataclass(frozen=True, kw_only=True)
class Amount:
    """A number as it is read, with the number that a table is sorted by; None sorts last."""

    text: str
    value: float | None


@dataclass(frozen=True, kw_only=True)
class Link:
    """Words that lead out of the page, when somebody follows them. Only http and https are let through."""

    text: str
    url: str

    def __post_init__(self) -> None:
        """Refuse an address that could be a script."""
        if not self.url.lower().startswith(("https://", "http://")):
            raise SettingsError.value("link", self.url, "an address that begins with https:// or http://")


Cell = str | Badge | Amount | Link


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table; ``numeric`` ones are set right."""

    title: str
    numeric: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows as they are to be read. ``note`` stands below: what was left out, and what the numbers are of."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One chart, with the words that say the same to whoever cannot see it; of an empty one only the words are left."""

    spec: dict[str, Any]
    words: str

    @classmethod
    def of(cls, chart: alt.TopLevelMixin) -> Picture:
        """Take an Altair chart whose ``description`` is set."""
        spec = chart.to_dict(validate=False)  # the parts were checked as they were made
        words, rows = str(spec.get("description", "")), spec.get("datasets", {})
        return cls(spec=spec if any(rows.values()) or not rows else {}, words=words)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One action. ``marks``: ``inside`` its episode, in the ``window`` of the alert, ``onset``, ``alert``."""

    seq: int
    letter: str
    lap: str
    evidence: str
    receipt: str
    verdict: str
    marks: tuple[str, ...]
    said: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """One episode with its strip of actions, facts by name, and raw content where it was asked for.

    ``ask``: number, run and lane of an item on which the reader is to decide.
    """

    anchor: str
    title: str
    tags: tuple[Cell, ...] = ()
    text: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    facts: tuple[tuple[str, Cell], ...] = ()
    table: Table | None = None
    revealed: tuple[tuple[str, str], ...] = ()
    ask: tuple[int, str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of a page: a heading, paragraphs, then a picture, a table and cases where there are any."""

    anchor: str
    title: str
    text: tuple[str, ...] = ()
    picture: Picture | None = None
    table: Table | None = None
    cases: tuple[Case, ...] = ()
    parts: tuple[Section, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tab:
    """Sections that are shown together; without scripts and on paper all tabs are shown."""

    anchor: str
    title: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole page: sections, or tabs of sections.

    ``stamp``: what it was made from; no clock, no machine, so that equal inputs give equal bytes. ``warning``: what
    has to be seen before anything else.
    """

    title: str
    lead: str
    sections: tuple[Section, ...] = ()
    tabs: tuple[Tab, ...] = ()
    stamp: tuple[tuple[str, str], ...] = field(default=())
    warning: str = ""


def render(page: Page) -> str:
    """Return the page as one HTML document.

    Examples
    --------
    >>> text = render(Page(title="<b>", lead="", sections=()))
    >>> "<b>" in text, "&lt;b&gt;" in text
    (False, True)
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_text("page.html.j2"))
    whole = (*page.sections, *(section for tab in page.tabs for section in tab.sections))
    pictures = list(_pictures(whole))
    library = _inert(vega_library()) if pictures else ""
    script = _text("page.js")
    asks = any(case.ask for section in whole for case in section.cases)
    review = _text("review.js") if asks else ""
    return template.render(
        page=page,
        style=_text("page.css") + _verdict_styles(),
        library=library,
        script=script,
        review=review,
        policy=_policy([text for text in (script, library, review) if text]),
        specs=[embedded(picture.spec) for picture in pictures],
        numbers={id(picture): number for number, picture in enumerate(pictures)},
        pid=id,
        breakable=Markup(
            "_<wbr>"
        ),  # a long name breaks after an underscore, and is copied without a trace of it
        kind=lambda cell: type(cell).__name__,
        page_rows=PAGE_ROWS,
        page_cases=PAGE_CASES,
    )


def embedded(value: Any) -> str:
    r"""JSON that may stand inside a script element: no character in it can end the element.

    >>> print(embedded({"tool": "</script>"}))
    {"tool":"\u003c/script\u003e"}
    """
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).translate(_MARKED)


def _inert(script: str) -> str:
    """Keep the text of a library from ending its own element."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(scripts: list[str]) -> str:
    """Forbid everything but the scripts of this page by their digests, and inline styles (Vega sets some)."""
    digests = " ".join(f"'sha256-{base64.b64encode(sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return (
        f"default-src 'none'; script-src {digests}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )


def _pictures(sections: tuple[Section, ...]) -> list[Picture]:
    found: list[Picture] = []
    for section in sections:
        if section.picture is not None and section.picture.spec:
            found.append(section.picture)
        found += _pictures(section.parts)
    return found


def _verdict_styles() -> str:
    from agentlens.report.palette import COLOURS, INK

    return "".join(f".is-{name} {{ background: {COLOURS[name]}; color: {INK[name]} }}\n" for name in COLOURS)


def _text(name: str) -> str:
    return files("agentlens.report").joinpath(name).read_text(encoding="utf-8")
