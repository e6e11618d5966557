"""CPU time of the orchestrator with four branches: `python -m benchmarks.orchestrator [--seconds 60]`.

The loop, its ledger and its store are real and write to a real disk. Four pretend stations with 16 lanes each live in
the same process: they move nothing, and their own time does not count. Their messages are encoded and decoded as on the
wire. In one part all robots search for branches; in the other they run the pairs of two gates. The loop's clock is
virtual: a turn waits 50 ms of it, in which the stations end as many episodes as those of `best_regime`, each with a
recording of the size of pin insertion. So the numbers depend on no other process: CPU time of a virtual second, with
all periodic duties, and of 1,000 episodes. Training runs are made at once and do not count; neither do start and report
of the campaign, and the threads of sockets and live images.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import itertools
import pstats
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Self, cast

import numpy as np

from benchmarks.machine import describe
from benchmarks.measured import Measured, report
from enpire.campaign.branch_events import BranchEnteredGate
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.campaign import Budget
from enpire.gate.rule import GateRule
from enpire.home import open_home
from enpire.interfaces import ImprovementJob, Progress
from enpire.loop import turn
from enpire.parts import TASKS
from enpire.processes.training_process import TrainingProcess
from enpire.session import GATHER_S
from enpire.store import arrays
from enpire.types import Episode, EpisodeArrays, Order, TaskSpec
from enpire.wire.arrivals import Arrival, Delivered, Joined
from enpire.wire.messages import Parcel, decode, encode
from tests.agent_loop.pretend_lab import CAMPAIGN, Running, Tuned, with_skill
from tests.agent_loop.test_branches import opened
from tests.fakes.fake_fleet import FakeFleet

STATIONS, LANES, AHEAD, BRANCHES = 4, 16, 12, 4
BEAT_S = 0.5
"""Time between two heartbeats of a station."""
EPISODES_PER_S, MOST_CORE = 20.0, 0.10
"""Episodes that the 64 robots of `best_regime` end in a second, and the largest share of a core of the orchestrator."""
CHANCES = (0.30, 0.32, 0.34, 0.36)
"""Success of the versions of the four branches; the champion's is 0.3."""


@dataclass
class PretendFleet(FakeFleet):
    """Stations that end `per_s` orders in a second of the virtual clock."""

    spec: TaskSpec = field(default_factory=lambda: TASKS.make("pin_insertion").spec)
    per_s: float = EPISODES_PER_S
    now_s: float = 0.0
    station_s: float = 0.0
    """CPU time that the pretence itself took."""
    ended: int = 0
    owed: float = 0.0
    """Orders that should have ended by now."""
    wire: deque[tuple[str, int, bytes]] = field(default_factory=deque[tuple[str, int, bytes]])
    """(station, lease, message) of the episodes that are not yet read."""

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        began_s, before_s = time.process_time(), self.now_s
        self.now_s += timeout_s
        self.owed += timeout_s * self.per_s
        arrivals: list[Arrival] = []
        if not self.joined:
            self.joined = True
            arrivals += [
                Joined(station=name, lanes=LANES, lease=self.lease + index, running=(), spooled=())
                for index, name in enumerate(self.names)
            ]
        for order in list(itertools.islice(self.held.values(), int(self.owed))):
            self.owed -= 1
            del self.held[order.order_id]
            item = self._finish(order)
            parcel = Parcel(episode=item.episode, arrays_file=item.arrays_file)
            self.wire.append((item.station, item.lease, encode(parcel)))
            self.ended += 1
        if before_s // BEAT_S != self.now_s // BEAT_S:
            arrivals += [self._beat(name, index) for index, name in enumerate(self.names)]
        self.station_s += time.process_time() - began_s
        while self.wire:
            station, lease, message = self.wire.popleft()
            parcel = decode(message).message
            assert isinstance(parcel, Parcel)
            arrivals.append(
                Delivered(station=station, lease=lease, episode=parcel.episode, arrays_file=parcel.arrays_file)
            )
        return arrivals

    def _finish(self, order: Order) -> Delivered:
        """An episode whose recording has the size of a real one; the same start and version give the same one."""
        draw = random.Random(f"{order.start.seed} {order.policy_id}")
        won = order.policy_id == "scripted:expert" or self.finish(order).episode.outcome == "success"
        ticks = draw.randrange(40, 120) if won else self.spec.limit_ticks
        data = recording(self.spec, ticks, order.start.seed)
        episode = Episode(
            order=order, outcome="success" if won else "failure", cause="", confidence=0.99,
            ran_policy_id=order.policy_id, ticks=ticks, began_s=0.0, ended_s=ticks / self.spec.rate_hz,
            achieved_start=order.start.values, sha256=hashlib.sha256(data).hexdigest(),
        )  # fmt: skip
        return Delivered(station=order.station, lease=order.lease, episode=episode, arrays_file=data)


def recording(spec: TaskSpec, ticks: int, seed: int) -> bytes:
    """The arrays file of a straight movement with a little noise."""
    noise, share = np.random.default_rng(seed), np.linspace(1.0, 0.0, ticks + 1)[:, None]
    state = (share + 0.001 * noise.normal(size=(ticks + 1, spec.state_dim))).astype(np.float32)
    action = noise.normal(size=(ticks, spec.action_dim)).astype(np.float32)
    source, chunk = np.zeros(ticks, np.uint8), np.arange(ticks, dtype=np.int32) // 8
    return arrays.pack(EpisodeArrays(state=state, action=action, source=source, chunk=chunk))


