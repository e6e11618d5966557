"""Every episode that arrived is kept once: files first, then the row, then the acknowledgement."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from enpire.errors import FileProblem
from enpire.gate.gate import PROCESS_ENDED
from enpire.lab import Lab, StationSeat
from enpire.requests.operator_commands import OperatorCommand
from enpire.steps.handle_commands import handle_stops, hold_again
from enpire.store.arrays import unpack
from enpire.store.episodes import FolderStore, Recording, same_files
from enpire.store.pictures import Pictures
from enpire.types import Episode, Order, OutcomeKind, TaskSpec
from enpire.wire.arrivals import Announced, Arrival, Delivered, Fleet, Heartbeat, Joined, Left, Refused

POLL_S = 0.05
DIFFERS = "what its station delivered answers an order that differs from the one in the ledger"
TOLD_S = 1.0
"""The alarm of a station, and the version that it runs, are written down once in so long; the newest always is."""
OVERDUE = "it was at work for longer than any order may take"
SILENT_S = 30.0
"""How long a station may be away before its orders end as unknown. What it did is found when it is back."""


def record(lab: Lab) -> None:
    """Read what the fleet says and make it durable."""
    take(lab, [*lab.fleet.poll(POLL_S), *lab.complaints.left_out()])
    _give_up_the_silent(lab)
    if lab.due("robot time", 5.0):
        lab.write(robot_time(lab))


def take(lab: Lab, arrivals: Sequence[Arrival]) -> None:
    """Make what arrived durable."""
    delivered: list[Delivered] = []
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
                delivered.append(arrival)
            case Announced():
                announced.append(arrival)
    handle_stops(lab)  # a stop does not wait for the episodes to be stored
    _keep(lab, delivered)
    _keep(lab, _fetch(lab, announced))


def end_orders(lab: Lab, orders: Sequence[Order], outcome: OutcomeKind, cause: str) -> None:
    """End orders of which no episode will come."""
    if orders:
        lab.write(OrdersEnded(results=tuple(result_of(unfinished(order, outcome, cause)) for order in orders)))


def unfinished(order: Order, outcome: OutcomeKind, cause: str) -> Episode:
    """The episode of an order that never came to a verdict."""
    return Episode(
        order=order, outcome=outcome, cause=cause, confidence=0.0, ran_policy_id="", ticks=0, began_s=0.0, ended_s=0.0
    )


def robot_time(lab: Lab) -> RobotTime:
    """The robot-time stack of this session: seconds by phase and station, mean over a station's lanes."""
    stations = {seat.name: seat.seconds() for seat in lab.stations.values()}
    robot_s = sum(
        seat.lanes * sum(seconds for phase, seconds in seat.seconds().items() if phase != "offline")
        for seat in lab.stations.values()
    )
    return RobotTime(stations=stations, wall_s=lab.clock() - lab.began_s, robot_s=robot_s)


def _fetch(lab: Lab, announced: Sequence[Announced]) -> Sequence[Delivered]:
    """Have the pictures brought of the episodes that count; the others need none to be refused or acknowledged."""
    others: list[Delivered] = []
    for item in announced:
        order, ended = _standing(lab, item.episode.order.order_id)
        if item.episode.outcome != ended and not refusal(order, ended, item.episode, item.station):
            lab.fleet.fetch(item)
        else:
            bare = Delivered(station=item.station, lease=item.lease, episode=item.episode, arrays_file=b"")
            others.append(bare)
    return others


