"""The one lockstep rollout: which start runs where, what the policy sees, and a gate on policies that need images."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.errors import PolicyProblem, UsageError
from enpire.offline.rollouts import RolloutLoop
from enpire.store import durable
from enpire.types import FloatArray, ImageArray, IntArray, Observation
from sim import cameras
from sim.rollouts import roll_out
from sim.tasks.push_t import PushT
from tests.policies.tiny_act import write_act
from tests.sim.task_check.reach import Reach

MODULE = "tests.enpire.offline.test_rollouts"
RENDERS = pytest.mark.skipif(bool(cameras.why_no_images()), reason="this machine renders no images")


class ShortPushT(PushT):
    """Push-T with a time limit of six periods."""

    spec = replace(PushT.spec, limit_ticks=6)


class Seeing:
    """Steers by the brightness of the first row of its images, refuses to act without images, and keeps what it saw."""

    horizon, execute = 2, 2

    def __init__(self, folder: Path | None = None, needs_images: bool = True) -> None:
        self.needs_images = needs_images
        self.seen: list[tuple[list[int], Mapping[str, ImageArray]]] = []

    def begin(self, lane: int, seed: int) -> None:
        """Nothing to forget."""

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        assert len(observation.state) == len(lanes)
        self.seen.append((lanes.tolist(), observation.images))
        speed = np.zeros(len(lanes))
        if self.needs_images:
            if "top" not in observation.images:
                raise PolicyProblem("this policy looks through the camera 'top', which it did not get.")
            speed = observation.images["top"][:, 0].mean(axis=(1, 2))
        return np.broadcast_to(speed[:, None, None], (len(lanes), self.horizon, 2)).astype(np.float32)


def test_starts_beyond_the_lanes_wait_and_come_back_in_their_order() -> None:
    task = Reach()
    starts = [task.start("train", index, b"") for index in range(7)]
    many = RolloutLoop(task, task.rig(3, 0)).run(task.expert(0), starts)
    assert [done.start for done in many] == starts
    alone = [RolloutLoop(task, task.rig(1, 0)).run(task.expert(0), [start])[0] for start in starts]
    for one, other in zip(many, alone, strict=True):
        assert np.array_equal(one.arrays.state, other.arrays.state)
        assert np.array_equal(one.arrays.action, other.arrays.action)
        assert one.verdict == other.verdict
        assert len(one.arrays.state) == one.ticks + 1
        assert one.success


def test_a_graded_rollout_needs_a_lane_of_its_own() -> None:
    task = Reach()
    with pytest.raises(UsageError, match="3 starts need as many lanes, and this rig has 2"):
        roll_out(task, task.rig(2, 0), task.expert(0), [task.start("train", index, b"") for index in range(3)])


@RENDERS
def test_a_policy_gets_the_images_of_the_lanes_that_decide() -> None:
    task, policy = ShortPushT(), Seeing()
    rig = task.rig(2, 0)
    done = RolloutLoop(task, rig).run(policy, [task.start("train", index, b"") for index in range(2)])
    assert [lanes for lanes, _ in policy.seen] == [[0, 1]] * 3, "one decision for two periods"
    first, last = policy.seen[0][1], policy.seen[-1][1]
    assert set(first) == set(task.spec.cameras)
    assert all(rows.shape == (2, 224, 224, 3) and rows.dtype == np.uint8 for rows in first.values())
    assert not np.array_equal(first["top"][0], first["top"][1])
    assert not np.array_equal(first["top"], last["top"]), "the images are of now"
    assert all(one.images == {} for one in done), "the verifier of Push-T needs no images"


@RENDERS
def test_a_policy_that_needs_no_images_gets_none() -> None:
    task, policy = ShortPushT(), Seeing(needs_images=False)
    RolloutLoop(task, task.rig(1, 0)).run(policy, [task.start("train", 0, b"")])
    assert all(images == {} for _, images in policy.seen)


def gate(home: Path, champion: Path, candidate: Path) -> dict[str, object]:
    words = ["gate", champion, candidate, "--task", f"{MODULE}:ShortPushT", "--pairs", 4, "--lanes", 2, "--seed", 3]
    words += ["--allow-kind", f"{MODULE}:Seeing"]
    result = CliRunner().invoke(app, [*map(str, words), "--home", str(home), "--json"])
    assert result.exit_code == 3, result.output
    return json.loads(result.stdout)


@RENDERS
def test_a_gate_feeds_images_to_policies_that_need_them(tmp_path: Path) -> None:
    for name in ("one", "other"):
        durable.make_folder(tmp_path / name)
        durable.write(tmp_path / name / "policy.json", json.dumps({"kind": f"{MODULE}:Seeing"}).encode())
    decision = gate(tmp_path, tmp_path / "one", tmp_path / "other")
    assert decision["decision"] == "hold"


@RENDERS
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_gate_compares_two_policies_of_lerobot_that_look_through_a_camera(tmp_path: Path) -> None:
    pytest.importorskip("lerobot")
    one, other = (write_act(tmp_path / name, "top", (224, 224), 11, spread) for name, spread in
                  (("one", 5.0), ("other", 50.0)))  # fmt: skip
    decision = gate(tmp_path, one, other)
    assert decision["decision"] == "hold"
