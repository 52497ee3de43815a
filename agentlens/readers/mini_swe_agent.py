"""mini-swe-agent trajectories: a bare message list (0.x), ``info`` beside the messages (1.x), tool calls (2.x)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from agentlens.model.raw import RawEvent
from agentlens.readers.base import Format
from agentlens.readers.blocks import count_of, number_of, text_of
from agentlens.readers.decode import attempt
from agentlens.readers.documents import documents, first_document
from agentlens.readers.stamps import epoch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentlens.readers.base import Record, Report
    from agentlens.readers.source import Head, Source

_TOOL: Final = "bash"
_NAMED = re.compile(rb'"trajectory_format"\s*:\s*"mini-swe-agent|"mini_version"\s*:')
_TEXT_SIGNS: Final = (
    b"mswea_bash_command",
    b"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
    b"MINI_SWE_AGENT_FINAL_OUTPUT",
)
_FENCES: Final = tuple(
    re.compile(rf"```{name}[ \t]*\r?\n(.*?)\r?\n```", re.DOTALL) for name in ("mswea_bash_command", "bash")
)
_RETURNED = re.compile(r"<returncode>\s*(-?\d{1,6})\s*</returncode>")
_OUTPUT = re.compile(r"<output>\r?\n?(.*)</output>", re.DOTALL)
_ELIDED = re.compile(r"<elided_chars>|<output_head>")
_TIMEOUT = re.compile(r"The last command <command>.*?timed out and has been killed", re.DOTALL)
_FORMAT_ERROR = re.compile(
    r"Please always provide EXACTLY ONE action|EVERY response needs to use|found \d+ actions"
)
_REJECTED: Final = "Command not executed. The user rejected your command"
_HUMAN: Final = (
    "Interrupted by user",
    "The user added a new task",
    "Temporary interruption caught",
    _REJECTED,
)
_SUBMITTED: Final = "Submitted"
_HOLDS: Final = ("messages",)


def claim(head: Head) -> int:
    """Claim by the format's name or version; an old bare list by the words of its prompt."""
    if head.magic:
        return 0
    first = first_document(head, _HOLDS)
    if isinstance(first, list):
        return 85 if _is_list(first) and any(sign in head.data for sign in _TEXT_SIGNS) else 0
    if not isinstance(first, dict):
        return 0
    info = first.get("info")
    if text_of(first.get("trajectory_format")).startswith("mini-swe-agent") or (
        isinstance(info, dict) and "mini_version" in info
    ):
        return 96
    if "trajectory" in first:
        return 0
    if isinstance(first.get("messages"), list) and isinstance(info, dict) and "exit_status" in info:
        return 88
    if isinstance(info, dict) and _NAMED.search(head.data):
        return 80
    # what stands beside the messages may lie beyond the head
    spoken = isinstance(first.get("messages"), list) and b"<returncode>" in head.data
    return 70 if spoken and any(sign in head.data for sign in _TEXT_SIGNS) else 0


def _is_list(messages: list[Any]) -> bool:
    return len(messages) > 1 and all(isinstance(item, dict) and "role" in item for item in messages[:3])


def read(source: Source, report: Report) -> Iterator[Record]:
    """Yield the events of one trajectory, in order of its messages."""
    for name, base, document in documents(source, report, ("messages", ""), _HOLDS):
        about = document if isinstance(document, dict) else {}
        messages = about.get("messages") if about else document
        if not isinstance(messages, list):
            report.quarantine(base, "no trajectory: a list of messages was expected", "record")
            continue
        run_id = text_of(about.get("instance_id")) or name
        yield from _Trajectory(report=report, about=about, run_id=run_id, base=base).events(messages)


