"""Store every episode that arrived once: first its files, then its event, then the acknowledgement."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from enpire.campaign.acceptance import DIFFERS, as_issued, refusal
from enpire.campaign.events import Event
from enpire.campaign.order_events import EpisodeRefused, LateResults, OrdersEnded
from enpire.campaign.station_events import (
    OperatorNeeded,
    PeerRefused,
    RobotTime,
    StationJoined,
    StationLeft,
    StationRuns,
)
from enpire.codec import result_of
from enpire.gate.trials import PROCESS_ENDED
from enpire.lab import Lab, StationStatus
from enpire.requests.operator_commands import OperatorCommand
from enpire.steps.check_episode import sound, unfinished
from enpire.steps.handle_commands import handle_stops
from enpire.steps.station_commands import resend_holds
from enpire.steps.tripwires import suspicions
from enpire.store import removal
from enpire.store.episodes import FolderStore, Recording, same_files
from enpire.types import JUDGED, Episode, Order, OutcomeKind
from enpire.verifiers import earlier_digest
from enpire.wire.arrivals import Announced, Arrival, Delivered, Fleet, Heartbeat, Joined, Left, Refused

POLL_S = 0.05
"""Longest wait for messages of the fleet in one turn of the loop, in seconds."""
STATION_EVENT_PERIOD_S = 1.0
"""Shortest time between two writes of a station's alarm or version, in seconds. The newest is always written."""
OVERDUE = "its lane worked on it for longer than an order may take"
SILENT_S = 30.0
"""Seconds that a station may be away before its orders end as unknown. Its episodes arrive later as late results."""


def record(lab: Lab) -> None:
    """Read the messages of the fleet and make them durable."""
    time.sleep(lab.pace_s)
    take(lab, [*lab.fleet.poll(POLL_S - lab.pace_s), *lab.refused_log.left_out()])
    if lab.due("silent stations", 1.0):
        _end_silent_orders(lab)
    if lab.due("robot time", 5.0):
        lab.write(robot_time(lab))


def take(lab: Lab, arrivals: Sequence[Arrival]) -> None:
    """Make messages of the fleet durable. Verdicts may wait for others up to `lab.gather_s`, to be stored with them."""
    if any(isinstance(arrival, Joined | Left) for arrival in arrivals):
        store_gathered(lab)  # before the orders that the station lost end
    announced: list[Announced] = []
    for arrival in arrivals:
        match arrival:
            case Joined():
                _joined(lab, arrival)
            case Left():
                _left(lab, arrival)
            case Heartbeat():
                _beat(lab, arrival)
            case Refused():
                lab.write(PeerRefused(peer=arrival.peer, why=arrival.why))
            case Delivered():
                lab.gathered_s = lab.gathered_s if lab.gathered else lab.clock()
                lab.gathered.append(arrival)
            case Announced():
                announced.append(replace(arrival, episode=_as_issued(lab, arrival.episode)))
    _store_what_is_due(lab, announced)


def _store_what_is_due(lab: Lab, announced: Sequence[Announced]) -> None:
    due = _gathered_enough(lab)
    if due or announced:
        handle_stops(lab)  # a stop does not wait for the episodes to be stored
    if due:
        store_gathered(lab)
    if announced:
        _store(lab, _fetch(lab, announced))


def store_gathered(lab: Lab) -> None:
    """Store the delivered episodes that wait. Their stations keep them until then, so none is lost in a crash."""
    delivered, lab.gathered = lab.gathered, []
    if delivered:
        _store(lab, [_with(item, _as_issued(lab, item.episode)) for item in delivered])


def _gathered_enough(lab: Lab) -> bool:
    """Whether delivered episodes are stored now.

    Sync and commit cost as much for one episode as for ten. An episode waits only while its station has orders for its
    robots, and only with a verdict: another end may mean that the station needs something.
    """
    if not lab.gathered:
        return False
    if lab.clock() - lab.gathered_s >= lab.gather_s or lab.end_reason or lab.state.over:
        return True
    of_station = Counter(item.station for item in lab.gathered)
    return any(item.episode.outcome not in JUDGED for item in lab.gathered) or any(
        2 * number >= lab.campaign.stations.ahead for number in of_station.values()
    )


