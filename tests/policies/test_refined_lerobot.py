"""RLT beside a frozen SmolVLA and a frozen ACT: their chunks are refined, their weights stay as they are."""

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
from policies.lerobot_features import LerobotFeatures
from policies.lerobot_files import REFINING_FILE
from policies.refined_lerobot import RefinedLerobot
from policies.refining_learner import Rlt
from tests.policies.frozen_vla import first_actions, job_beside, seen, smolvla
from tests.policies.installed import WITH_TRANSFORMERS
from tests.policies.interrupted import asks_no_second_time

pytestmark = [WITH_TRANSFORMERS, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
RL: dict[str, object] = {"batch": 64, "hidden": 32, "least_steps": 300, "most_steps": 300, "references": 2}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ImprovementJob:
    made, spare = tmp_path_factory.mktemp("version"), tmp_path_factory.mktemp("spare")
    return job_beside(tmp_path_factory.mktemp("job"), smolvla(made, spare), "rlt", RL)


@pytest.fixture(scope="module")
def refined(job: ImprovementJob) -> ImprovementJob:
    """The job, after its run."""
    heard: list[Progress] = []
    metrics = Rlt().improve(job, heard.append)
    assert {one.stage for one in heard} >= {"asking", "actor"}
    assert metrics["rewarded"] == 40
    assert metrics["value_gain"] > 0
    return job


def test_the_chunks_improve_and_the_policy_stays_as_it_is(refined: ImprovementJob) -> None:
    base = refined.parent
    assert base is not None
    policy = lerobot_policy.load(refined.output)
    assert isinstance(policy, RefinedLerobot)
    fresh = range(1000, 1040)
    own = first_actions(lerobot_policy.load(base), fresh)
    assert (first_actions(policy, fresh) > np.median(own)).mean() >= 0.85
    for path in base.iterdir():
        same = (refined.output / path.name).read_bytes() == path.read_bytes()
        assert same == (path.name != "policy.json"), path.name
    document = json.loads((refined.output / "policy.json").read_text())
    assert (document["kind"], document["refining"]) == ("lerobot", {"spread": 0.05})
    assert "steering" not in document


def test_a_lane_gets_the_same_chunk_beside_others(refined: ImprovementJob) -> None:
    policy = lerobot_policy.load(refined.output)
    for lane in (0, 1):
        policy.begin(lane, 5 + lane)
    one, two = seen(1), seen(2)
    both = replace(
        one,
        state=np.concatenate([one.state, two.state]),
        images={name: np.concatenate([one.images[name], two.images[name]]) for name in one.images},
    )
    together = policy.act(both, np.array([0, 1]))
    policy.begin(1, 6)
    np.testing.assert_array_equal(policy.act(two, np.array([1]))[0], together[1])


def test_an_interrupted_run_asks_no_second_time_and_ends_with_the_same_bytes(
    refined: ImprovementJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = replace(refined, work=tmp_path / "w", output=tmp_path / "o")
    asks_no_second_time(Rlt(), cut, (LerobotFeatures, "chunks"), monkeypatch)
    assert versions.identify(cut.output) == versions.identify(refined.output)


def test_a_refined_version_continues_and_a_file_that_does_not_fit_is_refused(
    refined: ImprovementJob, tmp_path: Path
) -> None:
    child = replace(refined, parent=refined.output, work=tmp_path / "w", output=tmp_path / "o", seed=2)
    Rlt().improve(child, lambda _: None)
    assert (child.output / REFINING_FILE).read_bytes() != (refined.output / REFINING_FILE).read_bytes()
    assert isinstance(lerobot_policy.load(child.output), RefinedLerobot)
    (child.output / REFINING_FILE).write_bytes(b"nothing")
    with pytest.raises(PolicyProblem, match="refining.safetensors cannot be read"):
        lerobot_policy.load(child.output)


def test_act_exposes_features_too(tmp_path: Path, refined: ImprovementJob) -> None:
    from tests.policies.test_lerobot_vla import act

    (tmp_path / "act").mkdir()
    lerobot_files.save(act(), tmp_path / "act")
    job = job_beside(tmp_path / "job", tmp_path / "act", "rlt", RL | {"least_steps": 2, "most_steps": 2})
    Rlt().improve(job, lambda _: None)
    assert isinstance(lerobot_policy.load(job.output), RefinedLerobot)


def test_a_policy_that_sees_earlier_observations_is_named(tmp_path: Path, refined: ImprovementJob) -> None:
    (tmp_path / "two").mkdir()
    for path in refined.output.iterdir():
        (tmp_path / "two" / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "two" / "config.json").read_text()) | {"n_obs_steps": 2}
    (tmp_path / "two" / "config.json").write_text(json.dumps(config))
    with pytest.raises(LearningProblem, match="sees its last 2 observations"):
        Rlt().improve(replace(refined, parent=tmp_path / "two", work=tmp_path / "w"), lambda _: None)
