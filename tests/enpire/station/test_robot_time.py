import pytest

from enpire.station.robot_time import RobotTime


def test_every_moment_of_every_lane_is_in_one_phase() -> None:
    now = [100.0]
    time = RobotTime(2, lambda: now[0])
    now[0] += 1.0
    time.switch([0], "rollout")
    now[0] += 2.0
    time.switch([0], "verify")
    time.switch([1], "reset")
    now[0] += 4.0
    assert time.seconds() == {"wait-order": 2.0, "rollout": 1.0, "verify": 2.0, "reset": 2.0}
    assert sum(time.seconds().values()) == pytest.approx(7.0)
    assert time.most() in {"verify", "reset"}
