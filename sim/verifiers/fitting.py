"""Thresholds from labelled examples: `enpire verifier fit TASK`, one threshold after the other.

Simulated ones begin at starts that `enpire verifier report` never uses. A wrong success costs four times a wrong
failure: it teaches a learner a lie. Half the examples are kept for the grade; the others are looked at twice, once with
disturbed sensors, so that no threshold ends up close to a mistake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from enpire import plugins
from enpire.errors import UsageError
from enpire.interfaces import Task, Verifier
from enpire.verifiers import TASK_VERIFIER, VerifierSettings, open_verifier, thresholds_of, with_thresholds
from sim.verifiers.examples import FITTING, Disturbance, Example, Say, simulated, sorted_by_hand
from sim.verifiers.grading import Grade, grade

FACTORS = np.linspace(0.7, 1.3, 25)
"""Values that are tried for a threshold, as multiples of its shipped value."""
SWEEPS = 2
LEAST = 10
"""Examples of each kind that are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What the search found."""

    task: str
    digest: str
    """Of the verifier with these options."""
    options: Mapping[str, float]
    """Of `task` among the verifiers of a campaign file: the thresholds that differ from the shipped ones."""
    thresholds: Mapping[str, float]
    shipped: Mapping[str, float]
    before: Grade
    """The shipped verifier on the half that was kept."""
    after: Grade

    @property
    def better(self) -> bool:
        """Whether the search makes fewer mistakes than the shipped thresholds on the half that was kept."""
        return mistakes(self.after) < mistakes(self.before)

    @property
    def text(self) -> str:
        """For a terminal."""
        rows = [
            f"  {name} = {value:g}" + ("" if value == self.shipped[name] else f"  (shipped: {self.shipped[name]:g})")
            for name, value in self.thresholds.items()
        ]
        head = f"Thresholds for {self.task}, verifier {self.digest[:12]}"
        advice = "  no better than the shipped ones: keep those"
        if self.better:
            advice = f"  better: put this line into the campaign file\n{verifiers_line(self.options)}"
        return "\n".join((head, *rows, f"  shipped, {self.before.line}", f"  fitted,  {self.after.line}", advice))


def verifiers_line(options: Mapping[str, float]) -> str:
    """The line of a campaign file that has the task's own verifier judge with these thresholds."""
    import yaml

    plans = {"verifiers": [{"name": TASK_VERIFIER, "options": dict(options)}]}
    # The outer braces are not written: the line stands at the top level of the file.
    return yaml.safe_dump(plans, default_flow_style=True, width=math.inf, sort_keys=False).strip()[1:-1]


