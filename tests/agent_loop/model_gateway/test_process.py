"""The model gateway as a process: it is killed, asked to end, and started twice."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from enpire.processes.model_gateway import start_model_gateway
from enpire.requests.model_calls import CallRecords
from enpire.requests.model_leases import ModelLeases
from enpire.service.processes import gateway_listens, model_socket
from tests.agent_loop.model_gateway.bench import COUNT, LEASE, QUESTION
from tests.agent_loop.model_gateway.scripted_provider import Answer, Script, messages, serving
from tests.fakes.sample_campaign import CAMPAIGN, record_campaign

PATIENCE_S = 300.0


@contextmanager
def gateway(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway that listens."""
    process = start_model_gateway(home, CAMPAIGN)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not gateway_listens(home):
            assert time.monotonic() < deadline, (home / "agents" / "model_gateway.txt").read_text()
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def ask(home: Path, token: str, **changes: object) -> httpx.Response:
    transport = httpx.HTTPTransport(uds=str(model_socket(home)))
    with httpx.Client(transport=transport, base_url="http://gateway", timeout=PATIENCE_S) as client:
        return client.post("/v1/messages", json={**QUESTION, **changes}, headers={"x-api-key": token})


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    record_campaign(tmp_path).flush()
    script = Script(answers=[])
    with serving(script) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "the key")
        yield script


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_call_that_a_gateway_left_behind_is_recorded_once_as_lost(
    script: Script, tmp_path: Path, sent: signal.Signals
) -> None:
    waits = threading.Event()
    script.answers = [Answer(messages(COUNT), waits=waits), Answer(messages(COUNT))]
    token, records = ModelLeases(tmp_path).grant(LEASE), CallRecords.of(tmp_path, CAMPAIGN)
    with gateway(tmp_path) as process:
        problems: list[Exception] = []

        def call() -> None:
            try:
                ask(tmp_path, token)
            except httpx.HTTPError as problem:
                problems.append(problem)

        asking = threading.Thread(target=call)
        asking.start()
        script.arrived.acquire()
        process.send_signal(sent)
        process.wait(PATIENCE_S)
        asking.join(PATIENCE_S)
        assert problems
        waits.set()
    with gateway(tmp_path):
        for _ in range(3):
            again = ask(tmp_path, token)
            assert (again.status_code, again.json()["error"]["type"]) == (400, "sent_before")
            assert "It was sent, and its answer" in again.json()["error"]["message"]
        assert len(script.asked) == 1, "nobody pays twice without wanting to"
        assert ask(tmp_path, token, temperature=0.5).status_code == 200
        assert ask(tmp_path, "wrong").status_code == 401
    lost, answered = records.ended()
    assert (lost.outcome, lost.tokens, lost.money) == ("lost", lost.bound, None)
    assert (answered.outcome, answered.counted) == ("answered", 550)
    records.close()
    assert len(records.ended()) == 2
    assert len(script.asked) == 2, "the lost call was not sent again by the gateway"
    assert {headers["x-api-key"] for headers in script.headers} == {"the key"}


def test_an_answer_that_a_killed_gateway_had_kept_is_handed_out_and_counted_once(
    script: Script, tmp_path: Path
) -> None:
    """kill -9 between the kept answer and the record of the call, which is the time when the loop does not know it."""
    script.answers = [Answer(messages(COUNT))]
    token, records = ModelLeases(tmp_path).grant(LEASE), CallRecords.of(tmp_path, CAMPAIGN)
    with gateway(tmp_path) as process:
        first = ask(tmp_path, token)
        process.kill()
        process.wait(PATIENCE_S)
    [call] = records.ended()
    records.remove(call.call_id)
    records.begin(replace(call, outcome="lost", money=None, currency=""))
    again = ModelLeases(tmp_path).grant(LEASE)
    with gateway(tmp_path):
        assert ask(tmp_path, again).content == first.content
    assert len(script.asked) == 1
    assert [(call.outcome, call.counted) for call in records.ended()] == [("answered", 550)]


def test_a_second_gateway_waits_for_the_first(script: Script, tmp_path: Path) -> None:
    script.answers = [Answer(messages(COUNT))] * 2
    token = ModelLeases(tmp_path).grant(LEASE)
    with gateway(tmp_path) as first:
        second = start_model_gateway(tmp_path, CAMPAIGN)
        try:
            assert ask(tmp_path, token).status_code == 200
            assert second.poll() is None
            first.terminate()
            first.wait(PATIENCE_S)
            with gateway(tmp_path) as third:  # the second or the third answers; the other waits
                assert ask(tmp_path, token, max_tokens=50).status_code == 200
                assert third.poll() is None
        finally:
            second.kill()
            second.wait()
    assert len(CallRecords.of(tmp_path, CAMPAIGN).ended()) == 2


def test_other_users_cannot_reach_the_gateway(tmp_path: Path) -> None:
    assert model_socket(tmp_path).parent.stat().st_mode & 0o077 == 0
    assert not gateway_listens(tmp_path)


def test_a_lease_file_holds_no_token_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    token = ModelLeases(tmp_path).grant(LEASE)
    [file] = (tmp_path / "agents" / ".model-leases").iterdir()
    assert token not in file.read_text() + file.name
    assert file.stat().st_mode & 0o077 == 0
    assert asyncio.run(_found(tmp_path, token))


async def _found(home: Path, token: str) -> bool:
    return ModelLeases(home).find(token) == LEASE
