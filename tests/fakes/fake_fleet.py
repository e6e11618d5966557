"""A fleet in one process: fake stations that end each order with the success probability of its policy.

A policy version of the kind COIN_KIND is a file that says how often it succeeds, and how long it takes.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from enpire.interfaces import ImprovementJob, Progress
from enpire.store import arrays
from enpire.types import (
    MOTIONS,
    Bounds,
    Episode,
    EpisodeArrays,
    FloatArray,
    IntArray,
    Observation,
    Order,
    OutcomeKind,
    Split,
    Start,
    TaskSpec,
)
from enpire.wire.arrivals import Announced, Arrival, Delivered, Heartbeat, Joined

ENDED_PER_POLL = 12
"""Orders that end at each poll."""
COIN_KIND = "tests.fakes.fake_fleet:load"
"""Kind of the versions of `ImprovingLearner`."""
GAIN_PER_ROUND = 0.3
"""Increase of the success probability per round of `ImprovingLearner`."""


class CoinTask:
    """A task without a robot: an order succeeds with the probability of its policy."""

    spec = TaskSpec(
        name="coin",
        instruction="come up heads",
        state=(Bounds(name="side", unit="1", low=0, high=1),),
        action=(Bounds(name="flip", unit="1", low=-1, high=1),),
        rate_hz=10,
        limit_ticks=100,
        start_names=("spin",),
    )

    def start(self, split: Split, index: int, secret: bytes) -> Start:
        key = secret if split != "train" else b""
        digest = hashlib.sha256(key + f"{split} {index}".encode()).digest()
        seed = int.from_bytes(digest[:6], "big")
        return Start(split=split, index=index, values=(seed / 2**48,), seed=seed)


class CoinPolicy:
    """Acts like a robot that does nothing; `FakeFleet` draws its verdicts."""

    horizon = execute = 1

    def begin(self, lane: int, seed: int) -> None:
        """It has no state."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        return np.zeros((len(lanes), 1, 1), np.float32)


def load(folder: Path) -> CoinPolicy:
    return CoinPolicy()


