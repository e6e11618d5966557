"""Every verb the outside may say: the one door for the command line, the pages and the agents.

What people wish goes through the inbox of the home (`command`), whoever they are and wherever they sit; the loop
writes it to the ledger before it acts. What people read comes from the ledger alone (`enpire.queries.campaigns`).
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from enpire import __version__
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Campaign, read_campaign
from enpire.campaign.recipe import read_recipe, require_learner
from enpire.campaign.state import CampaignState
from enpire.errors import EnpireError, NothingOpens, StorageFull, UsageError
from enpire.files import canonical, parse, plain
from enpire.gate.gate import DISK_FULL, NOTHING_OPENS
from enpire.home import Home, open_home
from enpire.ids import mint
from enpire.interfaces import Ledger, Task, Verifier
from enpire.interventions import require_operator
from enpire.lab import Lab
from enpire.loop import run
from enpire.monitor.lab_snapshot import LabSnapshot
from enpire.plugins import load, make
from enpire.processes.training_process import TrainingProcess
from enpire.requests import operator_commands
from enpire.steps.agent_process import require_agents
from enpire.steps.deploy import swap
from enpire.steps.ending import INTERRUPTED, Ending
from enpire.steps.handle_commands import refused_before
from enpire.steps.record import unfinished as unfinished_episode
from enpire.steps.take_snapshot import snapshot
from enpire.store import durable, versions
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger, open_to_read
from enpire.store.reading import Reading
from enpire.store.reconcile import compare
from enpire.store.records import episode_body
from enpire.verifiers import earlier_digests, open_verifier
from enpire.wire.arrivals import Fleet
from enpire.wire.live_images import HasPreviews, ShowsPreviews

__all__ = ["Ending", "View", "command", "open_home", "run_campaign"]


ROOM_BYTES = 64 * 2**20
"""Free space that a campaign waits for after its disk was full."""
PARTS_KEPT_S = 14 * 86400.0
"""So long the first parts of an episode's pictures wait for the rest of them."""


class View(Protocol):
    """Somebody who watches: the terminal, the page's live object."""

    def update(self, snapshot: LabSnapshot) -> None:
        """The lab as it is now; called about ten times a second from the loop's thread."""

    def note(self, kind: str, body: Mapping[str, object]) -> None:
        """An event that is durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a caller may choose beside the campaign file."""

    seed: int | None = None
    on: str = "local"
    """Where the campaign's own stations and its learner run: local, ray."""
    views: tuple[View, ...] = ()


def command(home: Home, verb: str, target: str = "", by: str = "operator", campaign_id: str = "") -> str:
    """Leave a wish for the loop; returns the command's id, under which the ledger says what became of it.

    With a campaign_id, only that campaign carries it out.
    """
    return operator_commands.leave(home.inbox, verb, target, by, campaign_id=campaign_id)


def run_campaign(name_or_path: str | Path, home: Home, choices: Choices | None = None) -> Ending:
    """Run a campaign to its end, or go on with it where it stood.

    Raises:
        UsageError: the home holds an unfinished campaign of that name whose file said something else.
    """
    chosen = choices or Choices()
    campaign = read_campaign(name_or_path)
    if chosen.seed is not None:
        campaign = replace(campaign, seed=chosen.seed)
    # What is unknown or missing is said before anything is written.
    load("tasks", campaign.task)
    load("hosts", chosen.on)
    _require_recipes(campaign, home)
    require_agents(campaign)
    if campaign.stations.operator:
        require_operator(campaign.stations.operator, campaign.stations.operator_options)
    ledger = SqliteLedger(home.ledger)
    try:
        state = _begun(ledger, campaign, home)
        while True:
            try:
                return _session(campaign, home, ledger, state, chosen)
            except (EnpireError, OSError) as problem:
                short = durable.shortage(problem)
                if short is None:
                    raise
                _say(f"{short} The robots hold until then.")
                after = NOTHING_OPENS if isinstance(short, NothingOpens) else DISK_FULL
            state = _when_there_is_space(ledger, campaign, home, after)
    finally:
        ledger.close()


def end_interrupted(home: Home, by: str) -> str:
    """End the campaign that was interrupted in this home, without its goal; returns its id.

    What a station may still hold of it ends as unknown, as at the end of any campaign.

    Raises:
        UsageError: no campaign of this home is unfinished.
    """
    ledger = SqliteLedger(home.ledger)
    try:
        open_ones = _unended(ledger)
        if not open_ones:
            raise UsageError(f"No campaign of {home.root} is unfinished, so there is none to end.")
        campaign_id = max(open_ones)
        orders = Reading(ledger.database).open_orders(campaign_id)
        lost = [episode_body(unfinished_episode(order, "unknown", "the campaign ended first")) for order in orders]
        ended = ("campaign ended", {"campaign_id": campaign_id, "reached": False, "reason": f"ended by {by}"})
        ledger.append([*([("orders ended", {"campaign_id": campaign_id, "episodes": lost})] if lost else []), ended])
    finally:
        ledger.close()
    return campaign_id


