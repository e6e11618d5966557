"""Measures a task that an agent wrote: its code runs in two sandboxes, and the comparison runs here.

In the first sandbox its scene passes the conformance checks and makes episodes with known outcomes, which come here. In
the second its verifier judges these episodes. It gets the arrays and images of one episode at a time, in an order that
is drawn here, and sends verdicts. So no label is readable where the verifier runs, and nothing is compared there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from enpire.code_candidates.rooms import CodeRoom, OpenRoom
from enpire.errors import FileProblem, TransportProblem, UsageError
from enpire.field_reader import Fields
from enpire.files import parse
from enpire.interfaces import Evidence, Judge
from enpire.log_lines import printable
from enpire.parts import PartGroup
from enpire.store.arrays import pack, unpack
from enpire.types import Interval, TaskSpec, Verdict
from enpire.wire.rpc import Message, pictures_in, pictures_out

EPISODES = 200
"""Simulated episodes with known outcomes on which a verifier is measured."""
SCORING_S = 500.0
MOST_TICKS = 100_000
"""Largest time limit of a task that an agent writes, in periods."""
MOST_BYTES = 512 * 2**20
"""Arrays and images of all its episodes together."""
MOST_FAILED, LONGEST_LINE, LONGEST_REPORT = 20, 1000, 8000
"""Lines about checks that failed, characters of one, and characters of the verifier's report."""
Labelled = tuple[Evidence, bool]
"""An episode, and whether it is a success by the scene's ground truth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScore:
    """What the conformance checks and the verifier's report measured.

    The checks run beside the task's code, and the labels are its scene's own ground truth: code that is made to deceive
    can deceive there. The score helps the person who reads the code, and decides nothing.
    """

    digest: str
    """sha256 of the files."""
    passed: int
    """Conformance checks."""
    applied: int
    failed: tuple[str, ...]
    """One line for each check that failed."""
    verifier: str
    """The report of its verifier on EPISODES labelled episodes, or why there is none."""
    precision: float | None
    recall: float | None


class Grade(Protocol):
    """What is read of a verifier's grade."""

    precision: Interval
    recall: Interval


class VerifierReport(Protocol):
    """What is read of a verifier's report."""

    text: str
    grades: tuple[Grade, ...]


class RoomJudge:
    """The verifier of the task in its sandbox."""

    def __init__(self, room: OpenRoom, until_s: float) -> None:
        self._room, self._until_s = room, until_s
        _message(room, until_s)  # it has loaded

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict on one episode.

        Raises:
            UsageError: the verifier raised an error.
            TransportProblem: it sent no verdict in time.
        """
        self._room.frames.send(evidence_out(evidence), max(0.0, self._until_s - time.monotonic()))
        kind = _message(self._room, self._until_s).choice("kind", ("success", "failure", "unsafe"))
        return Verdict(kind=kind, confidence=1.0, source="verifier")


def measure(files: Mapping[str, str], digest: str, show: Callable[[str], None]) -> TaskScore:
    """The score of a task's files; a task that gives none has failed."""
    grading: PartGroup[[Judge, Sequence[Labelled], TaskSpec, str], VerifierReport] = PartGroup("inspections")
    judged = grading.load("judged")
    PartGroup("inspections").load("task")  # so that the sandboxes show the packages of both
    until_s, none = time.monotonic() + SCORING_S, "There is no report"
    score = TaskScore(
        digest=digest, passed=0, applied=0, failed=(), verifier=f"{none}.", precision=None, recall=None
    )  # fmt: skip
    try:
        with _opened("task_room", {"episodes": EPISODES, "files": dict(files)}, show) as room:
            score = _checked(score, _message(room, until_s))
            spec, episodes = _made(room, until_s)
        random.SystemRandom().shuffle(episodes)
        with _opened("verifier_room", {"files": dict(files)}, show) as room:
            report = judged(RoomJudge(room, until_s), episodes, spec, digest)
        grade = report.grades[0]
        score = replace(score, verifier=report.text, precision=grade.precision.rate, recall=grade.recall.rate)
    except (TransportProblem, FileProblem) as problem:
        score = replace(score, failed=(f"it gave no score within {SCORING_S:.0f} s: {problem}",))
    except UsageError as problem:
        score = replace(score, verifier=f"{none}: {problem}")
    failed = tuple(one_line(line)[:LONGEST_LINE] for line in score.failed[:MOST_FAILED])
    return replace(score, failed=failed, verifier=printable(score.verifier)[:LONGEST_REPORT])


def evidence_out(evidence: Evidence) -> Message:
    """One episode without its label, as it travels."""
    return {"arrays": pack(evidence.arrays), "images": pictures_out(evidence.images)}


def evidence_in(message: Fields) -> Evidence:
    """One episode as it arrived.

    Raises:
        TransportProblem, FileProblem: it is none.
    """
    return Evidence(arrays=unpack(message.data("arrays")), images=pictures_in(message))


def one_line(text: str) -> str:
    """A text of an agent, or of its code, that can neither command a terminal nor look like several lines."""
    return printable(" ".join(text.split()))


@contextmanager
def _opened(module: str, first: Message, show: Callable[[str], None]) -> Generator[OpenRoom]:
    room = OpenRoom(CodeRoom(module=module, folders={}, first=first, show=show))
    try:
        yield room
    finally:
        room.close()


def _message(room: OpenRoom, until_s: float) -> Fields:
    """What a sandbox sends next.

    Raises:
        UsageError: the task's code raised an error.
        TransportProblem: its process ended, or nothing came in time.
    """
    answer = room.frames.receive(until_s)
    if answer is None:
        raise TransportProblem(f"Its process ended. {room.excess}".strip())
    if "problem" in answer:
        raise UsageError(answer.text("problem"))
    return answer


def _checked(score: TaskScore, answer: Fields) -> TaskScore:
    """The score with the conformance checks.

    Raises:
        TransportProblem, FileProblem: the answer holds none.
    """
    found = {key: value for key, value in answer.mapping("checks").items() if key in ("passed", "applied", "failed")}
    whole = {"digest": score.digest, "verifier": score.verifier, "precision": None, "recall": None, **found}
    return parse(TaskScore, whole, "The score of the task")


def _made(room: OpenRoom, until_s: float) -> tuple[TaskSpec, list[Labelled]]:
    """The task's spec, and the episodes that its scene made.

    Raises:
        TransportProblem, FileProblem: they are not what the spec says, or larger than is kept.
    """
    spec = parse(TaskSpec, _message(room, until_s).mapping("spec"), "The spec of the task")
    if not 0 < spec.limit_ticks <= MOST_TICKS:
        raise TransportProblem(f"The task's limit_ticks is {spec.limit_ticks}; allowed are 1 to {MOST_TICKS}.")
    episodes, size = list[Labelled](), 0
    while len(episodes) < EPISODES:
        answer = _message(room, until_s)
        size += len(answer.data("arrays"))
        evidence = evidence_in(answer)
        size += sum(picture.nbytes for picture in evidence.images.values())
        if size > MOST_BYTES:
            raise TransportProblem(f"Its episodes are too large: at most {MOST_BYTES} bytes together are measured.")
        if evidence.arrays.state.shape[1:] != (spec.state_dim,):
            raise TransportProblem(f"An episode has states of shape {evidence.arrays.state.shape}.")
        if (ticks := len(evidence.arrays.action)) > spec.limit_ticks:
            raise TransportProblem(f"An episode has {ticks} ticks; the task's limit_ticks is {spec.limit_ticks}.")
        episodes.append((evidence, answer.flag("success")))
    return spec, episodes
