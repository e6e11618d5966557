"""The agent `anthropic` behind a real model gateway: one account of its tokens, whichever process is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn

from agent_loop.agent_context import AgentContext
from agent_loop.agents.anthropic import Anthropic
from agent_loop.model_gateway.gateway import Gateway
from enpire.requests.model_calls import CallRecords
from enpire.requests.model_leases import ModelLeases, ModelLimits
from enpire.service.conversations import KeptConversation
from tests.agent_loop.model_gateway.bench import LEASE
from tests.agent_loop.recorded_model import READ, SAID, Recording, served, tool_use, words
from tests.fakes.sample_campaign import CAMPAIGN, record_campaign
from tests.fakes.waiting import until

ONE = READ + SAID
"""Tokens of one call."""


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    record_campaign(tmp_path).flush()
    recording = Recording(answers=[])
    with served(recording) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "the key")
        yield recording


@contextmanager
def listening(home: Path) -> Iterator[str]:
    """The address of a gateway of its own."""
    gateway = Gateway(home, lambda line: None)
    config = uvicorn.Config(gateway.app(), port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(300)


def turn(home: Path, tokens: int, *, killed: bool = False, goal: float = 0.97) -> str:
    """One turn of a session that was started now; `killed`: before it can keep the first answer of the turn."""
    kept = KeptConversation(home / "kept.jsonl")

    def keep(line: str, anew: bool) -> bool:
        if killed and '"assistant"' in line:
            raise SystemExit(9)
        return kept.add(line, anew=anew)

    lease = replace(LEASE, own=ModelLimits(tokens=tokens))
    with listening(home) as address:
        context = AgentContext(
            seed=0, lane=LEASE.lane, work=home, spent=lambda tokens: None, models=address,
            lease=ModelLeases(home).grant(lease), kept=kept.lines(), keep=keep,
        )  # fmt: skip
        return Anthropic(context, {"model": "a-model"}).turn({}, {"goal": goal})


def counted(home: Path) -> int:
    return sum(call.tokens for call in CallRecords.of(home, CAMPAIGN).ended())


def test_a_kept_answer_counts_once_and_is_given_where_nothing_more_fits(recording: Recording, tmp_path: Path) -> None:
    recording.answers = [[words("done")]]
    tokens = ONE + READ  # a second call does not fit
    with pytest.raises(SystemExit):
        turn(tmp_path, tokens, killed=True)
    assert turn(tmp_path, tokens) == "done"
    assert (len(recording.asked), counted(tmp_path)) == (1, ONE)
    assert turn(tmp_path, tokens, goal=0.98).startswith("done: The call is not sent: it could cost ")
    assert (len(recording.asked), counted(tmp_path)) == (1, ONE)


def test_a_session_that_was_killed_again_and_again_spends_its_whole_budget_and_no_more(
    recording: Recording, tmp_path: Path
) -> None:
    recording.answers = [[tool_use("nothing")]] * 99
    tokens = 4 * ONE + 1000
    for _ in range(3):
        with pytest.raises(SystemExit):
            turn(tmp_path, tokens, killed=True)
    assert len(recording.asked) == 1, "it asked the same three times"
    assert "of the agent session one" in turn(tmp_path, tokens)
    assert counted(tmp_path) == len(recording.asked) * ONE == recording.spent <= tokens
    assert tokens - counted(tmp_path) < READ * 1.05 + 256 + ONE
    assert len(recording.asked) == 5
