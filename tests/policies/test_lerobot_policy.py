"""LeRobot policies: made here with random weights, loaded without a hub, batched, weighted, improved."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("lerobot")

import torch

from enpire.errors import FileProblem, LearningProblem, PolicyProblem
from enpire.files import parse
from enpire.interfaces import ImprovementJob, Progress
from enpire.plugins import load
from enpire.store import versions
from enpire.types import Observation
from policies import lerobot_policy
from policies.lerobot_base import LerobotShape, new_parts
from policies.lerobot_learner import LerobotHabc
from policies.lerobot_losses import mean_loss, row_losses
from policies.lerobot_policy import Parts
from policies.lerobot_sac import LerobotSac, SacSettings, networks
from policies.normalise import Scale
from policies.replay import replay_of
from policies.training_data import read_episodes
from tests.policies.recorded import driven, write

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
Family = Literal["act", "diffusion"]
NO_DIFFUSERS = pytest.mark.skipif(find_spec("diffusers") is None, reason="LeRobot's diffusion needs diffusers")
FAMILIES = ("act", pytest.param("diffusion", marks=NO_DIFFUSERS))


def parts_of(family: Family, seed: int = 0) -> Parts:
    torch.manual_seed(seed)
    state = Scale(mean=np.array([0.1, -0.2, 0.5], np.float32), spread=np.array([0.5, 0.6, 0.3], np.float32))
    action = Scale(mean=np.zeros(2, np.float32), spread=np.array([0.1, 0.2], np.float32))
    return new_parts(LerobotShape(family=family, width=32, horizon=8, execute=4), state, action)


@pytest.fixture(params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / "version"
    made.mkdir()
    lerobot_policy.save(parts_of(request.param), made)
    return made


def seen(rows: np.ndarray) -> Observation:
    return Observation(stamp_ns=0, state=rows.astype(np.float32))


def test_a_folder_loads_by_its_kind_and_decides_for_many_lanes_as_for_one(folder: Path) -> None:
    loader: Any = load("policies", str(versions.manifest(folder)["kind"]))
    policy, again = loader(folder), loader(folder)
    assert (policy.horizon, policy.execute) == (8, 4)
    states = np.random.default_rng(0).normal(size=(11, 3))
    for lane in range(11):
        policy.begin(lane, seed=lane)
    chunks = policy.act(seen(states), np.arange(11))
    assert chunks.shape == (11, 8, 2)
    assert np.isfinite(chunks).all()
    for lane in (0, 7, 10):
        again.begin(2, seed=lane)
        np.testing.assert_array_equal(again.act(seen(states[lane : lane + 1]), np.array([2]))[0], chunks[lane])


def test_versions_that_think_at_once_draw_the_noise_that_each_draws_alone(folder: Path) -> None:
    two = [lerobot_policy.load(folder) for _ in range(2)]

    def chunks(number: int) -> np.ndarray:
        found: list[np.ndarray] = []
        for seed in range(40):
            two[number].begin(0, seed=100 * number + seed)
            found.append(two[number].act(seen(np.ones((1, 3))), np.array([0])))
        return np.concatenate(found)

    alone = [chunks(0), chunks(1)]
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(chunks, (0, 1)))
    np.testing.assert_array_equal(together, alone)


def test_a_version_is_plain_files_and_travels(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    files = {item.name: item.read_bytes() for item in folder.iterdir() if item.is_file()}
    other.mkdir()
    for name, content in files.items():
        (other / name).write_bytes(content)
    versions.copy(other, tmp_path / "third")
    assert versions.identify(other) == versions.identify(tmp_path / "third")
    left, right = lerobot_policy.load(other), lerobot_policy.load(tmp_path / "third")
    for policy in (left, right):
        policy.begin(0, seed=1)
    row = np.ones((1, 3))
    np.testing.assert_array_equal(left.act(seen(row), np.array([0])), right.act(seen(row), np.array([0])))


@pytest.mark.parametrize("family", FAMILIES)
def test_row_losses_are_lerobots_loss_row_by_row(family: Family) -> None:
    policy: Any = parts_of(family).policy
    policy.train()
    random = torch.Generator().manual_seed(1)
    state = torch.randn((6, 3), generator=random)
    if family == "diffusion":
        state = state[:, None]
    batch = {
        "observation.state": state,
        "observation.environment_state": state,
        "action": torch.randn((6, 8, 2), generator=random),
        "action_is_pad": torch.zeros((6, 8), dtype=torch.bool),
    }
    torch.manual_seed(5)
    rows = row_losses(policy, batch)
    torch.manual_seed(5)
    whole = mean_loss(policy, batch)
    assert rows.shape == (6,)
    torch.testing.assert_close(rows.mean(), whole)
    batch["action_is_pad"][2, 3:] = True
    changed = batch | {"action": batch["action"].clone()}
    changed["action"][2, 3:] = 77.0
    if family == "act":
        # The variational encoder of ACT masks padded actions itself; the decoder's error must too.
        policy.eval()
    torch.manual_seed(5)
    first = row_losses(policy, batch)
    torch.manual_seed(5)
    second = row_losses(policy, changed)
    kept = [0, 1, 3, 4, 5]
    torch.testing.assert_close(first[kept], second[kept])


def job_in(root: Path, family: str, **settings: object) -> ImprovementJob:
    taught = [write(root / "e", driven(seed, expert=True)) for seed in range(6)]
    own = [write(root / "e", driven(seed, expert=False, round_=1)) for seed in range(20, 40)]
    small: dict[str, object] = {
        "family": family, "width": 32, "batch": 32, "least_steps": 30, "most_steps": 30, "critic_steps": 40,
        "critic_batch": 64, "critic_hidden": 32,
    }  # fmt: skip
    return ImprovementJob(
        recipe={"name": "test", "learner": "lerobot", "settings": small | settings},
        task="point",
        parent=None,
        episodes=[*taught, *own],
        work=root / "work",
        output=root / "out",
        round=1,
        seed=2,
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_habc_improves_a_lerobot_policy_deterministically(family: Family, tmp_path: Path) -> None:
    base = job_in(tmp_path, family)
    metrics = dict(LerobotHabc().improve(base, lambda _: None))
    assert np.isfinite(metrics["loss"])
    assert metrics["n_success"] > 0
    child = replace(base, parent=base.output, work=tmp_path / "w1", output=tmp_path / "o1")
    LerobotHabc().improve(child, lambda _: None)
    twin = replace(child, work=tmp_path / "w2", output=tmp_path / "o2")
    LerobotHabc().improve(twin, lambda _: None)
    assert versions.identify(child.output) == versions.identify(twin.output)
    assert versions.identify(child.output) != versions.identify(base.output)
    drawn = job_in(tmp_path / "d", family, weights="draw")
    LerobotHabc().improve(drawn, lambda _: None)
    policy = lerobot_policy.load(drawn.output)
    policy.begin(0, seed=0)
    assert policy.act(seen(np.zeros((1, 3))), np.array([0])).shape == (1, 8, 2)


def test_training_of_a_lerobot_policy_may_end_early(tmp_path: Path) -> None:
    wild = {"early_stop": 2, "learning_rate": 0.05, "least_steps": 3000, "most_steps": 3000, "batch": 8}
    metrics = LerobotHabc().improve(job_in(tmp_path, "act", **wild), lambda _: None)
    assert metrics["steps"] < 3000
    assert metrics["held_out_lowest"] <= metrics["held_out_loss"]


def test_a_run_that_diverged_makes_no_version_when_it_is_begun_again(tmp_path: Path) -> None:
    job = job_in(tmp_path, "act", learning_rate=1e30)
    for _ in range(2):
        with pytest.raises(LearningProblem, match="lower learning_rate"):
            LerobotHabc().improve(job, lambda _: None)
    assert not job.output.exists()


def test_a_recipe_fits_the_policy_that_it_improves(folder: Path, tmp_path: Path) -> None:
    job = replace(job_in(tmp_path, "act", width=96), parent=folder)
    with pytest.raises(LearningProblem, match="The recipe's width is 96, the parent's 32"):
        LerobotHabc().improve(job, lambda _: None)
    document = json.loads((folder / "policy.json").read_text())
    (folder / "policy.json").write_text(json.dumps(document | {"execute": 9}))
    with pytest.raises(LearningProblem, match="policy.json says execute 9; its chunks allow 1 to 8"):
        LerobotHabc().improve(replace(job_in(tmp_path, "act", width=32), parent=folder), lambda _: None)


def test_what_does_not_fit_is_named(folder: Path) -> None:
    policy = lerobot_policy.load(folder)
    with pytest.raises(PolicyProblem, match="call begin"):
        policy.act(seen(np.zeros((1, 3))), np.array([0]))
    policy.begin(0, seed=0)
    with pytest.raises(PolicyProblem, match="the state has 2; correct"):
        policy.act(seen(np.zeros((1, 2))), np.array([0]))
    (folder / "config.json").unlink()
    with pytest.raises(PolicyProblem, match="lacks config.json"):
        lerobot_policy.load(folder)


def test_sac_with_demonstrations_goes_on_from_round_to_round(tmp_path: Path) -> None:
    small = {"batch": 32, "hidden": 16, "critic_updates": 1, "least_steps": 260, "most_steps": 260}
    job = job_in(tmp_path, "act")
    job = replace(job, recipe={"name": "test", "learner": "lerobot_sac", "settings": small}, parent=None)
    metrics = LerobotSac().improve(job, lambda _: None)
    assert 0 < metrics["people"] < 1
    assert np.isfinite(metrics["loss_critic"])
    policy = lerobot_policy.load(job.output)
    assert (policy.horizon, policy.execute) == (3, 3)
    policy.begin(0, seed=3)
    policy.begin(1, seed=3)
    both = policy.act(seen(np.zeros((2, 3))), np.array([0, 1]))
    assert both.shape == (2, 3, 2)
    np.testing.assert_array_equal(both, np.broadcast_to(both[:1, :1], both.shape))
    twin = replace(job, work=tmp_path / "w2", output=tmp_path / "o2")

    def cut(progress: Progress) -> None:
        if progress.done == 250:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LerobotSac().improve(twin, cut)
    LerobotSac().improve(twin, lambda _: None)
    assert versions.identify(twin.output) == versions.identify(job.output)
    child = replace(job, parent=job.output, work=tmp_path / "w3", output=tmp_path / "o3")
    LerobotSac().improve(child, lambda _: None)
    assert versions.identify(child.output) != versions.identify(job.output)


def test_sac_learns_by_what_is_new_since_its_parent(tmp_path: Path) -> None:
    job = job_in(tmp_path, "act")
    small = {"batch": 32, "hidden": 16, "updates": 0.05, "least_steps": 2}
    job = replace(job, recipe={"name": "test", "learner": "lerobot_sac", "settings": small}, parent=None)
    lived = [item for item in read_episodes(job.episodes) if not item.demonstration]
    metrics = LerobotSac().improve(job, lambda _: None)
    assert metrics["steps"] == math.ceil(0.05 * len(replay_of(lived, 3)))
    again = replace(job, parent=job.output, work=tmp_path / "w2", output=tmp_path / "o2")
    assert LerobotSac().improve(again, lambda _: None)["steps"] == 2


def test_sac_aims_at_returns_that_can_be(tmp_path: Path) -> None:
    job = job_in(tmp_path, "act")
    replay = replay_of(read_episodes(job.episodes), 3)
    _, algorithm, _ = networks(replace(job, parent=None), SacSettings(hidden=16), replay)
    states, actions = torch.zeros(5, 3), torch.zeros(5, 2)
    for excess, expected in ((7.0, 1.0), (-7.0, 0.0)):
        for head in algorithm.critic_target.critics:
            torch.nn.init.constant_(head.output_layer.bias, 1e3 * excess)
        assert (algorithm.critic_target({"observation.state": states}, actions) == expected).all()
    assert not algorithm.config.use_backup_entropy
    with pytest.raises(FileProblem, match="critic_updates"):
        parse(SacSettings, {"critic_updates": 0}, "a recipe")


def test_no_success_and_no_demonstration_is_refused(tmp_path: Path) -> None:
    job = job_in(tmp_path, "act")
    failed = [
        write(tmp_path / "f", replace(driven(seed, expert=False, round_=1), success=False)) for seed in range(70, 74)
    ]
    with pytest.raises(LearningProblem, match="No window may be imitated"):
        LerobotHabc().improve(replace(job, episodes=failed), lambda _: None)
