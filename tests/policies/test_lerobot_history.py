"""Policies with several observation steps: what they look back on, and that HABC improves a stock one."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from enpire.interfaces import ImprovementJob
from enpire.types import SOURCE_HUMAN, SOURCE_POLICY, Observation
from policies.habc.segments import WindowSpec, cut
from policies.lerobot_history import observation_history
from tests.policies.recorded import driven, episode, write

TWO: Any = SimpleNamespace(n_obs_steps=2, action_delta_indices=list(range(-1, 7)))
ONE: Any = SimpleNamespace(action_delta_indices=list(range(8)))


def test_a_window_is_seen_as_at_the_decisions_before_it() -> None:
    held = [SOURCE_POLICY] * 8 + [SOURCE_HUMAN] * 8
    episodes = [episode(held, success=True, seed=0), episode(held[:6], success=True, seed=1)]
    windows = cut(episodes, WindowSpec(horizon=7, execute=4, stride=2))
    history = observation_history(windows, episodes, TWO, execute=4)
    assert len(history) == len(windows)
    for row, (index, tick) in enumerate(zip(windows.episode, windows.tick, strict=True)):
        arrays, before = episodes[index].arrays, max(tick - 4, 0)
        assert history.observations.tick[2 * row : 2 * row + 2].tolist() == [before, tick]
        np.testing.assert_array_equal(history.observations.state[2 * row : 2 * row + 2], arrays.state[[before, tick]])
        np.testing.assert_array_equal(history.chunk[row, 1:], windows.chunk[row])
        np.testing.assert_array_equal(history.mask[row, 1:], windows.mask[row])
        assert history.mask[row, 0] == (tick > 0)
        np.testing.assert_array_equal(history.chunk[row, 0], arrays.action[tick - 1] if tick else 0 * arrays.action[0])


def test_a_policy_without_a_history_sees_the_windows_themselves() -> None:
    episodes = [driven(seed, expert=True) for seed in range(3)]
    windows = cut(episodes, WindowSpec())
    history = observation_history(windows, episodes, ONE, execute=4)
    for found, own in (
        (history.observations.state, windows.state),
        (history.chunk, windows.chunk),
        (history.mask, windows.mask),
    ):
        np.testing.assert_array_equal(found, own)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(find_spec("lerobot") is None or find_spec("diffusers") is None, reason="needs lerobot[diffusion]")
def test_a_stock_diffusion_policy_is_improved(tmp_path: Path) -> None:
    from policies import lerobot_policy
    from policies.lerobot_learner import LerobotHabc

    taught = [write(tmp_path / "e", driven(seed, expert=True)) for seed in range(6)]
    own = [write(tmp_path / "e", driven(seed, expert=False, round_=1)) for seed in range(20, 32)]
    settings = {"batch": 32, "learning_rate": 1e-3, "critic_steps": 20, "critic_batch": 32, "critic_hidden": 16}
    job = ImprovementJob(
        recipe={"name": "test", "learner": "lerobot", "settings": settings | {"least_steps": 150, "most_steps": 150}},
        task="point", parent=_stock_diffusion(tmp_path / "stock"), episodes=[*taught, *own], work=tmp_path / "work",
        output=tmp_path / "out", round=1, seed=2,
    )  # fmt: skip
    LerobotHabc().improve(job, lambda _: None)
    wrong = [_error(lerobot_policy.load(folder)) for folder in (tmp_path / "stock", job.output)]
    assert wrong[1] < 0.5 * wrong[0]


def _error(policy: Any) -> float:
    """How far the commands of a policy are from the expert's on episodes that nobody learned from."""
    found: list[float] = []
    for seed in range(90, 92):
        arrays = driven(seed, expert=True).arrays
        policy.begin(0, seed=seed)
        for tick in range(0, len(arrays.action) - 4, 4):
            seen = Observation(stamp_ns=0, state=arrays.state[tick : tick + 1])
            chunk = policy.act(seen, np.array([0]))[0, :4]
            found.append(float(np.abs(chunk - arrays.action[tick : tick + 4]).mean()))
    return float(np.mean(found))


def _stock_diffusion(folder: Path) -> Path:
    """LeRobot's own Diffusion (n_obs_steps 2), narrow and quick, with the processors that LeRobot makes for it."""
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

    from policies import lerobot_files

    shape = PolicyFeature(type=FeatureType.STATE, shape=(3,))
    config: Any = make_policy_config(
        "diffusion", device="cpu", push_to_hub=False, horizon=8, n_action_steps=4, down_dims=(32, 64),
        diffusion_step_embed_dim=32, noise_scheduler_type="DDIM", num_inference_steps=10,
        input_features={
            "observation.state": shape,
            "observation.environment_state": replace(shape, type=FeatureType.ENV),
        },
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(2,))},
    )  # fmt: skip
    assert config.n_obs_steps == 2
    torch.manual_seed(0)
    policy = get_policy_class("diffusion")(config)
    ends = {"min": torch.full((3,), -1.0), "max": torch.full((3,), 1.0)}
    stats: Any = {
        "observation.state": ends,
        "observation.environment_state": ends,
        "action": {"min": torch.full((2,), -0.3), "max": torch.full((2,), 0.3)},
    }
    before, after = make_pre_post_processors(config, dataset_stats=stats)
    inputs = {"observation.state": (0, 3), "observation.environment_state": (0, 3)}
    about = lerobot_files.LerobotManifest(inputs=inputs, execute=4)
    folder.mkdir()
    lerobot_files.save(
        lerobot_files.Parts(about=about, policy=policy, preprocessor=before, postprocessor=after), folder
    )
    return folder