def _session(campaign: Campaign, home: Home, ledger: Ledger, state: CampaignState, chosen: Choices) -> Ending:
    with _connected(campaign, home, state, chosen.on) as (fleet, crew):
        lab = _lab(campaign, home, ledger, state, fleet)
        lab.train = partial(TrainingProcess.begin, module=crew.learner, environment=crew.environment)
        lab.tick = partial(_tick, lab, crew, chosen.views)
        lab.watchers.extend(view.note for view in chosen.views)
        for view in chosen.views:
            if isinstance(view, ShowsPreviews) and isinstance(fleet, HasPreviews):
                view.set_previews(fleet.previews)
        with _interruptible(lab):
            return run(lab)


def _when_there_is_space(ledger: Ledger, campaign: Campaign, home: Home, after: str) -> CampaignState:
    """Wait for what was short; then the campaign goes on from its events, exactly as after a crash."""
    while True:
        time.sleep(1.0)
        if shutil.disk_usage(home.root).free >= ROOM_BYTES:
            try:
                return _begun(ledger, campaign, home, after)
            except StorageFull:
                continue


def _begun(ledger: Ledger, campaign: Campaign, home: Home, after: str = "") -> CampaignState:
    """The state of the campaign: a new one, or the unfinished one of the same name, with `after` what it goes on."""
    found = unfinished(ledger, campaign)
    if found is None:
        campaign_id = mint()
        body = {
            "campaign_id": campaign_id, "name": campaign.name, "task": campaign.task, "campaign": plain(campaign),
            "goal": plain(campaign.goal), "seed": campaign.seed, "home": str(home.root), "code": __version__,
            "verifier": _verifier(campaign).digest,
        }  # fmt: skip
        ledger.append([("campaign started", body), *refused_before(home.inbox, campaign_id)])
        return rebuilt(ledger, campaign_id)
    state = rebuilt(ledger, found)
    verifier = require_same_verifier(campaign, state.verifier)
    body = {"campaign_id": found, "code": __version__, "after": after} | ({"verifier": verifier} if verifier else {})
    ledger.append([("campaign resumed", body)])
    return rebuilt(ledger, found)


def _require_recipes(campaign: Campaign, home: Home) -> None:
    """Ask the learners of a campaign that is to begin; one that goes on keeps the recipes that it began with."""
    goes_on = False
    if home.ledger.exists():
        with closing(open_to_read(home.ledger)) as ledger:
            goes_on = unfinished(ledger, campaign) is not None
    for recipe in map(read_recipe, (campaign.recipe, campaign.base.recipe)):
        if goes_on:
            load("learners", recipe.learner)
        else:
            require_learner(recipe)


def _verifier(campaign: Campaign) -> Verifier:
    task = cast("Task", make("tasks", campaign.task))
    return open_verifier(task, campaign.verifiers)


def require_same_verifier(campaign: Campaign, recorded: str) -> str:
    """Check that the campaign's verifier judges as the recorded one did.

    Returns:
        The digest of the verifier as it is now; empty where none was recorded.

    Raises:
        UsageError: it is another verifier.
    """
    if not recorded:
        return ""
    verifier = _verifier(campaign)
    if recorded != verifier.digest and recorded not in earlier_digests(verifier):
        raise UsageError(
            f"The verifier of the campaign {campaign.name!r} was {recorded[:12]} at its begin and is "
            f"{verifier.digest[:12]} now, and verdicts of two verifiers cannot be compared: put the old one back, or "
            "end the campaign (enpire campaign stop) and begin another."
        )
    return verifier.digest


def unfinished(ledger: Ledger, campaign: Campaign) -> str | None:
    """The id of the campaign of this name that has not ended; UsageError names each field that differs."""
    for campaign_id, body in _unended(ledger).items():
        if body["name"] == campaign.name:
            now, then = (cast("Mapping[str, object]", plain(item)) for item in (campaign, _as_begun(body)))
            differing = [key for key in now if canonical(now[key]) != canonical(then[key])]
            if differing:
                told = "; ".join(f"{key} was {then[key]!r} and is {now[key]!r}" for key in sorted(differing))
                raise UsageError(
                    f"The unfinished campaign {campaign.name!r} in this home differs from the file: {told}. "
                    "Put the file back to go on with it, end it (enpire campaign stop), or choose another --home."
                )
            return campaign_id
    return None