class PretendTraining(TrainingProcess):
    """A training run that is made at once, in this process: only its events cost time."""

    @classmethod
    def begin(cls, job: ImprovementJob, module: str = "", environment: Mapping[str, str] | None = None) -> Self:
        job.work.mkdir(parents=True, exist_ok=True)
        if not job.output.exists():
            Tuned().improve(job, lambda _: None)
        return cls(folder=job.work, process=cast("Any", None))

    def progress(self) -> Progress | None:
        return None

    def metrics(self) -> Mapping[str, float] | None:
        return {}

    def cpu_s(self) -> float:
        return 1.0

    def end(self) -> None:
        """It has ended."""


@contextmanager
def begun(folder: Path, per_s: float, gates: int) -> Generator[tuple[Running, PretendFleet]]:
    """A campaign in a fresh home whose four branches search, or have so many gates, which end after all their pairs."""
    regimes = {
        f"regime-{number}": replace(with_skill(chance), name=f"regime-{number}", turn_rollouts=10**6)
        for number, chance in enumerate(CHANCES)
    }
    plan = BranchPlan(recipes=tuple(regimes), share=0.7, robot_s=1e9, learner_s=1e9, least_starts=32)
    campaign = replace(
        CAMPAIGN, branches=plan, gate=GateRule(pairs=400, early_hold=False), budget=Budget(wall_s=1e9, rounds=40),
        stations=replace(CAMPAIGN.stations, lanes=LANES, ahead=AHEAD),
        rounds=replace(CAMPAIGN.rounds, episodes=10**6, train_starts=500, hard_starts=0.5),
    )  # fmt: skip
    with Running(open_home(folder), campaign=campaign, regimes=regimes) as running:
        lab = running.lab
        fleet = PretendFleet(running.home.versions, lease=lab.state.lease + 1, per_s=per_s)
        lab.task, lab.train, lab.fleet = TASKS.make("pin_insertion"), PretendTraining.begin, fleet
        lab.clock, lab.began_s, lab.gather_s = lambda: fleet.now_s, fleet.now_s, GATHER_S
        for number in range(BRANCHES):
            opened(running, f"search-{number + 1}", f"regime-{number}")
        running.until(lambda lab: len(lab.state.branches.active) == BRANCHES)
        for one in lab.state.branches.active[:gates]:
            lab.write(BranchEnteredGate(**asdict(lab.state.branches.measure(one, lab.task.spec.limit_ticks))))
        running.until(lambda lab: len(lab.state.gates) == gates)
        yield running, fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the loop used."""

    core: float
    """CPU seconds of a second of the loop."""
    of_1000_s: float
    """CPU seconds of 1,000 episodes."""
    events_per_s: float
    """Transactions of the ledger are at most as many."""


def measured(
    folder: Path, seconds: float, per_s: float, gates: int, profile: cProfile.Profile | None = None
) -> Cost:  # fmt: skip
    """Run the loop for so long, by its own clock."""
    with begun(folder, per_s, gates) as (running, fleet):
        began_s, ended, stations_s = fleet.now_s, fleet.ended, fleet.station_s
        events, used_s = running.ledger.head.seq, time.process_time()
        if profile is not None:
            profile.enable()
        while fleet.now_s - began_s < seconds and len(running.lab.state.gates) == gates:
            turn(running.lab)
        seconds = fleet.now_s - began_s
        if profile is not None:
            profile.disable()
        used_s = time.process_time() - used_s - (fleet.station_s - stations_s)
        events, ended = running.ledger.head.seq - events, fleet.ended - ended
        running.ledger.verify()
    return Cost(core=used_s / seconds, of_1000_s=1000 * used_s / max(1, ended), events_per_s=events / seconds)


def main() -> int:
    """Measure, print the numbers and their limit; 1 when it is exceeded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="length of a run, by the clock of the loop")
    parser.add_argument("--per-s", type=float, default=EPISODES_PER_S, help="episodes that end in a second")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="run once, and print where the time goes")
    given = parser.parse_args()
    print(describe([CAMPAIGN.seed]))
    found: list[Measured] = []
    # All homes stay until the end: for minutes after many files were deleted, ext4 creates new ones more slowly.
    with tempfile.TemporaryDirectory(prefix="enpire-orchestrator-") as folder:
        for name, gates in (("search", 0), ("two gates", 2)):
            profile = cProfile.Profile(time.process_time) if given.profile else None
            costs: list[Cost] = []
            for number in range(1 if profile else given.repeats):
                home = Path(folder) / f"{name}-{number}"
                costs.append(measured(home, given.seconds, given.per_s, gates, profile))
            if profile is not None:
                pstats.Stats(profile).sort_stats("cumulative").print_stats(90)
            found += numbers(f"{BRANCHES} branches, {given.per_s:g} episodes/s, {name}", costs)
    return report(found)


def numbers(name: str, costs: Sequence[Cost]) -> list[Measured]:
    """The numbers of some runs: medians with the range."""
    core, cpu_s = [one.core for one in costs], [one.of_1000_s for one in costs]
    return [
        Measured(name=f"{name}: share of a core", value=median(core), low=min(core), high=max(core), most=MOST_CORE),
        Measured(name=f"{name}: CPU of 1,000 episodes", value=median(cpu_s), low=min(cpu_s), high=max(cpu_s), unit="s"),
        Measured(name=f"{name}: events", value=costs[0].events_per_s, unit="1/s"),
    ]


if __name__ == "__main__":
    sys.exit(main())
