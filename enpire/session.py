"""One run of a campaign in this process: open the home, connect the fleet, run the loop, wait for disk space.

Start at `run_campaign`. A session may end early; the next one resumes the campaign from its events.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from enpire import plugins
from enpire.campaign.campaign import Campaign, read_campaign
from enpire.campaign.events import Event
from enpire.campaign.limits import with_limits
from enpire.campaign.order_events import LateResults, OrdersEnded
from enpire.campaign.recipe import read_recipe
from enpire.campaign.session_events import StoreDiffers
from enpire.campaign.state import CampaignState
from enpire.code_candidates.authored_tasks import approval_of
from enpire.code_candidates.recipe import require_code
from enpire.codec import result_of
from enpire.errors import EnpireError, NothingOpens, StorageFull
from enpire.gate.trials import DISK_FULL, NOTHING_OPENS
from enpire.home import Home
from enpire.interventions import require_operator
from enpire.lab import Lab
from enpire.log_lines import print_line
from enpire.loop import run
from enpire.monitor.lab_snapshot import LabSnapshot
from enpire.parts import TASKS, PartGroup
from enpire.processes.child_process import allow_open_files
from enpire.processes.core_shares import low_priority
from enpire.processes.training_process import TrainingProcess
from enpire.requests.operator_commands import CommandInbox
from enpire.steps.agent_process import require_agents
from enpire.steps.begin import begin_or_resume, imported, require_base, require_recipes
from enpire.steps.deploy import deployment
from enpire.steps.ending import INTERRUPTED, Ending
from enpire.steps.hold import has_space
from enpire.steps.take_snapshot import snapshot
from enpire.store import canary, durable, removal
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.store.reconcile import compare
from enpire.store.upkeep import Upkeep
from enpire.wire.arrivals import Fleet
from enpire.wire.listening_address import FleetAddress
from enpire.wire.live_images import HasPreviews, ShowsPreviews

PACE_S = 0.04
"""How long a turn waits before it reads messages, in seconds. Without it each message would have a turn of its own."""
OBSERVERS_S = 0.2
"""Time between two snapshots of the lab for terminal and page, in seconds."""
GATHER_S = 0.4
"""How long a delivered episode may wait for others, to be stored with them, in seconds."""
PARTS_KEPT_S = 14 * 86400.0
"""How long the first parts of an episode's images are kept for the rest of them, in seconds."""


class LabObserver(Protocol):
    """Sees a running lab: the terminal, the page, the live file. Called from the loop's thread."""

    def update(self, snapshot: LabSnapshot) -> None:
        """The lab as it is now; about ten times a second."""

    def note(self, event: Event) -> None:
        """An event, after it is durable."""


class AddressedFleet(Fleet, Protocol):
    """A fleet that stations reach."""

    @property
    def addresses(self) -> FleetAddress:
        """Where the campaign's own stations connect, and where others do."""
        ...

    def close(self) -> None:
        """Close the sockets; stations notice and hold."""


class StationHost(Protocol):
    """The stations that this campaign started, on this machine or a cluster, and how its learner is started there."""

    learner: str
    environment: Mapping[str, str]

    @property
    def learner_slots(self) -> int:
        """Training runs for which it has room at one time, at least 1."""
        ...

    def supervise(self, *, leaving: bool = False) -> None:
        """Restart the processes that ended; with `leaving`, not those that left as they were asked to."""

    def stop(self) -> None:
        """End every process; returns when they have ended."""


TRANSPORTS: PartGroup[..., AddressedFleet] = PartGroup("transports")
LISTENERS: PartGroup[[str, Path], object] = PartGroup("listeners")
"""Called with the address to bind, empty if other stations cannot connect, and the folder of the keys; gives what the
transport listens with."""
HOSTS: PartGroup[[Campaign, Home, FleetAddress, Callable[[str], None]], StationHost] = PartGroup("hosts")
"""Called with the campaign, its home, the fleet's addresses and a function that prints one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the caller chooses besides the campaign file."""

    seed: int | None = None
    """In place of the file's seed."""
    unsandboxed: bool = False
    """Whether the code of agents may run without a sandbox, as `code: {unsandboxed: true}` in the campaign file."""
    host: str = "local"
    """Plug-in name of the host of the campaign's own stations and learner: local, ray."""
    observers: tuple[LabObserver, ...] = ()
    inbox: CommandInbox | None = None
    """The inbox that the page of this process shares; None where no page runs here."""

    def applied(self, campaign: Campaign) -> Campaign:
        """The campaign as these options change it."""
        if self.seed is not None:
            campaign = replace(campaign, seed=self.seed)
        if self.unsandboxed:
            campaign = replace(campaign, code=replace(campaign.code, unsandboxed=True))
        return campaign


