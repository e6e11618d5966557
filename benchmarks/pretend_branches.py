"""Sharing against isolated, 1, 2 and 4 sessions, 8 stations against 1: `python -m benchmarks.pretend_branches`.

Loop, scheduler, branches, gates, ledger and the agent `search` are those of a campaign. Robots, learners and time are
pretended: a robot's outcome is drawn from the chance that its version has, a training run takes seconds of a virtual
clock, and its version is as good as three made-up regimes say (`Regime`). So the true success of every champion is
known, and the curves show what the engine makes of robot-hours; they say nothing about a real task. There is no smoke
run, no round trains, and sessions are called in this process. A station has one order in its queue beyond those that
run, as robots with long rollouts need. The regimes and the goal were chosen on seed 77, the budget on seeds 77 to 79,
queue, slots and gate on seeds 77 to 89. Homes in memory (`TMPDIR=/dev/shm`) give the same numbers sooner.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from agent_loop import lab_client, tools
from agent_loop.agent_context import AgentContext
from agent_loop.agents.search import Search
from agent_loop.lab_client import LabClient
from benchmarks.intervals import mean_of
from benchmarks.machine import describe
from benchmarks.pretend_learning import PretendTraining, recipes
from enpire.campaign.branch_plan import BranchPlan
from enpire.campaign.campaign import AgentPlan, Budget, Goal
from enpire.gate.rule import GateRule
from enpire.home import open_home
from enpire.loop import turn
from enpire.queries.decision_audit import recompute
from enpire.session import GATHER_S
from enpire.steps.ending import ending
from enpire.types import Order
from enpire.wire.arrivals import Arrival, Delivered, Joined
from tests.agent_loop.pretend_lab import CAMPAIGN, Running
from tests.fakes.fake_fleet import CoinTask, FakeFleet, delivered

TICK_S, THINKING_S = 0.5, 0.05
"""Virtual time of a turn, and of a turn while a session thinks."""
RESET_S, LOOK_S = 2.0, 5.0
"""Virtual time of a reset, and between two looks of a session."""
MOST_ROBOT_H = 24.0
SUCCESS = 0.70
"""Goal: success rate that a confirmation on 200 fresh starts must measure."""
MORE_STATIONS = 1.2
"""Largest ratio of the robot-hours to the goal of eight stations to those of one."""


@dataclass
class VirtualFleet(FakeFleet):
    """Stations whose robots take virtual time for their orders."""

    lanes: int = 4
    now_s: float = 0.0
    tick_s: float = TICK_S
    busy_s: float = 0.0
    """Time of all robots in orders."""
    waiting: dict[str, list[Order]] = field(default_factory=dict[str, list[Order]])
    running: list[tuple[float, str, Delivered]] = field(default_factory=list[tuple[float, str, Delivered]])
    """(end, order, delivery), a heap."""

    def poll(self, timeout_s: float) -> Sequence[Arrival]:
        """Advance the clock, and deliver what ended."""
        arrivals: list[Arrival] = []
        if not self.joined:
            self.joined = True
            arrivals += [
                Joined(station=name, lanes=self.lanes, lease=self.lease + index, running=(), spooled=())
                for index, name in enumerate(self.names)
            ]
        if self.tick_s == THINKING_S:
            time.sleep(0.002)
        self.now_s += self.tick_s
        while self.running and self.running[0][0] <= self.now_s:
            ended_s, _, item = heapq.heappop(self.running)
            self._begin(item.station, ended_s)
            self.unacknowledged[item.episode.order.order_id] = item
        return [*arrivals, *self.unacknowledged.values(), *(self._beat(*one) for one in self._indexed())]

    def send(self, station: str, orders: Sequence[Order]) -> None:
        """Queue orders; idle robots begin."""
        self.waiting.setdefault(station, []).extend(orders)
        busy = sum(item.station == station for _, _, item in self.running)
        for _ in range(self.lanes - busy):
            self._begin(station, self.now_s)

    def release(self, station: str, order_ids: Sequence[str]) -> None:
        """Give back orders that have not begun."""
        for order in [one for one in self.waiting.get(station, ()) if one.order_id in order_ids]:
            self.waiting[station].remove(order)
            self.unacknowledged[order.order_id] = delivered(order, "aborted", 0, "released")

    def _indexed(self) -> list[tuple[str, int]]:
        return [(name, index) for index, name in enumerate(self.names)]

    def _begin(self, station: str, now_s: float) -> None:
        if not self.waiting.get(station):
            return
        order = self.waiting[station].pop(0)
        about = json.loads((self.versions / order.policy_id / "policy.json").read_text())
        won = random.Random(f"{order.start.seed} {order.policy_id}").random() < about["chance"]
        limit = CoinTask.spec.limit_ticks
        ticks = min(limit, about.get("ticks", limit) + order.start.seed % 7) if won else limit
        took_s = RESET_S + ticks / CoinTask.spec.rate_hz
        item = delivered(order, "success" if won else "failure", ticks, "")
        item = replace(item, episode=replace(item.episode, began_s=now_s, ended_s=now_s + took_s))
        self.busy_s += took_s
        heapq.heappush(self.running, (now_s + took_s, order.order_id, item))


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to run the campaign."""

    name: str
    lanes: int = 4
    sharing: str = "adopt"
    isolated: tuple[str, ...] = ()
    """Sessions that share nothing in a campaign in which the others do."""
    stations: int = 4
    robots: int = 4
    """Of a station."""


