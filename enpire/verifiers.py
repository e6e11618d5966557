"""Opens the verifiers that a station or campaign file names: the task's own, plug-ins, or several that must agree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from enpire import parts
from enpire.errors import UsageError
from enpire.files import parse
from enpire.interfaces import Evidence, MarksSubtasks, Task, Verifier
from enpire.types import JUDGED, FloatArray, IntArray, MaskArray, Verdict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TASK_VERIFIER = "task"
"""Names the task's own verifier in the list `verifiers` of a station or campaign file."""
VERDICT_BUDGET_MS = 150.0
"""Longest time of a verdict in ms (95th percentile), because the robot waits for it."""
_EARLIER_DIGEST: parts.PartGroup[[str], str] = parts.PartGroup("inspections")
LONGEST_REASON = 4096
"""Largest number of characters of a reason; the rest is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierSettings:
    """One verifier of a station or campaign file; where there are several, all must agree."""

    name: str
    """`task` for the task's own; else a plug-in: classifier, anthropic, module:attribute."""
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    """Options of the plug-in; for `task`, thresholds that replace the shipped ones. Unknown options are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierList:
    """The verifiers of a station or campaign file."""

    verifiers: tuple[VerifierSettings, ...] = ()


@runtime_checkable
class SlowVerifier(Protocol):
    """A verifier whose verdict takes longer than a robot may wait: the station calls it in a thread of its own."""

    slow: bool


@runtime_checkable
class PaidVerifier(Protocol):
    """A verifier whose verdicts cost money."""

    def spend_from(self, account: Path) -> None:
        """Add the cost of each verdict to the total in this file. Several stations and sessions may share it."""


class UnanimousVerifier:
    """Several verifiers that must agree: a rollout is a success when every member says so.

    The first member decides when a rollout is finished. Members run in order until one does not say success, so
    costly verifiers run last.
    """

    def __init__(self, members: Sequence[Verifier]) -> None:
        self.members = tuple(members)
        self.digest = _digest_together([one.digest for one in members])
        self.needs_images = any(one.needs_images for one in members)
        self.slow = any(is_slow(one) for one in members)

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Lanes that look done to the first member: state (lanes, state_dim), ticks (lanes,) -> mask (lanes,)."""
        return self.members[0].finished(state, ticks)

    def judge(self, evidence: Evidence) -> Verdict:
        """The first verdict that is not a success; else the success with the lowest confidence."""
        verdicts: list[Verdict] = []
        for member in self.members:
            verdicts.append(member.judge(evidence))
            if verdicts[-1].kind != "success":
                return verdicts[-1]
        return min(verdicts, key=lambda verdict: verdict.confidence)


@runtime_checkable
class JudgesWithOthers(Protocol):
    """A verifier that may judge alone only after its precision and recall on labels of people were shown."""

    unproven: str
    """Why it may not judge alone, as a sentence; empty if it may."""


def open_verifier(
    task: Task, plans: Sequence[VerifierSettings], account: Path | None = None, *, measured: bool = False
) -> Verifier:
    """The verifier that a file names; the task's own where it names none.

    Args:
        task: the task whose rollouts are judged.
        plans: the verifiers that must agree.
        account: file in which paid verifiers add up their cost; None: each counts its own cost.
        measured: its precision and recall are being measured, so it may judge alone.

    Raises:
        EnpireError: a plug-in does not exist, needs a missing package, or refuses its options, or it may not judge
            alone.
    """
    members = [_open(task, plan) for plan in plans]
    for member in members:
        if account is not None and isinstance(member, PaidVerifier):
            member.spend_from(account)
    if not members:
        return task.verifier()
    unproven = [member.unproven for member in members if isinstance(member, JudgesWithOthers) and member.unproven]
    if len(unproven) == len(members) and not measured:
        raise UsageError(unproven[0])
    return members[0] if len(members) == 1 else UnanimousVerifier(members)


def earlier_digest(digest: str) -> str:
    """The digest under which an earlier version of ENPIRE recorded the shipped verifier of this one; empty if none."""
    return _EARLIER_DIGEST.load("earlier_digest")(digest)


def earlier_digests(verifier: Verifier) -> frozenset[str]:
    """Digests under which earlier versions of ENPIRE recorded the same verifier, without its present digest."""
    if isinstance(verifier, UnanimousVerifier):
        each = [(one.digest, *sorted(earlier_digests(one))) for one in verifier.members]
        return frozenset(_digest_together(digests) for digests in product(*each)) - {verifier.digest}
    earlier = earlier_digest(verifier.digest)
    return frozenset({earlier} if earlier else ())


