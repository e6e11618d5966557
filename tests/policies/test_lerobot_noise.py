"""DSRL beside a frozen SmolVLA and a frozen pi0.5: the noise is chosen, the weights of the policy stay as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lerobot")
pytest.importorskip("transformers")

from enpire.errors import LearningProblem, PolicyProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.store import pictures, versions
from enpire.types import SOURCE_POLICY, EpisodeArrays, FloatArray, Observation
from policies import lerobot_files, lerobot_policy
from policies.lerobot_learner import LerobotHabc
from policies.lerobot_noise import FILE, LerobotNoise, SteeredLerobot
from policies.steered_learner import Dsrl
from policies.training_data import RecordedEpisode
from tests.policies import tiny_pi05, tiny_smolvla
from tests.policies.recorded import write

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
CAMERA, STATE_DIM = "front", 3
RL: dict[str, object] = {"batch": 64, "hidden": 32, "least_steps": 300, "most_steps": 300, "noises": 4}


@pytest.fixture(scope="module", params=["smolvla", "pi05"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version with random weights, as `lerobot_files.save` writes it."""
    made, spare = tmp_path_factory.mktemp("version"), tmp_path_factory.mktemp("spare")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(spare)
        if request.param == "smolvla":
            lerobot_files.save(tiny_smolvla.smolvla(spare), made)
        else:
            tiny_pi05.tokenizer(spare)
            lerobot_files.save(tiny_pi05.pi05(), made)
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


@pytest.fixture(scope="module")
def job(base: Path, tmp_path_factory: pytest.TempPathFactory) -> ImprovementJob:
    """One decision in each episode; a success is an action above the policy's own median."""
    root = tmp_path_factory.mktemp("job")
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
        recipe={"name": "test", "learner": "dsrl", "settings": RL}, task="point", parent=base, episodes=folders,
        work=root / "work", output=root / "out", round=1, seed=1,
    )  # fmt: skip


def test_the_noise_that_succeeds_is_found_and_the_policy_stays_as_it_is(job: ImprovementJob, base: Path) -> None:
    heard: list[Progress] = []
    metrics = Dsrl().improve(job, heard.append)
    assert {one.stage for one in heard} >= {"noise", "actor"}
    assert metrics["rewarded"] == 40
    steered = lerobot_policy.load(job.output)
    assert isinstance(steered, SteeredLerobot)
    fresh = range(1000, 1040)
    own = first_actions(lerobot_policy.load(base), fresh)
    assert (first_actions(steered, fresh) > np.median(own)).mean() >= 0.85
    for path in base.iterdir():
        same = (job.output / path.name).read_bytes() == path.read_bytes()
        assert same == (path.name != "policy.json"), path.name
    document = json.loads((job.output / "policy.json").read_text())
    assert document["kind"] == "lerobot"
    assert document["steering"] == {"reach": 2.0, "spread": 0.3}


def test_an_interrupted_run_asks_no_second_time_and_ends_with_the_same_bytes(
    job: ImprovementJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = (replace(job, work=tmp_path / name, output=tmp_path / f"{name}-out") for name in ("a", "b"))
    Dsrl().improve(whole, lambda _: None)

    class Cut(Exception):
        pass

    def end_it(progress: Progress) -> None:
        if progress.stage == "actor":
            raise Cut

    with pytest.raises(Cut):
        Dsrl().improve(cut, end_it)

    def refuse(*_: object) -> None:
        raise AssertionError("it asks the policy again")

    monkeypatch.setattr(LerobotNoise, "chunks_from", refuse)
    Dsrl().improve(cut, lambda _: None)
    assert versions.identify(cut.output) == versions.identify(whole.output)


def test_a_steered_version_continues_and_another_learner_takes_the_policy_in_it(
    job: ImprovementJob, tmp_path: Path
) -> None:
    first = replace(job, work=tmp_path / "w1", output=tmp_path / "o1")
    Dsrl().improve(first, lambda _: None)
    child = replace(job, parent=first.output, work=tmp_path / "w2", output=tmp_path / "o2", seed=2)
    Dsrl().improve(child, lambda _: None)
    assert (child.output / FILE).read_bytes() != (first.output / FILE).read_bytes()
    assert isinstance(lerobot_policy.load(child.output), SteeredLerobot)
    small = {"batch": 8, "least_steps": 2, "most_steps": 2, "critic_steps": 4, "critic_batch": 8, "critic_hidden": 8}
    recipe = {"name": "t", "learner": "lerobot", "settings": small}
    tuned = replace(child, parent=first.output, recipe=recipe, work=tmp_path / "w3", output=tmp_path / "o3")
    LerobotHabc().improve(tuned, lambda _: None)
    assert not (tuned.output / FILE).exists()
    assert not isinstance(lerobot_policy.load(tuned.output), SteeredLerobot)


def test_what_does_not_fit_is_refused(job: ImprovementJob, tmp_path: Path) -> None:
    made = replace(job, work=tmp_path / "w", output=tmp_path / "o")
    Dsrl().improve(made, lambda _: None)
    (made.output / FILE).write_bytes(b"nothing")
    with pytest.raises(PolicyProblem, match="steering.safetensors cannot be read"):
        lerobot_policy.load(made.output)


def test_a_policy_without_noise_is_named(tmp_path: Path, job: ImprovementJob) -> None:
    from tests.policies.test_lerobot_vla import act

    (tmp_path / "act").mkdir()
    lerobot_files.save(act(), tmp_path / "act")
    with pytest.raises(LearningProblem, match="LeRobot's act policy takes no noise from outside"):
        Dsrl().improve(replace(job, parent=tmp_path / "act", work=tmp_path / "w"), lambda _: None)