def _keep(lab: Lab, delivered: Sequence[Delivered]) -> None:
    """Files, then one row for each, then the acknowledgement: in this order a crash loses and doubles nothing.

    A station deletes what is acknowledged; what is refused it keeps.
    """
    known: dict[str, Delivered] = {}
    refused: dict[tuple[str, str], str] = {}
    found: set[str] = set()
    refusals: list[Event] = []
    for arrival in delivered:
        order_id = arrival.episode.order.order_id
        order, ended = _standing(lab, order_id)
        if (known[order_id].episode.outcome if order_id in known else ended) in (arrival.episode.outcome, "invalid"):
            continue  # delivered again, because the acknowledgement was slow or lost on its way
        why = "it arrived twice" if order_id in known else refusal(order, ended, arrival.episode, arrival.station)
        why = why or _other_recording(lab.store, arrival.episode)
        if why:
            refused[arrival.station, order_id] = why
            if lab.complaints.passes(arrival.station, order_id):
                refusals.append(
                    EpisodeRefused(order_id=order_id, station=arrival.station, why=why, outcome=arrival.episode.outcome)
                )
            continue
        mine = arrival.episode.order.campaign_id == lab.state.campaign_id
        known[order_id] = sound(arrival, lab.task.spec if mine else None)
        if ended:
            found.add(order_id)
    lab.store.put_many(
        Recording(episode=item.episode, arrays_file=item.arrays_file, pictures=item.pictures) for item in known.values()
    )
    ends = [item.episode for item in known.values()]
    _write(lab, LateResults, [episode for episode in ends if episode.order.order_id in found])
    _write(lab, OrdersEnded, [episode for episode in ends if episode.order.order_id not in found])
    lab.write(*refusals)
    differing = [order_id for (_, order_id), why in refused.items() if why == DIFFERS and order_id in lab.state.open]
    end_orders(lab, [lab.state.open[order_id] for order_id in differing], "invalid", DIFFERS)
    for arrival in delivered:
        if arrival.pictures is not None:
            arrival.pictures.unlink(missing_ok=True)  # refused, or in the store already
    _answer(lab.fleet, [(arrival.station, arrival.episode.order.order_id) for arrival in delivered], refused)
    for arrival in known.values():
        seat = lab.stations.get(arrival.station)
        if seat is not None and (alarm := seat.take(arrival.episode, lab.clock())):
            lab.write(OperatorNeeded(station=seat.name, alarm=alarm))


def _answer(fleet: Fleet, heard: Sequence[tuple[str, str]], refused: Mapping[tuple[str, str], str]) -> None:
    """Acknowledge or refuse each (station, order id) that was heard."""
    answers: dict[tuple[str, str], list[str]] = {}
    for station, order_id in heard:
        answers.setdefault((station, refused.get((station, order_id), "")), []).append(order_id)
    for (station, why), order_ids in answers.items():
        if why:
            fleet.refuse(station, order_ids, why)
        else:
            fleet.acknowledge(station, order_ids)


def sound(arrival: Delivered, spec: TaskSpec | None = None) -> Delivered:
    """The episode as it came, or as invalid and without files, when those are not what a station of `spec` records."""
    why = _spoilt(arrival, spec)
    if not why:
        return arrival
    return replace(arrival, episode=unfinished(arrival.episode.order, "invalid", why), arrays_file=b"", pictures=None)


def _spoilt(arrival: Delivered, spec: TaskSpec | None) -> str:
    episode, data, sha256 = arrival.episode, arrival.arrays_file, arrival.episode.sha256
    if episode.outcome in {"success", "failure", "unsafe"} and episode.ran_policy_id != episode.order.policy_id:
        return f"it ran {episode.ran_policy_id[:12]} where {episode.order.policy_id[:12]} was ordered"
    if (data or sha256) and hashlib.sha256(data).hexdigest() != sha256:
        return "the bytes of its arrays do not match its hash"
    try:
        if data:
            recorded = unpack(data)
            found = (recorded.state.shape[1], recorded.action.shape[1])
            if spec is not None and found != (len(spec.state), len(spec.action)):
                return f"its states and actions are {found} wide, the task's {(len(spec.state), len(spec.action))}"
        if arrival.pictures is not None:
            Pictures(arrival.pictures)
    except FileProblem as problem:
        return f"its files cannot be used: {problem}"[:1000]
    return ""


def _other_recording(store: FolderStore, episode: Episode) -> str:
    """Why an episode cannot be kept beside what is; empty when it can."""
    order = episode.order
    folder = store.folder(order.order_id, order.campaign_id)
    if not folder.is_dir():
        return ""
    return "" if same_files(store.facts(folder), episode) else "another recording of its order is kept already"


def refusal(order: Order | None, ended: str, episode: Episode, station: str) -> str:
    """Why an episode does not count; empty when it does.

    Args:
        order: as the ledger has it; None when it has none, or none that could still be delivered.
        ended: how the order has ended so far; empty while it is open.
        episode: what is delivered.
        station: who delivers it.
    """
    if order is None or ended not in {"", "unknown"}:
        return "its order has ended already, or was never given"
    if order.station != station:
        return f"its order was given to the station {order.station}"
    return "" if order == episode.order else DIFFERS


