"""A task as an agent writes it, its proposal and score, and rooms that send scripted messages in place of sandboxes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from enpire.code_candidates import authored_tasks
from enpire.code_candidates.authored_tasks import TaskProposal, find_task, propose
from enpire.code_candidates.frames import Frames
from enpire.code_candidates.task_scoring import TaskScore, evidence_out
from enpire.field_reader import Fields
from enpire.interfaces import Evidence
from enpire.requests.agent_requests import Sender
from enpire.types import EpisodeArrays
from enpire.wire.rpc import Message

REACH = """
import numpy as np
from enpire.types import Bounds, TaskSpec
from sim.array_task import ArrayTask


class Task(ArrayTask):
    spec = TaskSpec(
        name="reach",
        instruction="Move the point to the middle.",
        state=(Bounds(name="x", low=-1.0, high=1.0, unit="m"), Bounds(name="y", low=-1.0, high=1.0, unit="m")),
        action=(Bounds(name="vx", low=-0.3, high=0.3, unit="m/s"), Bounds(name="vy", low=-0.3, high=0.3, unit="m/s")),
        cameras=(),
        rate_hz=20.0,
        limit_ticks=120,
        start_names=("x_m", "y_m"),
    )
    ranges = ((-0.8, 0.8), (0.2, 0.8))
    goal = (0.0, 0.0)
    tolerance = (0.02, 0.02)

    def advance(self, world, command):
        return world + command * self.spec.period_s

    def steer(self, state, goal):
        return np.clip(4.0 * (goal - state), -0.3, 0.3)

    def success(self, state):
        return np.hypot(state[:, 0], state[:, 1]) < 0.03
"""
FILES = {"task.py": REACH, "README.md": "A point on a table.\n"}
CHECKS = {"checks": {"passed": 1, "applied": 1, "failed": []}}
BOUND = {"name": "x", "unit": "m", "low": -1.0, "high": 1.0}
SPEC = {
    "name": "reach", "instruction": "Move.", "state": [BOUND], "action": [BOUND], "rate_hz": 20.0, "limit_ticks": 9,
}  # fmt: skip


def proposed(home: Path, files: dict[str, str] = FILES, lane: str = "one") -> TaskProposal:
    return propose(home, files, "It is small.", Sender(campaign_id="C1", author="anthropic", lane=lane))


def scored(home: Path, made: TaskProposal, *failed: str) -> None:
    """As if the sandbox had measured it."""
    score = TaskScore(
        digest=made.digest, passed=58 - len(failed), applied=58, failed=failed, verifier="", precision=1.0, recall=0.9
    )
    authored_tasks._write(find_task(home, made.task_id).folder / "score.json", score)


class ScriptedRoom:
    """In place of a sandbox: it sends messages and runs no code."""

    excess = ""

    def __init__(self, messages: Sequence[Message]) -> None:
        ours, self._theirs = socket.socketpair()
        self.frames, self.theirs = Frames(ours), Frames(self._theirs)
        self._ours = ours
        for message in messages:
            self.theirs.send(message)

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class AnsweringRoom(ScriptedRoom):
    """In place of the verifier's sandbox: it calls everything a success, and notes what it was sent."""

    def __init__(self, received: list[Fields]) -> None:
        super().__init__([{"ready": True}])
        self._answering = threading.Thread(target=self._answer, args=(received,))
        self._answering.start()

    def _answer(self, received: list[Fields]) -> None:
        while (message := self.theirs.receive()) is not None:
            received.append(message)
            self.theirs.send({"kind": "success"})

    def close(self) -> None:
        self._ours.close()
        self._answering.join()
        self._theirs.close()


def episode(value: float, success: bool) -> Message:
    """As the scene's sandbox sends it."""
    arrays = EpisodeArrays(
        state=np.full((3, 1), value, np.float32), action=np.zeros((2, 1), np.float32), source=np.zeros(2, np.uint8),
        chunk=np.zeros(2, np.int32),
    )  # fmt: skip
    return {**evidence_out(Evidence(arrays=arrays, images={})), "success": success}
