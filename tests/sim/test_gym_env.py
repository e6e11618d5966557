"""Every task as a Gymnasium environment."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from enpire.errors import UsageError
from sim import gym_env
from sim.tasks.pin_insertion import PinInsertion


@pytest.mark.parametrize("name", sorted(gym_env.ENVIRONMENTS))
def test_the_checker_of_gymnasium_passes(name: str) -> None:
    made = gymnasium.make(name)
    check_env(made.unwrapped, skip_render_check=True)
    made.close()


def test_the_reward_is_the_verdict() -> None:
    made = gymnasium.make("enpire/PinInsertion-v0")
    task = PinInsertion()
    expert = task.clean_expert()
    state, _ = made.reset(options={"index": 3})
    expert.begin(0, 0)
    total, ended, info = 0.0, False, {}
    observation = task.rig(1, 0).observe()
    for _ in range(task.spec.limit_ticks):
        seen = type(observation)(stamp_ns=0, state=state[None])
        wish = expert.act(seen, np.array([0]))[0, 0] / 20.0
        state, reward, ended, cut, info = made.step(wish)
        total += float(reward)
        if ended or cut:
            break
    assert ended
    assert total == 1.0
    assert info["verdict"] == "success"
    made.close()


def test_a_step_before_reset_is_refused() -> None:
    env = gym_env.TaskEnv("pin_insertion")
    with pytest.raises(UsageError, match="reset"):
        env.step(np.zeros(3, dtype=np.float32))


@pytest.mark.parametrize("action", [0.0, np.zeros(2), np.zeros((3, 1)), np.zeros((1, 3))], ids=np.shape)
def test_an_action_of_another_shape_is_refused(action: float | np.ndarray) -> None:
    env = gym_env.TaskEnv("pin_insertion")
    env.reset(seed=0)
    with pytest.raises(UsageError, match=r"takes actions of shape \(3,\), each number in \[-1, 1\], not of shape"):
        env.step(action)  # pyright: ignore[reportArgumentType]
