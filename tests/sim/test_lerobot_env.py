"""Tasks in lerobot-eval: LeRobot's own script runs a policy, and success is the verifier's verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lerobot")

import gymnasium

from enpire.types import Observation
from sim.tasks.pin_insertion import PinInsertion

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_gymnasium_knows_the_tasks_without_an_import() -> None:
    name = "sim.gym_env:enpire/PinInsertion-v0"
    code = f"import gymnasium; print(gymnasium.make({name!r}).observation_space.shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.strip() == "(12,)", done.stderr[-1000:]


def test_actions_are_in_the_units_of_the_task_and_success_is_the_verdict() -> None:
    from sim.lerobot_env.environment import EnpireEnv

    config = EnpireEnv(task="pin_insertion")
    [suite] = config.create_envs(1).values()
    made: Any = suite[0]
    expert = PinInsertion().clean_expert()
    seen, _ = made.reset(seed=[3])
    expert.begin(0, 0)
    for _ in range(PinInsertion().spec.limit_ticks):
        wish = expert.act(Observation(stamp_ns=0, state=seen["agent_pos"]), np.array([0]))[0, 0]
        seen, _, ended, cut, info = made.step(wish[None])
        if ended[0] or cut[0]:
            assert bool(info["final_info"]["is_success"][0])
            break
    else:
        pytest.fail("the episode did not end")
    made.close()


def test_features_are_those_of_an_export() -> None:
    from sim.lerobot_env.environment import EnpireEnv

    plain, cameras = EnpireEnv(task="pin_insertion"), EnpireEnv(task="pin_insertion", cameras=True)
    assert plain.fps == PinInsertion().spec.rate_hz
    assert set(plain.features_map.values()) == {"action", "observation.state", "observation.environment_state"}
    assert {"action", "observation.state"} < set(cameras.features_map.values())
    assert "observation.environment_state" not in cameras.features_map.values()
    assert sum(key.startswith("observation.images.") for key in cameras.features_map.values()) == 2


def test_lerobots_own_evaluation_runs_a_policy(tmp_path: Path) -> None:
    from policies import lerobot_policy
    from policies.lerobot_base import LerobotShape, new_parts
    from policies.normalise import Scale

    spec = PinInsertion().spec
    state = Scale(mean=np.zeros(len(spec.state), np.float32), spread=np.ones(len(spec.state), np.float32))
    action = Scale(mean=np.zeros(spec.action_dim, np.float32), spread=np.ones(spec.action_dim, np.float32))
    folder = tmp_path / "policy"
    folder.mkdir()
    lerobot_policy.save(new_parts(LerobotShape(family="act", width=32, horizon=8, execute=4), state, action), folder)
    asked = [
        sys.executable, "-m", "lerobot.scripts.lerobot_eval", "--env.discover_packages_path=sim.lerobot_env",
        "--env.type=enpire", "--env.task=pin_insertion", f"--policy.path={folder}", "--policy.device=cpu",
        "--eval.n_episodes=2", "--eval.batch_size=2", f"--output_dir={tmp_path / 'out'}",
    ]  # fmt: skip
    surroundings = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(asked, capture_output=True, text=True, env=surroundings, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "out" / "eval_info.json").read_text())
    assert found["overall"]["n_episodes"] == 2
    assert found["overall"]["pc_success"] == 0.0


@pytest.mark.filterwarnings("ignore:.*symmetric and normalized:UserWarning")
def test_a_gymnasium_environment_steps_as_its_checker_wants() -> None:
    from gymnasium.utils.env_checker import check_env

    from sim.lerobot_env.environment import GYM_ID

    made = gymnasium.make(GYM_ID, task="pin_insertion")
    check_env(made.unwrapped, skip_render_check=True)
    made.close()
