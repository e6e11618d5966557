"""Who says whether a rollout was a success: the task's own verifier, plug-ins beside it, several that must agree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from enpire import plugins
from enpire.errors import UsageError
from enpire.files import parse
from enpire.interfaces import Evidence, MarksSubtasks, Task, Verifier
from enpire.types import FloatArray, IntArray, MaskArray, Verdict

OWN = "task"
"""The name of the task's own verifier among `verifiers` of a station or campaign file."""
BUDGET_MS = 150.0
"""A verdict may take so long (p95): its robot waits for it."""
REASON = 4096
"""Characters of a reason; the rest is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierPlan:
    """One of the verifiers that must agree."""

    name: str
    """`task` is the task's own; the others are plug-ins: classifier, anthropic, module:attribute."""
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    """What the plug-in reads, for `task` thresholds other than the shipped ones; unknown options are refused."""


@runtime_checkable
class Slow(Protocol):
    """A verifier whose verdict takes longer than a robot may wait: the station asks it beside its loop."""

    slow: bool


@runtime_checkable
class Spends(Protocol):
    """A verifier that costs money."""

    def spend_from(self, account: Path) -> None:
        """Add up what is spent in this file, which outlives the process and which several stations may share."""


class Agreed:
    """Several verifiers that must agree: a success is what each calls one.

    When a rollout is finished is the first one's to say.
    """

    def __init__(self, members: Sequence[Verifier]) -> None:
        self.members = tuple(members)
        self.digest = _digest_together([one.digest for one in members])
        self.needs_images = any(one.needs_images for one in members)
        self.slow = any(is_slow(one) for one in members)

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done to the first."""
        return self.members[0].finished(state, ticks)

    def judge(self, evidence: Evidence) -> Verdict:
        """Unsafe when one says so, success when all do; the dear ones are asked last, and only where it matters."""
        said: list[Verdict] = []
        for member in self.members:
            said.append(member.judge(evidence))
            if said[-1].kind != "success":
                return said[-1]
        return min(said, key=lambda verdict: verdict.confidence)


def open_verifier(task: Task, plans: Sequence[VerifierPlan], account: Path | None = None) -> Verifier:
    """The verifier that a file asks for; the task's own where it names none.

    Args:
        task: whose rollouts are judged.
        plans: the verifiers that must agree.
        account: file in which those that cost money add up what they spend; without it, each does so for itself.

    Raises:
        EnpireError: no such plug-in, a missing extra, options that do not fit.
    """
    members = [_opened(task, plan) for plan in plans]
    for member in members:
        if account is not None and isinstance(member, Spends):
            member.spend_from(account)
    if not members:
        return task.verifier()
    return members[0] if len(members) == 1 else Agreed(members)


def earlier_digests(verifier: Verifier) -> frozenset[str]:
    """Digests under which earlier versions of ENPIRE recorded the same judgement; without the digest of now."""
    if isinstance(verifier, Agreed):
        each = [(one.digest, *sorted(earlier_digests(one))) for one in verifier.members]
        return frozenset(_digest_together(digests) for digests in product(*each)) - {verifier.digest}
    earlier = cast("Callable[[str], str]", plugins.load("inspections", "earlier_digest"))(verifier.digest)
    return frozenset({earlier} if earlier else ())


def _digest_together(digests: Sequence[str]) -> str:
    """The digest of several verifiers that must agree."""
    return hashlib.sha256(repr(list(digests)).encode()).hexdigest()


def judged_by(task: Task, plans: Sequence[VerifierPlan], account: Path) -> Task:
    """The task with the verifier that a file asks for; EnpireError when one cannot be opened."""
    if not plans:
        return task
    judged = _JudgedMarks if isinstance(task, MarksSubtasks) else _Judged
    return cast(Task, judged(task, open_verifier(task, plans, account)))


def keys_of(plans: Sequence[VerifierPlan]) -> list[str]:
    """Variables of the environment that hold the keys of these verifiers."""
    opened = [plugins.load("verifiers", plan.name) for plan in plans if plan.name != OWN]
    return [key for one in opened for key in cast("Sequence[str]", getattr(one, "keys", ()))]


class _Judged:
    """A task as it is, but for who judges its rollouts."""

    def __init__(self, task: Task, verifier: Verifier) -> None:
        self._task, self._verifier = task, verifier

    def verifier(self) -> Verifier:
        """The one that was asked for."""
        return self._verifier

    def __getattr__(self, name: str) -> object:
        return getattr(self._task, name)


class _JudgedMarks(_Judged):
    """One that marks its subtasks, too: a protocol is found by what a class says, not by what it passes on."""

    def subtask_marks(self, state: FloatArray) -> MaskArray:
        """As the task marks them."""
        return cast(MarksSubtasks, self._task).subtask_marks(state)


def is_slow(verifier: Verifier) -> bool:
    """Whether its verdicts take longer than a robot may wait."""
    return isinstance(verifier, Slow) and verifier.slow


def checked(verdict: Verdict) -> Verdict:
    """What a verifier said, as it can be recorded; UsageError when it is no verdict."""
    if verdict.kind not in ("success", "failure", "unsafe"):
        raise UsageError(f"it said {verdict.kind!r}, not success, failure or unsafe")
    if not 0.0 <= verdict.confidence <= 1.0:
        raise UsageError(f"its confidence is {verdict.confidence}, not a number from 0 to 1")
    return replace(verdict, reason=verdict.reason[:REASON])


def thresholds_of(verifier: Verifier) -> object:
    """The dataclass that a verifier judges by, and that its class can be made from; None where it has none."""
    values = getattr(verifier, "thresholds", None)
    return values if is_dataclass(values) and not isinstance(values, type) else None


def made_from(verifier: Verifier, asked: object) -> Verifier:
    """Another verifier of its class, with these thresholds; UsageError where its class cannot be made from them."""
    name = type(verifier).__name__
    try:
        made = cast("Callable[[object], Verifier]", type(verifier))(asked)
    except (TypeError, AttributeError) as problem:
        raise UsageError(f"{name} cannot be made from its thresholds alone: {problem}.") from problem
    if thresholds_of(made) != asked:
        raise UsageError(f"{name} keeps other thresholds than asked for: take them as the first argument of __init__.")
    return made


def _own(task: Task, options: Mapping[str, object]) -> Verifier:
    """The task's own verifier with these thresholds instead of the shipped ones; UsageError where they do not fit."""
    shipped = task.verifier()
    if not options:
        return shipped
    values = cast(Any, thresholds_of(shipped))
    if values is None:
        raise UsageError(f"The verifier of {task.spec.name} has no thresholds: take the options of `{OWN}` out.")
    asked = parse(
        cast("type[object]", type(values)), asdict(values) | dict(options), f"The options of the verifier {OWN}"
    )
    few = [name for name in options if type(now := getattr(asked, name)) is int and now < 1 <= getattr(values, name)]
    if few:
        raise UsageError(f"The options of the verifier {OWN}: {few[0]} counts samples, so it must be at least 1.")
    return made_from(shipped, asked)


def _opened(task: Task, plan: VerifierPlan) -> Verifier:
    if plan.name == OWN:
        return _own(task, plan.options)
    opened = cast("Callable[[Task, Mapping[str, object]], Verifier]", plugins.load("verifiers", plan.name))
    return opened(task, plan.options)
