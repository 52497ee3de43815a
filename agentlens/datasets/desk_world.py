"""A passenger desk of a made-up ferry line, traced with OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentlens.datasets.story import Call

if TYPE_CHECKING:
    from agentlens.datasets.draws import Draws

ROUTES = ("Aldersund-Korsholm", "Korsholm-Vindby", "Vindby-Aldersund", "Aldersund-Lyngso")
TOPICS = ("missed sailing", "bicycle fare", "pet cabin", "group refund", "fog cancellation", "late check-in")
NAMES = ("Berg", "Okafor", "Lindqvist", "Moreau", "Tanaka", "Silva", "Haddad", "Novak")


class DeskWorld:
    """Passenger desk conversations (`World`)."""

    name = "desk"
    format = "otlp"
    workflow = "passenger-desk"
    agent = "concierge"
    helper_agent = "refunds"
    models: tuple[str, ...] = ("gpt-5-mini", "gemini-2.5-flash")
    versions: tuple[str, ...] = ("3.2.0", "3.3.1")
    tasks: tuple[str, ...] = (
        "Move a family booking to the evening sailing",
        "Explain why the fog cancellation was not refunded",
        "Find a sailing with room for two campers",
        "Credit a passenger who was charged twice",
        "Answer the school that wants a group fare",
        "Correct the name on a booking",
        "List every sailing of the long weekend",
        "Return a lost bicycle to its owner",
    )

    def work(self, draws: Draws, i: int) -> Call:
        """Return looking up, quoting or noting, each with something new in it."""
        reference = f"LF{draws.between(10_000, 99_999)}"
        kind = draws.below(4)
        if kind == 0:
            found = {"reference": reference, "name": draws.pick(NAMES), "cars": draws.below(3), "paid": True}
            return Call("find_booking", {"reference": reference}, found)
        if kind == 1:
            day = f"2026-12-{draws.between(1, 28):02d}"
            rows = [{"departs": f"{h:02d}:15", "seats": draws.between(0, 180)} for h in (7, 12, 18)]
            return Call("list_sailings", {"route": draws.pick(ROUTES), "day": day}, {"sailings": rows})
        if kind == 2:
            fare = draws.between(20, 240)
            return Call(
                "quote_change", {"reference": reference, "step": i}, {"fare_eur": fare, "fee_eur": 12}
            )
        topic = draws.pick(TOPICS)
        note = {"ticket": f"T-{draws.between(100, 999)}", "note": f"{topic}: told {draws.pick(NAMES)} ({i})"}
        return Call("add_note", note, {"saved": draws.hex(8)})

    def probe(self, draws: Draws) -> Call:
        """Return a search of the policy that finds nothing."""
        return Call("search_policy", {"query": draws.pick(TOPICS), "lang": "en"}, {"hits": []})

    def ring(self, draws: Draws, period: int) -> list[Call]:
        """Return a round through sections that refer to each other."""
        sections = draws.several(("4.1", "4.3", "7.2", "9.1", "9.4"), max(period - 1, 1))
        topic = draws.pick(TOPICS)
        first = Call("search_policy", {"query": topic, "lang": "en"}, {"hits": sections[:1]})
        reads = [
            Call("read_policy", {"section": s}, {"text": f"{topic}: see {sections[0]}"}) for s in sections
        ]
        return [first, *reads][:period]

    def undo(self, draws: Draws) -> list[Call]:
        """Return moving a booking and moving it back."""
        reference = f"LF{draws.between(10_000, 99_999)}"
        return [
            Call("move_booking", {"reference": reference, "departs": t}, {"ok": True, "departs": t})
            for t in ("12:15", "18:15")
        ]

    def poll(self, shown: str) -> Call:
        """Return a look at a payment that is being reversed."""
        return Call("payment_state", {"payment": "PAY-20418"}, {"payment": "PAY-20418", "state": shown})

    def page(self, draws: Draws, i: int) -> Call:
        """Return the next page of sailings."""
        args = {"route": ROUTES[0], "page_token": f"p{i}"}
        rows = [f"{draws.hex(4)}@{h:02d}:15" for h in (7, 12, 18)]
        return Call("list_sailings", args, {"sailings": rows, "seen": 50 + 44 * i})

    def refused(self, error: str) -> Call:
        """Return a quote that the fare service turned down."""
        return Call("quote_group", self._group(), None, error)

    def served(self, draws: Draws) -> Call:
        """Return the same quote, answered."""
        return Call(
            "quote_group", self._group(), {"fare_eur": draws.between(400, 900), "held_until": "2026-12-01"}
        )

    def wander(self, draws: Draws, i: int) -> Call:
        """Return ever new questions to a search that finds nothing."""
        return Call("search_policy", {"query": f"{draws.pick(TOPICS)} case {i}", "lang": "en"}, {"hits": []})

    def write(self, draws: Draws) -> Call:
        """Return saving one draft."""
        args = {
            "ticket": f"T-{draws.between(100, 999)}",
            "text": f"Dear {draws.pick(NAMES)}, we are looking into it.",
        }
        return Call("save_draft", args, {"saved": True})

    def look(self, draws: Draws, i: int) -> Call:
        """Return the length of the queue, which is another every time."""
        return Call(
            "queue_length",
            {"desk": "harbour"},
            {"waiting": 41 - 3 * i, "oldest_min": 55 - 2 * i - draws.below(2)},
        )

    def check(self, draws: Draws, *, passed: bool) -> Call:
        """Return reading back what the passenger will see."""
        reference = f"LF{draws.between(10_000, 99_999)}"
        return Call("read_back", {"reference": reference}, {"matches_request": passed, "stamp": draws.hex(6)})

    def delegate(self, draws: Draws) -> Call:
        """Return the transfer to the refunds agent."""
        return Call("transfer_to_refunds", {"reason": draws.pick(TOPICS)}, {"assistant": self.helper_agent})

    def _group(self) -> dict[str, object]:
        return {"route": ROUTES[2], "persons": 34, "day": "2026-12-12"}