def _digest_together(digests: Sequence[str]) -> str:
    """The digest of several verifiers that must agree."""
    return hashlib.sha256(repr(list(digests)).encode()).hexdigest()


def with_verifiers(task: Task, plans: Sequence[VerifierSettings], account: Path) -> Task:
    """The task with the verifiers that a file names.

    Raises:
        EnpireError: as `open_verifier`.
    """
    if not plans:
        return task
    verifier = open_verifier(task, plans, account)
    marks = isinstance(task, MarksSubtasks)
    wrapped = _TaskWithVerifierAndSubtasks(task, verifier, task) if marks else _TaskWithVerifier(task, verifier)
    return cast("Task", wrapped)


def key_variables(plans: Sequence[VerifierSettings]) -> list[str]:
    """Names of the environment variables that hold the API keys of these verifiers."""
    loaded = [parts.VERIFIERS.load(plan.name) for plan in plans if plan.name != TASK_VERIFIER]
    return [key for one in loaded for key in parts.key_variables(one)]


class _TaskWithVerifier:
    """A task with another verifier; everything else is passed on to the task."""

    def __init__(self, task: Task, verifier: Verifier) -> None:
        self._task, self._verifier = task, verifier

    def verifier(self) -> Verifier:
        """The other verifier."""
        return self._verifier

    def __getattr__(self, name: str) -> object:
        return getattr(self._task, name)


class _TaskWithVerifierAndSubtasks(_TaskWithVerifier):
    """The same for a task that marks its subtasks: `isinstance` finds methods of the class, not of `__getattr__`."""

    def __init__(self, task: Task, verifier: Verifier, marks: MarksSubtasks) -> None:
        super().__init__(task, verifier)
        self._marks = marks

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """The marks of the task: (n, state_dim) -> (n, len(subtasks))."""
        return self._marks.subtask_marks(state)


def is_slow(verifier: Verifier) -> bool:
    """Whether its verdicts take longer than a robot may wait."""
    return isinstance(verifier, SlowVerifier) and verifier.slow


def require_verdict(verdict: Verdict) -> Verdict:
    """The verdict with its reason cut to the length that is recorded; UsageError when it is not a valid verdict."""
    if verdict.kind not in JUDGED:
        raise UsageError(f"its verdict is {verdict.kind!r}, not success, failure or unsafe")
    if not 0.0 <= verdict.confidence <= 1.0:
        raise UsageError(f"its confidence is {verdict.confidence}, not a number from 0 to 1")
    return replace(verdict, reason=verdict.reason[:LONGEST_REASON])


def thresholds_of(verifier: Verifier) -> DataclassInstance | None:
    """The dataclass of thresholds by which a verifier judges; None where it has none."""
    values = getattr(verifier, "thresholds", None)
    return values if is_dataclass(values) and not isinstance(values, type) else None


def with_thresholds(verifier: Verifier, asked: object) -> Verifier:
    """A verifier of the same class with these thresholds; UsageError where its class does not take them."""
    name = type(verifier).__name__
    try:
        made = cast("Callable[[object], Verifier]", type(verifier))(asked)
    except (TypeError, AttributeError) as problem:
        raise UsageError(f"{name} cannot be made from its thresholds alone: {problem}.") from problem
    if thresholds_of(made) != asked:
        raise UsageError(
            f"{name} ignores the thresholds that it is given: take them as the first argument of __init__."
        )
    return made


def _task_verifier(task: Task, options: Mapping[str, object]) -> Verifier:
    """The task's own verifier, with these thresholds in place of the shipped ones.

    Raises:
        UsageError: a threshold does not exist, has the wrong type, or counts less than one sample.
    """
    shipped = task.verifier()
    if not options:
        return shipped
    values = thresholds_of(shipped)
    if values is None:
        raise UsageError(
            f"The verifier of {task.spec.name} has no thresholds: remove the options of `{TASK_VERIFIER}`."
        )
    where = f"The options of the verifier {TASK_VERIFIER}"
    asked = parse(type(values), asdict(values) | dict(options), where)
    few = [name for name in options if type(now := getattr(asked, name)) is int and now < 1 <= getattr(values, name)]
    if few:
        raise UsageError(f"{where}: {few[0]} counts samples, so it must be at least 1.")
    return with_thresholds(shipped, asked)


def _open(task: Task, plan: VerifierSettings) -> Verifier:
    if plan.name == TASK_VERIFIER:
        return _task_verifier(task, plan.options)
    return parts.VERIFIERS.load(plan.name)(task, plan.options)
