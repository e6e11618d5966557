"""The verifier `progress` with a reward model of another package, through LeRobot's own loader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lerobot")

import torch
from safetensors.torch import save_file

from enpire.errors import FileProblem, PolicyProblem, UsageError
from enpire.interfaces import Evidence
from enpire.types import EpisodeArrays
from enpire.verifiers import TASK_VERIFIER, UnanimousVerifier, VerifierSettings, is_slow, open_verifier
from policies.progress_verifier import ProgressVerifier
from sim.tasks.pin_insertion import PinInsertion

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
TASK = PinInsertion()
CAMERA = TASK.spec.cameras[0]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "glow"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"type": "glow", "gain": 1.0}))
    save_file({"scale": torch.tensor([0.9])}, folder / "model.safetensors")
    return folder


def settings(model: Path, **options: Any) -> VerifierSettings:
    module = "tests.fakes.reward_peer.configuration_glow"
    return VerifierSettings(
        name="progress",
        options={"model": str(model), "camera": CAMERA, "threshold": 0.5, "module": module, **options},
    )


def ended(brightness: int) -> Evidence:
    arrays = EpisodeArrays(
        state=np.zeros((2, TASK.spec.state_dim), np.float32), action=np.zeros((1, TASK.spec.action_dim), np.float32),
        source=np.zeros(1, np.uint8), chunk=np.zeros(1, np.int32),
    )  # fmt: skip
    return Evidence(arrays=arrays, images={CAMERA: np.full((8, 10, 3), brightness, np.uint8)})


def test_progress_above_the_threshold_is_a_success(model: Path) -> None:
    verifier = open_verifier(TASK, [settings(model)], measured=True)
    assert isinstance(verifier, ProgressVerifier)
    assert verifier.needs_images
    assert is_slow(verifier)
    bright, dark = verifier.judge(ended(255)), verifier.judge(ended(51))
    assert (bright.kind, dark.kind) == ("success", "failure")
    assert bright.confidence == pytest.approx(0.9, abs=1e-3), "the weights of the file"
    assert dark.confidence == pytest.approx(1 - 0.9 * 0.2, abs=1e-3)
    assert dark.reason == "progress 0.180, threshold 0.5"


def test_files_that_change_before_the_first_verdict_are_not_loaded(model: Path) -> None:
    verifier = open_verifier(TASK, [settings(model)], measured=True)
    save_file({"scale": torch.tensor([0.1])}, model / "model.safetensors")
    with pytest.raises(PolicyProblem, match="were changed after this verifier was made"):
        verifier.judge(ended(255))
    verifier = open_verifier(TASK, [settings(model)], measured=True)
    (model / "tokenizer.json").symlink_to("/etc/passwd")
    with pytest.raises(PolicyProblem, match=r"tokenizer\.json does not belong|were changed after"):
        verifier.judge(ended(255))


def test_it_does_not_judge_alone_and_may_judge_with_another(model: Path) -> None:
    with pytest.raises(UsageError, match="does not judge alone: name another verifier beside it, such as `task`"):
        open_verifier(TASK, [settings(model)])
    with pytest.raises(UsageError, match="does not judge alone"):
        open_verifier(TASK, [settings(model), settings(model, threshold=0.6)])
    both = open_verifier(TASK, [VerifierSettings(name=TASK_VERIFIER), settings(model)])
    assert isinstance(both, UnanimousVerifier)


def grades(path: Path, digest: str, changes: dict[str, Any] | None = None) -> str:
    measured = {"precision": {"successes": 100, "n": 100}, "recall": {"successes": 100, "n": 110}}
    found = {"task": TASK.spec.name, "digest": digest, "labelled_by": "people", "grades": [measured], **(changes or {})}
    path.write_text(json.dumps(found))
    return str(path)


def test_measured_on_labels_of_people_it_judges_alone(model: Path, tmp_path: Path) -> None:
    digest, path = open_verifier(TASK, [settings(model)], measured=True).digest, tmp_path / "grades.json"
    assert open_verifier(TASK, [settings(model, grades=grades(path, digest))]).digest == digest
    few = {"precision": {"successes": 60, "n": 60}, "recall": {"successes": 60, "n": 60}}
    wrong = {"precision": {"successes": 100, "n": 100}, "recall": {"successes": 80, "n": 100}}
    for changes, said in (
        ({"grades": [few]}, r"its precision is at least 94.0%.* 95% and 80% are needed"),
        ({"grades": [wrong]}, r"its recall at least 71.1%"),
        ({"labelled_by": "the simulator's truth"}, "not on labels of people"),
        ({"task": "push_t"}, "of another task"),
        ({"digest": "0" * 64}, "of another verifier"),
    ):
        with pytest.raises(UsageError, match=said):
            open_verifier(TASK, [settings(model, grades=grades(path, digest, changes))])
    for text in ("[]", "{}", '{"grades": []}'):
        path.write_text(text)
        with pytest.raises(FileProblem, match="is no report of `enpire verifier report --json`"):
            open_verifier(TASK, [settings(model, grades=str(path))])


def test_other_weights_another_threshold_or_question_are_another_verifier(model: Path) -> None:
    def digest(**options: Any) -> str:
        return open_verifier(TASK, [settings(model, **options)], measured=True).digest

    found = {digest(), digest(threshold=0.6), digest(question="Is the pin in?")}
    save_file({"scale": torch.tensor([0.8])}, model / "model.safetensors")
    found.add(digest())
    assert len(found) == 4


def test_what_cannot_be_is_one_sentence(model: Path) -> None:
    with pytest.raises(UsageError, match="looks through 'roof', but pin_insertion has the cameras"):
        open_verifier(TASK, [settings(model, camera="roof")], measured=True)
    with pytest.raises(FileProblem, match=r"threshold must lie in \(0, 1\), not 1.5"):
        open_verifier(TASK, [settings(model, threshold=1.5)], measured=True)
    with pytest.raises(PolicyProblem, match="is of type 'glow'; reward models of progress"):
        open_verifier(TASK, [settings(model, module="")], measured=True)
    (model / "config.json").write_text(json.dumps({"type": "glow", "gain": 5.0}))
    with pytest.raises(PolicyProblem, match=r"gave the progress 4.5.*; it must be in \[0, 1\]"):
        open_verifier(TASK, [settings(model)], measured=True).judge(ended(255))
    (model / "config.json").write_text(json.dumps({"type": "glow", "colour": "red"}))
    with pytest.raises(PolicyProblem, match="LeRobot cannot load the reward model"):
        open_verifier(TASK, [settings(model)], measured=True).judge(ended(255))
