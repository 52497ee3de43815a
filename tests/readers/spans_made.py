"""Small OTLP requests, built by hand in the spellings that exporters use."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

TRACE = "5b8aa5a2d2c872e8321cf37308d69df2"
T0 = 1_796_066_000_000_000_000


def sid(number: int) -> str:
    """Return a span id."""
    return f"{number:016x}"


def value(plain: Any) -> dict[str, Any]:
    """Return a value as an OTLP union."""
    if isinstance(plain, bool):
        return {"boolValue": plain}
    if isinstance(plain, int):
        return {"intValue": str(plain)}
    if isinstance(plain, float):
        return {"doubleValue": plain}
    if isinstance(plain, list):
        return {"arrayValue": {"values": [value(item) for item in plain]}}
    if isinstance(plain, dict):
        return {"kvlistValue": {"values": attributes(plain)}}
    return {"stringValue": plain}


def attributes(plain: dict[str, Any]) -> list[dict[str, Any]]:
    """Return attributes as OTLP writes them."""
    return [{"key": name, "value": value(item)} for name, item in plain.items()]


def span(
    number: int,
    name: str,
    plain: dict[str, Any],
    *,
    parent: int | None = None,
    trace: str = TRACE,
    **more: Any,
) -> dict[str, Any]:
    """Return one span, a second after the one before it, half a second long."""
    start = T0 + number * 10**9 + 123_456_789
    made = {
        "traceId": trace,
        "spanId": sid(number),
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 500_000_000),
        "attributes": attributes(plain),
        "status": {"code": 1},
    }
    return made | ({} if parent is None else {"parentSpanId": sid(parent)}) | more


def request(*spans: dict[str, Any], resource: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return one export request."""
    about = {"attributes": attributes({"service.name": "bot"} if resource is None else resource)}
    return {
        "resourceSpans": [
            {"resource": about, "scopeSpans": [{"scope": {"name": "hand"}, "spans": list(spans)}]}
        ]
    }


def lines(*requests: dict[str, Any]) -> bytes:
    """Return requests one a line."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in requests)


def document(one: Any) -> bytes:
    """Return a document over many lines."""
    return json.dumps(one, indent=2).encode()


def tool(
    number: int, name: str, args: Any, result: Any = None, *, parent: int | None = 1, **more: Any
) -> dict[str, Any]:
    """Return a tool span of the GenAI conventions."""
    plain = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    if args is not None:
        plain["gen_ai.tool.call.arguments"] = args
    if result is not None:
        plain["gen_ai.tool.call.result"] = result
    return span(number, f"execute_tool {name}", plain, parent=parent, **more)


def agent(number: int, name: str, *, parent: int | None = None, **more: Any) -> dict[str, Any]:
    """Return an agent span of the GenAI conventions."""
    plain = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return span(number, f"invoke_agent {name}", plain, parent=parent, **more)


SMALL = request(
    tool(2, "search", '{"q": "a"}', "3 hits"),
    tool(3, "search", '{"q": "b"}', "none"),
    span(
        4,
        "chat m",
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 7},
        parent=1,
    ),
    agent(1, "Finder"),
)


def respelled(one: dict[str, Any], how: str) -> Any:
    """Return a request as another exporter would have written it."""
    made = copy.deepcopy(one)
    spans = [
        item for group in made["resourceSpans"] for scope in group["scopeSpans"] for item in scope["spans"]
    ]
    if how == "tempo":
        for item in spans:
            item["status"]["code"] = {1: "STATUS_CODE_OK", 2: "STATUS_CODE_ERROR"}[item["status"]["code"]]
            item["kind"] = "SPAN_KIND_INTERNAL"
            item["startTimeUnixNano"] = int(item["startTimeUnixNano"])
            item["endTimeUnixNano"] = int(item["endTimeUnixNano"])
        for group in made["resourceSpans"]:
            group["instrumentationLibrarySpans"] = group.pop("scopeSpans")
        return {"batches": made["resourceSpans"]}
    if how == "newer tempo":
        return {"trace": made}
    if how == "array":
        return [made]
    if how == "upper case":
        for item in spans:
            for name in {"traceId", "spanId", "parentSpanId"} & item.keys():
                item[name] = item[name].upper()
        return made
    if how == "base64":
        for item in spans:
            for name in {"traceId", "spanId", "parentSpanId"} & item.keys():
                item[name] = base64.b64encode(bytes.fromhex(item[name])).decode()
        return made
    if how == "whole numbers":
        for item in spans:
            for name in {"traceId", "spanId", "parentSpanId"} & item.keys():
                item[name] = int(item[name], 16)
        return made
    assert how == "snake_case"
    return _snake(made)


def _snake(item: Any) -> Any:
    if isinstance(item, dict):
        made = {
            "".join(f"_{c.lower()}" if c.isupper() else c for c in key): _snake(inner)
            for key, inner in item.items()
        }
        if made.keys() & {"string_value", "int_value"}:  # every member of the union is written, most as null
            made = {"bool_value": None, "double_value": None, **made}
        return made
    return [_snake(inner) for inner in item] if isinstance(item, list) else item
