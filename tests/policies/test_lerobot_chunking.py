"""LeRobot's real-time chunking behind our policies: a chunk goes on from what is still being carried out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lerobot")
pytest.importorskip("transformers")

from enpire.interfaces import Continues
from enpire.types import Observation
from policies import lerobot_policy
from tests.policies.tiny_smolvla import ACTION_DIM, CAMERA, CHUNK, EXECUTE, SIZE_PX, STATE_DIM, smolvla

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NAN = np.float32(np.nan)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("version")
    lerobot_policy.save(smolvla(tmp_path_factory.mktemp("backbone")), made)
    return made


def seen(lanes: int) -> Observation:
    random = np.random.default_rng(3)
    picture = random.integers(0, 255, (lanes, SIZE_PX, SIZE_PX, 3), np.uint8)
    state = random.normal(size=(lanes, STATE_DIM)).astype(np.float32)
    return Observation(stamp_ns=0, state=state, images={CAMERA: picture})


def policy_of(folder: Path, lanes: int) -> lerobot_policy.LerobotPolicy:
    policy = lerobot_policy.load(folder)
    for lane in range(lanes):
        policy.begin(lane, seed=lane)
    return policy


def test_a_chunk_is_drawn_towards_what_is_left_and_least_at_its_end(folder: Path) -> None:
    lanes = np.arange(3)
    free = policy_of(folder, 3).act(seen(3), lanes)
    assert free.shape == (3, CHUNK, ACTION_DIM)
    left = np.full((3, CHUNK, ACTION_DIM), NAN)
    left[0, :8] = free[0, :8] + np.array([0.3, -0.6], np.float32)
    left[1, :3] = free[1, :3] - np.array([0.3, -0.6], np.float32)
    policy = policy_of(folder, 3)
    assert isinstance(policy, Continues)
    along = policy.act_along(seen(3), lanes, left, delay=2)
    apart, before = np.abs(along - left), np.abs(free - left)
    # Commands that will be sent before the answer is here are met, up to LeRobot's largest guidance.
    assert (apart[:2, :2] < 0.25 * before[:2, :2]).all()
    # Later ones are met less and less, those behind the old chunk's end are the policy's own.
    kept = (apart[0, :8] / before[0, :8]).mean(axis=1)
    assert kept[7] > kept[2] > kept[0]
    np.testing.assert_array_equal(along[2], free[2])


def test_with_nothing_left_it_decides_as_ever(folder: Path) -> None:
    lanes = np.arange(2)
    free = policy_of(folder, 2).act(seen(2), lanes)
    policy = policy_of(folder, 2)
    assert isinstance(policy, Continues)
    for nothing in (np.full((2, CHUNK, ACTION_DIM), NAN), np.zeros((2, 0, ACTION_DIM), np.float32)):
        for lane in range(2):
            policy.begin(lane, seed=lane)
        np.testing.assert_array_equal(policy.act_along(seen(2), lanes, nothing, delay=EXECUTE), free)


def test_a_version_may_say_how_far_it_is_guided_or_that_it_is_not(folder: Path, tmp_path: Path) -> None:
    lanes, left = np.arange(1), np.zeros((1, CHUNK, ACTION_DIM), np.float32)
    chunks = {}
    for name, told in {"short": {"execution_horizon": 3}, "long": {"execution_horizon": 12}}.items():
        policy = policy_of(_told(folder, tmp_path / name, told), 1)
        assert isinstance(policy, Continues)
        chunks[name] = policy.act_along(seen(1), lanes, left, delay=1)
    assert np.abs(chunks["long"][0, 4:8]).max() < np.abs(chunks["short"][0, 4:8]).max()
    assert not isinstance(policy_of(_told(folder, tmp_path / "off", {"enabled": False}), 1), Continues)


def _told(folder: Path, copy: Path, told: Mapping[str, object]) -> Path:
    """The version with another `rtc_config`."""
    copy.mkdir()
    for item in folder.iterdir():
        (copy / item.name).write_bytes(item.read_bytes())
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps(config | {"rtc_config": told}), encoding="utf-8")
    return copy
