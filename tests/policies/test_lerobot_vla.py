"""SmolVLA, pi0.5 and ACT with a camera: small ones that load without a hub, act, and learn from weighted windows."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lerobot")

import torch

from enpire.errors import LearningProblem, PolicyProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.plugins import load
from enpire.store import pictures, versions
from enpire.types import Observation
from policies import lerobot_files
from policies.lerobot_base import STATE
from policies.lerobot_files import LerobotManifest, Parts
from policies.lerobot_learner import LerobotHabc
from policies.lerobot_losses import has_row_losses, mean_loss, row_losses
from policies.lerobot_policy import LerobotPolicy, image_tensor, state_inputs
from tests.policies import tiny_pi05, tiny_smolvla
from tests.policies.installed import WITH_TRANSFORMERS
from tests.policies.recorded import driven, write

pytestmark = [WITH_TRANSFORMERS, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
CAMERA = "front"


def act() -> Parts:
    """LeRobot's ACT with a camera and a ResNet that begins with random weights."""
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

    config: Any = make_policy_config(
        "act", device="cpu", push_to_hub=False, chunk_size=8, n_action_steps=8, dim_model=16, n_heads=2,
        dim_feedforward=16, n_encoder_layers=1, n_vae_encoder_layers=1, latent_dim=4, pretrained_backbone_weights=None,
        input_features={
            STATE: PolicyFeature(type=FeatureType.STATE, shape=(3,)),
            f"observation.images.{CAMERA}": PolicyFeature(type=FeatureType.VISUAL, shape=(3, 32, 32)),
        },
        output_features={"action": PolicyFeature(type=FeatureType.ACTION, shape=(2,))},
    )  # fmt: skip
    torch.manual_seed(0)
    policy = get_policy_class("act")(config)
    statistics: Any = {
        STATE: {"mean": torch.zeros(3), "std": torch.ones(3)},
        "action": {"mean": torch.zeros(2), "std": torch.full((2,), 0.1)},
        f"observation.images.{CAMERA}": {"mean": torch.full((3, 1, 1), 0.5), "std": torch.full((3, 1, 1), 0.2)},
    }
    preprocessor, postprocessor = make_pre_post_processors(config, dataset_stats=statistics)
    return Parts(
        about=LerobotManifest(inputs={STATE: (0, 3)}, execute=4),
        policy=policy,
        preprocessor=preprocessor,
        postprocessor=postprocessor,
    )


