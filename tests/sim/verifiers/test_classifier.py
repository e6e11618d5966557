"""The image classifier: trained on labelled pictures, written, read back, and refused where it does not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from enpire.errors import FileProblem, UsageError
from enpire.interfaces import Evidence
from enpire.store import arrays as arrays_file
from enpire.store import pictures
from enpire.types import EpisodeArrays
from enpire.verifiers import TASK_VERIFIER, VerifierSettings
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.push_t import PushT
from sim.verifiers.classifier import Classifier, ClassifierInfo, TrainingSettings, network, open_verifier, small, train
from sim.verifiers.examples import Example, sorted_by_hand
from sim.verifiers.grading import report

ARRAYS = EpisodeArrays(
    state=np.zeros((3, 11), np.float32), action=np.zeros((2, 2), np.float32), source=np.zeros(2, np.uint8),
    chunk=np.zeros(2, np.int32),
)  # fmt: skip


def pictured(rng: np.random.Generator, *, success: bool) -> Example:
    """Something bright lies in the middle of a success and in a corner of a failure, in any light."""
    images = {}
    for camera in ("top", "side"):
        picture = np.full((224, 224, 3), 90.0)
        at = 112 if success else 40
        x, y = rng.integers(-8, 8, 2) + at
        picture[y - 20 : y + 20, x - 20 : x + 20] = 200
        images[camera] = np.clip(picture * rng.uniform(0.6, 1.2) + rng.normal(0, 3, picture.shape), 0, 255).astype(
            np.uint8
        )
    return Example(evidence=Evidence(arrays=ARRAYS, images=images), success=success)


def test_it_learns_to_tell_pictures_apart_and_is_the_same_when_read_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    examples = [pictured(rng, success=index % 3 != 0) for index in range(60)]
    made = train(PushT(), examples, TrainingSettings(epochs=6))
    fresh = [pictured(rng, success=index % 2 == 0) for index in range(20)]
    said = [made.judge(example.evidence).kind == "success" for example in fresh]
    assert said == [example.success for example in fresh]
    made.write(tmp_path / "seen")
    again = open_verifier(PushT(), {"folder": str(tmp_path / "seen")})
    assert again.digest == made.digest
    assert again.judge(fresh[0].evidence) == made.judge(fresh[0].evidence)
    one = {"top": fresh[0].evidence.images["top"]}
    with pytest.raises(UsageError, match="pictures of side"):
        again.judge(Evidence(arrays=ARRAYS, images=one))
    mixed = {"top": fresh[0].evidence.images["top"], "side": fresh[1].evidence.images["side"]}
    assert again.judge(Evidence(arrays=ARRAYS, images=mixed)).kind == "failure", "both views must agree"
    with pytest.raises(FileProblem, match="is of push_t, not of pin_insertion"):
        open_verifier(PinInsertion(), {"folder": str(tmp_path / "seen")})
    with pytest.raises(FileProblem, match="holds no classifier"):
        open_verifier(PushT(), {"folder": str(tmp_path)})


def test_what_nobody_can_learn_from_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="no pictures"):
        train(PushT(), [Example(evidence=Evidence(arrays=ARRAYS, images={}), success=True)])
    with pytest.raises(UsageError, match="at least ten examples of each kind"):
        train(PushT(), [pictured(rng, success=True) for _ in range(10)])
    lacking = replace(pictured(rng, success=True), evidence=Evidence(arrays=ARRAYS, images={}), name="e1.npz")
    with pytest.raises(UsageError, match=r"The example e1\.npz has no picture of side, and others do"):
        train(PushT(), [lacking, pictured(rng, success=False)])


@pytest.mark.parametrize("each", [10, 15, 23])
def test_examples_in_any_order_are_enough_from_ten_of_each_on_and_pictures_may_be_small(each: int) -> None:
    rng = np.random.default_rng(0)
    examples = [shrunk(pictured(rng, success=index % 5 == 0)) for index in range(5 * each)]
    found = [one for one in examples if one.success] + [one for one in examples if not one.success][:each]
    made = train(PushT(), found, TrainingSettings(epochs=1))
    assert np.isfinite(made.probabilities([one.evidence.images for one in found])).all()


def shrunk(example: Example) -> Example:
    images = {camera: np.asarray(Image.fromarray(one).resize((60, 50))) for camera, one in
              example.evidence.images.items()}  # fmt: skip
    return replace(example, evidence=Evidence(arrays=ARRAYS, images=images))


def test_the_whole_picture_is_seen_whatever_its_size() -> None:
    for size in ((60, 50), (200, 200), (224, 224), (480, 640)):
        picture = np.zeros((*size, 3), np.uint8)
        picture[-size[0] // 8 :, -size[1] // 8 :] = 200
        assert small(picture)[:, -10:, -10:].min() > 2.0
        assert small(picture)[:, :90, :90].max() < 0.0


def test_weights_that_are_broken_or_of_another_network_are_refused(tmp_path: Path) -> None:
    facts = ClassifierInfo(task="push_t", cameras=("top",), threshold=0.5, examples=0)
    Classifier(PushT(), facts, {"top/0.weight": np.zeros((2, 2), np.float32)}).write(tmp_path)
    images = {"top": np.zeros((224, 224, 3), np.uint8)}
    with pytest.raises(FileProblem, match="weights of the classifier of push_t do not fit its network for top"):
        open_verifier(PushT(), {"folder": str(tmp_path)}).judge(Evidence(arrays=ARRAYS, images=images))
    weights = tmp_path / "weights.npz"
    for data in (weights.read_bytes()[:-30], b""):
        weights.write_bytes(data)
        with pytest.raises(FileProblem, match="holds no classifier"):
            open_verifier(PushT(), {"folder": str(tmp_path)})


def test_a_classifier_is_not_said_to_bear_disturbed_numbers(tmp_path: Path) -> None:
    facts = ClassifierInfo(task="push_t", cameras=("top",), threshold=0.5, examples=0)
    state = {f"top/{name}": value.numpy() for name, value in network().state_dict().items()}
    Classifier(PushT(), facts, state).write(tmp_path / "seen")
    for kind in ("success", "failure"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "0.npz").write_bytes(arrays_file.pack(ARRAYS))
        Image.fromarray(np.zeros((224, 224, 3), np.uint8)).save(tmp_path / kind / "0_top.png")
    alone = [VerifierSettings(name="classifier", options={"folder": str(tmp_path / "seen")})]
    text = report("push_t", 0, tmp_path, plans=alone).text
    assert "it judges by pictures alone: no number was disturbed" in text
    assert "sigma" not in text
    assert (
        "numbers disturbed" in report("push_t", 0, tmp_path, plans=[VerifierSettings(name=TASK_VERIFIER), *alone]).text
    )
    (tmp_path / "failure" / "0_top.png").unlink()
    with pytest.raises(UsageError, match=r"failure/0\.npz cannot be judged: .* needs pictures of top, and got none"):
        report("push_t", 0, tmp_path, plans=alone)


def test_a_brighter_light_changes_little() -> None:
    rng = np.random.default_rng(0)
    picture = rng.uniform(20, 120, (224, 224, 3))
    dark, bright = (small((factor * picture).astype(np.uint8)) for factor in (1.0, 2.0))
    assert dark.shape == (3, 112, 112)
    assert np.abs(dark - bright).max() < 0.15


def test_pictures_that_a_person_sorted_are_found(tmp_path: Path) -> None:
    for name in ("success", "failure"):
        stored = tmp_path / name / "01ABC"
        stored.mkdir(parents=True)
        (stored / "arrays.npz").write_bytes(arrays_file.pack(ARRAYS))
        shades = {tick: {"top": np.full((8, 8, 3), shade, np.uint8)} for tick, shade in ((0, 10), (80, 200))}
        pictures.keep(stored / pictures.NAME, shades, "jpg")
        (tmp_path / name / "seen.npz").write_bytes(arrays_file.pack(ARRAYS))
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / name / "seen_left_wrist.png")
    found = sorted_by_hand(tmp_path, PushT.spec)
    assert [set(example.evidence.images) for example in found] == [{"top"}, {"left_wrist"}] * 2
    assert found[0].evidence.images["top"].mean() > 150, "the last of several"
