"""A model that sees, behind a recorded answer: no key, no network beyond the loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enpire.errors import FileProblem
from enpire.interfaces import Evidence
from enpire.types import EpisodeArrays
from enpire.verifiers import TASK_VERIFIER, VerifierSettings, is_slow, open_verifier
from sim.tasks.push_t import PushT
from sim.verifiers import vision_judge
from sim.verifiers.token_budget import BudgetExceeded
from sim.verifiers.vision_judge import KEY, JudgeProblem, VisionJudge


@dataclass
class Recording:
    """What the model answers, and what it was asked."""

    content: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    statuses: list[int] = field(default_factory=list[int])
    """Of the next answers, 200 where there is none; with 0 the connection breaks off."""

    def says(self, **verdict: object) -> None:
        self.content = [{"type": "tool_use", "id": "toolu_1", "name": "verdict", "input": verdict}]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    recording = Recording()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("count_tokens"):
                self.answer(200, {"input_tokens": 900})
                return
            recording.asked.append(question)
            status = recording.statuses.pop(0) if recording.statuses else 200
            body: dict[str, Any] = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
            if status == 200:
                body = {
                    "id": "msg_1", "type": "message", "role": "assistant", "model": "a-model", "stop_sequence": None,
                    "stop_reason": "tool_use", "content": recording.content,
                    "usage": {"input_tokens": 900, "output_tokens": 100},
                }  # fmt: skip
            self.answer(status, body)

        def answer(self, status: int, body: dict[str, Any]) -> None:
            if not status:
                self.close_connection = True
                return
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv(KEY, "not a key")
    yield recording
    server.shutdown()
    thread.join(300)
    server.server_close()


def seen(state: float = 0.0) -> Evidence:
    arrays = EpisodeArrays(
        state=np.tile(np.array([0, -200, state, state, 1, 0, 0, 0, 0], np.float32), (9, 1)),
        action=np.zeros((8, 2), np.float32), source=np.zeros(8, np.uint8), chunk=np.zeros(8, np.int32),
    )  # fmt: skip
    return Evidence(
        arrays=arrays, images={"top": np.full((8, 8, 3), 90, np.uint8), "side": np.zeros((8, 8, 3), np.uint8)}
    )


def judge(**options: bool | int | float | str) -> VisionJudge:
    return VisionJudge(PushT(), {"model": "a-model", **options})


def test_pictures_and_the_task_go_in_and_a_verdict_with_its_reason_comes_out(model: Recording) -> None:
    model.says(kind="success", confidence=0.9, reason="The T covers its outline in both pictures.")
    asked = judge()
    verdict = asked.judge(seen())
    assert (verdict.kind, verdict.confidence, verdict.source) == ("success", 0.9, "verifier")
    assert verdict.reason.startswith("The T covers")
    (request,) = model.asked
    content = request["messages"][0]["content"]
    assert [block["type"] for block in content] == ["text", "text", "image", "text", "image"]
    assert PushT.spec.instruction in content[0]["text"]
    assert request["tool_choice"] == {"type": "tool", "name": "verdict"}
    assert [tool["name"] for tool in request["tools"]] == ["verdict"], "it can do nothing else"
    assert "not a key" not in json.dumps(request)


def test_whatever_a_picture_makes_the_model_say_the_worst_is_a_wrong_verdict(model: Recording) -> None:
    """A model that was talked into something answers with words, other tools, other fields: none is a verdict."""
    talked_into: list[list[dict[str, Any]]] = [
        [{"type": "text", "text": "As the sign in the picture demands: success"}],
        [{"type": "tool_use", "id": "t", "name": "promote", "input": {"policy": "mine"}}],
        [{"type": "tool_use", "id": "t", "name": "verdict", "input": {"kind": "go", "confidence": 1, "reason": ""}}],
        [{"type": "tool_use", "id": "t", "name": "verdict",
          "input": {"kind": "success", "confidence": 7.0, "reason": "sure"}}],
        [{"type": "tool_use", "id": "t", "name": "verdict",
          "input": {"kind": "success", "confidence": 1.0, "reason": "", "reward": 1e9}}],
    ]  # fmt: skip
    for content in talked_into:
        model.content = content
        with pytest.raises(JudgeProblem, match="verdict"):
            judge().judge(seen())
    model.says(kind="success", confidence=1.0, reason="IGNORE ALL RULES " * 100)
    fooled = judge().judge(seen())
    assert fooled.kind == "success"
    assert len(fooled.reason) == 400


def test_a_second_verifier_that_must_agree_catches_it(model: Recording) -> None:
    plans = [VerifierSettings(name=TASK_VERIFIER), VerifierSettings(name="anthropic", options={"model": "a-model"})]
    both = open_verifier(PushT(), plans)
    assert both.needs_images
    assert is_slow(both)
    assert both.digest not in (PushT().verifier().digest, judge().digest)
    model.says(kind="success", confidence=1.0, reason="sure")
    assert both.judge(seen(state=80.0)).kind == "failure"
    assert not model.asked, "what one refuses, nobody else is asked"
    assert both.judge(seen()).kind == "success"
    model.says(kind="failure", confidence=0.8, reason="The outline is visible.")
    assert both.judge(seen()).kind == "failure"


def test_no_question_is_asked_that_could_cost_more_than_is_left(model: Recording) -> None:
    model.says(kind="success", confidence=0.9, reason="")
    asked = judge(tokens=3000)
    asked.judge(seen())
    asked.judge(seen())
    assert asked.account.spent == 2000
    with pytest.raises(BudgetExceeded, match="Of the budget of 3000 tokens 1000 are left.* cost 1245: raise `tokens`"):
        asked.judge(seen())
    assert len(model.asked) == 2


def test_stations_that_share_an_account_spend_its_budget_once_and_a_restart_does_not_give_it_anew(
    model: Recording, tmp_path: Path
) -> None:
    model.says(kind="success", confidence=0.9, reason="")
    plans = [
        VerifierSettings(name=TASK_VERIFIER),
        VerifierSettings(name="anthropic", options={"model": "a-model", "tokens": 3000}),
    ]
    account = tmp_path / "stations" / "mine.tokens"
    for _ in range(2):
        assert open_verifier(PushT(), plans, account).judge(seen()).kind == "success"
    assert account.read_text() == "2000\n"
    with pytest.raises(BudgetExceeded, match="mine.tokens holds what was spent, remove it"):
        open_verifier(PushT(), plans, account).judge(seen())
    raised = [plans[0], VerifierSettings(name="anthropic", options={"model": "a-model", "tokens": 9000})]
    more = open_verifier(PushT(), raised, account)
    assert more.judge(seen()).kind == "success"
    assert more.digest == open_verifier(PushT(), plans, account).digest, "the budget is no part of the rule"
    account.write_text("much")
    with pytest.raises(FileProblem, match="must hold the number of tokens"):
        more.judge(seen())


def test_an_answer_that_broke_off_may_have_been_charged_and_a_refusal_was_not(
    model: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vision_judge, "PAUSES_S", (0.0, 0.0))
    model.says(kind="success", confidence=0.9, reason="")
    model.statuses = [429, 0, 200]
    asked = judge()
    assert asked.judge(seen()).kind == "success"
    assert asked.account.spent == 1000 + 945 + 300
    model.statuses = [529, 529, 529]
    with pytest.raises(JudgeProblem, match="gave no verdict"):
        asked.judge(seen())
    model.statuses = [400]
    with pytest.raises(JudgeProblem, match="gave no verdict"):
        asked.judge(seen())
    assert asked.account.spent == 1000 + 945 + 300
    assert len(model.asked) == 3 + 3 + 1


def test_pictures_the_model_and_the_key_are_needed(model: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JudgeProblem, match="got no images"):
        judge().judge(Evidence(arrays=seen().arrays, images={}))
    monkeypatch.delenv(KEY)
    with pytest.raises(JudgeProblem, match=KEY):
        judge().judge(seen())
    with pytest.raises(FileProblem, match="model"):
        VisionJudge(PushT(), {})
    with pytest.raises(FileProblem, match="unknown key 'prompt'"):
        VisionJudge(PushT(), {"model": "a-model", "prompt": "always success"})
    assert not model.asked
