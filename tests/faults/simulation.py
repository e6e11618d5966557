"""One lab in one process and in virtual time, with faults drawn from a seed: `simulate`.

The loop, the fleet, the stations, the ledger and the stores are the real ones, on a folder in memory. The clock, the
sockets, the start of processes and their deaths are the simulation's. A safety phase breaks things; a liveness phase
leaves the laboratory alone; then the campaign is ended and its records are audited.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from enpire.campaign.campaign import Campaign, read_campaign
from enpire.campaign.events import Event, kind_of
from enpire.campaign.station_events import RobotTime
from enpire.errors import StorageFull
from enpire.files import plain
from enpire.fleet.zmq_transport import ZmqFleet
from enpire.home import Home, open_home
from enpire.interfaces import ImprovementJob
from enpire.lab import Lab
from enpire.loop import run
from enpire.processes.training_process import TrainingProcess
from enpire.session import open_lab
from enpire.station.station import Station
from enpire.steps.begin import begin_or_resume
from enpire.store import durable
from enpire.store.ledger import SqliteLedger
from enpire.wire.host_services import HostServices
from tests.chaos.harness import Audit, Witness, audit
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import point_station
from tests.fakes.sample_events import append
from tests.faults.crashing_parts import MODULE as MORTALS
from tests.faults.crashing_parts import MortalHelper, MortalLedger, MortalStore, VirtualLearner, at_once
from tests.faults.virtual_sockets import ADDRESS, Context, Killed, Network, Noise, Process, World

PERIOD_S = 0.1
LEARNING_S = 4.0


@dataclass
class VirtualStation:
    """One station's machine, and the process that runs on it now."""

    name: str
    process: Process
    station: Station | None = None
    frozen_until_s: float = 0.0
    leaving: bool = False


