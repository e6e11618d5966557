"""Grades and fitted thresholds: right on examples whose answer is known, sentences where there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from enpire.errors import FileProblem, UsageError
from enpire.files import parse
from enpire.interfaces import Evidence, Task
from enpire.store import arrays
from enpire.types import EpisodeArrays, FloatArray, IntArray, MaskArray, Verdict
from enpire.verifiers import TASK_VERIFIER, VERDICT_BUDGET_MS, VerifierSettings, open_verifier
from sim.rollouts import roll_out
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.push_t import PushT
from sim.verifiers.camera_estimates import fresh_rows
from sim.verifiers.examples import BiasedExpert, Disturbance, Example, simulated, sorted_by_hand
from sim.verifiers.fitting import FACTORS, cost, fit, search
from sim.verifiers.grading import MOVED, RECALL, grade, report
from tests.sim.task_check.reach import Reach

REACH = "tests.sim.task_check.reach:Reach"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Where the depth verifier draws its line."""

    least: float = 1.0
    samples: int = 3


class Deep:
    """Calls it a success when the last number is at least the line."""

    needs_images = False

    def __init__(self, thresholds: Line | None = None) -> None:
        self.thresholds = thresholds or Line()
        self.digest = f"deep {self.thresholds.least}"

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        return np.zeros(len(state), np.bool_)

    def judge(self, evidence: Evidence) -> Verdict:
        good = float(evidence.arrays.state[-1, 0]) >= self.thresholds.least
        return Verdict(kind="success" if good else "failure", confidence=1.0, source="verifier")


def recorded(value: float) -> EpisodeArrays:
    return EpisodeArrays(
        state=np.full((3, 2), value, np.float32), action=np.zeros((2, 2), np.float32),
        source=np.zeros(2, np.uint8), chunk=np.zeros(2, np.int32),
    )  # fmt: skip


def example(value: float, *, success: bool) -> Example:
    return Example(evidence=Evidence(arrays=recorded(value), images={}), success=success)


def test_a_grade_counts_what_it_says() -> None:
    examples = [
        *(example(1.5, success=True) for _ in range(8)), *(example(0.5, success=True) for _ in range(2)),
        *(example(1.5, success=False) for _ in range(1)), *(example(0.5, success=False) for _ in range(9)),
    ]  # fmt: skip
    found = grade(Deep(), examples, "as built")
    assert (found.precision.successes, found.precision.n) == (8, 9)
    assert (found.recall.successes, found.recall.n) == (8, 10)
    assert (found.false_positives.successes, found.false_positives.n) == (1, 10)
    assert found.precision.low < 8 / 9 < found.precision.high
    with pytest.raises(UsageError, match="all of one kind"):
        grade(Deep(), examples[:10], "as built")


def test_the_search_finds_the_line_between_the_kinds() -> None:
    """Successes from 1.15 on, failures up to 0.9 and at 1.05: a shipped line at 1.0 is wrong, one above 1.05 is not."""
    examples = [example(value, success=True) for value in np.linspace(1.15, 1.4, 20)]
    examples += [example(value, success=False) for value in (*np.linspace(0.2, 0.9, 20), 1.05, 1.05)]
    found = search(Line(), lambda tried: cost(Deep(tried), examples))
    assert 1.05 < found.least <= 1.15
    assert found.samples == 3
    assert cost(Deep(found), examples) == 0 < cost(Deep(), examples)


def test_a_line_that_is_right_with_room_is_left_alone() -> None:
    examples = [example(1.5, success=True), example(0.5, success=False)] * 10
    assert search(Line(), lambda tried: cost(Deep(tried), examples)) == Line()
    assert min(FACTORS) < 1 < max(FACTORS)


def test_a_report_on_a_simulated_task() -> None:
    found = report(REACH, 100)
    assert found.episodes == 100
    assert len(found.grades) == 1 + len(MOVED)
    for graded in found.grades:
        assert graded.recall.n + graded.false_positives.n == 100
        assert graded.precision.rate >= 0.95
    assert 0 < found.p50_ms <= found.p95_ms
    assert f"budget of {VERDICT_BUDGET_MS:.0f} ms" in found.text
    assert "truth" in found.text
    assert "over these episodes (Wilson); they do not cover how other stations" in found.text


