"""A small real history: a ledger with two rounds and their gates, and the files of its episodes."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from enpire.codec import order_fields, result_fields, result_of
from enpire.ids import mint
from enpire.store.arrays import pack
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode, EpisodeArrays, Order, OutcomeKind, Purpose, Start
from tests.fakes.sample_events import append
from tests.web_ui.tiny_task import ADDRESS

BASE, SECOND, THIRD = (digit * 64 for digit in "abc")
FIGURES = {
    "a_e_mean": 0.0499, "a_e_spread": 1.44, "auc_a_e": 0.761, "brier": 0.103, "effective_share": 0.726,
    "efficiency_sound": 1.0, "gate_mean": 1.11, "gate_saturated": 0.159,
}  # fmt: skip
"""What a training run says about itself."""


@dataclass(slots=True)
class History:
    """Writes a campaign's events and episodes into a home."""

    home: Path
    campaign_id: str = field(default_factory=mint)
    draw: random.Random = field(default_factory=lambda: random.Random(7))
    ledger: SqliteLedger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = SqliteLedger(self.home / "ledger.db")

    def say(self, kind: str, /, **body: object) -> None:
        """Append one event."""
        append(self.ledger, [(kind, {"campaign_id": self.campaign_id, **body})])

    def issue(self, n: int, purpose: Purpose, policy_id: str, **more: object) -> list[Order]:
        """Issue n orders; they stay open."""
        orders = [self._order(index, purpose, policy_id, more) for index in range(n)]
        self.say("order issued", orders=[order_fields(order) for order in orders])
        return orders

    def end(self, orders: Sequence[Order], rate: float) -> list[Episode]:
        """End orders, a share `rate` of them with success."""
        ended = [self._end(order, self.draw.random() < rate) for order in orders]
        self.say("orders ended", episodes=[result_fields(result_of(episode)) for episode in ended])
        return ended

    def write_episodes(self, ended: Sequence[Episode]) -> None:
        """Record episodes whose files are there: their orders, then their ends."""
        self.say("order issued", orders=[order_fields(episode.order) for episode in ended])
        self.say("orders ended", episodes=[result_fields(result_of(episode)) for episode in ended])

    def run(self, n: int, purpose: Purpose, policy_id: str, rate: float, **more: object) -> list[Episode]:
        """Issue n orders and end them, a share `rate` of them with success."""
        return self.end(self.issue(n, purpose, policy_id, **more), rate)

    def confirm(self, policy_id: str, outcome: OutcomeKind, retries: int, n: int = 1) -> None:
        """Record n trials of a version on fresh starts that all had the same outcome and number of retries."""
        orders = self.issue(n, "confirm", policy_id, round=1)
        ended = [
            Episode(
                order=order, outcome=outcome, cause="", confidence=0.98, ran_policy_id=policy_id, ticks=60,
                began_s=10.0, ended_s=13.0, attempts=tuple(range(10, 10 + retries)),
            )
            for order in orders
        ]  # fmt: skip
        self.say("orders ended", episodes=[result_fields(result_of(episode)) for episode in ended])

    def _order(self, index: int, purpose: Purpose, policy_id: str, more: Mapping[str, object]) -> Order:
        hidden = purpose in ("gate", "confirm", "base")
        start = Start(split="holdout" if hidden else "train", index=index // 2, values=(0.01, -0.02), seed=index)
        gate_id, round_number = str(more.get("gate_id", "")), int(str(more.get("round", 0)))
        return Order(
            order_id=mint(), campaign_id=self.campaign_id, station=f"sim-{index % 4 + 1}", task=ADDRESS,
            policy_id=policy_id, start=start, purpose=purpose, round=round_number, gate_id=gate_id,
            pair=index if gate_id else -1, side="champion" if gate_id else "", lease=1,
        )  # fmt: skip

    def _end(self, order: Order, success: bool) -> Episode:
        outcome: OutcomeKind = "success" if success else "failure"
        if self.draw.random() < 0.02:
            outcome = "aborted"
        frames = 60 if success else 110
        kept = order.round == 2
        sha256 = self._keep(order, frames, success) if kept else ""
        ended = Episode(
            order=order, outcome=outcome, cause="station restarted" if outcome == "aborted" else "", confidence=0.98,
            ran_policy_id=order.policy_id, ticks=frames, began_s=10.0, ended_s=10.0 + frames / 20,
            achieved_start=(0.01, -0.02), reset_attempts=1, sha256=sha256,
            attempts=() if success and order.start.index % 5 else (30,),
        )  # fmt: skip
        if kept:
            facts = {"schema": 1, "order": order_fields(order), "episode": result_fields(result_of(ended))}
            (self.home / "episodes" / order.campaign_id / order.order_id / "episode.json").write_text(json.dumps(facts))
        return ended

    def _keep(self, order: Order, frames: int, success: bool) -> str:
        """Write the files of an episode; the older rounds go without, as after a clean-up."""
        data = pack(path_of(frames, self.draw.random()))
        folder = self.home / "episodes" / order.campaign_id / order.order_id
        folder.mkdir(parents=True)
        (folder / "arrays.npz").write_bytes(data)
        decided = -(-frames // 5)
        values = np.linspace(0.3, 0.97 if success else 0.05, decided)
        figures = {"p_v": values.tolist(), "V_e": (-12 + 12 * values).tolist(), "g": (0.4 + values).tolist()}
        (folder / "figures.json").write_text(json.dumps(figures))
        return hashlib.sha256(data).hexdigest()


def path_of(frames: int, phase: float) -> EpisodeArrays:
    """A smooth path with an intervention in its middle third."""
    time = np.linspace(0, 1, frames + 1)
    state = np.stack([0.05 * np.cos(3 * time + phase), 0.05 * np.sin(3 * time + phase), 0.08 * (1 - time)], axis=1)
    source = np.zeros(frames, np.uint8)
    source[frames // 3 : frames // 2] = 1
    return EpisodeArrays(
        state=state.astype(np.float32), action=np.diff(state, axis=0).astype(np.float32) * 20, source=source,
        chunk=(np.arange(frames) // 5).astype(np.int32),
    )  # fmt: skip


def record(home: Path) -> History:
    """A campaign that made a base, promoted one candidate and rejected one; the ledger stays open for writing."""
    past = History(home)
    past.say(
        "campaign started", name="pin_insertion", task=ADDRESS, seed=1, code="0.1.0",
        campaign={"budget": {"wall_s": 7200.0, "rounds": 14, "robot_s": 0.0}},
        goal={"success": 0.97, "confirm_starts": 400}, home=str(home), limit_ticks=160,
    )  # fmt: skip
    for number in range(1, 5):
        past.say("station joined", station=f"sim-{number}", lanes=16, lease=number, facts={"driver": "mujoco"})
    past.run(24, "demonstrate", "scripted:expert", 0.9)
    _learn(past, 0, "", BASE, {"loss": 0.12})
    past.say("deployed", policy_id=BASE, previous="", reason="base", round=0)
    past.run(60, "base", BASE, 0.38)
    past.say("base measured", policy_id=BASE, successes=23, n=60, low=0.27, high=0.51)
    for number, parent, candidate, decision in ((1, BASE, SECOND, "promote"), (2, SECOND, THIRD, "reject")):
        past.run(50, "collect", parent, 0.35 + 0.3 * (number - 1), round=number)
        _learn(past, number, parent, candidate, FIGURES)
        _judge(past, number, parent, candidate, decision)
    _propose(past)
    seconds = {"rollout": 61.0, "reset": 2.5, "verify": 1.1, "wait-order": 3.0}
    past.say("robot time", stations={f"sim-{number}": seconds for number in range(1, 5)}, wall_s=67.6, robot_s=258.4)
    return past


def _propose(past: History) -> None:
    """Two ideas of one lane: the first was kept, the second builds on it and is queued."""
    ideas = [("warmer noise finds more successes", ()), ("the same with half the passes", ("idea-1",))]
    for number, (statement, parents) in enumerate(ideas, 1):
        hypothesis = {
            "hypothesis_id": f"idea-{number}", "statement": statement, "falsifier": "the gate does not promote it",
            "regime": "offline RL", "kind": "improve", "author": "search", "lane": "search-1", "parents": list(parents),
        }  # fmt: skip
        edges = [{"kind": "refutes", "to": "idea-1"}] if parents else []
        past.say("hypothesis proposed", hypothesis=hypothesis, edges=edges, effect="")
        past.say(
            "experiment submitted", experiment_id=f"test-{number}", hypothesis_id=f"idea-{number}", author="search",
            lane="search-1", changes={"passes": 8}, recipe={}, recipe_hash="d" * 64, champion=BASE,
        )  # fmt: skip
        past.say("experiment checked", experiment_id=f"test-{number}")
    past.say(
        "experiment decided", experiment_id="test-1", hypothesis_id="idea-1", policy_id=SECOND, gate_id="", pairs=40,
        recipe_hash="d" * 64, decision="keep", reason="better", delta=0.35, low=0.12, high=0.58,
    )  # fmt: skip


def _learn(past: History, number: int, parent: str, made: str, figures: Mapping[str, float]) -> None:
    job = f"round-{number}"
    past.say(
        "learner started", job=job, learner="habc" if number else "clone", parent=parent, round=number,
        episodes=["e"] * 50,
        recipe_hash="d" * 64, data_hash="e" * 64,
    )  # fmt: skip
    past.say("learner ended", job=job, policy_id=made, round=number, figures=dict(figures), seconds=9.4)
    past.say(
        "version made", policy_id=made, kind="flow", parent=parent, recipe_hash="d" * 64, data_hash="e" * 64,
        round=number,
    )  # fmt: skip


def _judge(past: History, number: int, champion: str, candidate: str, decision: str) -> None:
    gate_id = mint()
    past.say(
        "gate opened", gate_id=gate_id, champion=champion, candidate=candidate, k=number, alpha=0.03,
        promoted=number - 1, round=number, rule={"alpha": 0.05, "pairs": 400, "margin": 0.02},
    )  # fmt: skip
    promoted = decision == "promote"
    past.run(40, "gate", candidate if promoted else champion, 0.8, gate_id=gate_id, round=number)
    wins, losses = (17, 3) if promoted else (4, 15)
    past.say(
        "gate decided", gate_id=gate_id, champion=champion, candidate=candidate, decision=decision, round=number,
        reason="better" if promoted else "worse", wins=wins, losses=losses, both=16,
        neither=4, pairs=wins + losses + 20, log_e=4.2 if promoted else -3.1, log_need=3.5,
        low=0.12 if promoted else -0.45, high=0.58 if promoted else -0.03,
    )  # fmt: skip
    if promoted:
        past.say("deployed", policy_id=candidate, previous=champion, reason="success", round=number)
