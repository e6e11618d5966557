"""The audit of decisions accepts no small difference, no other split, and no sum that does not hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from enpire.campaign.events import LedgerEntry
from enpire.gate.gate import confirm
from enpire.queries.decision_audit import Check, recompute
from enpire.store.entries import read_entry
from tests.enpire.queries.test_decision_audit import Entry, campaign, rows
from tests.fakes.sample_events import event


class HistoryInMemory:
    """Events that no real ledger would accept, such as an order that ends twice, as a `Ledger` to read."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = [self._entry(seq, kind, body) for seq, (kind, body) in enumerate(entries, start=1)]

    @staticmethod
    def _entry(seq: int, kind: str, body: Mapping[str, object]) -> LedgerEntry:
        content = {"campaign_id": "c", **event(kind, **body).body()}
        return read_entry((seq, 0, kind, "c", json.dumps(content), "", ""))

    def events(self, after: int = 0, kinds: Sequence[str] = (), limit: int = 0) -> Iterator[LedgerEntry]:
        yield from (entry for entry in self._entries if entry.seq > after and (not kinds or entry.kind in kinds))


def audited(entries: Sequence[Entry]) -> dict[str, Check]:
    """Kind -> the last check of that kind."""
    return {check.kind: check for check in recompute(HistoryInMemory(entries))}  # pyright: ignore[reportArgumentType]


def changed(kind: str, change: Callable[[dict[str, object]], dict[str, object]]) -> list[Entry]:
    return [(k, b | change(b) if k == kind else b) for k, b in campaign().entries]


def orders_changed(purpose: str, **fields: object) -> list[Entry]:
    """The campaign, with other fields in the last order of a purpose."""
    entries = campaign().entries
    last = [body for kind, body in entries if kind == "order issued" and rows(body, "orders")[0]["purpose"] == purpose][
        -1
    ]
    rows(last, "orders")[0] |= fields
    return entries


