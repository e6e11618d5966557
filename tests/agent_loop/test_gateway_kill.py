"""kill -9 of the model gateway while the provider answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.agent_events import ModelCalled
from enpire.campaign.campaign import AgentPlan
from enpire.home import open_home
from enpire.steps.model_calls import ModelGateway
from tests.agent_loop.pretend_lab import CAMPAIGN, Running
from tests.agent_loop.recorded_model import READ, SAID, Recording, served, words


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    recording = Recording(answers=[])
    with served(recording) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "not a key")
        yield recording


@pytest.mark.slow
def test_kill_9_of_the_gateway_while_the_model_answers_is_named_to_the_model(
    recording: Recording, tmp_path: Path
) -> None:
    recording.answers = [[words("lost")], [words("The conversation continued.")]]
    recording.gate.clear()
    plan = AgentPlan(name="anthropic", options={"model": "a-model"})
    with Running(open_home(tmp_path / "home"), campaign=replace(CAMPAIGN, agents=(plan,)), paused=True) as lab:
        lab.until(lambda lab: recording.asked, turns=200_000)
        [gateway] = [one for one in lab.lab.agent_sessions if isinstance(one, ModelGateway)]
        assert gateway.process is not None
        gateway.process.kill()
        gateway.process.wait()
        recording.gate.set()
        report = "The conversation continued."
        lab.until(
            lambda lab: any(one.body["text"] == report for one in lab.ledger.events(kinds=("agent turned",))),
            turns=200_000,
        )
        lab.until(lambda lab: len(list(lab.ledger.events(kinds=("model called",)))) >= 2, turns=200_000)
        calls = [entry.event for entry in lab.ledger.events(kinds=("model called",))]
        lost, answered = (call for call in calls[:2] if isinstance(call, ModelCalled))
        assert (lost.outcome, answered.outcome) == ("lost", "answered")
        assert lab.lab.state.proposals.tokens["anthropic-1"] >= lost.bound + READ + SAID
    first, second = (request["messages"] for request in recording.asked[:2])
    assert second[: len(first)][0]["content"][0]["text"] == first[0]["content"][0]["text"]
    assert f"The call {lost.call_id} asked the same. It was sent" in second[-1]["content"][0]["text"]
    assert first != second, "the lost question itself is not sent again"
