"""A made-up press office that researches and publishes briefs, logged as native records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.datasets.story import Call

if TYPE_CHECKING:
    from agentlens.datasets.draws import Draws

QUERIES = ("eelgrass acreage", "harbour dredging 1987", "ferry noise survey", "ice days", "cod nursery depth")
TITLES = ("Eelgrass returns", "Quiet ferries", "What dredging left", "Ice in the sound", "The cod nursery")


class PressWorld:
    """Research and publishing runs with declared evidence (`World`)."""

    name = "press"
    format = "native"
    workflow = "weekly-brief"
    agent = "researcher"
    helper_agent = "fact-checker"
    models: tuple[str, ...] = ("mistral-large", "claude-haiku-4-5")
    versions: tuple[str, ...] = ("0.9.2", "1.0.0")
    tasks: tuple[str, ...] = (
        "Brief on eelgrass in the inner sound",
        "Brief on ferry noise and porpoises",
        "Brief on what the dredging left behind",
        "Brief on ice days since 1960",
        "Brief on the cod nursery",
        "Catalogue of harbour photographs",
        "Yearly list of sources",
        "Correction of the August brief",
    )

    def work(self, draws: Draws, i: int) -> Call:
        """Return searching, opening, noting or rendering; the brief grows each time."""
        source = f"src-{draws.hex(5)}"
        kind = draws.below(4)
        grown = f"brief:{draws.hex(12)}"
        if kind == 0:
            query = f"{draws.pick(QUERIES)} {draws.between(1950, 2026)}"
            return Call("search_sources", {"query": query}, [source, f"src-{draws.hex(5)}"], evidence=grown)
        if kind == 1:
            return Call("open_source", {"source": source}, {"pages": draws.between(2, 60)}, evidence=grown)
        if kind == 2:
            return Call(
                "add_note",
                {"brief": "current", "source": source, "page": i},
                {"notes": i + 1},
                evidence=grown,
            )
        return Call(
            "render_brief", {"brief": "current", "revision": i}, {"words": 300 + 41 * i}, evidence=grown
        )

    def probe(self, draws: Draws) -> Call:
        """Return a search without hits; the brief stays as it is."""
        query = f"{draws.pick(QUERIES)} primary source"
        return Call("search_sources", {"query": query}, [], evidence=f"brief:{draws.hex(12)}")

    def ring(self, draws: Draws, period: int) -> list[Call]:
        """Return a round of searching and opening that adds nothing to the brief."""
        brief = f"brief:{draws.hex(12)}"
        sources = [f"src-{draws.hex(5)}" for _ in range(period)]
        search = Call("search_sources", {"query": draws.pick(QUERIES)}, sources[:1], evidence=brief)
        opened = [Call("open_source", {"source": s}, {"pages": 12}, evidence=brief) for s in sources]
        return [search, *opened][:period]

    def undo(self, draws: Draws) -> list[Call]:
        """Return publishing a draft and taking it back."""
        draft = f"draft-{draws.hex(4)}"
        return [
            Call("publish", {"draft": draft}, {"public": True}, evidence=f"page:{draft}:public"),
            Call("unpublish", {"draft": draft}, {"public": False}, evidence=f"page:{draft}:hidden"),
        ]

    def poll(self, shown: str) -> Call:
        """Return a look at the print queue."""
        return Call("queue_status", {"job": "print-77"}, {"state": shown}, evidence=f"job:{shown}")

    def page(self, draws: Draws, i: int) -> Call:
        """Return the next page of the catalogue."""
        rows = 48 + 45 * i
        return Call(
            "fetch_page",
            {"catalogue": "photographs", "cursor": f"c{i}"},
            {"rows": 45, "first": draws.hex(5)},
            evidence=f"rows:{rows}",
        )

    def refused(self, error: str) -> Call:
        """Return a download that the archive turned down."""
        return Call("fetch_scan", {"scan": "harbour-1987-03"}, None, error, evidence="scans:12")

    def served(self, draws: Draws) -> Call:
        """Return the same download, answered."""
        return Call(
            "fetch_scan",
            {"scan": "harbour-1987-03"},
            {"bytes": draws.between(40_000, 60_000)},
            evidence="scans:13",
        )

    def wander(self, draws: Draws, i: int) -> Call:
        """Return ever new searches after which the brief is what it was."""
        query = f"{draws.pick(QUERIES)} letter {i}"
        return Call("search_sources", {"query": query}, [], evidence="brief:unchanged-since-noon")

    def write(self, draws: Draws) -> Call:
        """Return saving a draft."""
        args = {"draft": "current", "title": draws.pick(TITLES)}
        return Call("save_draft", args, {"saved": True}, evidence=f"draft:{draws.hex(8)}")

    def look(self, draws: Draws, i: int) -> Call:
        """Return reading the inbox, in which something new has come."""
        return Call(
            "read_inbox",
            {"box": "press"},
            {"letters": i + 1, "newest": draws.pick(TITLES)},
            evidence=f"letters:{i + 1}",
        )

    def check(self, draws: Draws, *, passed: bool) -> Call:
        """Return looking at the public page."""
        state = "verified" if passed else "missing"
        return Call(
            "verify_public", {"page": "current"}, {"state": state}, evidence=f"public:{state}:{draws.hex(6)}"
        )

    def delegate(self, draws: Draws) -> Call:
        """Return asking the fact-checker."""
        return Call("ask_fact_checker", {"brief": "current", "claims": draws.between(3, 9)}, {"taken": True})
