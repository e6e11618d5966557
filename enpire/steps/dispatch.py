"""Every free robot gets its next order, written to the ledger before the robot may move."""

from __future__ import annotations

from enpire.lab import Lab
from enpire.store.records import order_body


def dispatch(lab: Lab) -> None:
    """Fill every station that is here; the denominator of every rate is written first, so it cannot shrink."""
    if lab.state.paused:
        return
    for station in list(lab.stations.values()):
        beat = station.last_beat
        if not station.trusts(lab.state.verifier):
            continue
        if lab.state.holds.at(station.name):
            continue  # it may not have heard of that yet
        if station.away_since_s is not None or (beat is not None and (beat.stopped or beat.paused or beat.alarm)):
            continue
        seat = lab.seat(station)
        if seat.room < max(1, min(station.lanes, lab.campaign.stations.ahead) // 4):
            continue
        orders = lab.scheduler.next_orders(lab.state, seat)
        if orders:
            lab.write(("order issued", {"orders": [order_body(order) for order in orders]}))
            lab.fleet.send(station.name, orders)
