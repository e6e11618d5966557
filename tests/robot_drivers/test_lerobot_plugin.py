"""A simulated task as a LeRobot robot: LeRobot's commands record, replay and train on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_the_expert_does_the_task_through_lerobots_interfaces() -> None:
    from lerobot.robots.utils import make_robot_from_config
    from lerobot.teleoperators.utils import make_teleoperator_from_config
    from lerobot.utils.errors import DeviceNotConnectedError

    from robot_drivers.lerobot_plugin import EnpireExpertConfig, EnpireTask, EnpireTaskConfig

    robot = make_robot_from_config(EnpireTaskConfig(id="sim", pictures=False, episode_s=5.0))
    expert = make_teleoperator_from_config(EnpireExpertConfig(id="script"))
    assert isinstance(robot, EnpireTask)
    with pytest.raises(DeviceNotConnectedError):
        robot.get_observation()
    with pytest.raises(DeviceNotConnectedError):
        expert.get_action()
    robot.connect()
    expert.connect()
    verifier, done = robot.task.verifier(), set[int]()
    for tick in range(5 * 150):
        seen = robot.get_observation()
        assert set(seen) == set(robot.observation_features)
        row = np.array([list(seen.values())], np.float32)
        if verifier.finished(row, np.array([tick % 150]))[0]:
            done.add(robot.starts)
        wish = expert.get_action()
        assert set(wish) == set(expert.action_features) == set(robot.action_features)
        assert set(robot.send_action(wish)) == set(wish)
    assert robot.starts == 5
    assert len(done) >= 2, "the expert does the task"
    robot.disconnect()
    assert not robot.is_connected


@pytest.mark.slow
def test_lerobots_own_commands_record_and_replay_it(tmp_path: Path) -> None:
    common = [
        "--robot.discover_packages_path=robot_drivers.lerobot_plugin", "--robot.type=enpire_task", "--robot.id=sim",
        "--robot.pictures=false",
    ]  # fmt: skip
    record = [
        *common, "--robot.episode_s=2", "--teleop.type=enpire_expert", "--dataset.repo_id=lab/pins",
        f"--dataset.root={tmp_path / 'pins'}", "--dataset.single_task=Insert the pin.", "--dataset.fps=30",
        "--dataset.num_episodes=2", "--dataset.episode_time_s=2", "--dataset.reset_time_s=0",
        "--dataset.push_to_hub=false", "--dataset.video=false", "--play_sounds=false",
    ]  # fmt: skip
    replay = [
        *common, "--dataset.repo_id=lab/pins", f"--dataset.root={tmp_path / 'pins'}", "--dataset.episode=0",
        "--play_sounds=false",
    ]  # fmt: skip
    around = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    for module, options in (("lerobot_record", record), ("lerobot_replay", replay)):
        command = [sys.executable, "-m", f"lerobot.scripts.{module}", *options]
        done = subprocess.run(command, env=around, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    recorded = LeRobotDataset("lab/pins", root=tmp_path / "pins")
    assert recorded.num_episodes == 2
    assert recorded.num_frames > 60