VARIANTS = (
    Variant(name="4 sessions, adopt"),
    Variant(name="4 sessions, leaderboard", sharing="leaderboard"),
    Variant(name="4 sessions, isolated", sharing="isolated"),
    Variant(name="3 sessions adopt, 1 isolated", isolated=("search-4",)),
    Variant(name="2 sessions, adopt", lanes=2),
    Variant(name="1 session", lanes=1),
    Variant(name="1 station", stations=1),
    Variant(name="8 stations", stations=8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One campaign."""

    reached: bool
    robot_h: float
    """To the goal; all that were used where it was not reached."""
    utilised: float
    experiments: int
    equal: bool
    """Whether every decision is the same when it is computed again."""
    champions: Sequence[tuple[float, float]]
    """(robot-hours at which a champion was deployed, its true success), oldest first."""

    def success(self, robot_h: float) -> float:
        """True success of the champion at so many robot-hours; 0 before the first."""
        return next((success for began_h, success in reversed(self.champions) if began_h <= robot_h), 0.0)


@dataclass
class Sessions:
    """The agent sessions of a campaign: each looks from time to time, and proposes while it has nothing to wait for."""

    running: Running
    fleet: VirtualFleet
    searches: Mapping[str, Search]
    looked_s: float = 0.0

    @classmethod
    def of(cls, running: Running, fleet: VirtualFleet, seed: int) -> Self:
        """A session for each lane of the campaign."""
        [plan] = running.campaign.agents
        work = running.home.root
        return cls(running, fleet, {
            lane: Search(AgentContext(seed=1000 * seed + number, lane=lane, work=work, spent=lambda _: None), {})
            for number, lane in enumerate(plan.lane_names)
        })  # fmt: skip

    def look(self) -> None:
        """Give each session that waits for nothing its turn; meanwhile robots work on, more slowly."""
        if self.fleet.now_s - self.looked_s < LOOK_S:
            return
        self.looked_s = self.fleet.now_s
        for lane, search in self.searches.items():
            if self.running.lab.state.proposals.in_the_way(lane):
                continue
            self.fleet.tick_s = THINKING_S
            self.running.beside(lambda lane=lane, search=search: _turn(self.running.client(lane), search))
            self.fleet.tick_s = TICK_S


def _turn(client: LabClient, search: Search) -> str:
    called = {**tools.in_process(client), "wait": lambda **_: {}}
    return search.turn(called, tools.call(client, "get_brief", {}))


def run(variant: Variant, seed: int, folder: Path) -> Run:
    """Run a campaign until its goal, or until its robot-hours are used up."""
    robots, regimes = variant.stations * variant.robots, recipes()
    campaign = replace(
        CAMPAIGN, seed=seed, goal=Goal(success=SUCCESS, confirm_starts=200, attempt_chance=0.8),
        gate=GateRule(forecast_hold=True), budget=Budget(wall_s=MOST_ROBOT_H * 3600 / robots, rounds=1),
        agents=(AgentPlan(name="search", lanes=variant.lanes),),
        stations=replace(CAMPAIGN.stations, count=variant.stations, lanes=variant.robots, ahead=1),
        rounds=replace(CAMPAIGN.rounds, episodes=100, train_starts=500),
        branches=BranchPlan(
            recipes=tuple(regimes), share=0.9, slots=4, robot_s=2400.0, learner_s=1e9, least_starts=32,
            sharing=cast("Any", variant.sharing), isolated=variant.isolated,
        ),
    )  # fmt: skip
    with Running(open_home(folder), campaign=campaign, regimes=regimes) as running:
        lab = running.lab
        fleet = VirtualFleet(
            running.home.versions, names=tuple(f"s{number}" for number in range(variant.stations)),
            lease=lab.state.lease + 1, lanes=variant.robots,
        )  # fmt: skip
        lab.fleet, lab.clock, lab.began_s = fleet, lambda: fleet.now_s, 0.0
        lab.train, lab.gather_s = lambda job: PretendTraining(job, lab.clock), GATHER_S
        lab.agent_sessions.append(Elsewhere())
        sessions = Sessions.of(running, fleet, seed)
        champions: dict[str, tuple[float, float]] = {}
        while (end := ending(lab)) is None:
            turn(lab)
            sessions.look()
            if (champion := lab.state.champion) not in champions:
                chance = json.loads((running.home.versions / champion / "policy.json").read_text())["chance"]
                champions[champion] = fleet.now_s * robots / 3600, chance
        robot_h = fleet.now_s * robots / 3600
        busy_s = fleet.busy_s - sum(ended_s - fleet.now_s for ended_s, _, _ in fleet.running)
        equal = all(check.equal for check in recompute(running.ledger))
        made = Run(
            reached=end.reached, robot_h=robot_h, utilised=busy_s / (fleet.now_s * robots),
            experiments=len(lab.state.proposals.experiments), equal=equal, champions=tuple(champions.values()),
        )  # fmt: skip
        lab.state.open.clear()  # nothing more is delivered
    print(
        f"{variant.name:<28} {seed:>4}  {'reached' if made.reached else 'not reached':<11}  {robot_h:6.2f}  "
        f"{made.utilised:6.1%}  {made.experiments:>4}  {made.success(robot_h):6.1%}  "
        f"{'equal' if made.equal else 'DIFFER'}", flush=True,
    )  # fmt: skip
    return made


class Elsewhere:
    """Stands for the sessions, which this benchmark gives their turns itself."""

    def turn(self, lab: object) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


def curves(runs: Mapping[str, Sequence[Run]]) -> str:
    """Robot-hours to the goal, and the true success of the champion by robot-hours: means over seeds with intervals."""
    hours = [float(hour) for hour in np.linspace(MOST_ROBOT_H / 8, MOST_ROBOT_H, 8)]
    lines = ["", "robot-hours to the goal, all that were used where it was not reached, and runs that reached it"]
    for name, made in runs.items():
        reached = sum(one.reached for one in made)
        lines.append(f"{name:<28} {_mean([one.robot_h for one in made], '5.2f')}  {reached} of {len(made)}")
    lines += ["", f"{'true success of the champion after':<34} " + "  ".join(f"{hour:>17.1f} h" for hour in hours)]
    for name, made in runs.items():
        lines.append(f"{name:<34} " + "  ".join(_mean([one.success(hour) for one in made], "5.1%") for hour in hours))
    lines += ["", "difference of the true success to that of the first variant on the same seed, mean over robot-hours"]
    first, *others = runs
    means = {
        name: [float(np.mean([one.success(hour) for hour in hours])) for one in made] for name, made in runs.items()
    }
    for name in others:
        paired = [one - of_first for one, of_first in zip(means[name], means[first], strict=True)]
        lines.append(f"{name:<34} {_mean(paired, '+6.1%')} against {first}")
    return "\n".join(lines)


def _mean(values: Sequence[float], form: str) -> str:
    found = mean_of(values)
    return f"{found.mean:{form}} [{found.low:{form}}, {found.high:{form}}]"


def more_stations(runs: Mapping[str, Sequence[Run]]) -> list[tuple[str, bool]]:
    """What eight stations must show against one; nothing where they were not compared.

    They must reach the goal at least as often, and the ratio of the robot-hours, of geometric means seed by seed, must
    be at most `MORE_STATIONS`. A run that missed the goal counts with the robot-hours that it used, on either side.
    """
    one, eight = (runs.get(name, ()) for name in ("1 station", "8 stations"))
    if not (one and eight):
        return []
    of_one, of_eight = (sum(run.reached for run in made) for made in (one, eight))
    logs = [math.log(many.robot_h / few.robot_h) for many, few in zip(eight, one, strict=True)]
    found = mean_of(logs)
    ratio, low, high = (math.exp(number) for number in (found.mean, found.low, found.high))
    text = (
        f"8 stations reached the goal in {of_eight} of {len(eight)} runs, 1 station in {of_one}; within "
        f"{MOST_ROBOT_H:g} robot-hours, 8 used {ratio:.2f} [{low:.2f}, {high:.2f}] times those of 1"
    )
    return [(text, of_eight >= of_one and ratio <= MORE_STATIONS)]


def main() -> int:
    """Run all variants and seeds; print the table, the curves and what must hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102])
    parser.add_argument("--only", default="", help="only variants with these words in their name")
    given = parser.parse_args()
    lab_client.POLL_S = 0.005
    print(describe(given.seeds))
    print("variant                      seed  goal         robot-h    used  exp.    true  decisions")
    runs: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory(prefix="enpire-pretend-branches-") as folder:
        for variant in VARIANTS:
            if given.only in variant.name:
                homes = [Path(folder) / f"{variant.name}-{seed}" for seed in given.seeds]
                runs[variant.name] = [run(variant, *one) for one in zip(given.seeds, homes, strict=True)]
    print(curves(runs))
    kept = [("every decision the same again", all(one.equal for made in runs.values() for one in made))]
    return exit_code([*kept, *more_stations(runs)])


def exit_code(promises: Sequence[tuple[str, bool]]) -> int:
    """Print each promise with PASS or FAIL; 1 if one is broken, else 0."""
    for what, holds in promises:
        print(f"{'PASS' if holds else 'FAIL'}  {what}")
    return 0 if all(holds for _, holds in promises) else 1


if __name__ == "__main__":
    sys.exit(main())