def test_the_history_in_memory_is_audited_like_a_ledger() -> None:
    checks = audited(campaign().entries)
    assert len(checks) == 6
    assert all(check.equal for check in checks.values())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("base measured", "low"), ("base measured", "high"), ("gate opened", "alpha"), ("gate decided", "log_e"),
        ("gate decided", "log_need"), ("confirmed", "low"), ("confirmed", "high"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("factor", [1.01, 0.999, 1 + 1e-6])
def test_a_small_difference_of_a_number_is_seen(kind: str, name: str, factor: float) -> None:
    check = audited(changed(kind, lambda body: {name: float(str(body[name])) * factor}))[kind]
    assert not check.equal
    assert f"the ledger has {name} = " in check.sentence
    rounded = audited(changed(kind, lambda body: {name: float(str(body[name])) * (1 + 1e-13)}))[kind]
    assert rounded.equal, "another processor may round the last digits differently"


@pytest.mark.parametrize(("purpose", "kind"), [("gate", "gate decided"), ("confirm", "confirmed")])
@pytest.mark.parametrize("split", ["train", "holdout", "confirm"])
def test_a_start_of_another_split_is_seen(purpose: str, kind: str, split: str) -> None:
    right = {"gate": "holdout", "confirm": "confirm"}[purpose]
    entries = campaign().entries
    for told, body in entries:
        if told == "order issued" and rows(body, "orders")[0]["purpose"] == purpose:
            start = rows(body, "orders")[0]["start"]
            assert isinstance(start, dict)
            rows(body, "orders")[0]["start"] = start | {"split": split}
    check = audited(entries)[kind]
    assert check.equal == (split == right), check.sentence


@pytest.mark.parametrize(
    ("purpose", "kind", "why"),
    [("gate", "gate decided", "does not name the gate's champion"), ("confirm", "confirmed", "is of another version")],
)
def test_an_order_for_another_version_is_seen(purpose: str, kind: str, why: str) -> None:
    check = audited(orders_changed(purpose, policy_id="smuggled"))[kind]
    assert not check.equal
    assert why in check.sentence


def test_one_confirmation_start_that_runs_twice_is_seen() -> None:
    start = {"split": "confirm", "index": 3, "values": [0.5], "seed": 3}
    check = audited(orders_changed("confirm", start=start))["confirmed"]
    assert not check.equal
    assert "50 trials on 49 starts where 50 were announced" in check.sentence


def extra(kind: str, order: int) -> list[Entry]:
    """The campaign, with the event of one order repeated at the end."""
    entries = campaign().entries
    again = [(k, b) for k, b in entries if k == kind and f"order{order:04}" in str(b)]
    assert len(again) == 1
    return [*entries, *again]


@pytest.mark.parametrize("order", [5, 60, 240])
def test_an_order_that_ends_twice_breaks_the_sum(order: int) -> None:
    check = audited(extra("orders ended", order))["sum of orders"]
    assert not check.equal
    assert "does not hold; 1 ends belong to no open order" in check.sentence


def test_an_order_that_is_issued_twice_breaks_the_sum() -> None:
    check = audited(extra("order issued", 5))["sum of orders"]
    assert check.equal, "the second is open"
    entries = extra("order issued", 5)
    doubled = audited([*entries, entries[-1]])["sum of orders"]
    assert not doubled.equal
    assert doubled.sentence.startswith("242 orders issued = 240 ended + 1 open does not hold")


def test_an_end_without_an_order_breaks_the_sum() -> None:
    entries = [(k, b) for k, b in campaign().entries if not (k == "order issued" and "order0005" in str(b))]
    check = audited(entries)["sum of orders"]
    assert not check.equal
    assert "1 ends belong to no open order" in check.sentence


def test_a_decision_without_its_trials_is_seen() -> None:
    told = [(k, b) for k, b in campaign().entries if not (k == "orders ended" and "order003" in str(b))]
    assert not audited(told)["gate decided"].equal


def late(purpose: str, outcome: str) -> list[Entry]:
    """The campaign, in which one trial with this outcome ended as unknown at first; its result came next."""
    entries = campaign().entries
    issued = {o["order_id"]: o["purpose"] for k, b in entries if k == "order issued" for o in rows(b, "orders")}
    ended = [(at, rows(b, "episodes")[0]) for at, (k, b) in enumerate(entries) if k == "orders ended"]
    at, result = next(
        (at, row) for at, row in ended if issued[row["order_id"]] == purpose and row["outcome"] == outcome
    )
    unknown = {"episodes": [result | {"outcome": "unknown", "cause": "station lost"}]}
    come = ("orders found", {**entries[at][1], "episodes": [result]})
    return [*entries[:at], ("orders ended", entries[at][1] | unknown), come, *entries[at + 1 :]]


@pytest.mark.parametrize(("purpose", "kind"), [("base", "base measured"), ("confirm", "confirmed")])
@pytest.mark.parametrize("outcome", ["success", "failure"])
def test_a_late_result_counts_in_a_measurement(purpose: str, kind: str, outcome: str) -> None:
    checks = audited(late(purpose, outcome))
    assert checks[kind].equal, checks[kind].sentence
    assert checks["sum of orders"].equal


def test_each_confirmation_is_judged_by_its_own_trials() -> None:
    story = campaign()
    story.tell("confirm opened", policy_id="next", n=20, goal=0.8)
    for index in range(100, 120):
        story.run("collect", "next", index, "train", 0.5)
        story.run("confirm", "next", index, "confirm", 0.5)
    successes = sum(story.ends("confirm")[50:])
    result = confirm(successes, 20, 0.8)
    figures = {"successes": successes, "low": result.interval.low, "high": result.interval.high}
    story.tell("confirmed", policy_id="next", n=20, passed=result.passed, **figures)
    checks = audited(story.entries)
    assert checks["confirmed"].equal, checks["confirmed"].sentence
    assert checks["confirmed"].seq == len(story.entries)
