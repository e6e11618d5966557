"""Stops, pauses and resumes at one station: no resume ends a stop that it does not name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from enpire.ids import mint
from enpire.station.robot_session import ITSELF, RobotSession
from enpire.station.stop_latch import StopLatch


class StopControl:
    """Carries out the stops, pauses and resumes of one station.

    Args:
        robot: what is stopped. A stop that the latch kept is sent to it at once.
        latch: keeps the newest stop on disk.
        say: prints one line about a resume that is not carried out.
    """

    def __init__(self, robot: RobotSession, latch: StopLatch, say: Callable[[str], None]) -> None:
        self._robot, self._latch, self._say = robot, latch, say
        self._own_stop_id = ""
        self.paused = False
        """Whether no lane begins an order, although the robot may move."""
        if latch.stop_id:
            robot.stop(latch.by)

    @property
    def stop_id(self) -> str:
        """Id of the stop that holds this station, from an operator or requested here; empty without one."""
        return self._latch.stop_id

    @property
    def stop_by(self) -> str:
        """Who requested that stop."""
        return self._latch.by

    @property
    def own_stop_id(self) -> str:
        """Id of the stop that the robot holds by itself, new for each such stop; empty without one."""
        self._own_stop_id = (self._own_stop_id or mint()) if self._robot.stopped_by == ITSELF else ""
        return self._own_stop_id

    def stop(self, by: str, stop_id: str = "") -> None:
        """Stop the robot at once, then keep the stop on disk; without an id it gets a new one."""
        self._robot.stop(by)
        self._latch.close(stop_id or mint(), by)

    def resume(self, stop_ids: Sequence[str] | None) -> None:
        """Resume, unless a stop holds that is not among `stop_ids`: it is newer than what the operator saw.

        Args:
            stop_ids: the stops that this resume ends; None from an earlier orchestrator, which names none.
        """
        self._robot.look()
        held = {self.stop_id, self.own_stop_id} - {"", *(stop_ids or ())}
        if stop_ids is not None and held:
            by = self._robot.stopped_by or self.stop_by
            self._say(f"not resumed: the stop by {by} is newer than the resume; the operator must resume again")
            return
        self.paused = False
        self._robot.resume()
        self._latch.open()
