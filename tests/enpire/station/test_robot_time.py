import pytest

from enpire.policy_calls import LoadedPolicy
from enpire.queries.metrics import real_time_factor, robot_time
from enpire.station.lanes import Lanes
from enpire.station.robot_time import RobotTime
from enpire.types import SOURCE_POLICY, FloatArray, IntArray, Observation
from tests.fakes.point_task import PointPolicy, PointRig, PointTask, point_order


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


class SlowPolicy(PointPolicy):
    """A policy that decides for 250 ms, on the clock of the test."""

    def __init__(self, now: list[float]) -> None:
        super().__init__()
        self.now = now

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        self.now[0] += 0.25
        return super().act(observation, lanes)


@pytest.mark.parametrize("period_s", [0.0, 0.1])
def test_a_robot_that_stands_while_its_policy_decides_is_not_in_motion(period_s: float) -> None:
    now = [0.0]
    policy, decisions = SlowPolicy(now), 0
    lanes = Lanes(PointTask(), PointRig(PointTask.spec, 1), clock=lambda: now[0])
    lanes.time.period_s = period_s
    lanes.begin(0, point_order("p" * 64, 3), LoadedPolicy(policy_id="p" * 64, policy=policy, source=SOURCE_POLICY))
    lanes.sense()
    lanes.reset()
    while lanes.busy:
        lanes.verify()
        before_s = now[0]
        lanes.decide()
        decisions += now[0] > before_s
        lanes.act()
        now[0] += 0.1  # the robot executes its command until the next period
        lanes.sense()
    seconds, ticks = lanes.time.seconds(), lanes.take_ended()[0].episode.ticks
    assert decisions > 1
    assert seconds["wait-policy"] == pytest.approx(0.25 * decisions)
    assert seconds["rollout"] == pytest.approx(0.1 * ticks)
    used = robot_time({"arm": seconds}, now[0])
    assert used.mru == pytest.approx(1 - 0.1 / now[0])  # the last period was after the episode
    assert used.motion == pytest.approx(0.1 * ticks / now[0])


def test_a_robot_waits_for_its_policy_only_after_it_has_executed_its_last_command() -> None:
    now = [0.0]
    time = RobotTime(1, lambda: now[0])
    time.period_s = 0.1
    time.switch([0], "rollout")
    time.commanded([0])
    now[0] = 0.08
    time.decided([0], 0.0, [True])  # answered while the robot still moves
    time.commanded([0])
    now[0] = 0.28
    time.decided([0], 0.08, [False])  # no command yet: it stands since 0.18
    now[0] = 0.4
    time.decided([0], 0.39, [True])
    assert time.seconds() == pytest.approx({"rollout": 0.18, "wait-policy": 0.22})


def test_stations_of_earlier_versions_have_no_motion_share() -> None:
    assert robot_time({"arm": {"rollout": 5.0, "verify": 1.0}}, 10.0).motion is None
    assert robot_time({"arm": {"rollout": 5.0, "wait-policy": 1.0, "wait-verdict": 2.0}}, 10.0).motion == 0.5


def test_the_real_time_factor_is_one_for_a_robot_and_unknown_without_a_period() -> None:
    assert real_time_factor(10.0, 100, 0.1) == pytest.approx(1.0)
    assert real_time_factor(2.0, 100, 0.1) == pytest.approx(5.0)
    assert real_time_factor(10.0, 100, 0.0) is None
    assert real_time_factor(0.0, 100, 0.1) is None
