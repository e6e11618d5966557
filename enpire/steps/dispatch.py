"""Every free robot gets its next order, written to the ledger before the robot may move."""

from __future__ import annotations

from collections import Counter

from enpire.campaign.order_events import OrdersIssued
from enpire.lab import Lab, StationSeat
from enpire.scheduling.scheduler import FreeStation
from enpire.types import Order

TAKE_BACK_S = 1.0
"""How often a station that does not work is asked for the orders that wait there."""


def dispatch(lab: Lab) -> None:
    """Fill every station that is here; the denominator of every rate is written first, so it cannot shrink.

    All stations share one write: a slow disk is waited for once a turn, however many robots are free.
    """
    if lab.state.paused:
        return
    held = Counter(order.station for order in lab.state.open.values())
    drawn: list[Order] = []
    now_s = lab.clock()
    unable = frozenset(
        (one.name, version) for one in lab.stations.values() for version in one.load_backoff.excluded(now_s)
    )
    for station in lab.stations.values():
        if not works(lab, station):
            _take_back(lab, station)
            continue
        room = station.lanes + lab.campaign.stations.ahead - held[station.name]
        if room >= max(1, min(station.lanes, lab.campaign.stations.ahead) // 4):
            station = FreeStation(station.name, station.lease, room, station.load_backoff.excluded(now_s), unable)
            drawn += lab.scheduler.next_orders(lab.state, station, drawn)
    if not drawn:
        return
    lab.write(OrdersIssued(orders=tuple(drawn)))
    for name in dict.fromkeys(order.station for order in drawn):
        lab.fleet.send(name, [order for order in drawn if order.station == name])


def _take_back(lab: Lab, station: StationSeat) -> None:
    """What has not begun at a station that is here and takes no orders is given to others: a gate waits for it."""
    waiting = station.last_beat is not None and station.last_beat.queued
    if waiting and station.away_since_s is None and lab.due(f"take back from {station.name}", TAKE_BACK_S):
        held = [order.order_id for order in lab.state.open.values() if order.station == station.name]
        lab.fleet.release(station.name, held)


def works(lab: Lab, station: StationSeat) -> bool:
    """Whether a station takes orders now."""
    beat = station.last_beat
    if lab.state.holds.at(station.name):
        return False  # it may not have heard of that yet
    if station.away_since_s is not None or (beat is not None and (beat.stopped or beat.paused or beat.alarm)):
        return False
    return station.trusts(lab.state.verifier)
