"""A call that a session makes again gets the answer that was paid for: one call of the provider, one in the ledger."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from agent_loop.model_gateway.gateway import MOST_RUNNING
from enpire.requests import model_answers
from enpire.requests.model_leases import ModelLeases, ModelLimits
from tests.agent_loop.model_gateway.bench import COUNT, LEASE, QUESTION, Bench, Line
from tests.agent_loop.model_gateway.scripted_provider import Answer, messages, streamed_messages

STREAM = streamed_messages(COUNT, {"output_tokens": 50})


def saying(text: str) -> Answer:
    return Answer(messages(COUNT, content=[{"type": "text", "text": text}]))


def text(answer: httpx.Response) -> str:
    return answer.json()["content"][0]["text"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_session_that_was_started_again_gets_the_answer_that_was_paid_for(bench: Bench, streamed: bool) -> None:
    """Each talk has a gateway and a lease of its own, as after kill -9 of both."""
    bench.script.answers = [Answer(events=STREAM) if streamed else saying("one"), saying("two"), saying("three")]
    received: list[httpx.Response] = []
    lease = replace(LEASE, own=ModelLimits(tokens=3000))

    async def once(line: Line) -> None:
        received.append(await line.ask(stream=streamed))

    async def twice(line: Line) -> None:
        await once(line)
        assert (await line.ask(stream=streamed)).status_code == 200, "the first answer arrived: this is another call"

    bench.talk(once, lease)
    bench.talk(twice, lease)
    first, again = received
    assert (first.content, first.headers["content-type"]) == (again.content, again.headers["content-type"])
    assert len(bench.script.asked) == len(bench.calls) == 2

    async def other(line: Line) -> None:
        assert (await line.ask(stream=streamed, temperature=0.5)).status_code == 402, "the limit holds for new calls"
        await once(line)

    bench.talk(other, replace(lease, own=ModelLimits(tokens=1200)))
    assert text(received[-1]) == "two", "what was paid for is given beyond a limit, too: the newest answer"
    assert len(bench.script.asked) == len(bench.calls) == 2


def test_a_key_names_a_call_whose_question_lost_its_images(bench: Bench) -> None:
    bench.script.answers = [saying("one"), saying("two"), saying("three")]

    async def first(line: Line) -> None:
        assert text(await line.ask(key="turn 1")) == "one"
        assert text(await line.ask(key="turn 2")) == "two"

    async def again(line: Line) -> None:
        assert text(await line.ask(key="turn 2", temperature=0.5)) == "two"
        assert text(await line.ask(key="turn 1", max_tokens=50)) == "one"
        assert text(await line.ask(key="turn 1", model="another")) == "three"

    async def elsewhere(line: Line) -> None:
        assert (await line.ask(key="turn 1")).status_code == 402

    bench.talk(first)
    bench.talk(again)
    assert len(bench.script.asked) == len(bench.calls) == 3
    bench.talk(elsewhere, replace(LEASE, lane="two", own=ModelLimits(tokens=1)))


@pytest.mark.parametrize("key", ["", "turn 1"])
def test_an_agent_that_left_before_the_answer_came_waits_for_it_and_no_second_call_is_sent(
    bench: Bench, key: str
) -> None:
    gate = threading.Event()
    bench.script.answers = [replace(saying("one"), waits=gate), saying("two")]

    async def talk(line: Line) -> None:
        leaving = asyncio.create_task(line.ask(key=key))
        await asyncio.to_thread(bench.script.arrived.acquire)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        again = asyncio.create_task(line.ask(key=key))
        gate.set()
        assert text(await again) == "one"

    bench.talk(talk)
    assert len(bench.script.asked) == len(bench.calls) == 1


def test_two_requests_at_one_time_without_a_key_are_two_calls(bench: Bench) -> None:
    gate = threading.Event()
    bench.script.answers = [replace(saying("one"), waits=gate), saying("two")]

    async def talk(line: Line) -> None:
        first = asyncio.create_task(line.ask())
        await asyncio.to_thread(bench.script.arrived.acquire)
        assert text(await line.ask()) == "two"
        gate.set()
        assert text(await first) == "one"

    bench.talk(talk)


def test_what_the_provider_refused_is_not_kept(bench: Bench) -> None:
    bench.script.answers = [Answer({"error": {}}, status=429), saying("two")]

    async def failing(line: Line) -> None:
        assert (await line.ask(key="turn 1")).status_code == 429

    async def again(line: Line) -> None:
        assert text(await line.ask(key="turn 1")) == "two"

    bench.talk(failing)
    bench.talk(again)
    assert len(bench.script.asked) == 2


def sentence(answer: httpx.Response) -> str:
    """The sentence of a refusal that no client takes as a reason to send the call again by itself."""
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], answer.headers["x-should-retry"]) == (400, "sent_before", "false")
    return error["message"]


@pytest.mark.parametrize("key", ["", "turn 1"])
@pytest.mark.parametrize("was_started_again", [False, True])
def test_a_call_that_was_lost_with_its_gateway_is_never_sent_again(
    bench: Bench, key: str, was_started_again: bool
) -> None:
    gate = threading.Event()
    bench.script.answers = [replace(saying("one"), waits=gate), saying("two"), saying("three"), saying("four")]
    tokens: list[str] = []
    asked: list[asyncio.Task[httpx.Response]] = []

    async def breaks_off(line: Line) -> None:
        tokens.append(line.token)
        asked.append(asyncio.create_task(line.ask(key=key)))
        await asyncio.to_thread(bench.script.arrived.acquire)
        await line.gateway.close()
        await asyncio.gather(*asked, return_exceptions=True)

    async def other(line: Line) -> None:
        assert text(await line.ask(key=key)) == "two", "another session has asked nothing yet"

    async def again(line: Line) -> None:
        for streamed in (False, False, True):
            why = sentence(await line.ask(key=key, stream=streamed))
            assert f"The call {lost.call_id} asked the same. It was sent" in why
            assert f"it may have been paid, so {lost.bound} tokens are counted for it" in why
        assert text(await line.ask(key=key, temperature=0.5) if not key else await line.ask(key="turn 2")) == "three"

    async def own_decision(line: Line) -> None:
        sentence(await line.ask(key=key))
        assert text(await line.ask(key="another one")) == "four"

    bench.talk(breaks_off)
    gate.set()
    [lost] = bench.calls
    assert (lost.outcome, lost.tokens, lost.money) == ("lost", lost.bound, None)
    bench.talk(other, replace(LEASE, lane="two"))
    bench.talk(again, token="" if was_started_again else tokens[0])
    bench.talk(own_decision)
    assert len(bench.script.asked) == len(bench.calls) == 4


@pytest.mark.parametrize("key", ["", "turn 1"])
@pytest.mark.parametrize("broken", [Answer(events=STREAM, cut=True), Answer({}, status=504), Answer({}, silent=True)])
def test_a_call_that_the_provider_did_not_answer_is_never_sent_again(bench: Bench, broken: Answer, key: str) -> None:
    """Clients send a call again by themselves after a broken connection and after most statuses of errors."""
    bench.script.answers = [broken, saying("two")]

    async def talk(line: Line) -> None:
        if broken.cut:
            with pytest.raises(ConnectionError):
                await line.ask(key=key, stream=True)
        else:
            why = sentence(await line.ask(key=key))
            assert why.startswith("The call was sent to the provider anthropic, and its answer did not arrive (")
        assert "It was sent, and its answer" in sentence(await line.ask(key=key))

    bench.talk(talk)
    bench.talk(lambda line: refused(line, key))
    [call] = bench.calls
    assert (call.outcome, call.tokens) == ("lost", call.bound)
    assert len(bench.script.asked) == 1


async def refused(line: Line, key: str) -> None:
    assert "It was sent, and its answer" in sentence(await line.ask(key=key))


@pytest.mark.parametrize("key", ["", "turn 1"])
def test_what_is_no_longer_kept_is_neither_paid_again_nor_an_answer(
    bench: Bench, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_answers, "MOST", 1)
    bench.script.answers = [saying("one"), saying("two"), saying("three"), saying("four")]
    tokens: list[str] = []

    async def first(line: Line) -> None:
        tokens.append(line.token)
        assert text(await line.ask(key=key)) == "one"
        assert text(await line.ask(key="other")) == "two"

    async def again(line: Line) -> None:
        why = sentence(await line.ask(key=key))
        assert "It was answered and paid, and its answer is not kept in this form" in why
        assert text(await line.ask(key="new")) == "three"

    async def asks_the_same(line: Line) -> None:
        await first(line)
        if key:
            sentence(await line.ask(key=key))
        else:
            assert text(await line.ask(key=key)) == "three", "the agent received the answer: this is a new call"

    bench.talk(first)
    bench.talk(again)
    assert len(bench.script.asked) == len(bench.calls) == 3
    bench.script.answers, bench.script.asked[:] = [saying("one"), saying("two"), saying("three")], []
    bench.talk(asks_the_same, replace(LEASE, lane="two"))


def test_an_agent_cannot_have_more_calls_at_one_time_by_asking_near_a_limit(bench: Bench) -> None:
    """Near a limit the provider counts each question before its call."""
    gate = threading.Event()
    bench.script.counts, bench.script.counted = 10, gate
    bench.script.answers = [Answer(messages({"input_tokens": 5, "output_tokens": 5}))] * 20

    async def talk(line: Line) -> None:
        asked = [asyncio.create_task(line.ask(max_tokens=100 + number)) for number in range(MOST_RUNNING + 4)]
        await until(lambda: sum(one.done() for one in asked) >= 4)
        gate.set()
        answers = await asyncio.gather(*asked)
        assert sorted(one.status_code for one in answers) == [200] * MOST_RUNNING + [429] * 4

    bench.talk(talk, replace(LEASE, own=ModelLimits(tokens=2000)))


def test_a_live_session_gets_no_answer_twice_after_the_gateway_was_started_again(bench: Bench) -> None:
    bench.script.answers = [saying("one"), saying("two"), saying("three"), saying("four"), saying("five")]
    tokens: list[str] = []

    async def first(line: Line) -> None:
        tokens.append(line.token)
        assert [text(await line.ask()) for _ in range(3)] == ["one", "two", "three"]

    async def next_one(line: Line) -> None:
        assert text(await line.ask()) == "four"

    async def again(line: Line) -> None:
        assert [text(await line.ask()) for _ in range(2)] == ["four", "five"], "the newest one, then a new one"

    bench.talk(first)
    bench.talk(next_one, token=tokens[0])
    bench.talk(again)


@pytest.mark.parametrize("key", ["", "turn 1"])
def test_a_client_that_asks_by_itself_for_another_form_of_the_answer_pays_once(bench: Bench, key: str) -> None:
    """Some coding CLIs ask for a whole answer when a stream takes long or breaks off."""
    gate = threading.Event()
    bench.script.answers = [Answer(events=STREAM, waits=gate), saying("two")]

    async def talk(line: Line) -> None:
        leaving = asyncio.create_task(line.ask(key=key, stream=True))
        await asyncio.to_thread(bench.script.arrived.acquire)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        whole = asyncio.create_task(line.ask(key=key, max_tokens=99))
        await until(lambda: line.gateway.repeats.busy(LEASE) == 2)
        gate.set()
        assert "its answer is not kept in this form" in sentence(await whole)
        streamed = await line.ask(key=key, stream=True)
        assert streamed.headers["content-type"].startswith("text/event-stream")

    bench.talk(talk)
    assert len(bench.script.asked) == 1


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def test_requests_that_wait_for_a_call_are_limited_and_end_with_the_lease(bench: Bench) -> None:
    gate = threading.Event()
    bench.script.answers = [Answer({"error": {}}, status=529, waits=gate), saying("two")]

    async def talk(line: Line) -> None:
        asked = [asyncio.create_task(line.ask(key="turn 1")) for _ in range(MOST_RUNNING + 4)]
        try:
            await until(lambda: line.gateway.repeats.busy(LEASE) + sum(one.done() for one in asked) > MOST_RUNNING + 3)
            assert [one.result().status_code for one in asked if one.done()] == [429] * 4
            ModelLeases(bench.home).end(LEASE)
        finally:
            gate.set()
        answers = await asyncio.gather(*asked)
        assert sorted(one.status_code for one in answers) == [401] * (MOST_RUNNING - 1) + [429] * 4 + [529]

    bench.talk(talk)
    assert len(bench.script.asked) == 1


def test_two_requests_with_one_key_near_a_limit_are_one_call(bench: Bench) -> None:
    """Near a limit the provider counts the question before the call: the second request arrives meanwhile."""
    bench.script.counts = 10
    bench.script.answers = [saying("one"), saying("two")]

    async def talk(line: Line) -> None:
        both = await asyncio.gather(line.ask(key="turn 1"), line.ask(key="turn 1"))
        assert [text(one) for one in both] == ["one", "one"]

    bench.talk(talk, replace(LEASE, own=ModelLimits(tokens=250)))
    assert len(bench.script.asked) == 1


def test_an_agent_that_leaves_while_it_waits_for_a_call_waits_no_longer(bench: Bench) -> None:
    gate = threading.Event()
    bench.script.answers = [replace(saying("one"), waits=gate)]

    async def talk(line: Line) -> None:
        asked = asyncio.create_task(line.ask(key="turn 1"))
        await asyncio.to_thread(bench.script.arrived.acquire)
        body = json.dumps(dict(QUESTION)).encode()
        came: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            return came.pop(0) if came else {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            del message

        headers = [(b"authorization", f"Bearer {line.token}".encode()), (b"idempotency-key", b"turn 1")]
        scope = {
            "type": "http", "method": "POST", "path": "/v1/messages", "query_string": b"", "headers": headers,
            "http_version": "1.1", "scheme": "http", "server": ("gateway", 80), "root_path": "",
        }  # fmt: skip
        try:
            async with asyncio.timeout(60):
                await line.gateway.app()(scope, receive, send)
            assert not asked.done(), "the call itself runs on"
            assert line.gateway.repeats.busy(LEASE) == 1
        finally:
            gate.set()
        assert text(await asked) == "one"

    bench.talk(talk)
    assert len(bench.script.asked) == 1
