"""The model gateway between agents and scripted providers: keys, counts, limits, records."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from enpire.campaign.agent_events import ModelCalled
from enpire.requests.model_calls import CallRecords
from enpire.requests.model_leases import ModelLeases, ModelLimits
from tests.agent_loop.model_gateway.bench import COUNT, KEY, LEASE, PRICE, QUESTION, Bench, Line
from tests.agent_loop.model_gateway.scripted_provider import Answer, messages, streamed_messages
from tests.fakes.sample_campaign import CAMPAIGN


def counts(call: ModelCalled) -> tuple[int, int, int, int]:
    return call.fresh, call.cache_read, call.cache_write, call.output


def test_the_key_takes_the_place_of_the_lease(bench: Bench) -> None:
    bench.script.answers = [Answer(messages(COUNT)), Answer(messages(COUNT))]

    async def talk(line: Line) -> None:
        for headers in ({}, {"x-api-key": "wrong"}, {"authorization": f"Bearer {line.token}x"}):
            assert (await line.client.post("/v1/messages", json=QUESTION, headers=headers)).status_code == 401
        assert (await line.ask()).json()["content"][0]["text"] == "yes"
        headers = {"x-api-key": line.token, "cookie": "c=1", "anthropic-version": "2023-06-01", "x-other": "1"}
        assert (await line.client.post("/anthropic/v1/messages", json=QUESTION, headers=headers)).status_code == 200
        ModelLeases(bench.home).grant(LEASE)
        assert (await line.ask()).status_code == 401, "a newer lease of the session ends the older one"

    bench.talk(talk)
    assert [headers["x-api-key"] for headers in bench.script.headers] == [KEY, KEY]
    assert bench.script.headers[1]["anthropic-version"] == "2023-06-01"
    told = json.dumps(bench.script.headers)
    assert "enpire-lease" not in told
    assert not {"cookie", "x-other", "authorization"} & set(bench.script.headers[1])


def test_a_lease_is_for_its_providers_only(bench: Bench) -> None:
    async def talk(line: Line) -> None:
        refused = await line.ask("/v1/chat/completions")
        assert (refused.status_code, refused.json()["error"]["message"]) == (
            401, "The lease of this session is not for openai; it is for anthropic.",
        )  # fmt: skip

    bench.talk(talk, replace(LEASE, providers=("anthropic",)))
    assert bench.script.asked == []


CHAT = {"prompt_tokens": 120, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 90}}
MOON = {"prompt_tokens": 120, "completion_tokens": 30, "cached_tokens": 90}
RESPONSE = {"input_tokens": 120, "output_tokens": 30, "input_tokens_details": {"cached_tokens": 90}}
STREAMED = {"input_tokens": 20, "cache_creation_input_tokens": 80, "cache_read_input_tokens": 400, "output_tokens": 1}


@pytest.mark.parametrize(
    ("path", "answer", "counted", "upstream"),
    [
        ("/v1/messages", Answer(messages(COUNT)), (20, 400, 80, 50), "/v1/messages"),
        (
            "/v1/messages", Answer(events=streamed_messages(STREAMED, {"output_tokens": 50})),
            (20, 400, 80, 50), "/v1/messages",
        ),
        ("/v1/chat/completions", Answer({"usage": CHAT}), (30, 90, 0, 30), "/v1/chat/completions"),
        ("/moonshot/v1/chat/completions", Answer({"usage": MOON}), (30, 90, 0, 30), "/moon/v1/chat/completions"),
        (
            "/v1/chat/completions", Answer(events=({"choices": [{}], "usage": None}, {"choices": [], "usage": CHAT})),
            (30, 90, 0, 30), "/v1/chat/completions",
        ),
        ("/v1/responses", Answer({"object": "response", "usage": RESPONSE}), (30, 90, 0, 30), "/v1/responses"),
        (
            "/openai/v1/responses",
            Answer(events=({"type": "response.created", "response": {"usage": None}},
                           {"type": "response.completed", "response": {"model": "b", "usage": RESPONSE}})),
            (30, 90, 0, 30), "/v1/responses",
        ),
    ],
)  # fmt: skip
def test_every_call_is_counted_to_the_token(
    bench: Bench, path: str, answer: Answer, counted: tuple[int, int, int, int], upstream: str
) -> None:
    bench.script.answers = [answer]

    async def talk(line: Line) -> None:
        received = await line.ask(path, stream=bool(answer.events))
        assert received.status_code == 200
        if not answer.events:
            assert received.json() == answer.document

    bench.talk(talk)
    [call] = bench.calls
    assert (counts(call), call.outcome, call.money, call.lane) == (counted, "answered", None, "one")
    assert bench.script.paths == [upstream]
    assert sum(counted) <= call.bound or "messages" in path


def test_the_agent_sees_the_count_of_a_stream_only_if_it_asked_for_it(bench: Bench) -> None:
    events = ({"choices": [{"delta": {"content": "yes"}}]}, {"choices": [], "usage": CHAT})
    bench.script.answers = [Answer(events=events), Answer(events=events)]
    path = "/v1/chat/completions"

    async def talk(line: Line) -> None:
        assert "usage" not in (await line.ask(path, stream=True)).text
        assert "usage" in (await line.ask(path, stream=True, stream_options={"include_usage": True})).text

    bench.talk(talk)
    assert [question["stream_options"] for question in bench.script.asked] == [{"include_usage": True}] * 2
    assert [counts(call) for call in bench.calls] == [(30, 90, 0, 30)] * 2


def test_money_is_known_where_the_price_file_has_a_dated_price(bench: Bench) -> None:
    tiered = messages({**COUNT, "service_tier": "priority"})
    hour = messages({**COUNT, "cache_creation": {"ephemeral_1h_input_tokens": 80}})
    bench.script.answers = [Answer(messages(COUNT)), Answer(tiered), Answer(hour), Answer({"usage": CHAT})]
    bench.prices({**PRICE, "since": "2999-01-01", "fresh": 99.0}, PRICE, {**PRICE, "since": "2019-01-01", "fresh": 1.0})

    async def talk(line: Line) -> None:
        for path in ("/v1/messages", "/v1/messages", "/v1/messages", "/v1/chat/completions"):
            await line.ask(path)

    bench.talk(talk)
    known, *unknown = bench.calls
    assert known.money == pytest.approx((20 * 3 + 400 * 0.3 + 80 * 3.75 + 50 * 15) / 1e6)
    assert (known.currency, known.price) == ("USD", "a-model* since 2020-01-01: the test")
    assert [(call.money, call.price, call.currency) for call in unknown] == [(None, "", "")] * 3


@pytest.mark.parametrize("shared", [False, True])
def test_a_limit_of_tokens_stops_before_the_call_that_could_exceed_it(bench: Bench, shared: bool) -> None:
    bench.script.answers = [Answer(messages(COUNT))] * 9
    limits = ModelLimits(tokens=5000)
    lease = replace(LEASE, own=ModelLimits(), shared=limits) if shared else replace(LEASE, own=limits)

    async def talk(line: Line) -> None:
        answers = [await line.ask() for _ in range(9)]
        sent = [answer.status_code for answer in answers].index(402)
        assert {answer.status_code for answer in answers[sent:]} == {402}
        refused = answers[sent].json()["error"]
        assert "The call is not sent: it could cost" in refused["message"]
        assert (refused["type"], refused["code"]) == ("billing_error", "insufficient_quota")
        left = (await line.client.get("/left", headers={"x-api-key": line.token})).json()
        assert left == {"tokens": 5000 - 550 * sent, "refused": refused["message"]}

    bench.talk(talk, lease)
    spent = 0
    for call in bench.calls:
        assert spent + call.bound <= 5000, "no call was sent that could exceed the limit"
        spent += call.tokens
    assert spent + bench.calls[0].bound > 5000
    assert len(bench.script.asked) == len(bench.calls) == spent // 550


def test_where_the_size_is_too_large_the_providers_own_count_decides(bench: Bench) -> None:
    bench.script.answers, bench.script.counts = [Answer(messages(COUNT))], 500

    async def talk(line: Line) -> None:
        assert (await line.ask(max_tokens=476)).status_code == 402
        assert (await line.ask(max_tokens=475)).status_code == 200

    bench.talk(talk, replace(LEASE, own=ModelLimits(tokens=1000)))
    assert [call.bound for call in bench.calls] == [525 + 475]


def test_a_limit_of_money_needs_a_price_and_stops_before_the_call(bench: Bench) -> None:
    bench.script.answers = [Answer(messages(COUNT))] * 9
    one = (3.75 * 2200 + 15 * 100) / 1e6

    async def unpriced(line: Line) -> None:
        assert "has no price for this call" in (await line.ask()).json()["error"]["message"]

    async def priced(line: Line) -> None:
        statuses = [(await line.ask()).status_code for _ in range(9)]
        assert statuses[0] == 200
        assert statuses[-1] == 402

    lease = replace(LEASE, own=ModelLimits(money=1.3 * one))
    bench.talk(unpriced, lease)
    bench.prices(PRICE)
    bench.talk(priced, lease)
    spent = 0.0
    for call in bench.calls:
        assert call.bound_money is not None
        assert spent + call.bound_money <= 1.3 * one
        spent += call.spent


def test_calls_that_run_at_one_time_reserve_what_they_can_cost(bench: Bench) -> None:
    gate = threading.Event()
    bench.script.answers = [Answer(messages(COUNT), waits=gate), Answer(messages(COUNT))]

    async def talk(line: Line) -> None:
        first = asyncio.create_task(line.ask())
        await asyncio.to_thread(bench.script.arrived.acquire)
        assert (await line.ask()).status_code == 402
        gate.set()
        assert (await first).status_code == 200
        assert (await line.ask()).status_code == 200

    bench.talk(talk, replace(LEASE, own=ModelLimits(tokens=3000)))
    assert len(bench.script.asked) == 2


def test_a_call_whose_answer_breaks_off_is_recorded_as_lost(bench: Bench) -> None:
    stream = streamed_messages(STREAMED, {"output_tokens": 50})
    bench.script.answers = [Answer(events=stream, cut=True), Answer(messages(COUNT), cut=True)]

    async def talk(line: Line) -> None:
        for streamed in (True, False):
            with pytest.raises(ConnectionError):
                await line.ask(stream=streamed, temperature=float(streamed))

    bench.talk(talk)
    first, second = bench.calls
    assert (first.outcome, counts(first), first.money) == ("lost", (20, 400, 80, 1), None)
    assert (second.outcome, counts(second), second.money) == ("lost", (0, 0, 0, 0), None)
    assert first.tokens == first.bound > 501, "what it could have cost counts for the limits"


def test_what_the_provider_refuses_costs_nothing(bench: Bench) -> None:
    bench.script.answers = [Answer({"error": {"message": "slow down"}}, status=429)]

    async def talk(line: Line) -> None:
        refused = await line.ask()
        assert (refused.status_code, refused.json()["error"]["message"]) == (429, "slow down")

    bench.talk(talk)
    [call] = bench.calls
    assert (call.outcome, call.status, call.tokens, call.money) == ("failed", 429, 0, 0.0)


def test_a_provider_that_is_not_there_costs_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")

    async def talk(line: Line) -> None:
        refused = await line.ask()
        assert (refused.status_code, refused.headers["x-should-retry"]) == (502, "true")

    bench.talk(talk)
    [call] = bench.calls
    assert (call.outcome, call.status, call.tokens) == ("failed", 0, 0)


def test_an_agent_that_leaves_does_not_end_the_count(bench: Bench) -> None:
    gate = threading.Event()
    bench.script.answers = [Answer(messages(COUNT), waits=gate)]

    async def talk(line: Line) -> None:
        asking = asyncio.create_task(line.ask())
        await asyncio.to_thread(bench.script.arrived.acquire)
        asking.cancel()
        gate.set()
        await asyncio.gather(*line.gateway.running)

    bench.talk(talk)
    [call] = bench.calls
    assert (call.outcome, counts(call)) == ("answered", (20, 400, 80, 50))


def test_a_gateway_that_starts_knows_what_was_spent(bench: Bench) -> None:
    bench.script.answers = [Answer(messages(COUNT))] * 9
    lease = replace(LEASE, own=ModelLimits(tokens=3500))

    async def once(line: Line) -> None:
        assert (await line.ask(key=line.token)).status_code == 200

    async def refused(line: Line) -> None:
        assert line.gateway.open_campaign(CAMPAIGN).spending.left(lease) == 3500 - 2 * 550
        assert (await line.ask(max_tokens=1000)).status_code == 402

    bench.talk(once, lease)
    bench.talk(once, lease)
    bench.talk(refused, lease)


def test_a_call_of_a_gateway_that_was_killed_is_recorded_once_as_lost(bench: Bench) -> None:
    gate = threading.Event()
    bench.script.answers = [Answer(messages(COUNT), waits=gate)]
    records = CallRecords.of(bench.home, CAMPAIGN)

    async def talk(line: Line) -> None:
        asking = asyncio.create_task(line.ask())
        await asyncio.to_thread(bench.script.arrived.acquire)
        records.close()  # as the next gateway does; the provider has the question, and no answer came
        [lost] = records.ended()
        assert (lost.outcome, lost.tokens, lost.money) == ("lost", lost.bound, None)
        gate.set()
        await asking

    bench.talk(talk)
    assert len(bench.calls) == 1, "the same id is not written again"


def test_a_call_of_unknown_cost_counts_for_a_limit_of_money_with_the_most_that_it_could_cost(bench: Bench) -> None:
    tiered = messages({**COUNT, "service_tier": "priority"})
    bench.script.answers = [Answer(tiered)] * 9
    bench.prices(PRICE)
    one = (3.75 * 2200 + 15 * 100) / 1e6

    async def talk(line: Line) -> None:
        statuses = [(await line.ask()).status_code for _ in range(5)]
        assert statuses == [200, 200, 402, 402, 402]

    bench.talk(talk, replace(LEASE, own=ModelLimits(money=2.5 * one)))
    assert [(call.money, call.spent) for call in bench.calls] == [(None, call.bound_money) for call in bench.calls]


def test_a_redirect_and_a_header_that_cannot_be_sent_cost_nothing(bench: Bench) -> None:
    bench.script.answers = [Answer({}, status=302), Answer(messages(COUNT))]

    async def talk(line: Line) -> None:
        assert (await line.ask()).status_code == 302
        headers = {"x-api-key": line.token, "user-agent": "caf\xe9".encode("latin-1")}
        assert (await line.client.post("/v1/messages", json=QUESTION, headers=headers)).status_code == 200

    bench.talk(talk)
    assert [(call.outcome, call.tokens) for call in bench.calls] == [("failed", 0), ("answered", 550)]


def test_the_record_of_a_call_is_one_that_the_ledger_takes_whatever_the_provider_calls_its_model(bench: Bench) -> None:
    bench.script.answers = [Answer(messages(COUNT, model="m\udc00" + "x" * 9999))]

    async def talk(line: Line) -> None:
        assert (await line.ask()).status_code == 200

    bench.talk(talk)
    [call] = bench.calls
    assert (call.outcome, call.tokens, call.model) == ("answered", 550, "m?" + "x" * 198)
