"""Give every free robot its next order. The ledger has the order before the robot may move."""

from __future__ import annotations

from collections import Counter

from enpire.campaign.order_events import OrdersIssued
from enpire.lab import Lab, StationStatus
from enpire.scheduling.scheduler import FreeStation, has_demonstrations
from enpire.types import Order

RELEASE_PERIOD_S = 1.0
"""Period, in seconds, at which the waiting orders of a station that takes no orders are released."""


def dispatch(lab: Lab) -> None:
    """Issue orders to every connected station.

    Orders are written before they are sent, so an order that fails to arrive still counts in every rate. All stations
    share one write per turn, so a slow disk delays the loop once per turn.
    """
    waiting = _end_waits(lab)
    if lab.state.paused:
        return
    held = Counter(order.station for order in lab.state.open.values())
    drawn: list[Order] = []
    now_s = lab.clock()
    unable = frozenset(
        (one.name, version) for one in lab.stations.values() for version in one.load_backoff.excluded(now_s)
    )
    fleet = {name: station.lanes for name, station in lab.stations.items() if takes_orders(lab, station)}
    for station in lab.stations.values():
        if station.name not in fleet:
            _release_waiting(lab, station)
            continue
        room = station.lanes + lab.campaign.stations.ahead - held[station.name]
        if room >= max(1, lab.campaign.stations.ahead // 4):
            refuses = station.load_backoff.excluded(now_s)
            free = FreeStation(station.name, station.lease, room, refuses, unable, fleet, waiting)
            drawn += lab.scheduler.next_orders(lab.state, free, drawn)
    if not drawn:
        return
    lab.write(OrdersIssued(orders=tuple(drawn)))
    for name in dict.fromkeys(order.station for order in drawn):
        lab.fleet.send(name, [order for order in drawn if order.station == name])


def _end_waits(lab: Lab) -> frozenset[str]:
    """End the waits for people that no station needs, and those of stations that take no orders now.

    Returns the demonstrations that wait for a person.
    """
    state = lab.state
    beats = [station.last_heartbeat for station in lab.stations.values() if station.last_heartbeat is not None]
    waiting = frozenset(order_id for beat in beats for order_id in beat.waits_for_person if order_id in state.open)
    if not waiting:
        return waiting
    begun = sum(order_id in state.open for beat in beats for order_id in beat.person_moves)
    over = state.paused or bool(state.champion) or has_demonstrations(state, lab.campaign, begun)
    for station in lab.stations.values():
        mine = [order_id for order_id in sorted(waiting) if state.open[order_id].station == station.name]
        ends = mine and (over or not takes_orders(lab, station))
        if ends and lab.due(f"end the waits of {station.name}", RELEASE_PERIOD_S):
            lab.fleet.release(station.name, mine)
    return waiting


def _release_waiting(lab: Lab, station: StationStatus) -> None:
    """Release the waiting orders of a connected station that takes no orders, because a gate may need them."""
    waiting = station.last_heartbeat is not None and station.last_heartbeat.queued
    if waiting and station.away_since_s is None and lab.due(f"release orders of {station.name}", RELEASE_PERIOD_S):
        held = [order.order_id for order in lab.state.open.values() if order.station == station.name]
        lab.fleet.release(station.name, held)


def takes_orders(lab: Lab, station: StationStatus) -> bool:
    """Whether a station takes orders now."""
    beat = station.last_heartbeat
    if lab.state.holds.at(station.name):
        return False  # its heartbeat may not show the hold yet
    if station.away_since_s is not None or (beat is not None and (beat.stopped or beat.paused or beat.alarm)):
        return False
    return station.has_verifier_of(lab.state.verifier)
