"""Decisions come out of the records again; a changed record or a changed decision is seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from enpire.codec import order_fields, result_fields, result_of
from enpire.gate.gate import confirm, judge
from enpire.gate.intervals import wilson
from enpire.gate.rule import GateRule, level
from enpire.gate.trials import Trial, pairs_in_order
from enpire.queries.decision_audit import Check, recompute
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode, Order, OutcomeKind, Purpose, Split, Start
from tests.fakes.sample_events import append

Entry = tuple[str, dict[str, object]]
RULE = GateRule(pairs=120)


@dataclass
class Story:
    """A short campaign, written as the loop writes it."""

    entries: list[Entry] = field(default_factory=list)
    random: random.Random = field(default_factory=lambda: random.Random(5))
    orders: int = 0
    trials: list[Trial] = field(default_factory=list)

    def tell(self, kind: str, **body: object) -> None:
        self.entries.append((kind, {"campaign_id": "c", **body}))

    def run(
        self, purpose: Purpose, policy: str, index: int, split: Split, success: float,
        side: Literal["", "champion", "candidate"] = "",
    ) -> None:  # fmt: skip
        self.orders += 1
        order = Order(
            order_id=f"order{self.orders:04}", campaign_id="c", station="s1", task="t", policy_id=policy, round=1,
            start=Start(split=split, index=index, values=(0.5,), seed=index), purpose=purpose, side=side,
            gate_id="g1" if side else "", pair=index if side else -1,
        )  # fmt: skip
        outcome: OutcomeKind = "success" if self.random.random() < success else "failure"
        ended = Episode(
            order=order, outcome=outcome, cause="", confidence=1.0, ran_policy_id=policy, ticks=70, began_s=0.0,
            ended_s=1.0,
        )  # fmt: skip
        if side:
            self.trials.append(Trial(pair=index, side=side, outcome=outcome, ticks=70))
        self.tell("order issued", orders=[order_fields(order)])
        self.tell("orders ended", episodes=[result_fields(result_of(ended))])

    def ends(self, purpose: str) -> list[bool]:
        purposes = {
            o["order_id"]: o["purpose"] for k, b in self.entries if k == "order issued" for o in rows(b, "orders")
        }
        ended = [e for k, b in self.entries if k == "orders ended" for e in rows(b, "episodes")]
        return [e["outcome"] == "success" for e in ended if purposes[e["order_id"]] == purpose]


def rows(body: Mapping[str, object], name: str) -> list[dict[str, object]]:
    found = body[name]
    assert isinstance(found, list)
    return found


def campaign() -> Story:
    story = Story()
    story.tell("campaign started", name="n", task="t")
    story.tell("deployed", policy_id="base", previous="", reason="the base", round=0)
    for i in range(30):
        story.run("base", "base", i, "holdout", 0.4)
    base = wilson(sum(story.ends("base")), 30)
    story.tell("base measured", policy_id="base", successes=base.successes, n=30, low=base.low, high=base.high)
    alpha = level(RULE.alpha, 1, 0)
    opened = {"gate_id": "g1", "champion": "base", "candidate": "next", "k": 1, "alpha": alpha, "promoted": 0}
    story.tell("gate opened", **opened, round=1, rule=asdict(RULE))
    for i in range(80):
        story.run("gate", "next", i, "holdout", 0.9, "candidate")
        story.run("gate", "base", i, "holdout", 0.4, "champion")
    decision = judge(pairs_in_order(story.trials), RULE, alpha)
    assert decision.kind == "promote"
    story.tell("gate decided", gate_id="g1", champion="base", candidate="next", **decision.body())
    story.tell("deployed", policy_id="next", previous="base", reason="better", round=1)
    story.tell("confirm opened", policy_id="next", n=50, goal=0.8)
    for i in range(50):
        story.run("confirm", "next", i, "confirm", 0.95)
    successes = sum(story.ends("confirm"))
    result = confirm(successes, 50, 0.8)
    figures = {"successes": successes, "low": result.interval.low, "high": result.interval.high}
    story.tell("confirmed", policy_id="next", n=50, passed=result.passed, **figures)
    return story


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Callable[[Sequence[Entry]], dict[str, Check]]]:
    """Write the entries into a real ledger and recompute it; kind -> the last check of that kind."""
    made: list[SqliteLedger] = []

    def again(entries: Sequence[Entry]) -> dict[str, Check]:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        ledger = SqliteLedger(folder / "ledger.db")
        made.append(ledger)
        append(ledger, entries)
        return {check.kind: check for check in recompute(ledger)}

    yield again
    for ledger in made:
        ledger.close()


Replay = Callable[[Sequence[Entry]], dict[str, Check]]


def changed(story: Story, kind: str, **fields: object) -> list[Entry]:
    return [(k, b | fields if k == kind else b) for k, b in story.entries]


def test_an_honest_history_comes_out_the_same(replay: Replay) -> None:
    checks = replay(campaign().entries)
    assert [check for check in checks.values() if not check.equal] == []
    kinds = {"base measured", "gate opened", "gate decided", "deployed", "confirmed", "sum of orders"}
    assert set(checks) == kinds
    assert "promote (better)" in checks["gate decided"].sentence
    assert checks["sum of orders"].sentence == "240 orders issued = 240 ended + 0 open"


@pytest.mark.parametrize(
    ("kind", "field_name", "value"),
    [
        ("base measured", "successes", 29),
        ("gate opened", "alpha", 0.5),
        ("gate opened", "k", 2),
        ("gate decided", "decision", "reject"),
        ("gate decided", "wins", 79),
        ("gate decided", "log_e", 99.0),
        ("gate decided", "pairs", 80),
        ("confirmed", "passed", False),
        ("confirmed", "successes", 50),
        ("confirmed", "low", 0.99),
        ("deployed", "previous", "other"),
    ],
)
def test_a_changed_decision_is_seen(replay: Replay, kind: str, field_name: str, value: object) -> None:
    checks = replay(changed(campaign(), kind, **{field_name: value}))
    assert not checks[kind].equal
    assert field_name in checks[kind].sentence


def test_a_version_that_no_gate_promoted_is_seen(replay: Replay) -> None:
    story = campaign()
    story.tell("deployed", policy_id="smuggled", previous="next", reason="better", round=2)
    check = replay(story.entries)["deployed"]
    assert not check.equal
    assert "no gate promoted this version" in check.sentence
    story.entries.insert(-1, ("command accepted", {"campaign_id": "c", "verb": "promote", "station": "smuggled"}))
    assert replay(story.entries)["deployed"].equal


def test_a_rollback_goes_to_a_former_champion(replay: Replay) -> None:
    story = campaign()
    story.tell("rolled back", policy_id="next", to="base", reason="worse")
    assert replay(story.entries)["rolled back"].equal
    story.tell("rolled back", policy_id="base", to="unheard", reason="worse")
    assert not replay(story.entries)["rolled back"].equal


def test_a_trial_that_ran_another_version_is_seen(replay: Replay) -> None:
    story = campaign()
    for kind, body in story.entries:
        if kind == "orders ended" and rows(body, "episodes")[0]["order_id"] == "order0040":
            rows(body, "episodes")[0]["ran_policy_id"] = "elsewhere"
    check = replay(story.entries)["gate decided"]
    assert not check.equal
    assert "order0040 ran another version" in check.sentence


def test_sides_that_do_not_start_alike_are_seen(replay: Replay) -> None:
    story = campaign()
    for kind, body in story.entries:
        if kind == "order issued" and rows(body, "orders")[0]["order_id"] == "order0040":
            rows(body, "orders")[0]["start"] = {"split": "holdout", "index": 999, "values": [0.1], "seed": 3}
    check = replay(story.entries)["gate decided"]
    assert not check.equal
    assert "have different starts or stations" in check.sentence


BOTH = ("champion", "candidate")


@pytest.mark.parametrize(
    ("back", "again", "why"),
    [
        (BOTH, ["champion s2, candidate s2"], ""),
        (["candidate"], ["candidate s2"], ""),
        (BOTH, ["champion s2, candidate s1"], "reissued alone"),
        (BOTH, ["champion s1", "candidate s1"], "reissued alone"),
        ([], ["candidate s1"], "without having been released"),
    ],
)
def test_reissued_orders_were_released_and_both_sides_go_together(
    replay: Replay, back: Sequence[str], again: Sequence[str], why: str
) -> None:
    story = campaign()
    first = [kind for kind, _ in story.entries].index("gate opened") + 1
    pair = story.entries[first : first + 4]
    orders = {
        str(order["side"]): order for kind, body in pair if kind == "order issued" for order in rows(body, "orders")
    }
    ends = [rows(body, "episodes")[0] for kind, body in pair if kind == "orders ended"]
    ended = {side: end for side, order in orders.items() for end in ends if end["order_id"] == order["order_id"]}
    released = {"outcome": "aborted", "cause": "released: the station left", "ran_policy_id": "", "ticks": 0}
    told = Story()
    told.tell("order issued", orders=[{**orders[side], "order_id": f"first-{side}"} for side in BOTH])
    told.tell("orders ended", episodes=[{**ended[side], **released, "order_id": f"first-{side}"} for side in back])
    for event in again:
        given = [one.split() for one in event.split(", ")]
        told.tell("order issued", orders=[{**orders[side], "station": station} for side, station in given])
    once = [side for side in BOTH if side not in " ".join(again)]
    last = [{**ended[side], "order_id": f"first-{side}"} if side in once else ended[side] for side in BOTH]
    told.tell("orders ended", episodes=last)
    story.entries[first : first + 4] = told.entries
    check = replay(story.entries)["gate decided"]
    assert check.equal == (not why)
    assert why in check.sentence


def test_a_confirmation_on_fewer_starts_than_announced_is_seen(replay: Replay) -> None:
    story = campaign()
    story.entries = [
        (k, b) for k, b in story.entries
        if not (k in {"order issued", "orders ended"} and "order0240" in str(b))
    ]  # fmt: skip
    check = replay(story.entries)["confirmed"]
    assert not check.equal
    assert "49 starts where 50 were announced" in check.sentence


def test_open_orders_are_counted(replay: Replay) -> None:
    story = campaign()
    story.run("collect", "next", 0, "train", 1.0)
    check = replay(story.entries[:-1])["sum of orders"]
    assert check.equal
    assert check.sentence == "241 orders issued = 240 ended + 1 open"


def test_a_promotion_of_a_version_in_quarantine_is_seen(replay: Replay) -> None:
    story = campaign()
    at = next(number for number, (kind, _) in enumerate(story.entries) if kind == "gate decided")
    held: dict[str, object] = {
        "campaign_id": "c", "experiment_id": "", "policy_id": "next", "tripwire": "speed", "why": "too fast",
    }  # fmt: skip
    story.entries.insert(at, ("experiment quarantined", held))
    checks = replay(story.entries)
    for kind in ("gate decided", "deployed"):
        assert not checks[kind].equal
        assert "in quarantine (speed: too fast)" in checks[kind].sentence
    cleared = {"campaign_id": "c", "experiment_id": "", "policy_id": "next", "tripwires": ["speed"], "by": "ada"}
    story.entries.insert(at + 1, ("experiment cleared", cleared))
    checks = replay(story.entries)
    assert checks["gate decided"].equal
    assert checks["deployed"].equal