def _with(item: Delivered, episode: Episode) -> Delivered:
    return item if episode is item.episode else replace(item, episode=episode)


def _as_issued(lab: Lab, episode: Episode) -> Episode:
    return as_issued(_order_and_outcome(lab, episode.order.order_id)[0], episode)


def end_orders(lab: Lab, orders: Sequence[Order], outcome: OutcomeKind, cause: str) -> None:
    """End orders that will not have an episode."""
    if orders:
        lab.write(OrdersEnded(results=tuple(result_of(unfinished(order, outcome, cause)) for order in orders)))


def robot_time(lab: Lab) -> RobotTime:
    """Robot time of this session: seconds by station and phase, as the mean over a station's lanes."""
    stations = {station.name: station.seconds() for station in lab.stations.values()}
    robot_s = sum(
        station.lanes * sum(seconds for phase, seconds in station.seconds().items() if phase != "offline")
        for station in lab.stations.values()
    )
    period_s = lab.task.spec.period_s
    return RobotTime(stations=stations, wall_s=lab.clock() - lab.began_s, robot_s=robot_s, period_s=period_s)


def _fetch(lab: Lab, announced: Sequence[Announced]) -> Sequence[Delivered]:
    """Fetch the pictures of the announced episodes that count.

    Returns:
        The other episodes, which need no pictures to be refused or acknowledged.
    """
    others: list[Delivered] = []
    for item in announced:
        order, ended = _order_and_outcome(lab, item.episode.order.order_id)
        if item.episode.outcome != ended and not refusal(order, ended, item.episode, item.station):
            lab.fleet.fetch(item)
        else:
            bare = Delivered(station=item.station, lease=item.lease, episode=item.episode, arrays_file=b"")
            others.append(bare)
    return others


def _store(lab: Lab, delivered: Sequence[Delivered]) -> None:
    """Store files, then write events, then acknowledge. In this order a crash loses and repeats no episode.

    A station deletes an acknowledged episode and keeps a refused one.
    """
    accepted: dict[str, Delivered] = {}
    refused: dict[tuple[str, str], str] = {}
    late: set[str] = set()
    refusals: list[Event] = []
    for arrival in delivered:
        order_id = arrival.episode.order.order_id
        order, ended = _order_and_outcome(lab, order_id)
        stored = accepted[order_id].episode.outcome if order_id in accepted else ended
        if stored in (arrival.episode.outcome, "invalid"):
            continue  # delivered again, because the acknowledgement was slow or lost
        why = "it arrived twice" if order_id in accepted else refusal(order, ended, arrival.episode, arrival.station)
        why = why or _other_recording(lab.store, arrival.episode)
        if why:
            refused[arrival.station, order_id] = why
            if lab.refused_log.passes(arrival.station, order_id):
                refusals.append(
                    EpisodeRefused(order_id=order_id, station=arrival.station, why=why, outcome=arrival.episode.outcome)
                )
            continue
        is_own = arrival.episode.order.campaign_id == lab.state.campaign_id
        accepted[order_id] = sound(arrival, lab.task.spec if is_own else None, _foreign_verifier(lab, arrival))
        if ended:
            late.add(order_id)
    lab.store.put_many(
        Recording(episode=item.episode, arrays_file=item.arrays_file, pictures=item.pictures, checked=True)
        for item in accepted.values()
    )
    ends = [item.episode for item in accepted.values()]
    _write(lab, LateResults, [episode for episode in ends if episode.order.order_id in late])
    _write(lab, OrdersEnded, [episode for episode in ends if episode.order.order_id not in late])
    lab.write(*suspicions(lab, ends), *refusals)
    differing = [order_id for (_, order_id), why in refused.items() if why == DIFFERS and order_id in lab.state.open]
    end_orders(lab, [lab.state.open[order_id] for order_id in differing], "invalid", DIFFERS)
    for arrival in delivered:
        if arrival.pictures is not None:
            removal.remove(arrival.pictures, lab.home.episodes)  # refused, or stored already
    _answer(lab.fleet, [(arrival.station, arrival.episode.order.order_id) for arrival in delivered], refused)
    for arrival in accepted.values():
        station = lab.stations.get(arrival.station)
        if station is not None and (alarm := station.take_episode(arrival.episode, lab.clock())):
            lab.write(OperatorNeeded(station=station.name, alarm=alarm))