def test_a_report_says_how_far_a_camera_may_be_moved_in_units_of_the_task() -> None:
    found = report("pin_insertion", 150)
    recalls = [graded.recall.rate for graded in found.grades]
    assert recalls[0] >= RECALL > recalls[-1]
    first = next(moved for moved, recall in zip(MOVED, recalls[1:], strict=True) if recall < RECALL)
    assert (
        f"sigma is 0.08 mm, 0.004 rad at most; moved by 1, 3, 6 sigma, recall is below 98% from {first:g} sigma on"
        in found.text
    )


def test_simulated_examples_hold_both_kinds_and_repeat() -> None:
    first, again = (simulated(Reach(), 75) for _ in range(2))
    assert 0 < sum(item.success for item in first) < 75
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.evidence.arrays.state, other.evidence.arrays.state)


def test_a_disturbance_is_as_large_as_it_says() -> None:
    """The camera's place is an error that stays; the light one that does not; 1 mm of 2 m."""
    spec, rng = Reach.spec, np.random.default_rng(0)
    clean = example(0.0, success=True)

    def worse(disturbance: Disturbance) -> FloatArray:
        return np.stack([disturbance.on(clean, spec, rng).evidence.arrays.state for _ in range(400)])

    moved = worse(Disturbance(light=1.0, moved=2.0, covered=0.0))
    assert np.ptp(moved, axis=1).max() == 0
    assert np.std(moved[:, 0]) == pytest.approx(0.002, rel=0.15)
    dim = worse(Disturbance(light=2.0, moved=0.0, covered=0.0))
    assert np.std(dim) == pytest.approx(0.001 * np.sqrt(7 / 3 - 1), rel=0.15)
    assert worse(Disturbance(light=1.0, moved=0.0, covered=0.0)).max() == 0


def test_what_is_covered_stands_still_and_the_body_goes_on() -> None:
    rng, spec = np.random.default_rng(0), PinInsertion.spec
    moving = rng.normal(0.0, 1.0, (60, spec.state_dim)).astype(np.float32)
    arrays = EpisodeArrays(
        state=moving, action=np.zeros((59, 3), np.float32), source=np.zeros(59, np.uint8),
        chunk=np.zeros(59, np.int32),
    )  # fmt: skip
    clean = Example(evidence=Evidence(arrays=arrays, images={}), success=True)
    hidden = Disturbance(light=1.0, moved=0.0, covered=1.0, covered_ticks=(5, 5)).on(clean, spec, rng)
    state = hidden.evidence.arrays.state
    assert 60 - 5 <= len(fresh_rows(state[:, :5])) < 60
    assert np.array_equal(state[:, 5:], moving[:, 5:])
    assert len(fresh_rows(moving[:, :5])) == 60


def test_a_misled_hand_misses_and_gives_up() -> None:
    task = PinInsertion()
    hand = BiasedExpert(task.clean_expert(), task.spec)
    rig = task.rig(12, 0)
    ends = roll_out(task, rig, hand, [task.start("train", index, b"") for index in range(12)])
    assert 0 < sum(end.truth.success for end in ends) < 12
    assert any((end.arrays.action[-5:] == 0.0).all() for end in ends)