@dataclass(slots=True)
class _Trajectory:
    """One run. Calls wait for the message that answers them."""

    report: Report
    about: dict[str, Any]
    run_id: str
    base: int
    waiting: list[RawEvent] = field(default_factory=list)
    asked: bool = False  # the task was given
    spent: bool = False  # a message told its own cost
    submits: bool = False  # the last command hands the work in
    exit: str = ""

    @property
    def info(self) -> dict[str, Any]:
        info = self.about.get("info")
        return info if isinstance(info, dict) else {}

    def event(self, index: int, order: int, kind: str, **facts: Any) -> RawEvent:
        version = text_of(self.info.get("mini_version"))
        task = text_of(self.about.get("instance_id"))
        fields: dict[str, Any] = {
            "run_id": self.run_id,
            "position": (self.base + index, order),
            "agent_version": version or None,
            "task_group": task or None,
            "identity": f"{self.base + index}/{order}",
        }
        return RawEvent(kind=kind, **{**fields, **facts})

    def events(self, messages: list[Any]) -> Iterator[RawEvent]:
        for index, message in enumerate(messages):
            if not isinstance(message, dict):
                self.report.quarantine(self.base + index, "a message that is no object", "record")
                continue
            role = text_of(message.get("role"))
            if role == "assistant":
                yield from self._flush()
                yield from self._assistant(message, index)
            elif role == "exit":
                yield from self._exit(message, index)
            elif role in {"user", "tool"}:
                yield from self._answer(message, index, role)
        submitted = self._is_submitted(messages)
        yield from self._flush()
        yield from self._final(len(messages), submitted=submitted)

    def _flush(self) -> Iterator[RawEvent]:
        """Yield calls that nothing answered."""
        yield from self.waiting
        self.waiting = []

    def _assistant(self, message: dict[str, Any], index: int) -> Iterator[RawEvent]:
        extra = _extra(message)
        response = extra.get("response")
        response = response if isinstance(response, dict) else {}
        at = epoch(extra.get("timestamp") or message.get("timestamp") or response.get("created"))
        yield from self._model(extra, response, at, index)
        commands = _commands(message, extra)
        for order, (command, call_id) in enumerate(commands, 1):
            self.waiting.append(
                self.event(
                    index,
                    order,
                    "tool",
                    tool=_TOOL,
                    args={"command": command},
                    at=at,
                    call_id=call_id or None,
                    open=True,
                )
            )
            self.submits = any(sign.decode() in command for sign in _TEXT_SIGNS[1:])

    def _model(
        self, extra: dict[str, Any], response: dict[str, Any], at: int | None, index: int
    ) -> Iterator[RawEvent]:
        usage = response.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        into, out = count_of(usage.get("prompt_tokens")), count_of(usage.get("completion_tokens"))
        cost = number_of(extra.get("cost"))
        if cost is None and usage.get("cost") is not None:
            cost = number_of(usage.get("cost"))
        if into is None and out is None and cost is None:
            return
        self.spent = self.spent or cost is not None
        yield self.event(
            index,
            0,
            "model",
            at=at,
            model=text_of(response.get("model")) or self._model_name(),
            tokens_in=into,
            tokens_out=out,
            cost_usd=cost,
        )

    def _model_name(self) -> str | None:
        config = self.info.get("config")
        model = config.get("model") if isinstance(config, dict) else None
        return (text_of(model.get("model_name")) or None) if isinstance(model, dict) else None

    def _answer(self, message: dict[str, Any], index: int, role: str) -> Iterator[RawEvent]:
        extra = _extra(message)
        text = _text(message)
        call_id = text_of(message.get("tool_call_id"))
        human = extra.get("interrupt_type") == "UserInterruption" or text.lstrip().startswith(_HUMAN)
        call = self._called(call_id)
        if human and role == "user":
            if call is not None and _REJECTED in text:
                self.waiting.remove(call)
                call.error_class, call.open, call.result = "rejected_by_user", False, None
                yield call
                yield self.event(
                    index, 1, "approval", tool=_TOOL, target=_TOOL, error_class="rejected_by_user"
                )
            yield self.event(index, 0, "message", tool="user", external_input=True)
        elif call is not None:
            self.waiting.remove(call)
            call.result, call.error_class = _outcome(text, extra)
            call.ended_at, call.open = epoch(extra.get("timestamp") or message.get("timestamp")), False
            yield call
        elif role == "tool":
            self.report.unknown["tool message without its call"] += 1
        elif not self.asked:
            yield self.event(index, 0, "message", tool="user", external_input=True)
        elif extra.get("interrupt_type") == "FormatError" or _FORMAT_ERROR.search(text):
            yield self.event(index, 0, "log", tool="format_error", error_class="format_error")
        self.asked = True

    def _called(self, call_id: str) -> RawEvent | None:
        """Return the call that a message answers: the one it names, else the oldest."""
        named = next((call for call in self.waiting if call_id and call.call_id == call_id), None)
        return named or (
            None if call_id and any(c.call_id for c in self.waiting) else next(iter(self.waiting), None)
        )

    def _exit(self, message: dict[str, Any], index: int) -> Iterator[RawEvent]:
        extra = _extra(message)
        self.exit = text_of(extra.get("exit_status")) or _text(message)[:80]
        for call in self.waiting:
            if self.exit == _SUBMITTED:  # the command that hands the work in gets no message of its own
                call.result, call.open = text_of(extra.get("submission")) or _text(message), False
        yield from self._flush()
        if self.exit != _SUBMITTED:
            yield self.event(index, 0, "log", tool="exit", error_class=_snake(self.exit) or "exit")

    def _is_submitted(self, messages: list[Any]) -> bool:
        status = text_of(self.info.get("exit_status")) or self.exit
        if status:
            return status == _SUBMITTED
        last = messages[-1] if messages else None
        return self.submits and isinstance(last, dict) and last.get("role") != "assistant"

    def _final(self, index: int, *, submitted: bool) -> Iterator[RawEvent]:
        """The cost that only stands in the sum, and the agent's own word that it is done."""
        stats = self.info.get("model_stats")
        cost = number_of(stats.get("instance_cost")) if isinstance(stats, dict) else None
        if cost and not self.spent:
            yield self.event(index, 0, "model", model=self._model_name(), cost_usd=cost)
        status = text_of(self.info.get("exit_status"))
        if submitted:
            yield self.event(index, 1, "claim", tool="submit", target="success")
        elif status and not self.exit:
            yield self.event(index, 1, "log", tool="exit", error_class=_snake(status))