@dataclass(slots=True)
class _Interrupts:
    """Ctrl-C and SIGTERM: one that arrives while a session starts ends that session as soon as it can end in order."""

    came: bool = False
    lab: Lab | None = None
    """The lab of the running session."""

    def end(self, number: int, frame: object) -> None:
        """The handler of the first signal; a second Ctrl-C ends the process at once."""
        self.came = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.tell()

    def attend(self, lab: Lab) -> None:
        """Pass signals on to a lab, also one that came before the lab was open."""
        self.lab = lab
        self.tell()

    def tell(self) -> None:
        """End the session of the lab, if a signal came and the lab is open."""
        if self.came and self.lab is not None:
            self.lab.end_reason = INTERRUPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What every session of one run has in common."""

    campaign: Campaign
    home: Home
    ledger: SqliteLedger
    inbox: CommandInbox
    interrupts: _Interrupts
    options: RunOptions = field(default_factory=RunOptions)
    work: Callable[[Lab], Ending] = run
    """What a session does with its lab."""

    def begin(self, after: str = "") -> CampaignState:
        return begin_or_resume(self.ledger, self.campaign, self.home, self.inbox, after)


def run_campaign(name_or_path: str | Path, home: Home, options: RunOptions | None = None) -> Ending:
    """Run a campaign until it ends or is interrupted; an unfinished one is resumed.

    Raises:
        UsageError: the home holds an unfinished campaign of that name that began with another file.
        EnpireError: a part that the campaign names is missing, or the home or the ledger cannot be used.
    """
    chosen = options or RunOptions()
    campaign = chosen.applied(read_campaign(name_or_path))
    require_parts(campaign, home, chosen.host)
    return run_sessions(campaign, home, chosen)


def run_sessions(
    campaign: Campaign, home: Home, options: RunOptions, work: Callable[[Lab], Ending] = run
) -> Ending:  # fmt: skip
    """Run a campaign whose parts were checked; `work` does the work of each session.

    Raises:
        EnpireError: as `run_campaign`.
    """
    allow_open_files()
    if slow := low_priority():
        _log(slow)
    ledger = SqliteLedger(home.ledger)
    inbox = options.inbox or CommandInbox(home.inbox)
    try:
        with _interruptible() as interrupts:
            this = _Run(
                campaign=campaign, home=home, ledger=ledger, inbox=inbox, options=options, interrupts=interrupts,
                work=work,
            )  # fmt: skip
            return _sessions(this)
    finally:
        ledger.close()
        for command_id, why in inbox.unrecorded().items():
            _log(f"The command {command_id} was not recorded: {why}")


def require_parts(campaign: Campaign, home: Home, host: str) -> None:
    """Check every part that a campaign names, before anything is written.

    Raises:
        EnpireError: a part is missing, or refuses its settings; the sentence names it.
    """
    approval_of(campaign.task, home.root)  # before any code of an agent's task is loaded
    campaign.goal.require_reachable(campaign.task, TASKS.make(campaign.task).spec.limit_ticks)
    HOSTS.load(host)
    if campaign.stations.count:
        plugins.require_name("drivers", campaign.stations.driver)
    require_recipes(campaign, home)
    require_agents(campaign)
    if campaign.code.allowed:
        require_code(campaign, host)
    if campaign.stations.operator:
        require_operator(campaign.stations.operator, campaign.stations.operator_options)


def _sessions(this: _Run) -> Ending:
    """One session after the other, until one ends for another reason than a disk without space."""
    state = this.begin()
    while True:
        try:
            return _session(this, state)
        except (EnpireError, OSError) as problem:
            short = durable.shortage(problem)
            if short is None:
                raise
            if not has_space(this.home):
                _log(f"{short} The robots hold until then.")
            after = NOTHING_OPENS if isinstance(short, NothingOpens) else DISK_FULL
        state = _begin_when_there_is_space(this, after)


def _session(this: _Run, state: CampaignState) -> Ending:
    with _connected(this, state) as (fleet, host):
        lab = open_lab(this.campaign, this.home, this.ledger, state, fleet)
        lab.inbox, lab.pace_s, lab.gather_s = this.inbox, PACE_S, GATHER_S
        lab.log = _log
        lab.learner_slots = lambda: host.learner_slots
        lab.train = partial(TrainingProcess.begin, module=host.learner, environment=host.environment)
        upkeep = Upkeep(ledger=this.ledger, store=lab.store, campaign_id=state.campaign_id)
        lab.tick = partial(_tick, lab, host, upkeep, this.options.observers)
        lab.event_observers.extend(observer.note for observer in this.options.observers)
        for observer in this.options.observers:
            if isinstance(observer, ShowsPreviews) and isinstance(fleet, HasPreviews):
                observer.set_previews(fleet.previews)
        this.interrupts.attend(lab)
        try:
            with upkeep:
                return this.work(lab)
        finally:
            _report_troubles(upkeep)


def _begin_when_there_is_space(this: _Run, after: str) -> CampaignState:
    """Resume the campaign from its events, as after a crash, as soon as the disk takes them."""
    while True:
        time.sleep(1.0)
        if this.interrupts.came:
            raise KeyboardInterrupt
        if has_space(this.home):
            try:
                return this.begin(after)
            except StorageFull:
                continue


def open_lab(campaign: Campaign, home: Home, ledger: SqliteLedger, state: CampaignState, fleet: Fleet) -> Lab:
    """The lab of a campaign, after its ledger and its episode store were compared."""
    task = TASKS.make(campaign.task)
    campaign = with_limits(campaign, state.limits)
    lab = Lab(
        campaign=campaign, recipe=read_recipe(campaign.recipe), base_recipe=read_recipe(campaign.base.recipe),
        home=home, ledger=ledger, records=Reading.of(ledger), store=FolderStore(home.episodes), fleet=fleet, task=task,
        state=state, regimes={name: read_recipe(name) for name in campaign.branches.recipes},
    )  # fmt: skip
    canary.plant(home.root, lab.secret)
    _reconcile(lab)
    if campaign.base.policy and not state.champion:
        require_base(campaign, home)
        deployed = deployment(lab.state, campaign.base.policy, "the base that the campaign names")
        lab.write(imported(home, campaign.base.policy), deployed)  # one write: a resumed campaign imports it once
    return lab


def _reconcile(lab: Lab) -> None:
    """Record the episodes whose files were written before a crash and whose row was not; report other differences."""
    lab.store.sweep()
    sweep_images(lab.home.incoming, lab.records)
    differences = compare(lab.records, lab.store)
    if differences.none:
        return
    facts = [lab.store.facts(lab.store.folder(order_id)) for order_id in differences.unrecorded]
    for kind, orders in ((OrdersEnded, lab.state.open), (LateResults, lab.state.unknown)):
        mine = tuple(result_of(episode) for episode in facts if episode.order.order_id in orders)
        if mine:
            lab.write(kind(results=mine))
    if differences.unordered or differences.missing or differences.altered:
        lab.write(StoreDiffers(sentence=differences.sentence()))
        _log(differences.sentence())


def sweep_images(incoming: Path, reading: Reading) -> None:
    """Remove the received images of orders that ended or were never issued, and images older than PARTS_KEPT_S."""
    oldest_s = time.time() - PARTS_KEPT_S
    for path in incoming.iterdir() if incoming.is_dir() else ():
        row = reading.order(path.name)
        ended = row is None or (row.episode is not None and row.episode.outcome != "unknown")
        if ended or path.stat().st_mtime < oldest_s:
            removal.remove(path, incoming)


def _tick(lab: Lab, host: StationHost, upkeep: Upkeep, observers: tuple[LabObserver, ...]) -> None:
    """Once in each turn of the loop: restart stations that ended, show the lab to the observers."""
    if lab.due("supervision", 0.5):
        host.supervise(leaving=lab.state.over or bool(lab.end_reason))
        if differences := _report_troubles(upkeep):
            lab.write(*differences)
    if observers and lab.due("observers", OBSERVERS_S):
        now = snapshot(lab)
        for observer in observers:
            observer.update(now)


def _report_troubles(upkeep: Upkeep) -> list[StoreDiffers]:
    """Print what the upkeep of the records found; returns the events of files that differ."""
    troubles = upkeep.troubles()
    for trouble in troubles:
        _log(trouble.sentence)
    return [StoreDiffers(sentence=trouble.sentence) for trouble in troubles if trouble.differs]


@contextmanager
def _connected(this: _Run, state: CampaignState) -> Generator[tuple[Fleet, StationHost]]:
    """The fleet's socket, and the stations that this campaign starts itself."""
    campaign, home = this.campaign, this.home
    open_fleet = TRANSPORTS.load("zmq")
    start = HOSTS.load(this.options.host)
    door = LISTENERS.load("zmq")(campaign.stations.listens, home.keys)
    fleet = open_fleet(door, home.versions, home.incoming, first_lease=state.lease + 1)
    at = fleet.addresses
    if campaign.stations.listens:
        keys = "with keys: enpire station enroll NAME" if at.public else "without keys, as this user"
        _log(f"Stations connect to {at.public or at.private} ({keys}).")
    try:
        host = start(campaign, home, at, _log)
        try:
            yield fleet, host
        finally:
            host.stop()
    finally:
        fleet.close()


def _log(line: str) -> None:
    print_line(line, sys.stderr)


@contextmanager
def _interruptible() -> Generator[_Interrupts]:
    """Ctrl-C and SIGTERM end the session in good order, from its start on: an exception could be lost in an import."""
    interrupts = _Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = {number: signal.signal(number, interrupts.end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
