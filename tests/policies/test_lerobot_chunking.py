"""LeRobot's real-time chunking behind our policies: a chunk goes on from what is still being carried out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lerobot")

from enpire.interfaces import ContinuesChunks
from enpire.types import Observation
from policies import lerobot_policy
from tests.policies import tiny_pi05, tiny_smolvla
from tests.policies.installed import WITH_TRANSFORMERS

pytestmark = [WITH_TRANSFORMERS, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NAN = np.float32(np.nan)
STATE_DIM, CAMERA = 3, "front"


@pytest.fixture(scope="module", params=["smolvla", "pi05"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, spare = tmp_path_factory.mktemp("version"), tmp_path_factory.mktemp("spare")
    if request.param == "smolvla":
        lerobot_policy.save(tiny_smolvla.smolvla(spare), made)
        return made
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(spare)
        tiny_pi05.tokenizer(spare)
        lerobot_policy.save(tiny_pi05.pi05(), made)
    return _told(made, tmp_path_factory.mktemp("told") / "pi05", num_inference_steps=6)


def seen(lanes: int) -> Observation:
    random = np.random.default_rng(3)
    picture = random.integers(0, 255, (lanes, 24, 32, 3), np.uint8)
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
    left = np.full_like(free, NAN)
    left[0, :8] = free[0, :8] + np.array([0.3, -0.6], np.float32)
    left[1, :3] = free[1, :3] - np.array([0.3, -0.6], np.float32)
    policy = policy_of(folder, 3)
    assert isinstance(policy, ContinuesChunks)
    along = policy.act_along(seen(3), lanes, left, delay=2)
    apart, before = np.abs(along - left), np.abs(free - left)
    # Commands that will be sent before the answer is here are met, up to LeRobot's largest guidance.
    assert (apart[:2, :2] < 0.25 * before[:2, :2]).all()
    # The last are met least, those behind the old chunk's end are the policy's own.
    kept = (apart[0, :8] / before[0, :8]).mean(axis=1)
    assert kept[7] > kept[:3].max()
    np.testing.assert_array_equal(along[2], free[2])


def test_with_nothing_left_it_decides_as_ever(folder: Path) -> None:
    lanes = np.arange(2)
    free = policy_of(folder, 2).act(seen(2), lanes)
    policy = policy_of(folder, 2)
    assert isinstance(policy, ContinuesChunks)
    for nothing in (np.full_like(free, NAN), free[:, :0]):
        for lane in range(2):
            policy.begin(lane, seed=lane)
        np.testing.assert_array_equal(policy.act_along(seen(2), lanes, nothing, delay=3), free)


def test_a_version_may_say_how_far_it_is_guided_or_that_it_is_not(folder: Path, tmp_path: Path) -> None:
    lanes = np.arange(1)
    free = policy_of(folder, 1).act(seen(1), lanes)
    left = free[:, :8] + np.array([0.3, -0.6], np.float32)
    for reach in (3, 8):
        policy = policy_of(_told(folder, tmp_path / f"{reach}", rtc_config={"execution_horizon": reach}), 1)
        assert isinstance(policy, ContinuesChunks)
        apart = np.abs(policy.act_along(seen(1), lanes, left, delay=1) - free)[0]
        assert (apart[:reach].max(axis=1) > 10 * apart[reach:].max(initial=0.0)).all() or reach == 8
        assert apart[3:6].max() > 0.1 or reach == 3
    assert not isinstance(policy_of(_told(folder, tmp_path / "off", rtc_config={"enabled": False}), 1), ContinuesChunks)


def _told(folder: Path, copy: Path, **told: object) -> Path:
    """The version with other settings in its config.json."""
    copy.mkdir()
    for item in folder.iterdir():
        (copy / item.name).write_bytes(item.read_bytes())
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps(config | told), encoding="utf-8")
    return copy
