"""Episodes of one decision, of a small policy with random weights that a network beside it improves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from enpire.interfaces import ImprovementJob
from enpire.store import pictures
from enpire.types import SOURCE_POLICY, EpisodeArrays, FloatArray, Observation
from policies import lerobot_files, lerobot_policy
from policies.training_data import RecordedEpisode
from tests.policies import tiny_smolvla
from tests.policies.recorded import write

CAMERA, STATE_DIM = "front", 3


def smolvla(made: Path, spare: Path) -> Path:
    """A version in the folder `made`."""
    lerobot_files.save(tiny_smolvla.smolvla(spare), made)
    return made


def seen(seed: int) -> Observation:
    random = np.random.default_rng(seed)
    image = random.integers(0, 255, (1, 16, 16, 3), np.uint8)
    return Observation(stamp_ns=0, state=random.normal(size=(1, STATE_DIM)).astype(np.float32), images={CAMERA: image})


def first_actions(policy: lerobot_policy.LerobotPolicy, seeds: Sequence[int]) -> FloatArray:
    """The mean first number of the executed actions, for one observation of each seed."""
    found: list[float] = []
    for seed in seeds:
        policy.begin(0, seed)
        found.append(float(policy.act(seen(seed), np.array([0]))[0, : policy.execute, 0].mean()))
    return np.array(found)


def job_beside(root: Path, base: Path, learner: str, settings: dict[str, object]) -> ImprovementJob:
    """One decision in each of 80 episodes; a success is an action above the policy's own median."""
    policy, seeds = lerobot_policy.load(base), range(80)
    middle, folders = float(np.median(first_actions(policy, seeds))), list[Path]()
    for seed in seeds:
        policy.begin(0, seed)
        now = seen(seed)
        action = policy.act(now, np.array([0]))[0, : policy.execute]
        arrays = EpisodeArrays(
            state=np.repeat(now.state, policy.execute + 1, axis=0), action=action,
            source=np.full(policy.execute, SOURCE_POLICY, np.uint8), chunk=np.zeros(policy.execute, np.int32),
        )  # fmt: skip
        good = float(action[:, 0].mean()) > middle
        folder = write(
            root / "e",
            RecordedEpisode(order_id=f"n{seed}", round=1, success=good, supervised=False, arrays=arrays),
        )
        pictures.keep(folder / pictures.NAME, ({CAMERA: now.images[CAMERA][0]} for _ in range(policy.execute)))
        folders.append(folder)
    return ImprovementJob(
        recipe={"name": "test", "learner": learner, "settings": settings}, task="point", parent=base, episodes=folders,
        work=root / "work", output=root / "out", round=1, seed=1,
    )  # fmt: skip
