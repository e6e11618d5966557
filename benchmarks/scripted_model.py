"""A model server on the loopback that plays a researcher by a script, for real coding CLIs: no key, no model.

It speaks the Messages API, Chat Completions and Responses, streamed and not, and reports invented token counts.
The script: read the brief, state a hypothesis, submit one candidate, wait for its decision, post a conclusion, end.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.loopback_server import answering

OVER = ("decided", "invalid", "cancelled")
LAB_TOOLS = ("get_brief", "propose_hypothesis", "submit_candidate", "submit_code", "wait", "post_finding")
FOLDER = re.compile(r"(?:[Ww]orking directory|cwd)[^/\n]{0,20}(/[^\s<\"\\\\`]+)")
"""Where a CLI tells a model its working directory."""
CLAIM = {
    "statement": "The learner takes too few steps at too low a rate to leave the base policy.",
    "falsifier": "The candidate does not beat the champion on hidden starts.",
    "regime": "behaviour cloning", "kind": "improve", "effect": "+10 points",
}  # fmt: skip
Body = dict[str, Any]
Step = tuple[str, Body]
"""A tool and its arguments; an empty name for a text that ends the turn."""


@dataclass
class Researcher:
    """The script, and what it was asked."""

    changes: Mapping[str, object]
    """Settings of its candidate."""
    usage: list[tuple[str, int, int, int, int]] = field(default_factory=list[tuple[str, int, int, int, int]])
    """(endpoint, fresh, cache read, cache write, output) of every answer."""
    keys: set[str] = field(default_factory=set[str])
    """Credentials with which it was asked."""

    def next(self, offered: list[str], results: list[tuple[str, str]], folder: str) -> Step:
        """What it does next.

        Args:
            offered: names of the tools that it may use.
            results: (tool, result) of those that it has used.
            folder: working directory of the CLI; empty if it names none.
        """
        names = self.lab_tools(offered)
        if "get_brief" not in names:
            return "", {"text": "There is nothing to do without the laboratory's tools."}
        mine = self.of_lab(results)
        done, last = [name for name, _ in mine], read_result(mine[-1][1]) if mine else {}
        if not done:
            return names["get_brief"], {}
        if done[-1] == "get_brief":
            return names["propose_hypothesis"], CLAIM
        if done[-1] == "propose_hypothesis":
            wanted = {"hypothesis_id": last.get("hypothesis_id", ""), "changes": dict(self.changes)}
            return names["submit_candidate"], wanted
        return self.conclude(names, mine)

    def conclude(self, names: Mapping[str, str], mine: list[tuple[str, str]]) -> Step:
        """After the submission: wait for the decision, post a conclusion, end."""
        done, last = mine[-1][0], read_result(mine[-1][1])
        experiments = last.get("your_experiments") or [{}]
        if done.startswith("submit_") or (done == "wait" and experiments[-1].get("phase") not in OVER):
            return names["wait"], {"seconds": 20.0, **({"after": last["after"]} if "after" in last else {})}
        if done == "wait":
            text = f"The decision was {experiments[-1].get('decision') or experiments[-1].get('phase')}."
            return names["post_finding"], {"text": text, "about": experiments[-1].get("experiment_id", "")}
        return "", {"text": "The experiment is decided and the conclusion is posted."}

    def lab_tools(self, offered: list[str]) -> dict[str, str]:
        """The lab's name of a tool -> its name as the client offers it."""
        return {self._plain(name): name for name in offered if self._plain(name)}

    def of_lab(self, results: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """(tool, result) of the lab's tools."""
        return [(self._plain(name), text) for name, text in results if self._plain(name)]

    def _plain(self, name: str) -> str:
        """The lab's name of a tool, which clients put the server's name before; empty for a tool of the client."""
        return next((tool for tool in LAB_TOOLS if name == tool or name.endswith(f"_{tool}")), "")


def read_result(text: str) -> Body:
    """The JSON object in the result of a tool, which a client may have put into other text."""
    decoder = json.JSONDecoder()
    for start in (index for index, letter in enumerate(text) if letter == "{"):
        with contextlib.suppress(ValueError):
            value, _ = decoder.raw_decode(text[start:])
            return value
    return {}


@contextmanager
def playing(researcher: Researcher) -> Iterator[str]:
    """The address of the server."""
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            researcher.keys.add(self.headers.get("x-api-key") or self.headers.get("authorization") or "")
            if self.path.endswith("/count_tokens"):
                self._send("application/json", json.dumps({"input_tokens": len(json.dumps(body)) // 4}))
                return
            talk = {"messages": Messages, "completions": Chat, "responses": Responses}[self.path.rsplit("/", 1)[-1]]
            answer = talk(body, next(numbers))
            step = researcher.next(answer.offered(), answer.results(), answer.folder())
            count = answer.count(step)
            researcher.usage.append((answer.endpoint, *count))
            if body.get("stream"):
                self._send("text/event-stream", "".join(answer.events(step, count)))
            else:
                self._send("application/json", json.dumps(answer.document(step, count)))

        def _send(self, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with answering(Handler) as address:
        yield address


@dataclass
class Talk:
    """One question and the form of its answer."""

    body: Body
    number: int
    endpoint = ""

    def offered(self) -> list[str]:
        """Names of the tools that it offers."""
        tools = self.body.get("tools") or []
        spaces = [inner for tool in tools if tool.get("type") == "namespace" for inner in tool.get("tools", [])]
        return [tool.get("name") or tool.get("function", {}).get("name", "") for tool in (*tools, *spaces)]

    def folder(self) -> str:
        """Working directory of the client; empty if it names none."""
        found = FOLDER.search(json.dumps(self.body))
        return found[1].rstrip("/.") if found else ""

    def results(self) -> list[tuple[str, str]]:
        """(tool, result) of the tools that were used."""
        raise NotImplementedError

    def count(self, step: Step) -> tuple[int, int, int, int]:
        """(fresh, cache read, cache write, output) tokens: numbers that differ from call to call."""
        size = len(json.dumps(self.body)) // 4
        cached = size // 2
        return size - cached, cached, 0, 20 + len(json.dumps(step)) // 4

    def document(self, step: Step, count: tuple[int, int, int, int]) -> Body:
        """The whole answer."""
        raise NotImplementedError

    def events(self, step: Step, count: tuple[int, int, int, int]) -> Iterator[str]:
        """The answer as a stream."""
        raise NotImplementedError

    @property
    def use(self) -> str:
        """Id of the tool call of this answer."""
        return f"call_{self.number}"


class Messages(Talk):
    """The Messages API."""

    endpoint = "messages"

    def results(self) -> list[tuple[str, str]]:
        blocks = [
            block for message in self.body["messages"] if isinstance(message["content"], list)
            for block in message["content"]
        ]  # fmt: skip
        names = {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
        used = [block for block in blocks if block["type"] == "tool_result"]
        return [(names.get(block["tool_use_id"], ""), _text(block.get("content", ""))) for block in used]

    def count(self, step: Step) -> tuple[int, int, int, int]:
        fresh, cached, _, output = super().count(step)
        return fresh - fresh // 3, cached, fresh // 3, output

    def document(self, step: Step, count: tuple[int, int, int, int]) -> Body:
        name, arguments = step
        used: Body = {"type": "tool_use", "id": self.use, "name": name, "input": arguments}
        block = used if name else {"type": "text", "text": arguments["text"]}
        return {
            "id": f"msg_{self.number}", "type": "message", "role": "assistant", "model": self.body["model"],
            "content": [block], "stop_reason": "tool_use" if name else "end_turn", "stop_sequence": None,
            "usage": self._usage(count),
        }  # fmt: skip

    def events(self, step: Step, count: tuple[int, int, int, int]) -> Iterator[str]:
        whole, [block] = self.document(step, count), self.document(step, count)["content"]
        name, arguments = step
        begun = {**block, "input": {}} if name else {**block, "text": ""}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        delta = delta if name else {"type": "text_delta", "text": arguments["text"]}
        first = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        yield _event("message_start", message=first)
        yield _event("content_block_start", index=0, content_block=begun)
        yield _event("content_block_delta", index=0, delta=delta)
        yield _event("content_block_stop", index=0)
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield _event("message_delta", delta=stop, usage={"output_tokens": count[3]})
        yield _event("message_stop")

    def _usage(self, count: tuple[int, int, int, int]) -> Body:
        keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        return dict(zip(keys, count, strict=True))


class Chat(Talk):
    """Chat Completions."""

    endpoint = "chat"

    def results(self) -> list[tuple[str, str]]:
        calls = [call for message in self.body["messages"] for call in message.get("tool_calls") or []]
        names = {call["id"]: call["function"]["name"] for call in calls}
        used = [message for message in self.body["messages"] if message["role"] == "tool"]
        return [(names.get(message["tool_call_id"], ""), _text(message["content"])) for message in used]

    def document(self, step: Step, count: tuple[int, int, int, int]) -> Body:
        message = {"role": "assistant", **self._delta(step)}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if step[0] else "stop"}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage(count)}

    def events(self, step: Step, count: tuple[int, int, int, int]) -> Iterator[str]:
        delta = self._delta(step)
        for index, call in enumerate(delta.get("tool_calls", [])):
            call["index"] = index
        head = self._head("chat.completion.chunk")
        yield _data({**head, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]})
        reason = "tool_calls" if step[0] else "stop"
        yield _data({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        yield _data({**head, "choices": [], "usage": self._usage(count)})
        yield "data: [DONE]\n\n"

    def _head(self, kind: str) -> Body:
        return {"id": f"chat_{self.number}", "object": kind, "created": 1, "model": self.body["model"]}

    def _delta(self, step: Step) -> Body:
        name, arguments = step
        if not name:
            return {"content": arguments["text"]}
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"content": None, "tool_calls": [{"id": self.use, "type": "function", "function": function}]}

    def _usage(self, count: tuple[int, int, int, int]) -> Body:
        fresh, cached, _, output = count
        return {
            "prompt_tokens": fresh + cached, "completion_tokens": output, "total_tokens": fresh + cached + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }  # fmt: skip


class Responses(Talk):
    """The Responses API."""

    endpoint = "responses"

    def results(self) -> list[tuple[str, str]]:
        items = self.body["input"] if isinstance(self.body["input"], list) else []
        names = {item["call_id"]: item["name"] for item in items if item.get("type") == "function_call"}
        used = [item for item in items if item.get("type") == "function_call_output"]
        return [(names.get(item["call_id"], ""), _text(item["output"])) for item in used]

    def document(self, step: Step, count: tuple[int, int, int, int]) -> Body:
        fresh, cached, _, output = count
        usage = {
            "input_tokens": fresh + cached, "output_tokens": output, "total_tokens": fresh + cached + output,
            "input_tokens_details": {"cached_tokens": cached}, "output_tokens_details": {"reasoning_tokens": 0},
        }  # fmt: skip
        return {
            "id": f"resp_{self.number}", "object": "response", "created_at": 1, "status": "completed",
            "model": self.body["model"], "output": [self._item(step)], "usage": usage,
        }  # fmt: skip

    def events(self, step: Step, count: tuple[int, int, int, int]) -> Iterator[str]:
        whole, item = self.document(step, count), self._item(step)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        yield _event("response.created", response=begun)
        yield _event("response.output_item.added", output_index=0, item={**item, "status": "in_progress"})
        yield _event("response.output_item.done", output_index=0, item=item)
        yield _event("response.completed", response=whole)

    def _item(self, step: Step) -> Body:
        name, arguments = step
        if not name:
            content = [{"type": "output_text", "text": arguments["text"], "annotations": []}]
            return {"id": f"item_{self.number}", "type": "message", "role": "assistant", "content": content,
                    "status": "completed"}  # fmt: skip
        spaces = [tool for tool in self.body.get("tools") or [] if tool.get("type") == "namespace"]
        owner = [tool["name"] for tool in spaces if any(one.get("name") == name for one in tool.get("tools", []))]
        space = {"namespace": owner[0]} if owner else {}
        return {"id": f"item_{self.number}", "type": "function_call", "call_id": self.use, "name": name, **space,
                "arguments": json.dumps(arguments), "status": "completed"}  # fmt: skip


def _text(content: object) -> str:
    """The text of a tool's result, in any of the forms."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(part) for part in content)
    return _text(content.get("text") or content.get("content") or "") if isinstance(content, dict) else ""


def _event(kind: str, **body: object) -> str:
    return f"event: {kind}\n{_data({'type': kind, **body})}"


def _data(body: Body) -> str:
    return f"data: {json.dumps(body)}\n\n"