def _answer(fleet: Fleet, delivered: Sequence[tuple[str, str]], refused: Mapping[tuple[str, str], str]) -> None:
    """Acknowledge or refuse each delivered (station, order id)."""
    answers: dict[tuple[str, str], list[str]] = {}
    for station, order_id in delivered:
        answers.setdefault((station, refused.get((station, order_id), "")), []).append(order_id)
    for (station, why), order_ids in answers.items():
        if why:
            fleet.refuse(station, order_ids, why)
        else:
            fleet.acknowledge(station, order_ids)


def _foreign_verifier(lab: Lab, arrival: Delivered) -> str:
    """Why the verdict of a delivered episode comes from another verifier than its campaign's; empty if it does not.

    The campaign may have been resumed, and the station updated, since the episode ran: every digest that the campaign
    recorded counts, and so does a present digest of the same verifier.
    """
    station, campaign_id = lab.stations.get(arrival.station), arrival.episode.order.campaign_id
    if arrival.episode.outcome not in JUDGED or station is None:
        return ""
    is_own = campaign_id == lab.state.campaign_id
    if is_own and station.has_verifier_of(lab.state.verifier):
        return ""
    recorded, reported = lab.records.verifiers(campaign_id), station.facts.get("verifier", "")
    if not recorded or {reported, earlier_digest(reported)} & set(recorded):
        return ""
    shown = reported[:12] or "none"
    return f"its station reports the verifier {shown}, and the campaign has the verifier {recorded[0][:12]}"


def _other_recording(store: FolderStore, episode: Episode) -> str:
    """Why an episode conflicts with the stored recording of its order; empty if it does not."""
    order = episode.order
    if not store.holds(order.order_id, order.campaign_id):
        return ""
    stored = store.facts(store.folder(order.order_id, order.campaign_id))
    return "" if same_files(stored, episode) else "the store has another recording of its order already"


def _order_and_outcome(lab: Lab, order_id: str) -> tuple[Order | None, str]:
    """(order, outcome) of this campaign, or of an earlier one whose episode a station delivers late."""
    state = lab.state
    if order_id in state.open or order_id in state.ended:
        return state.open.get(order_id) or state.unknown.get(order_id), state.ended.get(order_id, "")
    row = lab.records.order(order_id)
    return (row.order, row.episode.outcome if row.episode else "") if row is not None else (None, "")


def _write(lab: Lab, kind: type[OrdersEnded | LateResults], episodes: Sequence[Episode]) -> None:
    """Write one event per campaign. Events of an earlier campaign do not change this campaign's state."""
    for campaign_id in dict.fromkeys(episode.order.campaign_id for episode in episodes):
        results = tuple(result_of(item) for item in episodes if item.order.campaign_id == campaign_id)
        event = LateResults(results=results, for_branches=True) if kind is LateResults else OrdersEnded(results=results)
        if campaign_id == lab.state.campaign_id:
            lab.write(event)
        else:
            lab.write_to(campaign_id, event)