def _commands(message: dict[str, Any], extra: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the commands that an answer of the model runs, with their call ids.

    What the agent itself parsed stands in ``extra.actions``; older versions ran the one fenced block, and no
    command at all where there were several.
    """
    actions = extra.get("actions")
    if isinstance(actions, list):
        parsed = [action for action in actions if isinstance(action, dict)]
        return [(text_of(one.get("command")), text_of(one.get("tool_call_id"))) for one in parsed]
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return [called for call in calls if (called := _called_command(call)) is not None]
    text = _text(message)
    fenced = next((found for fence in _FENCES if (found := fence.findall(text))), [])
    return [(fenced[0].strip(), "")] if len(fenced) == 1 else []


def _called_command(call: Any) -> tuple[str, str] | None:
    function = call.get("function") if isinstance(call, dict) else None
    args = function.get("arguments") if isinstance(function, dict) else None
    args = attempt(args) if isinstance(args, str) else args
    command = args.get("command") if isinstance(args, dict) else None
    return (command, text_of(call.get("id"))) if isinstance(command, str) else None


def _outcome(text: str, extra: dict[str, Any]) -> tuple[Any, str | None]:
    """Return what the command printed and the class of its failure.

    An output of which the middle was left out is no evidence, unless the whole stands beside it.
    """
    raw, code = extra.get("raw_output"), extra.get("returncode")
    returned = _RETURNED.search(text)
    if not isinstance(code, int) or isinstance(code, bool):
        code = int(returned[1]) if returned else None
    body = _OUTPUT.search(text)
    result: Any = raw if isinstance(raw, str) else body[1] if body else None if _ELIDED.search(text) else text
    if extra.get("exception_info"):
        info = text_of(extra.get("exception_info"))
        return result, "timeout" if re.search(r"(?i)time[d ]*out", info) else "execution_error"
    if _TIMEOUT.search(text):
        return result, "timeout"
    return result, f"exit_{code}" if code else None


def _extra(message: dict[str, Any]) -> dict[str, Any]:
    extra = message.get("extra")
    return extra if isinstance(extra, dict) else {}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    return text_of(content)


def _snake(name: str) -> str:
    return re.sub(r"\W+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")


FORMAT = Format(
    name="mini-swe-agent",
    version=2,
    title="mini-swe-agent trajectories (.traj.json)",
    recognised_by="trajectory_format or info.mini_version; a message list with its submit command",
    proved_on="72 SWE-bench runs of 1.15, one list of 0.x, one run of 2.4",
    claim=claim,
    read=read,
)