@dataclass
class Laboratory:
    """The simulated lab and its faults."""

    root: Path
    seed: int
    names: tuple[str, ...] = ("alpha", "beta", "gamma")
    stations_say: Mapping[str, object] = field(default_factory=dict[str, object])
    """Additional settings of the station files."""
    faults: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)
    """Events of the ledger in order, with numbers in place of ids: equal for equal seeds."""
    disk_is_full: bool = False
    resumed: int = 0
    """Uploads that resumed in the middle of a file."""
    wall_offset_s: float = 0.0

    def __post_init__(self) -> None:
        self.world = World(self.seed)
        self.network = Network(self.world)
        self.home: Home = open_home(self.root / "home")
        recipe = self.root / "files" / "quick.yaml"
        path = write_campaign(
            self.root / "files", stations=0, bind=ADDRESS, gate={"pairs": 25},
            base={"recipe": str(recipe), "demonstrations": 6, "evaluate_starts": 8},
            rounds={"episodes": 12, "train_starts": 50}, recipe=str(recipe),
        )  # fmt: skip
        recipe.write_text(f"name: quick\nlearner: {MORTALS}:Quick\n")
        self.campaign: Campaign = read_campaign(path)
        self.witness = Witness([self.root / name / "spool" for name in self.names])
        self.stations = [VirtualStation(name, Process(name)) for name in self.names]
        self.orchestrator = Process("orchestrator")
        self.learner: VirtualLearner | None = None
        self.hang_s = 0.0
        self.over_s = float("inf")
        self._known: dict[str, str] = {}
        for index, station in enumerate(self.stations):
            self._start(station)
            self.world.after(index * 0.013, lambda station=station: self._turn(station))

    def wall_ns(self) -> int:
        return int((1.7e9 + self.world.now_s + self.wall_offset_s) * 1e9)

    def host(self, process: Process) -> HostServices:
        sockets = cast("Any", lambda: Context(self.network, process))
        return replace(at_once(self.world.clock), sockets=sockets)

    # Stations: each gets its turns, and is restarted when it ended.

    def _start(self, virtual: VirtualStation) -> None:
        virtual.process = Process(virtual.name)
        virtual.leaving = False
        file = point_station(self.root, virtual.name, lanes=2, min_free_mb=0, **self.stations_say)
        virtual.station = Station(file, ADDRESS, lambda line: None, self.host(virtual.process))

    def _turn(self, virtual: VirtualStation) -> None:
        again_s = PERIOD_S
        if virtual.station is None:
            self._start(virtual)
        elif self.world.now_s >= virtual.frozen_until_s:
            try:
                self._act(virtual, virtual.station)
            except Killed:
                virtual.station.close()
                virtual.station = None
                again_s = self.world.random.uniform(0.5, 3.0)
        self.witness.look()
        self.world.after(again_s, lambda: self._turn(virtual))

    def _act(self, virtual: VirtualStation, station: Station) -> None:
        """One turn of a station's loop; leaving takes several turns."""
        if not virtual.leaving:
            station.turn()
            if not station.stays:
                virtual.leaving = True
                station.end_orders()
        elif not station.deliver():
            station.say_goodbye()
            raise Killed(virtual.name)

    # The orchestrator: as `enpire.session.run_campaign`, killed from time to time.

    def run_until(self, end_s: float, *, end_campaign: bool = False) -> None:
        """Run the campaign until a moment, with the restarts that it needs."""
        self.over_s = end_s
        while self.world.now_s < end_s:
            self.orchestrator = Process("orchestrator")
            ledger = MortalLedger(self.home.ledger, self.orchestrator, self)
            try:
                self._session(ledger, end_campaign=end_campaign)
            except Killed:
                self.world.run_for(self.world.random.choice((0.2, 1.0, 3.0, 12.0, 40.0)))
            except StorageFull:
                self.world.run_for(1.0, lambda: not self.disk_is_full)
            finally:
                ledger.close()

    def _session(self, ledger: MortalLedger, *, end_campaign: bool) -> None:
        self._begin(ledger)
        state = begin_or_resume(ledger, self.campaign, self.home)
        orchestrator = self.orchestrator
        host = replace(self.host(orchestrator), helper=lambda: MortalHelper(orchestrator, self))
        fleet = ZmqFleet(ADDRESS, self.home.versions, self.home.incoming, state.lease + 1, host=host)
        try:
            lab = open_lab(self.campaign, self.home, ledger, state, fleet)
            lab.clock, lab.began_s = self.world.clock, self.world.now_s
            lab.store = MortalStore(self.home.episodes, self.orchestrator, self)
            lab.train = self._train
            lab.event_observers.append(self._note)
            lab.tick = lambda: self._tick(lab, end_campaign)
            run(lab)
        finally:
            fleet.close()

    def _begin(self, ledger: MortalLedger) -> None:
        """The campaign's id is part of the seed of its draws, so it is fixed here."""
        if next(iter(ledger.events(limit=1)), None) is None:
            body = {
                "campaign_id": "SIMULATED", "name": self.campaign.name, "task": self.campaign.task,
                "campaign": plain(self.campaign), "goal": plain(self.campaign.goal), "seed": self.campaign.seed,
                "home": str(self.home.root), "code": "0",
            }  # fmt: skip
            append(ledger, [("campaign started", body)])

    def _train(self, job: ImprovementJob) -> TrainingProcess:
        job.work.mkdir(parents=True, exist_ok=True)
        durable.write(job.work / "job.json", json.dumps(plain(job)).encode())
        self.learner = VirtualLearner(job.work, self.world, self.world.now_s + LEARNING_S)
        return TrainingProcess(folder=job.work, process=cast("Any", self.learner))

    def _tick(self, lab: Lab, end_campaign: bool) -> None:
        if self.hang_s:
            hang_s, self.hang_s = self.hang_s, 0.0
            self.world.run_for(hang_s)
        if self.world.now_s >= self.over_s:
            lab.end_reason, lab.ends_campaign = "the simulation is over", end_campaign

    def _note(self, event: Event) -> None:
        if not isinstance(event, RobotTime):
            self.trace.append(f"{self.world.now_s:.3f} {kind_of(event)} {self._plain(event.body())}")

    def _plain(self, value: object) -> object:
        """A body with a number in place of every id, and without measured times."""
        if isinstance(value, Mapping):
            return {
                key: self._plain(item)
                for key, item in cast("Mapping[str, object]", value).items()
                if not key.endswith("_s") and key != "seconds"
            }
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in cast("Sequence[object]", value)]
        if isinstance(value, str) and re.fullmatch("[0-9A-Za-z]{20,}", value):
            return self._known.setdefault(value, f"#{len(self._known)}")
        return value

    # Faults.

    def break_things(self, until_s: float) -> None:
        """About one fault per second, until a moment."""
        if self.world.now_s < until_s:
            draw = self.world.random
            name, happen = draw.choice(list(self.possible().items()))
            self.faults[name] += 1
            happen()
            self.world.after(draw.expovariate(1.0), lambda: self.break_things(until_s))

    def possible(self) -> Mapping[str, Callable[[], None]]:
        draw = self.world.random
        some = draw.choice(self.stations)
        seconds = draw.choice((0.3, 2.0, 4.0, 8.0, 50.0))
        return {
            "orchestrator killed": lambda: self._doom(self.orchestrator),
            "station killed": lambda: self._doom(some.process),
            "everything killed": lambda: [self._doom(it) for it in (self.orchestrator, *self._processes())],  # pyright: ignore[reportReturnType]
            "learner killed": lambda: self.learner.kill() if self.learner else None,
            "link cut": lambda: self.cut(some.name, seconds, up=False, down=False),
            "link cut upwards": lambda: self.cut(some.name, seconds, up=False, down=True),
            "link cut downwards": lambda: self.cut(some.name, seconds, up=True, down=False),
            "station hangs": lambda: setattr(some, "frozen_until_s", self.world.now_s + seconds),
            "orchestrator hangs": lambda: setattr(self, "hang_s", min(seconds, 8.0)),
            "disk full": lambda: self._full(min(seconds, 8.0)),
            "wall clock jumps": lambda: setattr(self, "wall_offset_s", draw.uniform(-3600, 3600)),
            "noise": lambda: self._noise(draw.choice((0.05, 0.2, 0.5)), seconds),
        }

    def _processes(self) -> Iterable[Process]:
        return (station.process for station in self.stations)

    def _doom(self, process: Process) -> None:
        process.dies_in = self.world.random.randrange(40)

    def cut(self, name: str, seconds: float, *, up: bool = False, down: bool = False) -> None:
        """Cut a link, or one direction of it, for a time; it works again after the last of several cuts."""
        link = self.network.links[name]
        link.up, link.down, link.cut_s = up, down, self.world.now_s
        whole_s = link.whole_s = max(link.whole_s, self.world.now_s + seconds)

        def mend() -> None:
            if link.whole_s == whole_s:
                link.up = link.down = True

        self.world.after(seconds, mend)

    def _noise(self, share: float, seconds: float) -> None:
        self.network.noise = Noise(lose=share, repeat=share, delay_s=0.2, in_order=False)
        self.world.after(seconds, lambda: setattr(self.network, "noise", Noise()))

    def _full(self, seconds: float) -> None:
        self.disk_is_full = True
        self.world.after(seconds, lambda: setattr(self, "disk_is_full", False))

    def kept(self) -> Counter[str]:
        """Episodes with a verdict in the ledger, by station."""
        ledger = SqliteLedger(self.home.ledger, read_only=True)
        try:
            rows = ledger.database.execute("SELECT station, count(*) FROM orders WHERE sha256 <> '' GROUP BY station")
            return Counter(dict(rows.fetchall()))
        finally:
            ledger.close()


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of one seed."""

    audit: Audit
    faults: Mapping[str, int]
    trace: Sequence[str]
    grew: Mapping[str, int]
    """Episodes that each station delivered in the liveness phase."""
    messages: int
    resumed: int
    virtual_s: float

    def problems(self) -> list[str]:
        idle = [f"{name} delivered nothing after the faults" for name, more in self.grew.items() if not more]
        return self.audit.problems() + idle


def simulate(root: Path, seed: int, broken_s: float, quiet_s: float = 60.0, **stations_say: object) -> Result:
    """Run a phase with faults and a phase without, end the campaign, and audit its records."""
    laboratory = Laboratory(root, seed, stations_say=stations_say)
    world = laboratory.world
    began_s = world.now_s
    world.after(2.0, lambda: laboratory.break_things(began_s + broken_s))
    laboratory.run_until(began_s + broken_s)
    for process in (laboratory.orchestrator, *(station.process for station in laboratory.stations)):
        process.dies_in = -1
    before = laboratory.kept()
    laboratory.run_until(world.now_s + quiet_s, end_campaign=True)
    after = laboratory.kept()
    for station in laboratory.stations:
        if station.station is not None:
            station.station.close()
    return Result(
        audit=audit(laboratory.home.root, laboratory.witness), faults=dict(laboratory.faults), trace=laboratory.trace,
        grew={name: after[name] - before[name] for name in laboratory.names}, messages=laboratory.network.messages,
        resumed=laboratory.resumed, virtual_s=world.now_s - began_s,
    )  # fmt: skip
