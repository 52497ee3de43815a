"""The action signature: what an action means."""

from __future__ import annotations

import pytest

from tests.normalise.norm import KEY, facts, normaliser, signature


def same(tool, one, two):
    return signature(tool, one) == signature(tool, two)


@pytest.mark.parametrize(
    "name",
    [
        "request_id", "trace_id", "span_id", "message_id", "call_id", "tool_call_id", "timestamp", "created_at",
        "updated_at", "nonce", "seed", "random_seed", "thought", "reasoning", "explanation", "rationale", "display_name",
    ],
)  # fmt: skip
def test_volatile_names_for_every_tool(name):
    """Each is dropped beside another argument, at any depth, and kept where it is the only one."""
    assert same("any_tool", {"x": 1, name: "a"}, {"x": 1, name: "b"})
    assert same("any_tool", {"x": {"y": 1, name: "a"}}, {"x": {"y": 1}})
    assert not same("any_tool", {name: "a"}, {name: "b"})


@pytest.mark.parametrize(
    "name",
    ["page_token", "cursor", "offset", "id", "path", "user_id", "uuid", "description", "reason", "title"],
)
def test_everything_else_stays_for_an_unknown_tool(name):
    """A miss is cheaper than a false alarm: prose and ids of unknown tools count."""
    assert not same("any_tool", {"x": 1, name: "a1"}, {"x": 1, name: "a2"})


def test_digits_and_uuids_are_never_collapsed():
    """Two pages, two records, two paths are two actions."""
    assert not same("get", {"url": "/items/1"}, {"url": "/items/2"})
    ids = ["6f1f7f3e-0000-4000-8000-000000000001", "6f1f7f3e-0000-4000-8000-000000000002"]
    assert not same("get", {"item": ids[0]}, {"item": ids[1]})


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('{"a":1,"b":2}', {"b": 2.0, "a": 1}),
        ('{"cmd":"x"}', '{"cmd": "x"}'),
        ('"{\\"cmd\\": \\"x\\"}"', {"cmd": "x"}),
        ("{'cmd': 'x'}", {"cmd": "x"}),
        ("  text\r\nmore ", "text\nmore"),
    ],
)
def test_encoding_is_no_difference(one, two):
    """Arguments that are JSON text are parsed, twice encoded ones and Python literals too."""
    assert same("any_tool", one, two)


def test_no_arguments_is_not_unknown_arguments():
    """``{}`` is a call without arguments; arguments that were not exported give no signature."""
    assert signature("list") is None
    assert signature("list", {}) is not None
    assert signature("list", {}) != signature("list", None) != signature("list", "")


def test_tool_and_scope_change_the_meaning():
    """The same arguments to another tool, or to another destination, are another action."""
    assert signature("a", {"x": 1}) != signature("b", {"x": 1})
    scoped = [signature("deploy", {"x": 1}, scope=s) for s in (None, {"to": "staging"}, {"to": "production"})]
    assert len(set(scoped)) == 3
    assert signature("ab", "c") != signature("a", "bc")


def test_prose_of_known_tools_goes():
    """The description of a shell call, the title of a sub-agent, the active form of a to-do."""
    assert same(
        "Bash", {"command": "ls", "description": "List"}, {"command": "ls", "description": "Look again"}
    )
    assert not same("Bash", {"command": "ls", "timeout": 1}, {"command": "ls", "timeout": 2})
    todo = [
        {"todos": [{"content": "x", "status": "pending", "activeForm": f}]}
        for f in ("Doing x", "Working on x")
    ]
    assert same("TodoWrite", *todo)
    done = {"todos": [{"content": "x", "status": "completed", "activeForm": "Doing x"}]}
    assert not same("TodoWrite", todo[0], done)


def test_element_references():
    """A reference goes only where role and name say which element."""
    named = [{"ref": r, "role": "button", "name": "Save"} for r in ("e1", "e2")]
    assert same("mcp__playwright__browser_click", *named)
    assert not same("browser_click", {"ref": "e1"}, {"ref": "e2"})


def test_commands_are_compared_as_words():
    """Spacing around operators is no difference in a shell; in another tool it is."""
    assert same("Bash", {"command": "ls|wc"}, {"command": "ls | wc"})
    assert same("shell", ["bash", "-lc", "ls|wc"], ["bash", "-lc", "ls | wc"])
    assert same("run_sql", {"query": "SELECT 1;"}, {"query": "select 1"})
    assert not same("note", {"command": "ls|wc"}, {"command": "ls | wc"})
    assert same("bash", "ls|wc", "ls | wc")
    assert not same("bash", "[ -f x ]", "[ -f y ]")


def test_indentation_of_written_text_counts():
    """An edit that only indents is another edit."""
    edits = [{"file_path": "a", "old_string": "x", "new_string": text} for text in ("y", "    y")]
    assert not same("Edit", *edits)


def test_empty_and_no_op_commands_are_actions():
    """An empty command and ``:`` have signatures of their own, the same each time."""
    assert same("Bash", {"command": "", "description": "a"}, {"command": " ", "description": "b"})
    assert same("Bash", {"command": ":"}, {"command": ": "})
    assert not same("Bash", {"command": ""}, {"command": ":"})


def test_images_are_compared_by_their_bytes():
    """An image argument is digested, not kept."""
    image = [{"image": "data:image/png;base64," + c * 300} for c in "AB"]
    assert not same("look", *image)
    kept = normaliser(keep_content=True).call("look", image[0]).text
    assert "AAAA" not in kept


def test_hostile_arguments_are_an_unknown_action():
    """Nesting beyond reason gives no signature; the facts of the tool stay."""
    deep = []
    for _ in range(3000):
        deep = [deep]
    assert signature("any_tool", deep) is None
    assert signature("any_tool", {"n": 10**5000}) is None
    assert facts("x" * 10, tool="Write").change is True


def test_key_decides_the_digest():
    """The same action under another key is another digest of 32 hex characters."""
    other = normaliser(key=type(KEY)(b"z" * 16)).call("a", {}).signature
    assert other != signature("a", {})
    assert len(other) == 32


def test_remembering_is_bounded_and_changes_nothing(monkeypatch):
    """A full memory starts again and gives the same digests."""
    monkeypatch.setattr("agentlens.normalise.rows._CACHE_ROWS", 3)
    made = normaliser()
    first = [made.call("t", {"n": n}).signature for n in range(10)]
    assert first == [made.call("t", {"n": n}).signature for n in range(10)]
    assert len(made._calls) <= 3