class ImprovingLearner:
    """A learner whose versions succeed more often each round."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        chance = 0.3
        if job.parent is not None:
            chance = min(1.0, json.loads((job.parent / "policy.json").read_text())["chance"] + GAIN_PER_ROUND)
        report(Progress(stage="thinking", done=1, total=1, metrics={"episodes": float(len(job.episodes))}))
        staged = job.work / "staged"
        staged.mkdir(exist_ok=True)
        (staged / "policy.json").write_text(json.dumps({"kind": COIN_KIND, "chance": chance, "round": job.round}))
        staged.rename(job.output)
        return {"chance": chance}


@dataclass
class FakeFleet:
    """Four stations by default; orders end at the next polls."""

    versions: Path
    names: tuple[str, ...] = ("one", "two", "three", "four")
    lease: int = 1
    spoil: Callable[[Order], OutcomeKind | None] = lambda order: None
    """Outcome of an order instead of a verdict; None for the usual verdict."""
    ending: Callable[[Order], Delivered] | None = None
    """How orders end; by default `finish`."""
    held: dict[str, Order] = field(default_factory=dict[str, Order])
    unacknowledged: dict[str, Delivered] = field(default_factory=dict[str, Delivered])
    acknowledged: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])
    controls: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    joined: bool = False
    motions: str = "reset home"
    """What idle robots can be commanded to do."""
    motion_ids: dict[str, str] = field(default_factory=dict[str, str])
    """Station -> id of the motion that ended last; a motion ends at once."""
    motion_problem: str = ""

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        arrivals: list[Arrival] = []
        if not self.joined:
            self.joined = True
            for index, name in enumerate(self.names):
                spooled = tuple(key for key, item in self.unacknowledged.items() if item.station == name)
                facts = {"motions": self.motions}
                lease = self.lease + index
                joined = Joined(station=name, lanes=4, lease=lease, running=(), spooled=spooled, facts=facts)
                arrivals.append(joined)
        time.sleep(0.02)
        for order in list(self.held.values())[:ENDED_PER_POLL]:
            del self.held[order.order_id]
            self.unacknowledged[order.order_id] = (self.ending or self.finish)(order)
        arrivals.extend(self.unacknowledged.values())
        arrivals.extend(self._beat(name, index) for index, name in enumerate(self.names))
        return arrivals

    def send(self, station: str, orders: Sequence[Order]) -> None:
        self.held.update({order.order_id: order for order in orders})

    def fetch(self, announced: Announced) -> None:
        raise NotImplementedError("These stations have no cameras.")

    def acknowledge(self, station: str, order_ids: Sequence[str]) -> None:
        self.acknowledged.extend(order_ids)
        for order_id in order_ids:
            self.unacknowledged.pop(order_id, None)

    def refuse(self, station: str, order_ids: Sequence[str], why: str) -> None:
        self.refused.extend(order_ids)
        for order_id in order_ids:
            self.unacknowledged.pop(order_id, None)

    def release(self, station: str, order_ids: Sequence[str]) -> None:
        for order_id in order_ids:
            order = self.held.pop(order_id, None)
            if order is not None:
                self.unacknowledged[order_id] = delivered(order, "aborted", 0, "released")

    def control(self, station: str, control: str, argument: str = "", stop_ids: Sequence[str] = ()) -> None:
        self.controls.append((station, control, argument))
        if control in MOTIONS:
            self.motion_ids[station] = stop_ids[0]

    def close(self) -> None:
        pass

    def finish(self, order: Order) -> Delivered:
        """Draw the verdict; the same start and policy give the same verdict."""
        spoiled = self.spoil(order)
        if spoiled is not None:
            return delivered(order, spoiled, 0, "spoiled by the test")
        chance = 1.0
        if order.policy_id != "scripted:expert":
            chance = json.loads((self.versions / order.policy_id / "policy.json").read_text())["chance"]
        luck = random.Random(f"{order.start.seed} {order.policy_id}").random()
        return delivered(order, "success" if luck < chance else "failure", 20, "")

    def _beat(self, name: str, index: int) -> Heartbeat:
        sent = [
            control
            for station, control, _ in self.controls
            if station == name and control in ("pause", "resume", "stop")
        ]
        last = sent[-1] if sent else ""
        return Heartbeat(
            station=name, lease=self.lease + index, phase="rollout", seconds={"rollout": 1.0}, queued=0,
            running=0 if last in ("stop", "pause") else 4, deployed="", stopped=last == "stop", paused=last == "pause",
            motion_id=self.motion_ids.get(name, ""), motion_problem=self.motion_problem,
        )  # fmt: skip


def delivered(order: Order, outcome: OutcomeKind, ticks: int, cause: str) -> Delivered:
    """The delivery of an order's episode, with a recording if it has a verdict."""
    recorded = outcome in {"success", "failure", "unsafe"}
    data = _recording(ticks) if recorded else b""
    episode = Episode(
        order=order,
        outcome=outcome,
        cause=cause,
        confidence=1.0 if recorded else 0.0,
        ran_policy_id=order.policy_id if recorded else "",
        ticks=ticks,
        began_s=0.0,
        ended_s=1.0,
        sha256=hashlib.sha256(data).hexdigest() if data else "",
    )
    return Delivered(station=order.station, lease=order.lease, episode=episode, arrays_file=data)


@lru_cache
def _recording(ticks: int) -> bytes:
    return arrays.pack(
        EpisodeArrays(
            state=np.zeros((ticks + 1, 1), np.float32),
            action=np.zeros((ticks, 1), np.float32),
            source=np.zeros(ticks, np.uint8),
            chunk=np.zeros(ticks, np.int32),
        )
    )
