"""Measures a verifier: precision, recall and latency against the ground truth. `enpire verifier report TASK`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from enpire import plugins
from enpire.errors import UsageError
from enpire.gate.intervals import wilson
from enpire.interfaces import Evidence, Judge, Task
from enpire.types import Interval, TaskSpec
from enpire.verifiers import VERDICT_BUDGET_MS, VerifierSettings, open_verifier
from sim.verifiers.examples import Disturbance, Example, Say, grading, simulated, sorted_by_hand

MOVED = (1.0, 3.0, 6.0)
"""Displacements of the camera in a report, in standard deviations of its estimate; light and obstacle vary, too."""
RECALL = 0.98
INTERVALS = "intervals: 95 %, over these episodes (Wilson); they do not cover how other stations and cameras differ"
_BUILT = ("sensors as built", "pictures in any light, from moved cameras, at times covered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """Grade of one verifier on one set of examples; 95 % Wilson intervals over its episodes."""

    sensors: str
    """The sensors as built, or their disturbance."""
    precision: Interval
    """Share of true successes among its successes."""
    recall: Interval
    """Share of the true successes that it called a success."""
    false_positives: Interval
    """Share of the true failures that it called a success."""

    @property
    def line(self) -> str:
        """For a terminal."""
        return (
            f"{self.sensors}: precision {_shown(self.precision)}, recall {_shown(self.recall)}, "
            f"false positives {_shown(self.false_positives)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierReport:
    """Measurements of one verifier."""

    task: str
    digest: str
    episodes: int
    labelled_by: str
    grades: tuple[Grade, ...]
    """With the sensors as built and, where estimates count, with cameras moved by each of `MOVED`."""
    camera: str
    """Size of these displacements, and the one from which recall is below `RECALL`."""
    p50_ms: float
    p95_ms: float

    @property
    def text(self) -> str:
        """For a terminal."""
        within = "within" if self.p95_ms <= VERDICT_BUDGET_MS else "OVER"
        return "\n".join(
            (
                f"Verifier {self.digest[:12]} of {self.task}, {self.episodes} episodes labelled by {self.labelled_by}",
                f"  {INTERVALS}",
                *(f"  {grade.line}" for grade in self.grades),
                f"  {self.camera}",
                f"  a verdict takes {self.p50_ms:.2f} ms (p50), {self.p95_ms:.2f} ms (p95): "
                f"{within} the budget of {VERDICT_BUDGET_MS:.0f} ms",
            )
        )


def report(  # noqa: PLR0913 - the options of a subcommand are its parameters
    task_name: str,
    episodes: int,
    folder: Path | None = None,
    say: Say = lambda done, total: None,
    plans: Sequence[VerifierSettings] = (),
    draw: int = 0,
) -> VerifierReport:
    """Grade a task's shipped verifier, or the one that plans ask for.

    Args:
        task_name: task plug-in.
        episodes: rollouts to simulate; ignored when `folder` is given.
        folder: examples that a person sorted into success and failure.
        say: called with the number of rollouts that are done, and of all.
        plans: verifiers that must agree, instead of the task's own.
        draw: number of the set of starts, stations and disturbances.

    Raises:
        EnpireError: no such task, no truth, or no examples.
    """
    task = cast("type[Task]", plugins.load("tasks", task_name))()
    verifier = open_verifier(task, plans, measured=True)
    look = verifier.needs_images
    examples = (
        sorted_by_hand(folder, task.spec) if folder else simulated(task, episodes, grading(draw), say, pictures=look)
    )
    found = _measured(
        verifier, examples, task.spec, _BUILT[look and not folder],
        () if getattr(verifier, "pictures_alone", False) else MOVED, draw,
    )  # fmt: skip
    labelled_by = "people" if folder else "the simulator's truth"
    return replace(found, task=task_name, digest=verifier.digest, labelled_by=labelled_by)


def judged(judge: Judge, episodes: Sequence[tuple[Evidence, bool]], spec: TaskSpec, digest: str) -> VerifierReport:
    """Grade a judge of episodes with known outcomes, such as a verifier in a sandbox.

    Args:
        judge: gets each episode without its label.
        episodes: (evidence, whether it is a success).
        spec: of the task.
        digest: what the report names as the verifier's.

    Raises:
        EnpireError: all episodes are of one kind, or one cannot be judged.
    """
    examples = [Example(evidence=evidence, success=success) for evidence, success in episodes]
    pictures = any(evidence.images for evidence, _ in episodes)
    found = _measured(judge, examples, spec, _BUILT[pictures], MOVED, 0)
    return replace(found, task=spec.name, digest=digest, labelled_by="the scene's truth")


def _measured(  # noqa: PLR0913 - what a report is made of
    judge: Judge, examples: Sequence[Example], spec: TaskSpec, sensors: str, moved: Sequence[float], draw: int
) -> VerifierReport:
    built = grade(judge, examples, sensors)
    disturbed = [_disturbed(judge, examples, spec, Disturbance(moved=by), draw) for by in moved]
    took = latencies_ms(judge, examples)
    return VerifierReport(
        task="", digest="", episodes=len(examples), labelled_by="", grades=(built, *disturbed),
        camera=_camera_line(spec, disturbed), p50_ms=float(np.percentile(took, 50)),
        p95_ms=float(np.percentile(took, 95)),
    )  # fmt: skip


def grade(verifier: Judge, examples: Sequence[Example], sensors: str) -> Grade:
    """Precision, recall and false positives on labelled examples.

    Raises:
        UsageError: all examples are of one kind, or one cannot be judged.
    """
    truth = np.array([example.success for example in examples])
    if truth.all() or not truth.any():
        raise UsageError("Grading needs successes and failures; the examples are all of one kind.")
    return _graded(verifier, examples, truth, sensors)


def _graded(verifier: Judge, examples: Iterable[Example], truth: npt.NDArray[np.bool_], sensors: str) -> Grade:
    """Compare the verdicts with the labels; each example is needed once."""
    called_success = np.array([_success(verifier, example) for example in examples])
    both = int((called_success & truth).sum())
    return Grade(
        sensors=sensors,
        precision=wilson(both, int(called_success.sum())),
        recall=wilson(both, int(truth.sum())),
        false_positives=wilson(int((called_success & ~truth).sum()), int((~truth).sum())),
    )


def _success(verifier: Judge, example: Example) -> bool:
    try:
        return verifier.judge(example.evidence).kind == "success"
    except UsageError as problem:
        raise UsageError(f"{example.name or 'A rollout'} cannot be judged: {problem}") from problem


def _disturbed(verifier: Judge, examples: Sequence[Example], spec: TaskSpec, worse: Disturbance, draw: int) -> Grade:
    rng = np.random.default_rng(draw)
    truth = np.array([example.success for example in examples])
    one_by_one = (worse.on(example, spec, rng) for example in examples)  # all at once would double the memory
    return _graded(verifier, one_by_one, truth, worse.line(spec))


def _camera_line(spec: TaskSpec, disturbed: Sequence[Grade]) -> str:
    """One standard deviation of the cameras in units of the task, and the recall with cameras that were moved."""
    if not disturbed:
        return "it judges by pictures alone: no number was disturbed"
    largest: dict[str, float] = {}
    for item in spec.state:
        if item.sensor_std:
            largest[item.unit] = max(largest.get(item.unit, 0.0), item.sensor_std)
    sigma = (
        ", ".join(f"{size:g} {unit}".removesuffix(" 1") for unit, size in largest.items())
        or "0.05 % of each number's range"
    )
    low = [moved for moved, one in zip(MOVED, disturbed, strict=True) if one.recall.rate < RECALL]
    where = f"is below {RECALL:.0%} from {low[0]:g} sigma on" if low else f"stays at {RECALL:.0%} or above"
    return f"a camera's sigma is {sigma} at most; moved by {', '.join(f'{m:g}' for m in MOVED)} sigma, recall {where}"


def latencies_ms(verifier: Judge, examples: Sequence[Example]) -> list[float]:
    """Wall-clock time of each verdict on this machine, in ms."""
    took: list[float] = []
    for example in examples:
        began_s = time.perf_counter()
        verifier.judge(example.evidence)
        took.append(1e3 * (time.perf_counter() - began_s))
    return took


def _shown(interval: Interval) -> str:
    rate = f"{100 * interval.rate:.1f} %" if interval.n else "none"
    return f"{interval.successes}/{interval.n} = {rate} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"
