"""Which open gate each station serves: gates that are open at the same time run at disjoint stations.

So one gate does not wait behind another one. Both sides of a pair run at one station, as in a gate that is alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from enpire.campaign.state import OpenGate


def gate_stations(
    gates: Mapping[str, OpenGate], stations: Mapping[str, int], unable: Set[tuple[str, str]]
) -> Mapping[str, OpenGate]:
    """Station -> the gate that it serves; a station that can run the versions of no gate is left out.

    Each station goes to the gate with the fewest lanes so far, the oldest of those. Stations that can serve few gates
    are placed first, then those with many lanes. With fewer stations than gates, the newest gates wait.

    Args:
        gates: the open gates by id, oldest first.
        stations: the stations that take orders, with their lanes.
        unable: (station, version) pairs that do not work now.
    """
    able = {
        name: [gate for gate in gates.values() if not any((name, one) in unable for one in gate.policies.values())]
        for name in stations
    }
    lanes = dict.fromkeys(gates, 0)
    found: dict[str, OpenGate] = {}
    for name in sorted(stations, key=lambda name: (len(able[name]), -stations[name], name)):
        if able[name]:
            found[name] = min(able[name], key=lambda gate: lanes[gate.gate_id])
            lanes[found[name].gate_id] += max(1, stations[name])
    return found
