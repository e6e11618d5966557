"""Training that is interrupted and goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from enpire.interfaces import ImprovementJob, Learner, Progress
from policies import actor_critic


class Interrupted(Exception):
    """Ends a training run from its report."""


def interrupt(learner: Learner, job: ImprovementJob, due: Callable[[Progress], bool]) -> None:
    """Train until a report is due, and end the run there."""

    def report(progress: Progress) -> None:
        if due(progress):
            raise Interrupted

    with pytest.raises(Interrupted):
        learner.improve(job, report)


def asks_no_second_time(
    learner: Learner, job: ImprovementJob, asking: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run beside a frozen policy is interrupted after the policy was asked; it ends without asking again.

    Args:
        learner: the learner.
        job: its job.
        asking: the class of the policy, and the name of the method that asks it.
        monkeypatch: replaces the method.
    """
    interrupt(learner, job, lambda progress: progress.stage == "actor")

    def refuse(*_: object) -> None:
        raise AssertionError("it asks the policy again")

    monkeypatch.setattr(*asking, refuse)
    learner.improve(job, lambda _: None)


def resumes_to_the_same_bytes(
    learner: Learner, one: ImprovementJob, twin: ImprovementJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of at least 40 steps that is interrupted at step 35 ends with the weights of one that was not."""
    monkeypatch.setattr(actor_critic, "CHECKPOINT_STEPS", 25)
    monkeypatch.setattr(actor_critic, "REPORT_STEPS", 5)
    learner.improve(one, lambda _: None)
    interrupt(learner, twin, lambda progress: progress.done >= 35)
    assert (twin.work / "checkpoint.safetensors").is_file()
    reports: list[int] = []
    learner.improve(twin, lambda progress: reports.append(progress.done))
    assert reports[0] == 30, "it goes on from its checkpoint"
    assert (one.output / "weights.safetensors").read_bytes() == (twin.output / "weights.safetensors").read_bytes()
