"""A call that a session makes again gets the answer that was paid for: one call of the provider, one in the ledger."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import httpx
import pytest

from enpire.requests.model_leases import ModelLimits
from tests.agent_loop.model_gateway.bench import COUNT, LEASE, Bench, Line
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
    assert received[-1].content == first.content, "what was paid for is given beyond a limit, too"
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
