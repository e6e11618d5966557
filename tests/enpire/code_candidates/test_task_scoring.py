"""What the sandboxes of an agent's task send is limited before the lab keeps it."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from enpire.code_candidates import task_scoring
from enpire.code_candidates.rooms import CodeRoom
from enpire.code_candidates.task_scoring import TaskScore, evidence_out, measure
from enpire.interfaces import Evidence
from enpire.types import Bounds, EpisodeArrays, TaskSpec, Verdict
from enpire.wire.rpc import Message
from sim.verifiers.examples import Example
from sim.verifiers.grading import Disturbance, judged
from tests.enpire.code_candidates.authored_task import CHECKS, SPEC, AnsweringRoom, ScriptedRoom, episode


def measured(monkeypatch: pytest.MonkeyPatch, *messages: Message) -> TaskScore:
    """The score of a task whose first sandbox sends these messages; the last ones are its episodes."""

    def open_room(wanted: CodeRoom) -> ScriptedRoom:
        return AnsweringRoom([]) if wanted.module == "verifier_room" else ScriptedRoom(messages)

    monkeypatch.setattr(task_scoring, "OpenRoom", open_room)
    monkeypatch.setattr(task_scoring, "EPISODES", len(messages) - 2)
    return measure({"task.py": ""}, "d" * 64, print)


@pytest.mark.parametrize(
    ("limit_ticks", "why"),
    [
        (1, "An episode has 2 ticks; the task's limit_ticks is 1."),
        (0, "The task's limit_ticks is 0; allowed are 1 to 100000."),
        (10**9, "The task's limit_ticks is 1000000000; allowed are 1 to 100000."),
        (2, ""),
    ],
)
def test_an_episode_is_no_longer_than_the_task_allows(
    monkeypatch: pytest.MonkeyPatch, limit_ticks: int, why: str
) -> None:
    spec: dict[str, object] = {**SPEC, "limit_ticks": limit_ticks}
    score = measured(monkeypatch, dict(CHECKS), {"spec": spec}, episode(0.0, True), episode(0.5, False))
    assert score.failed == ((f"it gave no score within 500 s: {why}",) if why else ())


@pytest.mark.parametrize("more", [0, -1])
@pytest.mark.parametrize("pictures", [False, True])
def test_the_episodes_of_a_task_together_have_a_largest_size(
    monkeypatch: pytest.MonkeyPatch, pictures: bool, more: int
) -> None:
    one, image = episode(0.0, True), np.zeros((64, 64, 3), np.uint8)
    other = episode(0.5, False)
    size = sum(len(cast("bytes", item["arrays"])) for item in (one, other))
    if pictures:
        arrays = EpisodeArrays(
            state=np.zeros((3, 1), np.float32), action=np.zeros((2, 1), np.float32), source=np.zeros(2, np.uint8),
            chunk=np.zeros(2, np.int32),
        )  # fmt: skip
        other = {**evidence_out(Evidence(arrays=arrays, images={"top": image})), "success": False}
        size += image.nbytes
    monkeypatch.setattr(task_scoring, "MOST_BYTES", size + more)
    score = measured(monkeypatch, dict(CHECKS), {"spec": SPEC}, one, other)
    assert bool(score.failed) == bool(more)
    if more:
        assert "Its episodes are too large: at most" in score.failed[0]


def test_texts_of_a_score_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {"checks": {"passed": 0, "applied": 30, "failed": ["x" * 1001] * 30}}
    spec = {**SPEC, "name": "n" * 20_000}
    score = measured(monkeypatch, dict(checks), {"spec": spec}, episode(0.0, True), episode(0.5, False))
    assert score.failed == ("x" * 1000,) * 20
    assert score.precision is not None
    assert len(score.verifier) == 8000


def test_episodes_are_disturbed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made, most, disturb = 0, 0, Disturbance.on

    def counted(self: Disturbance, example: Example, spec: TaskSpec, rng: np.random.Generator) -> Example:
        nonlocal made
        made += 1
        return disturb(self, example, spec, rng)

    class Counting:
        def judge(self, evidence: Evidence) -> Verdict:
            nonlocal made, most
            most, made = max(most, made), 0
            return Verdict(kind="success", confidence=1.0, source="verifier")

    monkeypatch.setattr(Disturbance, "on", counted)
    bounds = (Bounds(name="x", low=-1.0, high=1.0, unit="m"),)
    spec = TaskSpec(name="t", instruction="", state=bounds, action=bounds, rate_hz=20.0, limit_ticks=9)
    arrays = EpisodeArrays(
        state=np.zeros((3, 1), np.float32), action=np.zeros((2, 1), np.float32), source=np.zeros(2, np.uint8),
        chunk=np.zeros(2, np.int32),
    )  # fmt: skip
    evidence = Evidence(arrays=arrays, images={})
    judged(Counting(), [(evidence, number % 2 == 0) for number in range(10)], spec, "")
    assert most == 1
