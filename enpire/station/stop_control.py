"""Stops, pauses and resumes at one station: no resume ends a stop that it does not name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from enpire.ids import mint
from enpire.station.robot_session import ITSELF, RobotSession
from enpire.station.stop_latch import HeldStop, StopLatch


class StopControl:
    """Carries out the stops, pauses and resumes of one station.

    Args:
        robot: what is stopped. A stop that the latch kept is sent to it at once.
        latch: keeps the stops on disk.
        say: prints one line about a resume that does not end every stop.
    """

    def __init__(self, robot: RobotSession, latch: StopLatch, say: Callable[[str], None]) -> None:
        self._robot, self._latch, self._say = robot, latch, say
        self._own_stop_id = ""
        self.paused = False
        """Whether no lane begins an order, although the robot may move."""
        if self.stops:
            robot.stop(self.stops[0].by)

    @property
    def stops(self) -> Sequence[HeldStop]:
        """The stops that hold this station, the one that was requested here first."""
        return self._latch.stops.all

    @property
    def own_stop_id(self) -> str:
        """Id of the stop that the robot holds by itself, new for each such stop; empty without one."""
        self._own_stop_id = (self._own_stop_id or mint()) if self._robot.stopped_by == ITSELF else ""
        return self._own_stop_id

    def stop(self, by: str, stop_id: str = "") -> None:
        """Carry out a stop of the orchestrator. One of an earlier version has no id and gets one here."""
        self._stop(by, stop_id, here=False)

    def stop_here(self, by: str) -> None:
        """Carry out a stop that was requested at this station. Each request is a new stop."""
        self._stop(by, "", here=True)

    def resume(self, stop_ids: Sequence[str] | None) -> None:
        """End the stops that a resume names; the robot may move when none is left.

        Args:
            stop_ids: the stops that this resume ends; None from an earlier orchestrator, which ends all of them.
        """
        self._robot.look()
        left = [stop.by for stop in self._latch.stops.without(stop_ids).all]
        if stop_ids is not None and self.own_stop_id not in {"", *stop_ids}:
            left.append(ITSELF)
        if left:
            self._latch.end(stop_ids)
            self._say(f"not resumed: the stop by {left[0]} is newer than the resume; the operator must resume again")
            return
        self.paused = False
        self._robot.resume()
        self._latch.end(stop_ids)

    def _stop(self, by: str, stop_id: str, *, here: bool) -> None:
        """Stop the robot at once, then keep the stop on disk."""
        self._robot.stop(by)
        self._latch.hold(HeldStop(stop_id=stop_id or mint(), by=by or "the orchestrator"), here=here)
