"""A small campaign in a real ledger, written as the loop writes it: base, two gates, a confirmation."""

from __future__ import annotations

import hashlib
import random
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from enpire.codec import order_fields, result_fields, result_of
from enpire.gate.gate import Decision, confirm, judge
from enpire.gate.intervals import wilson
from enpire.gate.rule import GateRule, level
from enpire.gate.trials import Trial, pairs_in_order
from enpire.store import arrays, durable
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode, EpisodeArrays, Order, OutcomeKind, Purpose, Start
from tests.fakes.sample_events import append

CAMPAIGN = "01J0000000000000000000CAMP"
BASE, SECOND, THIRD = "b" * 64, "c" * 64, "d" * 64
RULE = GateRule(pairs=60)
STATIONS = ("cell-1", "cell-2")


@dataclass
class CampaignWriter:
    """Writes a campaign's events in batches."""

    home: Path
    campaign_id: str
    name: str
    random: random.Random = field(default_factory=lambda: random.Random(3))
    orders: int = 0
    entries: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    def tell(self, kind: str, /, **body: object) -> None:
        self.entries.append((kind, {"campaign_id": self.campaign_id, **body}))

    def flush(self) -> None:
        ledger = SqliteLedger(self.home / "ledger.db")
        append(ledger, self.entries)
        ledger.close()
        self.entries.clear()

    def order(self, purpose: Purpose, policy: str, round: int, **more: object) -> Order:
        self.orders += 1
        index = int(str(more.pop("index", more.get("pair", self.orders))))
        split = (
            "train"
            if purpose in ("demonstrate", "collect", "search")
            else "confirm"
            if purpose == "confirm"
            else "holdout"
        )
        order = Order(
            order_id=f"01J{self.orders:023}", campaign_id=self.campaign_id, station=STATIONS[index % 2],
            task="pin_insertion", policy_id=policy, start=Start(split=split, index=index, values=(0.1,), seed=index),
            purpose=purpose, round=round, **more,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
        self.tell("order issued", orders=[order_fields(order)])
        return order

    def end(
        self, order: Order, outcome: OutcomeKind, cause: str = "", retries: tuple[int, ...] = (), ticks: int = 40
    ) -> None:
        data = a_recording(self.orders)
        ended = Episode(
            order=order, outcome=outcome, cause=cause, confidence=0.9, ran_policy_id=order.policy_id, ticks=ticks,
            began_s=1.0, ended_s=3.5, sha256=hashlib.sha256(data).hexdigest(), attempts=retries,
        )  # fmt: skip
        self.tell("orders ended", episodes=[result_fields(result_of(ended))])

    def run(self, purpose: Purpose, policy: str, round: int, success: float, **more: object) -> OutcomeKind:
        order = self.order(purpose, policy, round, **more)
        outcome: OutcomeKind = "success" if self.random.random() < success else "failure"
        self.end(order, outcome)
        return outcome

    def gate(self, k: int, promoted: int, champion: tuple[str, float], candidate: tuple[str, float]) -> str:
        gate_id = f"01J{k:023}"
        alpha = level(RULE.alpha, k, promoted)
        sides = {"gate_id": gate_id, "champion": champion[0], "candidate": candidate[0], "round": k}
        self.tell("gate opened", **sides, k=k, alpha=alpha, promoted=promoted, rule=asdict(RULE))
        trials: list[Trial] = []
        pair, decision = 0, None
        while decision is None or not decision.final:
            sided: tuple[tuple[Literal["champion", "candidate"], tuple[str, float]], ...]
            sided = (("champion", champion), ("candidate", candidate))
            for side, (policy, rate) in sided:
                outcome = self.run("gate", policy, k, rate, gate_id=gate_id, pair=pair, side=side)
                trials.append(Trial(pair=pair, side=side, outcome=outcome, ticks=40))
            decision = judged(tuple(trials), alpha)
            pair += 1
        released = self.order("gate", candidate[0], k, gate_id=gate_id, pair=pair, side="candidate")
        self.tell("gate decided", **sides, **decision.body())
        if decision.kind == "promote":
            self.tell("deployed", policy_id=candidate[0], previous=champion[0], reason=decision.reason, round=k)
        self.end(released, "aborted", "released")
        return decision.kind

    def learn(self, round: int, parent: str, made: str) -> None:
        job, shared = f"job{round}", {"recipe_hash": "1" * 64, "data_hash": "2" * 64}
        recipe = {"name": "habc_short", "learner": "habc", "settings": {}}
        told = {"learner": "habc", "parent": parent, "round": round, "episodes": ["e"], "recipe": recipe}
        self.tell("learner started", job=job, **told, **shared)
        self.tell("version made", policy_id=made, kind="flow", parent=parent, round=round, **shared)
        self.tell("learner ended", job=job, policy_id=made, round=round, seconds=9.5, figures={"loss": 0.25})

    def robot_time(self, wall_s: float) -> None:
        seconds = {"rollout": 0.8 * wall_s, "verify": 0.1 * wall_s, "wait-order": 0.1 * wall_s}
        stations = dict.fromkeys(STATIONS, seconds)
        self.tell("robot time", stations=stations, wall_s=wall_s, robot_s=2 * 16 * wall_s)


@cache
def judged(trials: tuple[Trial, ...], alpha: float) -> Decision:
    """The decision of a gate; the same campaign is written for very many tests."""
    return judge(pairs_in_order(trials), RULE, alpha)


@cache
def a_recording(seed: int) -> bytes:
    draw = np.random.default_rng(seed)
    return arrays.pack(
        EpisodeArrays(
            state=draw.normal(size=(41, 3)).cumsum(axis=0).astype(np.float32),
            action=draw.normal(size=(40, 2)).astype(np.float32),
            source=np.zeros(40, np.uint8),
            chunk=np.arange(40, dtype=np.int32) // 4,
        )
    )


def begin(
    home: Path, name: str = "pin_insertion", campaign_id: str = CAMPAIGN, orders: int = 0, **begun: object
) -> CampaignWriter:
    """A campaign with two stations and a measured base of about 40 %; its order numbers begin after `orders`.

    `begun`: optional fields of its first event.
    """
    record = CampaignWriter(home, campaign_id=campaign_id, name=name, orders=orders)
    record.tell(
        "campaign started", name=name, task="pin_insertion", campaign={"name": name}, seed=7, home=str(home),
        code="0.1.0", goal={"success": 0.9, "confirm_starts": 60}, **begun,
    )  # fmt: skip
    for lease, station in enumerate(STATIONS, start=1):
        record.tell("station joined", station=station, lanes=16, lease=lease, facts={"driver": "mujoco"})
    for _ in range(4):
        record.run("demonstrate", "scripted:expert", 0, 1.0)
    record.learn(0, "", BASE)
    record.tell("deployed", policy_id=BASE, previous="", reason="the base", round=0)
    ends = [record.run("base", BASE, 0, 0.4) for _ in range(40)]
    base = wilson(ends.count("success"), 40)
    record.tell("base measured", policy_id=BASE, successes=base.successes, n=40, low=base.low, high=base.high)
    return record


def record_campaign(home: Path) -> CampaignWriter:
    """A whole campaign: base, a promotion, a gate without a promotion, a passed confirmation."""
    record = begin(home)
    for _ in range(30):
        record.run("collect", BASE, 0, 0.45)
    record.robot_time(30.0)
    record.learn(1, BASE, SECOND)
    assert record.gate(1, 0, (BASE, 0.35), (SECOND, 0.99)) == "promote"
    for _ in range(30):
        record.run("collect", SECOND, 1, 0.97)
    record.learn(2, SECOND, THIRD)
    assert record.gate(2, 1, (SECOND, 0.98), (THIRD, 0.9)) != "promote"
    record.end(record.order("collect", SECOND, 2), "aborted", "stopped by ada")
    record.tell("episode refused", order_id="01J", station="cell-1", why="an old lease")
    write_confirmation(record, SECOND, 60)
    record.flush()
    return record


def write_confirmation(record: CampaignWriter, policy_id: str, n: int) -> None:
    record.tell("confirm opened", policy_id=policy_id, n=n, goal=0.9)
    ends = [record.run("confirm", policy_id, 2, 0.99) for _ in range(n)]
    result = confirm(ends.count("success"), n, 0.9)
    record.robot_time(60.0)
    record.tell(
        "confirmed", policy_id=policy_id, successes=ends.count("success"), n=n, low=result.interval.low,
        high=result.interval.high, passed=result.passed,
    )  # fmt: skip
    record.tell("campaign ended", reached=result.passed, reason="the champion is confirmed at 90%")


def keep_files(record: CampaignWriter, order_id: str, order_number: int) -> Path:
    """Write the recording of one episode into the store."""
    folder = record.home / "episodes" / record.campaign_id / order_id
    durable.make_folder(folder)
    durable.write(folder / "arrays.npz", a_recording(order_number))
    return folder