def fit(task_name: str, episodes: int, folder: Path | None = None, say: Say = lambda done, total: None) -> Fitted:
    """Search the thresholds of a task's verifier.

    Args:
        task_name: of a task plug-in whose verifier has a dataclass `thresholds` and can be made from one.
        episodes: rollouts to simulate; without meaning when `folder` is given.
        folder: examples that a person sorted into success and failure.
        say: hears how many rollouts are done, and of how many.

    Raises:
        UsageError: the verifier has no thresholds, or there are too few examples.
    """
    task = cast("type[Task]", plugins.load("tasks", task_name))()
    shipped = task.verifier()
    values = thresholds_of(shipped)
    if values is None:
        instead = "train a classifier of its last pictures with --out FOLDER" if task.spec.cameras else "edit its rule"
        raise UsageError(
            f"The verifier of {task_name} has no dataclass `thresholds`, so there is nothing to fit: {instead}."
        )
    examples = (
        sorted_by_hand(folder, task.spec)
        if folder
        else simulated(task, episodes, FITTING, say, pictures=shipped.needs_images)
    )
    learnt, kept = _halves(examples)
    worse, rng = Disturbance(), np.random.default_rng(1)
    learnt += [worse.on(example, task.spec, rng) for example in learnt]
    best = search(values, lambda tried: cost(with_thresholds(shipped, tried), learnt))
    was, now = _numbers(values), _numbers(best)
    options = {name: value for name, value in now.items() if value != was[name]}
    found = open_verifier(task, [VerifierSettings(name=TASK_VERIFIER, options=options)])
    return Fitted(
        task=task_name,
        digest=found.digest,
        options=options,
        thresholds=now,
        shipped=was,
        before=grade(shipped, kept, "on the half that was kept"),
        after=grade(found, kept, "on the half that was kept"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedClassifier:
    """A classifier that was trained on labelled pictures."""

    task: str
    digest: str
    folder: str
    after: Grade
    """On the half of the examples that was kept."""

    @property
    def text(self) -> str:
        """For a terminal."""
        return (
            f"Classifier for {self.task}, verifier {self.digest[:12]}, in {self.folder}\n  {self.after.line}\n"
            f"  a station or campaign file names it: verifiers: [{{name: task}}, {{name: classifier, "
            f"options: {{folder: {self.folder}}}}}]; both must agree"
        )


def fit_classifier(
    task_name: str, episodes: int, folder: Path | None, out: Path, say: Say = lambda done, total: None
) -> FittedClassifier:
    """Train the plug-in `classifier` on the last pictures of labelled rollouts and write it to `out`.

    Raises:
        EnpireError: no such task, no pictures, or too few examples.
    """
    from sim.verifiers.classifier import train

    task = cast("type[Task]", plugins.load("tasks", task_name))()
    examples = sorted_by_hand(folder, task.spec) if folder else simulated(task, episodes, FITTING, say, pictures=True)
    learnt, kept = _halves(examples)
    made = train(task, learnt)
    made.write(out)
    after = grade(made, kept, "on the half that was kept")
    return FittedClassifier(task=task_name, digest=made.digest, folder=str(out), after=after)


def search[T](shipped: T, cost_of: Callable[[T], float]) -> T:
    """The thresholds with the least cost; where several values cost the same, the middle of the longest run of them."""
    best = shipped
    for _ in range(SWEEPS):
        for name, value in _numbers(shipped).items():
            # A whole number counts samples: that is no threshold.
            if not isinstance(value, float):
                continue
            tried = [cast(T, replace(cast(Any, best), **{name: float(f"{value * factor:.4g}")})) for factor in FACTORS]
            costs = np.array([cost_of(one) for one in tried])
            if costs.min() < cost_of(best) or _at_the_edge(costs):
                best = tried[_middle(costs)]
    return best


def cost(verifier: Verifier, examples: Sequence[Example]) -> float:
    """Wrong verdicts, a wrong success counted four times."""
    said = np.array([verifier.judge(example.evidence).kind == "success" for example in examples])
    truth = np.array([example.success for example in examples])
    return float(4 * (said & ~truth).sum() + (~said & truth).sum())


def mistakes(given: Grade) -> float:
    """The same cost, from a grade."""
    return 4 * given.false_positives.successes + given.recall.n - given.recall.successes


def _at_the_edge(costs: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    """Whether the shipped value is among the best, but a neighbour is not: too near to a mistake."""
    middle = len(costs) // 2
    near = costs[middle - 1 : middle + 2]
    return bool(costs[middle] == costs.min() and (near > costs.min()).any())


def _middle(costs: np.ndarray[Any, np.dtype[np.float64]]) -> int:
    """Index of the middle of the longest run of least cost."""
    least = costs == costs.min()
    longest = (0, 0)
    begin = 0
    for index, good in enumerate([*least.tolist(), False]):
        if not good:
            longest = max(longest, (index - begin, begin))
            begin = index + 1
    return longest[1] + longest[0] // 2


def _halves(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Two halves with equal shares of successes; UsageError when there are too few examples of a kind."""
    good = sum(example.success for example in examples)
    if min(good, len(examples) - good) < 2 * LEAST:
        raise UsageError(
            f"There are {good} successes and {len(examples) - good} failures; at least {2 * LEAST} of each are needed."
        )
    kinds = [[item for item in examples if item.success is wanted] for wanted in (True, False)]
    return [item for kind in kinds for item in kind[::2]], [item for kind in kinds for item in kind[1::2]]


def _numbers(thresholds: object) -> dict[str, float]:
    return {name: value for name, value in asdict(cast(Any, thresholds)).items() if isinstance(value, int | float)}
