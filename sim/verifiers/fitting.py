"""Fits thresholds to labelled examples, one threshold after the other: `enpire verifier fit TASK`.

Simulated examples begin at starts that `enpire verifier report` never uses. A false success costs four times a false
failure, as a learner imitates it. Half of the examples are held out for the grade. The others are used twice, once with
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
"""Candidate values of a threshold, as multiples of its shipped value."""
SWEEPS = 2
LEAST = 10
"""Least number of examples of each kind, in each half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The result of a search."""

    task: str
    digest: str
    """Digest of the verifier with these options."""
    options: Mapping[str, float]
    """The thresholds that differ from the shipped ones: options of the verifier `task` in a campaign file."""
    thresholds: Mapping[str, float]
    shipped: Mapping[str, float]
    before: Grade
    """Grade of the shipped verifier on the held-out half."""
    after: Grade

    @property
    def better(self) -> bool:
        """Whether the fitted thresholds cost less than the shipped ones on the held-out half."""
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
    """The line of a campaign file that sets these thresholds of the task's own verifier."""
    import yaml

    plans = {"verifiers": [{"name": TASK_VERIFIER, "options": dict(options)}]}
    # Without the outer braces: the line belongs to the top level of the file.
    return yaml.safe_dump(plans, default_flow_style=True, width=math.inf, sort_keys=False).strip()[1:-1]


def fit(task_name: str, episodes: int, folder: Path | None = None, say: Say = lambda done, total: None) -> Fitted:
    """Search the thresholds of a task's verifier.

    Args:
        task_name: task plug-in whose verifier has a dataclass `thresholds` and can be made from one.
        episodes: rollouts to simulate; ignored when `folder` is given.
        folder: examples that a person sorted into success and failure.
        say: called with the number of rollouts that are done, and of all.

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
    fitted_on, held_out = _halves(examples)
    worse, rng = Disturbance(), np.random.default_rng(1)
    fitted_on += [worse.on(example, task.spec, rng) for example in fitted_on]
    best = search(values, lambda tried: cost(with_thresholds(shipped, tried), fitted_on))
    was, now = _numbers(values), _numbers(best)
    options = {name: value for name, value in now.items() if value != was[name]}
    found = open_verifier(task, [VerifierSettings(name=TASK_VERIFIER, options=options)])
    return Fitted(
        task=task_name,
        digest=found.digest,
        options=options,
        thresholds=now,
        shipped=was,
        before=grade(shipped, held_out, "on the held-out half"),
        after=grade(found, held_out, "on the held-out half"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedClassifier:
    """A classifier that was trained on labelled images."""

    task: str
    digest: str
    folder: str
    after: Grade
    """Grade on the held-out half of the examples."""

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
    """Train the plug-in `classifier` on the last images of labelled rollouts and write it to `out`.

    Raises:
        EnpireError: no such task, no images, or too few examples.
    """
    from sim.verifiers.classifier import train

    task = cast("type[Task]", plugins.load("tasks", task_name))()
    examples = sorted_by_hand(folder, task.spec) if folder else simulated(task, episodes, FITTING, say, pictures=True)
    fitted_on, held_out = _halves(examples)
    made = train(task, fitted_on)
    made.write(out)
    after = grade(made, held_out, "on the held-out half")
    return FittedClassifier(task=task_name, digest=made.digest, folder=str(out), after=after)


def search[T](shipped: T, cost_of: Callable[[T], float]) -> T:
    """The thresholds with the least cost; of several values with the same cost, the middle of their longest run."""
    best = shipped
    for _ in range(SWEEPS):
        for name, value in _numbers(shipped).items():
            # A whole number counts samples and is no threshold.
            if not isinstance(value, float):
                continue
            tried = [cast(T, replace(cast(Any, best), **{name: float(f"{value * factor:.4g}")})) for factor in FACTORS]
            costs = np.array([cost_of(one) for one in tried])
            if costs.min() < cost_of(best) or _at_the_edge(costs):
                best = tried[_middle(costs)]
    return best


def cost(verifier: Verifier, examples: Sequence[Example]) -> float:
    """Number of wrong verdicts; a false success counts four times."""
    called_success = np.array([verifier.judge(example.evidence).kind == "success" for example in examples])
    truth = np.array([example.success for example in examples])
    return float(4 * (called_success & ~truth).sum() + (~called_success & truth).sum())


def mistakes(given: Grade) -> float:
    """The same cost, from a grade."""
    return 4 * given.false_positives.successes + given.recall.n - given.recall.successes


def _at_the_edge(costs: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    """Whether the shipped value has the least cost, but a neighbour has not: it is too near to a mistake."""
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