def _unended(ledger: Ledger) -> dict[str, Mapping[str, object]]:
    """The campaigns that have not ended, with their first events, oldest first."""
    started: dict[str, Mapping[str, object]] = {}
    for event in ledger.events(kinds=("campaign started", "campaign ended")):
        campaign_id = str(event.body["campaign_id"])
        if event.kind == "campaign started":
            started[campaign_id] = event.body
        else:
            started.pop(campaign_id, None)
    return started


def _as_begun(body: Mapping[str, object]) -> Campaign:
    """The campaign file as its first event holds it; what its ENPIRE did not know yet has the default of now."""
    where = f"The campaign {body['name']!r}, begun by ENPIRE {body.get('code', 'of an unknown version')}"
    return parse(Campaign, body["campaign"], where)


def _lab(campaign: Campaign, home: Home, ledger: Ledger, state: CampaignState, fleet: Fleet) -> Lab:
    task = cast("Task", make("tasks", campaign.task))
    lab = Lab(
        campaign=campaign, recipe=read_recipe(campaign.recipe), base_recipe=read_recipe(campaign.base.recipe),
        home=home, ledger=ledger, store=FolderStore(home.episodes), fleet=fleet, task=task,
        state=state,
    )  # fmt: skip
    _reconcile(lab)
    if campaign.base.policy and not state.champion:
        versions.manifest(home.versions / campaign.base.policy)
        swap(lab, campaign.base.policy, "the base that the campaign names")
    return lab


def _reconcile(lab: Lab) -> None:
    """What a crash left between files and ledger: recorded episodes get their row, other differences are told."""
    lab.store.sweep()
    if not isinstance(lab.ledger, SqliteLedger):
        return
    reading = Reading(lab.ledger.database)
    _sweep_pictures(lab.home.incoming, reading)
    differences = compare(reading, lab.store)
    if differences.none:
        return
    facts = [lab.store.facts(lab.store.folder(order_id)) for order_id in differences.unrecorded]
    for kind, orders in (("orders ended", lab.state.open), ("orders found", lab.state.unknown)):
        mine = [episode_body(episode) for episode in facts if episode.order.order_id in orders]
        if mine:
            lab.write((kind, {"episodes": mine}))
    if differences.unordered or differences.missing or differences.altered:
        lab.write(("store differs", {"sentence": differences.sentence()}))
        _say(differences.sentence())


def _sweep_pictures(incoming: Path, reading: Reading) -> None:
    """Remove what came of the pictures of orders that need them no more: ended, never given, long not heard of."""
    oldest_s = time.time() - PARTS_KEPT_S
    for path in incoming.iterdir() if incoming.is_dir() else ():
        row = reading.order(path.name)
        ended = row is None or (row.episode is not None and row.episode.outcome != "unknown")
        if ended or path.stat().st_mtime < oldest_s:
            path.unlink()


def _tick(lab: Lab, crew: Crew, views: tuple[View, ...]) -> None:
    """What belongs to every turn of the loop beside its steps: stations that died rise, whoever watches sees."""
    if lab.due("supervision", 0.5):
        crew.supervise()
    if views and lab.due("views", 0.1):
        now = snapshot(lab)
        for view in views:
            view.update(now)


@contextmanager
def _connected(campaign: Campaign, home: Home, state: CampaignState, on: str) -> Generator[tuple[Fleet, Crew]]:
    """The fleet's socket and the stations that this campaign starts itself."""
    open_fleet = cast("Callable[..., AddressedFleet]", load("transports", "zmq"))
    start = cast("Callable[..., Crew]", load("hosts", on))
    door = cast("Callable[..., object]", load("doors", "zmq"))(campaign.stations.bind, home.keys)
    fleet = open_fleet(door, home.versions, home.incoming, first_lease=state.lease + 1)
    if not campaign.stations.count or door != campaign.stations.bind:
        _say(f"Stations connect to {fleet.address} ({'plain' if door == campaign.stations.bind else 'with keys'}).")
    try:
        crew = start(campaign, home, fleet.address, _say)
        try:
            yield fleet, crew
        finally:
            crew.stop()
    finally:
        fleet.close()


def _say(line: str) -> None:
    print(line, file=sys.stderr)


class AddressedFleet(Fleet, Protocol):
    """A fleet that stations reach at an address."""

    address: str

    def close(self) -> None:
        """Close the sockets; stations notice and hold."""


class Crew(Protocol):
    """Stations that the campaign started and must stop, and how its learner is started beside them."""

    learner: str
    environment: Mapping[str, str]

    def supervise(self) -> None:
        """Start again what died."""

    def stop(self) -> None:
        """End every process; returns when they have ended."""


@contextmanager
def _interruptible(lab: Lab) -> Generator[None]:
    """Ctrl-C and SIGTERM end the session in good order; a second Ctrl-C ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(number: int, frame: object) -> None:
        lab.wanted = INTERRUPTED
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
