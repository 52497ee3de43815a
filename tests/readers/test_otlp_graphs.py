"""Graphs (LangGraph) as two instrumentations trace them: lanes, questions, answers, handoffs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.readers.reading import events
from tests.readers.spans_made import T0, attributes, lines, request, span

UUID = "4af9a5f7-074b-8aa5-9a35-fb4ece7e30f7"
INSIDE = f"planner:{UUID}|tools:{UUID}"
OUTSIDE = f"tools:{UUID}"


def traced(how: str, plain: dict[str, Any], place: str) -> dict[str, Any]:
    """Return attributes as one of the two puts the place in the graph beside them."""
    if how == "openinference":
        return plain | {"metadata": json.dumps({"langgraph_node": "tools", "langgraph_checkpoint_ns": place})}
    return plain | {"traceloop.association.properties.langgraph_checkpoint_ns": place}


@pytest.mark.parametrize("how", ["openinference", "traceloop"])
@pytest.mark.parametrize(("place", "lane"), [(INSIDE, "planner"), (OUTSIDE, None)])
def test_the_lane_of_a_call_is_the_graph_that_its_node_stands_in(
    how: str, place: str, lane: str | None
) -> None:
    """A node of the outermost graph inherits; that of a graph inside belongs to this one."""
    plain = {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": "Bern"}
    (found,) = events(lines(request(span(2, "look", traced(how, plain, place), parent=1))))
    assert (found.kind, found.agent) == ("tool", lane)


def test_an_agent_that_is_named_is_the_lane() -> None:
    """The name that the metadata gives wins over the place in the graph, an attribute of its own over both."""
    told = json.dumps({"langgraph_checkpoint_ns": INSIDE, "lc_agent_name": "Researcher"})
    plain = {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": "x", "metadata": told}
    assert events(lines(request(span(2, "look", plain, parent=1))))[0].agent == "Researcher"
    named = plain | {"gen_ai.agent.name": "Other"}
    assert events(lines(request(span(2, "look", named, parent=1))))[0].agent == "Other"


@pytest.mark.parametrize("status", [{"code": 1}, {"code": 2}, {}])
def test_a_question_is_a_wait_whatever_status_its_spans_end_with(status: dict[str, Any]) -> None:
    """One instrumentation ends them well, another as failures; the exception says that a person is asked."""
    about = {
        "exception.type": "langgraph.errors.GraphInterrupt",
        "exception.message": "(Interrupt(value='ok?', id='7f54'),)",
    }
    note = {"name": "exception", "timeUnixNano": str(T0), "attributes": attributes(about)}
    plain = {"openinference.span.kind": "TOOL", "tool.name": "ask", "input.value": "ok?"}
    found = events(lines(request(span(2, "ask", plain, parent=1, status=status, events=[note]))))
    assert [(one.kind, one.error_class, one.open) for one in found] == [
        ("tool", None, True),
        ("wait", None, True),
    ]


def test_a_graph_that_leaves_a_node_did_not_fail() -> None:
    """The command that goes on in the graph around is raised like an error."""
    about = {
        "exception.type": "langgraph.errors.ParentCommand",
        "exception.message": "Command(goto='writer')",
    }
    note = {"name": "exception", "timeUnixNano": str(T0), "attributes": attributes(about)}
    plain = {"openinference.span.kind": "CHAIN"}
    (found,) = events(lines(request(span(2, "planner", plain, parent=1, status={"code": 2}, events=[note]))))
    assert (found.kind, found.error_class) == ("log", None)


def test_the_answer_to_a_question_is_a_persons_turn() -> None:
    """The graph is called again with a command that resumes it."""
    told = json.dumps({"graph": None, "update": None, "resume": "yes", "goto": []})
    plain = {"openinference.span.kind": "CHAIN", "input.value": told}
    found = events(lines(request(span(1, "team", plain))))
    assert [(one.kind, one.external_input) for one in found] == [("log", None), ("message", True)]


def test_where_a_node_went_on_to_is_a_handoff_unless_a_tool_said_so() -> None:
    """The span of a goto names both ends; behind the node of the tools the tool's own span tells the handoff."""
    names = ("langgraph.command.source_node", "langgraph.command.goto_node")
    found = [
        events(
            lines(
                request(
                    span(
                        2,
                        f"goto {to}",
                        {"gen_ai.operation.name": "goto", names[0]: at, names[1]: to},
                        parent=1,
                    )
                )
            )
        )[0]
        for at, to in (("router", "planner"), ("tools", "writer"))
    ]
    assert [(one.kind, one.agent, one.target) for one in found] == [
        ("handoff", "router", "planner"),
        ("log", "tools", None),
    ]


def test_a_score_without_a_label_is_a_verdict_at_its_ends() -> None:
    """One is passed, zero failed, a part neither."""
    for score, outcome in ((1, "passed"), (0.0, "failed"), (0.5, "unknown")):
        told = {"gen_ai.evaluation.name": "tests", "gen_ai.evaluation.score.value": score}
        note = {"name": "gen_ai.evaluation.result", "timeUnixNano": str(T0), "attributes": attributes(told)}
        plain = {"gen_ai.operation.name": "chat"}
        found = events(lines(request(span(2, "chat m", plain, parent=1, events=[note]))))
        assert found[-1].outcome == outcome


def test_a_handoff_asked_for_twice_did_not_fail() -> None:
    """Its span says that several were requested, and the first of them happens."""
    status = {"code": 2, "message": "Multiple handoffs requested: {'requested_agents': ['B', 'B']}"}
    plain = {"openinference.span.kind": "TOOL"}
    (found,) = events(lines(request(span(2, "handoff to B", plain, parent=1, status=status))))
    assert (found.kind, found.target, found.error_class) == ("handoff", "B", None)
