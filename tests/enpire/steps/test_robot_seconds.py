"""Robot time of a station over its processes: none is left out, none is counted twice."""

from __future__ import annotations

import pytest

from enpire.lab import StationStatus
from enpire.types import Phase
from enpire.wire.arrivals import Heartbeat

BEGAN_S = 0.0


def beat(rollout: float, reset: float = 0.0) -> Heartbeat:
    seconds: dict[Phase, float] = {"rollout": rollout}
    if reset:
        seconds["reset"] = reset
    return Heartbeat(
        station="one", lease=1, phase="rollout", seconds=seconds, queued=0, running=0, deployed="", stopped=False
    )  # fmt: skip


def test_a_station_that_was_silent_and_speaks_again_is_counted_once() -> None:
    station = StationStatus(name="one", lanes=4, lease=1, facts={})
    station.take_heartbeat(beat(rollout=10.0), 10.5, BEGAN_S)
    earlier_s, process_s = station.earlier_processes_s, station.process_s
    back = StationStatus(name="one", lanes=4, lease=2, facts={}, earlier_processes_s=earlier_s, process_s=process_s)
    assert back.seconds() == {"rollout": 10.0}, "what it had said before it was away"
    back.take_heartbeat(beat(rollout=11.0, reset=1.0), 13.0, BEGAN_S)
    assert back.seconds() == pytest.approx({"rollout": 11.0, "reset": 1.0})


def test_the_time_of_a_process_that_died_is_kept() -> None:
    station = StationStatus(name="one", lanes=4, lease=1, facts={})
    for seconds in (4.0, 10.0, 0.5, 1.5):
        station.take_heartbeat(beat(rollout=seconds), 12.0, BEGAN_S)
    assert station.seconds() == {"rollout": 11.5}
    assert station.last_heartbeat == beat(rollout=1.5)


def test_what_a_station_did_before_this_session_is_not_counted_again() -> None:
    station = StationStatus(name="one", lanes=4, lease=7, facts={})
    for now_s, seconds in ((103.0, 50.0), (104.0, 51.0), (106.0, 0.5), (110.0, 4.0)):
        station.take_heartbeat(beat(rollout=seconds), now_s, 100.0)
    assert station.seconds() == pytest.approx({"rollout": 1.0 + 4.0})


def test_no_station_works_for_longer_than_the_session_lasts() -> None:
    station = StationStatus(name="one", lanes=4, lease=1, facts={})
    for now_s, seconds in ((2.0, 1.0), (3.0, 1e9), (4.0, 3.0)):
        station.take_heartbeat(beat(rollout=seconds), now_s, BEGAN_S)
        assert station.seconds() == {"rollout": 3.0 if now_s == 4.0 else 1.0}
