"""DSRL beside a frozen SmolVLA and a frozen pi0.5: the noise is chosen, the weights of the policy stay as they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lerobot")

from enpire.errors import LearningProblem, PolicyProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.store import versions
from policies import lerobot_files, lerobot_policy
from policies.lerobot_files import STEERING_FILE
from policies.lerobot_learner import LerobotHabc
from policies.lerobot_noise import LerobotNoise, SteeredLerobot
from policies.steered_learner import Dsrl
from tests.policies import tiny_pi05
from tests.policies.frozen_vla import first_actions, job_beside, smolvla
from tests.policies.installed import WITH_TRANSFORMERS
from tests.policies.interrupted import asks_no_second_time

pytestmark = [WITH_TRANSFORMERS, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
RL: dict[str, object] = {"batch": 64, "hidden": 32, "least_steps": 300, "most_steps": 300, "noises": 4}


@pytest.fixture(scope="module", params=["smolvla", "pi05"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version with random weights, as `lerobot_files.save` writes it."""
    made, spare = tmp_path_factory.mktemp("version"), tmp_path_factory.mktemp("spare")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(spare)
        if request.param == "smolvla":
            smolvla(made, spare)
        else:
            tiny_pi05.tokenizer(spare)
            lerobot_files.save(tiny_pi05.pi05(), made)
    return made


@pytest.fixture(scope="module")
def job(base: Path, tmp_path_factory: pytest.TempPathFactory) -> ImprovementJob:
    return job_beside(tmp_path_factory.mktemp("job"), base, "dsrl", RL)


def test_the_noise_that_succeeds_is_found_and_the_policy_stays_as_it_is(job: ImprovementJob, base: Path) -> None:
    heard: list[Progress] = []
    metrics = Dsrl().improve(job, heard.append)
    assert {one.stage for one in heard} >= {"asking", "actor"}
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
    asks_no_second_time(Dsrl(), cut, (LerobotNoise, "chunks_from"), monkeypatch)
    assert versions.identify(cut.output) == versions.identify(whole.output)


def test_a_steered_version_continues_and_another_learner_takes_the_policy_in_it(
    job: ImprovementJob, tmp_path: Path
) -> None:
    first = replace(job, work=tmp_path / "w1", output=tmp_path / "o1")
    Dsrl().improve(first, lambda _: None)
    child = replace(job, parent=first.output, work=tmp_path / "w2", output=tmp_path / "o2", seed=2)
    Dsrl().improve(child, lambda _: None)
    assert (child.output / STEERING_FILE).read_bytes() != (first.output / STEERING_FILE).read_bytes()
    assert isinstance(lerobot_policy.load(child.output), SteeredLerobot)
    small = {"batch": 8, "least_steps": 2, "most_steps": 2, "critic_steps": 4, "critic_batch": 8, "critic_hidden": 8}
    recipe = {"name": "t", "learner": "lerobot", "settings": small}
    tuned = replace(child, parent=first.output, recipe=recipe, work=tmp_path / "w3", output=tmp_path / "o3")
    LerobotHabc().improve(tuned, lambda _: None)
    assert not (tuned.output / STEERING_FILE).exists()
    assert not isinstance(lerobot_policy.load(tuned.output), SteeredLerobot)


def test_what_does_not_fit_is_refused(job: ImprovementJob, tmp_path: Path) -> None:
    made = replace(job, work=tmp_path / "w", output=tmp_path / "o")
    Dsrl().improve(made, lambda _: None)
    (made.output / STEERING_FILE).write_bytes(b"nothing")
    with pytest.raises(PolicyProblem, match="steering.safetensors cannot be read"):
        lerobot_policy.load(made.output)


def test_a_policy_without_noise_is_named(tmp_path: Path, job: ImprovementJob) -> None:
    from tests.policies.test_lerobot_vla import act

    (tmp_path / "act").mkdir()
    lerobot_files.save(act(), tmp_path / "act")
    with pytest.raises(LearningProblem, match="LeRobot's act policy takes no noise from outside"):
        Dsrl().improve(replace(job, parent=tmp_path / "act", work=tmp_path / "w"), lambda _: None)