@pytest.fixture(scope="module", params=["smolvla", "pi05", "act"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version of each family; what it was made from is gone."""
    made, spare = tmp_path_factory.mktemp("version"), tmp_path_factory.mktemp("spare")
    if request.param == "act":
        lerobot_files.save(act(), made)
    elif request.param == "smolvla":
        lerobot_files.save(tiny_smolvla.smolvla(spare), made)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(spare)
            tiny_pi05.tokenizer(spare)
            lerobot_files.save(tiny_pi05.pi05(), made)
    for path in sorted(spare.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    return made


def seen(rows: int) -> Observation:
    random = np.random.default_rng(rows)
    image = random.integers(0, 255, (rows, 40, 48, 3), np.uint8)
    return Observation(stamp_ns=0, state=random.normal(size=(rows, 3)).astype(np.float32), images={CAMERA: image})


def test_it_loads_without_a_hub_and_a_lane_decides_alike_in_any_company(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    versions.copy(folder, other)
    loader: Any = load("policies", str(versions.manifest(other)["kind"]))
    policy, again = loader(other), loader(folder)
    whole = seen(3)
    for lane in range(3):
        policy.begin(lane, seed=lane)
    chunks = policy.act(whole, np.arange(3))
    assert chunks.shape == (3, policy.horizon, 2)
    assert np.isfinite(chunks).all()
    again.begin(0, seed=2)
    alone = Observation(stamp_ns=0, state=whole.state[2:], images={CAMERA: whole.images[CAMERA][2:]})
    np.testing.assert_allclose(again.act(alone, np.array([0]))[0], chunks[2], atol=1e-5)
    blind = Observation(stamp_ns=0, state=whole.state, images={})
    with pytest.raises(PolicyProblem, match="needs the camera 'front'"):
        policy.act(blind, np.arange(3))


def test_what_is_saved_again_is_the_same(folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for place, source in ((first, folder), (second, first)):
        place.mkdir()
        lerobot_files.save(lerobot_files.load_parts(source), place)
    assert versions.identify(first) == versions.identify(second)


def minibatch(parts: Parts, rows: int) -> dict[str, torch.Tensor]:
    now = seen(rows)
    random = torch.Generator().manual_seed(1)
    asked: dict[str, Any] = {
        **state_inputs(parts.about, now.state),
        f"observation.images.{CAMERA}": image_tensor(now.images[CAMERA]),
        "task": [parts.about.task] * rows,
        "action": torch.randn((rows, len(parts.policy.config.action_delta_indices or ()), 2), generator=random),
    }
    ready = parts.preprocessor(asked)
    batch = {key: value for key, value in ready.items() if key.startswith("observation.") or key == "action"}
    return batch | {"action_is_pad": torch.zeros(batch["action"].shape[:2], dtype=torch.bool)}


def test_row_losses_are_lerobots_and_a_row_of_weight_0_gives_no_gradient(folder: Path) -> None:
    parts = lerobot_files.load_parts(folder)
    policy: Any = parts.policy
    policy.train()
    assert has_row_losses(policy)
    batch = minibatch(parts, 4)

    def losses(of: dict[str, torch.Tensor]) -> torch.Tensor:
        torch.manual_seed(5)
        return row_losses(policy, of)

    rows = losses(batch)
    assert rows.shape == (4,)
    torch.manual_seed(5)
    torch.testing.assert_close(rows.mean(), mean_loss(policy, batch))

    def slope(of: dict[str, torch.Tensor], weights: list[float]) -> torch.Tensor:
        policy.zero_grad()
        (torch.tensor(weights) * losses(of)).mean().backward()
        return torch.cat([p.grad.reshape(-1) for p in policy.parameters() if p.grad is not None])

    other = {**batch, "action": batch["action"].clone()}
    other["action"][1] += 3
    kept = [1.0, 0.0, 2.0, 1.0]
    torch.testing.assert_close(slope(batch, kept), slope(other, kept), rtol=1e-4, atol=1e-6)
    assert slope(batch, [0.0] * 4).abs().max() == 0
    assert slope(batch, [1.0] * 4).abs().max() > 0
    padded = {**batch, "action_is_pad": batch["action_is_pad"].clone()}
    padded["action_is_pad"][2, 3:] = True
    policy.eval()
    changed = {**padded, "action": padded["action"].clone()}
    changed["action"][2, 3:] = 7
    torch.testing.assert_close(losses(padded)[[0, 1, 3]], losses(changed)[[0, 1, 3]])


def job_of(folder: Path, root: Path, filmed: bool = True, **settings: object) -> ImprovementJob:
    """Ten short episodes with pictures beside them."""
    made = [write(root / "e", driven(seed, expert=seed < 3, round_=int(seed >= 3))) for seed in range(10)]
    for number, place in enumerate(made if filmed else []):
        ticks = json.loads((place / "episode.json").read_text())["episode"]["ticks"]
        random = np.random.default_rng(number)
        pictures.keep(
            place / pictures.NAME, ({CAMERA: random.integers(0, 255, (32, 32, 3), np.uint8)} for _ in range(ticks))
        )
    small: dict[str, object] = {
        "batch": 8, "least_steps": 6, "most_steps": 6, "critic_steps": 20, "critic_batch": 32, "critic_hidden": 16,
    }  # fmt: skip
    return ImprovementJob(
        recipe={"name": "test", "learner": "lerobot", "settings": small | settings}, task="point", parent=folder,
        episodes=made, work=root / "work", output=root / "out", round=1, seed=2,
    )  # fmt: skip


def weight_function(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_habc_improves_it_and_a_cut_run_goes_on_to_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    job = job_of(folder, tmp_path)
    metrics = LerobotHabc().improve(job, lambda _: None)
    assert np.isfinite(metrics["loss"])
    assert weight_function(job.output) != weight_function(folder)
    policy = LerobotPolicy(lerobot_files.load_parts(job.output))
    policy.begin(0, seed=1)
    assert policy.act(seen(1), np.array([0])).shape == (1, policy.horizon, 2)
    cut = replace(job, work=tmp_path / "w2", output=tmp_path / "o2")
    _cut_at("actor", cut, at=3)
    LerobotHabc().improve(cut, lambda _: None)
    assert versions.identify(cut.output) == versions.identify(job.output)


def _cut_at(stage: str, job: ImprovementJob, at: int) -> None:
    """Run a job with checkpoints and reports every `at` steps, and end it at the first of its stage."""
    from policies import lerobot_learner

    class WindowSpec(BaseException):
        pass

    def report(progress: Progress) -> None:
        if progress.stage == stage:
            raise WindowSpec

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lerobot_learner, "CHECKPOINT_STEPS", at)
        patch.setattr(lerobot_learner, "REPORT_STEPS", at)
        with pytest.raises(WindowSpec):
            LerobotHabc().improve(job, report)


def test_episodes_without_pictures_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LearningProblem, match="has no images of front"):
        LerobotHabc().improve(job_of(folder, tmp_path, filmed=False), lambda _: None)


def test_training_in_bfloat16_comes_near_and_keeps_weights_of_32_bits(folder: Path, tmp_path: Path) -> None:
    plain, half = job_of(folder, tmp_path / "a"), job_of(folder, tmp_path / "b", precision="bfloat16")
    exact, near = (LerobotHabc().improve(job, lambda _: None) for job in (plain, half))
    assert near["bfloat16"] == 1
    assert "bfloat16" not in exact
    assert near["loss"] != exact["loss"]
    assert near["loss"] == pytest.approx(exact["loss"], rel=0.1)
    tensors = lerobot_files.load_parts(half.output).policy.parameters()
    assert {value.dtype for value in tensors} == {torch.float32}


def test_weights_that_are_not_the_policys_are_refused(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for item in folder.iterdir():
        (tmp_path / item.name).write_bytes(item.read_bytes())
    table = load_file(tmp_path / "model.safetensors")
    gone = next(name for name in table if name.endswith("action_out_proj.weight") or "action_head.weight" in name)
    save_file({name: value for name, value in table.items() if name != gone}, tmp_path / "model.safetensors")
    with pytest.raises(PolicyProblem, match="weights|cannot load"):
        lerobot_files.load_parts(tmp_path)


def test_a_tokenizer_that_is_nowhere_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without: Callable[[str], bool] = lambda name: name.startswith("language.")  # noqa: E731
    if not any(without(item.name) for item in folder.iterdir()):
        pytest.skip("ACT reads no instruction")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "empty"))
    place = tmp_path / "version"
    place.mkdir()
    for item in folder.iterdir():
        if not without(item.name):
            data = item.read_bytes()
            hub = b'"HuggingFaceTB/SmolVLM2-500M-Video-Instruct"'
            (place / item.name).write_bytes(re.sub(rb'"/[^"]*spare\d*"', hub, data) if item.suffix == ".json" else data)
    with pytest.raises(PolicyProblem, match="tokenizer is neither"):
        lerobot_files.load_parts(place)