def _standing(lab: Lab, order_id: str) -> tuple[Order | None, str]:
    """(an order, how it has ended): of this campaign, or of an earlier one that a station could not tell in time."""
    state = lab.state
    if order_id in state.open or order_id in state.ended:
        return state.open.get(order_id) or state.unknown.get(order_id), state.ended.get(order_id, "")
    row = lab.records.order(order_id)
    return (row.order, row.episode.outcome if row.episode else "") if row is not None else (None, "")


def _write(lab: Lab, kind: type[OrdersEnded | LateResults], episodes: Sequence[Episode]) -> None:
    """One event for each campaign; those of an earlier campaign move nothing here."""
    for campaign_id in dict.fromkeys(episode.order.campaign_id for episode in episodes):
        event = kind(results=tuple(result_of(item) for item in episodes if item.order.campaign_id == campaign_id))
        if campaign_id == lab.state.campaign_id:
            lab.write(event)
        else:
            lab.ledger.append([event], campaign_id)


def _joined(lab: Lab, joined: Joined) -> None:
    seat = lab.stations.get(joined.station)
    lab.write(StationJoined(station=joined.station, lanes=joined.lanes, lease=joined.lease, facts=dict(joined.facts)))
    lab.stations[joined.station] = StationSeat(
        name=joined.station, lanes=joined.lanes, lease=joined.lease, facts=joined.facts, heard_s=lab.clock(),
        earlier_s=seat.earlier_s if seat else {}, spoken_s=seat.spoken_s if seat else {},
        verdicts=seat.verdicts if seat else [], episodes=seat.episodes if seat else 0,
    )  # fmt: skip
    if not lab.stations[joined.station].trusts(lab.state.verifier):
        alarm = "Its verifier is not the one that the campaign began with; give it the same version and files."
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
        lab.fleet.release(joined.station, too_late)  # nothing begins under an order that has ended
    if lab.state.over:
        lab.fleet.control(joined.station, "leave")
    elif lab.state.champion:
        lab.fleet.control(joined.station, "deploy", lab.state.champion)
    hold_again(lab, joined.station)


def _left(lab: Lab, left: Left) -> None:
    lab.write(StationLeft(station=left.station, cause=left.cause))
    seat = lab.stations.get(left.station)
    if seat is not None:
        seat.away_since_s = lab.clock()


def _beat(lab: Lab, beat: Heartbeat) -> None:
    seat = lab.stations.get(beat.station)
    if seat is None or beat.lease != seat.lease:
        return
    leave_stop(lab, beat)
    events: list[Event] = []
    if beat.alarm and (seat.told is None or seat.told.alarm != beat.alarm):
        events.append(OperatorNeeded(station=beat.station, alarm=beat.alarm))
    if beat.deployed and (seat.told is None or seat.told.deployed != beat.deployed):
        events.append(StationRuns(station=beat.station, policy_id=beat.deployed))
    if not events:
        seat.told = beat
    elif seat.told is None or lab.clock() - seat.told_s >= TOLD_S:
        seat.told, seat.told_s = beat, lab.clock()
        lab.write(*events)
    seat.hear(beat, lab.clock(), lab.began_s)
    late = [lab.state.open[order_id] for order_id in beat.overdue if order_id in lab.state.open]
    end_orders(lab, [order for order in late if order.station == beat.station], "unknown", OVERDUE)


def leave_stop(lab: Lab, beat: Heartbeat) -> None:
    """Leave the stop that was asked at the station itself; each heartbeat repeats its id, it is carried out once."""
    if beat.stop_id:
        by = f"{beat.stop_by} at the station"
        lab.inbox.leave(OperatorCommand(command_id=beat.stop_id, kind="stop", target=beat.station, operator=by))


def _give_up_the_silent(lab: Lab) -> None:
    """End the orders of stations that are away for long, also of those that this session has never heard."""
    latest_s = lab.clock() - SILENT_S
    lost: list[Order] = []
    for order in lab.state.open.values():
        seat = lab.stations.get(order.station)
        away_since_s = seat.away_since_s if seat is not None else lab.began_s
        if away_since_s is not None and away_since_s < latest_s:
            lost.append(order)
    end_orders(lab, lost, "unknown", f"the station was not heard for {SILENT_S:.0f} s")
