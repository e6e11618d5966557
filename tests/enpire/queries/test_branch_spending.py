"""What it took to propose a branch: the calls of its session since the session's branch before."""

from __future__ import annotations

from dataclasses import replace

from enpire.campaign.agent_events import ExperimentSubmitted, ModelCalled, TokensSpent
from enpire.queries.model_spending import Spendings

CALL = ModelCalled(
    call_id="c", author="anthropic", lane="one", provider="p", endpoint="messages", model="m", outcome="answered",
    status=200, fresh=100, cache_read=10, cache_write=5, output=20, bound=500, money=0.25, currency="USD",
)  # fmt: skip


def submitted(experiment_id: str, lane: str = "one") -> ExperimentSubmitted:
    return ExperimentSubmitted(
        request_id=experiment_id, author="anthropic", lane=lane, experiment_id=experiment_id, hypothesis_id="H",
        changes={}, champion="c",
    )  # fmt: skip


def test_each_call_counts_for_the_next_experiment_of_its_session() -> None:
    found = Spendings()
    copied = TokensSpent(
        request_id="r", author="anthropic", lane="one", fresh=1, cached=2, output=3, model="m", self_reported=False
    )
    for event in (
        CALL, replace(CALL, lane="two"), submitted("E1"), CALL, replace(CALL, money=None, currency=""), copied,
        replace(copied, self_reported=True), submitted("E2"), submitted("E3"), CALL,
    ):  # fmt: skip
        found.apply(event)
    first, second, third = (found.experiments[name] for name in ("E1", "E2", "E3"))
    assert (first.counted, first.copied, first.money, first.unknown) == (135, 0, {"USD": 0.25}, 0)
    assert (second.counted, second.copied, second.money, second.unknown) == (270, 6, {"USD": 0.25}, 1)
    assert (third.counted, third.money) == (0, {})
    assert found.total.counted == 5 * 135, "the sums of sessions count each call"
    assert found.lanes["one"].counted == 4 * 135