def test_examples_that_a_person_sorted(tmp_path: Path) -> None:
    for name, value in (("success", 1.0), ("failure", 0.0)):
        (tmp_path / name / "more").mkdir(parents=True)
        for index in range(3):
            (tmp_path / name / "more" / f"{index}.npz").write_bytes(arrays.pack(recorded(value)))
    found = sorted_by_hand(tmp_path, Reach.spec)
    assert [item.success for item in found] == [True] * 3 + [False] * 3
    assert found[0].evidence.arrays.state.max() == 1.0
    with pytest.raises(FileProblem, match=r"no \.npz file"):
        sorted_by_hand(tmp_path / "success", Reach.spec)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("e.npz", arrays.pack(recorded(0.0))[:-40], r"failure/e\.npz cannot be used: This is not an arrays file"),
        ("e.npz", arrays.pack(replace(recorded(0.0), state=np.zeros((3, 9), np.float32))),
         r"failure/e\.npz has 9 numbers a state and reach 2: it is of another task"),
        ("0_top.png", b"no picture", r"The picture .*failure/0_top\.png cannot be read as JPEG or PNG; replace it"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    for kind in ("success", "failure"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "0.npz").write_bytes(arrays.pack(recorded(0.0)))
    (tmp_path / "failure" / name).write_bytes(data)
    with pytest.raises(FileProblem, match=said):
        sorted_by_hand(tmp_path, Reach.spec)


def test_a_report_says_only_what_was_disturbed() -> None:
    found = report(REACH, 50)
    assert "numbers disturbed (light: noise up to 2 times; camera moved by 1 sigma):" in found.text
    assert "covered" not in found.text
    assert "40 % covered for 3 to 15 periods" in Disturbance().line(PinInsertion.spec)


class Tied(Deep):
    """Its class takes something else first."""

    def __init__(self, task: object, thresholds: Line | None = None) -> None:
        super().__init__(thresholds)


class Tie(Reach):
    """Its verifier cannot be made from thresholds."""

    def verifier(self) -> Deep:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Tied(self)


class Dig(Reach):
    """Its verifier has a threshold that is drawn in the wrong place."""

    def verifier(self) -> Deep:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Deep()


def sort_into(folder: Path) -> None:
    for kind, values in (("success", np.linspace(1.15, 1.4, 40)), ("failure", np.linspace(0.8, 1.05, 40))):
        (folder / kind).mkdir()
        for index, value in enumerate(values):
            (folder / kind / f"{index:02}.npz").write_bytes(arrays.pack(recorded(value)))


def test_a_class_that_ignores_its_thresholds_cannot_be_fitted(tmp_path: Path) -> None:
    sort_into(tmp_path)
    with pytest.raises(UsageError, match="Tied ignores the thresholds that it is given"):
        fit(f"{__name__}:Tie", 0, tmp_path)


def test_what_was_fitted_goes_into_a_campaign_file_as_it_is_said(tmp_path: Path) -> None:
    sort_into(tmp_path)
    found = fit(f"{__name__}:Dig", 0, tmp_path)
    assert found.better
    said = yaml.safe_load(found.text.splitlines()[-1])
    plans = [parse(VerifierSettings, item, "said") for item in said["verifiers"]]
    judge = open_verifier(Dig(), plans)
    assert judge.digest == found.digest != Deep().digest
    assert isinstance(judge, Deep)
    assert judge.thresholds == Line(least=found.thresholds["least"])


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        (Dig(), {"lest": 1.0}, "options of the verifier task has the unknown key 'lest'; allowed are: least, samples"),
        (Dig(), {"least": "much"}, "key 'least'"),
        (Dig(), {"samples": 0}, "samples counts samples, so it must be at least 1"),
        (PinInsertion(), {"samples": -3}, "samples counts samples, so it must be at least 1"),
        (Tie(), {"least": 2.0}, "Tied ignores the thresholds that it is given"),
        (PushT(), {"near_mm": 20.0}, "verifier of push_t has no thresholds: remove the options of `task`"),
    ],
)
def test_options_of_the_own_verifier_that_do_not_fit_are_refused(
    task: Task, options: dict[str, float | str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        open_verifier(task, [VerifierSettings(name=TASK_VERIFIER, options=options)])


def test_what_cannot_be_fitted_is_said() -> None:
    with pytest.raises(UsageError, match="no dataclass `thresholds`, so there is nothing to fit: edit its rule"):
        fit(REACH, 100)
    with pytest.raises(UsageError, match="nothing to fit: train a classifier of its last pictures with --out FOLDER"):
        fit("push_t", 100)
    with pytest.raises(UsageError, match="at least 20 of each"):
        fit("pin_insertion", 30)


@pytest.mark.slow
def test_thresholds_of_a_shipped_verifier_are_fitted_and_compared() -> None:
    found = fit("pin_insertion", 150)
    assert set(found.thresholds) == set(found.shipped)
    assert found.before.recall.n == found.after.recall.n
    assert "depth_mm" in found.text
    assert ("put this line into the campaign file" in found.text) == found.better
