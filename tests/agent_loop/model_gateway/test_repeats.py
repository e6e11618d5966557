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


@pytest.mark.parametrize("broken", [Answer(events=STREAM, cut=True), Answer({"error": {}}, status=429)])
def test_an_answer_that_is_not_whole_is_not_kept(bench: Bench, broken: Answer) -> None:
    bench.script.answers = [broken, saying("two")]

    async def failing(line: Line) -> None:
        try:
            assert (await line.ask(key="turn 1")).status_code == 429
        except ConnectionError:
            assert broken.cut

    async def again(line: Line) -> None:
        assert text(await line.ask(key="turn 1")) == "two"

    bench.talk(failing)
    bench.talk(again)
    assert len(bench.script.asked) == 2


@pytest.mark.parametrize("key", ["", "turn 1"])
@pytest.mark.parametrize("was_started_again", [False, True])
def test_a_call_that_was_lost_with_its_gateway_is_not_paid_for_twice_without_a_word(
    bench: Bench, key: str, was_started_again: bool
) -> None:
    gate = threading.Event()
    bench.script.answers = [replace(saying("one"), waits=gate), saying("two"), saying("three")]
    tokens: list[str] = []

    async def breaks_off(line: Line) -> None:
        tokens.append(line.token)
        asked.append(asyncio.create_task(line.ask(key=key)))
        await asyncio.to_thread(bench.script.arrived.acquire)
        await line.gateway.close()
        await asyncio.gather(*asked, return_exceptions=True)

    async def other(line: Line) -> None:
        assert text(await line.ask(key=key)) == "two", "another session has asked nothing yet"

    async def again(line: Line) -> None:
        refused = await line.ask(key=key)
        assert (refused.status_code, refused.headers["x-should-retry"]) == (409, "false")
        assert f"The call {lost.call_id} asked the same and was sent" in refused.json()["error"]["message"]
        assert f"{lost.bound} tokens are counted for it" in refused.json()["error"]["message"]
        assert text(await line.ask(key=key, temperature=0.5) if not key else await line.ask(key="turn 2")) == "three"

    async def knowing(line: Line) -> None:
        assert (await line.ask(key=key)).status_code == 409, "this process was not told"
        assert text(await line.ask(key=key)) == "four"
        assert text(await line.ask(key=key)) == ("four" if key else "five")

    asked: list[asyncio.Task[httpx.Response]] = []
    bench.talk(breaks_off)
    gate.set()
    [lost] = bench.calls
    assert (lost.outcome, lost.tokens, lost.money) == ("lost", lost.bound, None)
    bench.talk(other, replace(LEASE, lane="two"))
    bench.talk(again, token="" if was_started_again else tokens[0])
    bench.script.answers += [saying("four"), saying("five")]
    bench.talk(knowing)
    assert len(bench.script.asked) == len(bench.calls) == (4 if key else 5)


def test_a_call_whose_break_its_agent_saw_is_sent_again_when_it_asks_again(bench: Bench) -> None:
    bench.script.answers = [Answer(events=STREAM, cut=True), Answer(events=STREAM, cut=True), saying("three")]

    async def seeing(line: Line) -> None:
        with pytest.raises(ConnectionError):
            await line.ask(key="turn 1", stream=True)

    async def leaving(line: Line) -> None:
        asked = asyncio.create_task(line.ask(key="turn 1", stream=True))
        await asyncio.to_thread(bench.script.arrived.acquire)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await until(lambda: not line.gateway.running)

    async def again(line: Line) -> None:
        assert (await line.ask(key="turn 1", stream=True)).status_code == 409, "the second agent saw no break"
        assert (await line.ask(key="turn 1")).status_code == 200

    gate = threading.Event()
    bench.talk(seeing)
    bench.script.arrived.acquire()
    bench.script.answers[1] = replace(bench.script.answers[1], waits=gate)

    async def left(line: Line) -> None:
        opening = asyncio.create_task(leaving(line))
        await until(lambda: len(bench.script.asked) == 2 and not line.gateway.repeats._receiving)
        gate.set()
        await opening

    bench.talk(left)
    bench.talk(again)


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


def test_a_key_names_streamed_and_whole_answers_apart(bench: Bench) -> None:
    bench.script.answers = [saying("one"), Answer(events=STREAM)]

    async def talk(line: Line) -> None:
        assert text(await line.ask(key="turn 1")) == "one"
        streamed = await line.ask(key="turn 1", stream=True)
        assert streamed.headers["content-type"].startswith("text/event-stream")

    bench.talk(talk)


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
            await until(
                lambda: line.gateway.repeats.waiting(LEASE) + sum(one.done() for one in asked) > MOST_RUNNING + 2
            )
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
            assert not line.gateway.repeats.waiting(LEASE)
        finally:
            gate.set()
        assert text(await asked) == "one"

    bench.talk(talk)
    assert len(bench.script.asked) == 1