def _joined(lab: Lab, joined: Joined) -> None:
    station = lab.stations.get(joined.station)
    lab.write(StationJoined(station=joined.station, lanes=joined.lanes, lease=joined.lease, facts=dict(joined.facts)))
    lab.stations[joined.station] = StationStatus(
        name=joined.station, lanes=joined.lanes, lease=joined.lease, facts=joined.facts, heard_s=lab.clock(),
        earlier_processes_s=station.earlier_processes_s if station else {},
        process_s=station.process_s if station else {}, outcomes=station.outcomes if station else [],
        episodes=station.episodes if station else 0,
    )  # fmt: skip
    if not lab.stations[joined.station].has_verifier_of(lab.state.verifier):
        alarm = (
            "Its verifier differs from the campaign's verifier; install the same version of ENPIRE and the same files."
        )
        lab.write(OperatorNeeded(station=joined.station, alarm=alarm))
    kept = {*joined.running, *joined.spooled}
    lost = [
        order for order in lab.state.open.values() if order.station == joined.station and order.order_id not in kept
    ]
    process = f"{PROCESS_ENDED} during the episode"
    for cause in dict.fromkeys((process, *lab.state.cut_off.values())):
        of_it = [order for order in lost if lab.state.cut_off.get(order.order_id, process) == cause]
        end_orders(lab, of_it, "aborted", cause)
    if too_late := [order_id for order_id in joined.running if order_id in lab.state.unknown]:
        lab.fleet.release(joined.station, too_late)  # a robot must not begin an order that has ended
    if lab.state.over:
        lab.fleet.control(joined.station, "leave")
    elif lab.state.champion:
        lab.fleet.control(joined.station, "deploy", lab.state.champion)
    resend_holds(lab, joined.station)


def _left(lab: Lab, left: Left) -> None:
    lab.write(StationLeft(station=left.station, cause=left.cause))
    station = lab.stations.get(left.station)
    if station is not None:
        station.away_since_s = lab.clock()


def _beat(lab: Lab, beat: Heartbeat) -> None:
    station = lab.stations.get(beat.station)
    if station is None or beat.lease != station.lease:
        return
    leave_stop(lab, beat)
    _note_own_stop(station, beat, lab.state.newest_event)
    events: list[Event] = []
    if beat.alarm and (station.recorded is None or station.recorded.alarm != beat.alarm):
        events.append(OperatorNeeded(station=beat.station, alarm=beat.alarm))
    if beat.deployed and (station.recorded is None or station.recorded.deployed != beat.deployed):
        events.append(StationRuns(station=beat.station, policy_id=beat.deployed))
    if not events:
        station.recorded = beat
    elif station.recorded is None or lab.clock() - station.recorded_s >= STATION_EVENT_PERIOD_S:
        station.recorded, station.recorded_s = beat, lab.clock()
        lab.write(*events)
    station.take_heartbeat(beat, lab.clock(), lab.began_s)
    late = [lab.state.open[order_id] for order_id in beat.overdue if order_id in lab.state.open]
    end_orders(lab, [order for order in late if order.station == beat.station], "unknown", OVERDUE)


def leave_stop(lab: Lab, beat: Heartbeat) -> None:
    """Put the stops that hold a station into the inbox, unless the ledger has them. Each is carried out once.

    Such a stop was requested at the station, or an orchestrator that was killed sent it and had not written it yet.
    """
    recorded = {hold.command_id for hold in lab.state.holds.in_force(beat.station)}
    for stop_id in dict.fromkeys((beat.stop_id, *beat.stop_ids)):
        if stop_id.isalnum() and stop_id not in recorded:
            by = f"{beat.stop_by if stop_id == beat.stop_id else 'an operator'} at the station"
            lab.inbox.leave(OperatorCommand(command_id=stop_id, kind="stop", target=beat.station, operator=by))


def _note_own_stop(station: StationStatus, beat: Heartbeat, newest_event: int) -> None:
    """Note when a station first reports the stop that its robot holds by itself: no earlier resume ends it."""
    before = station.last_heartbeat.own_stop_id if station.last_heartbeat is not None else ""
    if not beat.own_stop_id:
        station.own_stop_after = 0
    elif beat.own_stop_id != before:
        station.own_stop_after = newest_event


def _end_silent_orders(lab: Lab) -> None:
    """End the orders of stations that are away too long, also of stations that never joined this session."""
    latest_s = lab.clock() - SILENT_S
    lost: list[Order] = []
    for order in lab.state.open.values():
        station = lab.stations.get(order.station)
        away_since_s = station.away_since_s if station is not None else lab.began_s
        if away_since_s is not None and away_since_s < latest_s:
            lost.append(order)
    end_orders(lab, lost, "unknown", f"the station sent nothing for {SILENT_S:.0f} s")
