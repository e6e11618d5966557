"""Smoke check of a policy version: it acts on recorded observations, in batches as at a station, before its gate.

A policy that collects data for it (`HasCollector`) acts, too.

The check runs in the process that made the version, which has its libraries loaded, or in a process of its own
(`enpire.processes.version_check_process`). It never runs in the orchestrator.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from enpire.errors import LearningProblem, PolicyProblem, UnknownName
from enpire.interfaces import DeclaresImages, ImprovementJob, Policy, Task, Unrepeatable
from enpire.parts import TASKS
from enpire.policy_calls import NOT_FINITE, PLUGIN_ERRORS, call_policy, collector_of, described, policy_seed
from enpire.processes.recorded_states import RecordedStates, recorded_states
from enpire.store import durable, versions
from enpire.store.load_version import AllowedKinds, load_version, require_horizon
from enpire.types import FloatArray, TaskSpec
from enpire.wording import counted

LANES, LANES_WITH_IMAGES = 16, 4
"""Most episodes whose observations are shown together; fewer for policies that need images, because those are slow."""
TRIES, FAR = 12, 4
"""The calls for one lane are made twice, then again up to TRIES times while one is too slow, because other processes
may slow this one down: only the fastest try counts, so no warm-up. A call FAR times too slow gets no third try."""
LIMIT_S = 120.0
"""A policy that has not answered by then is ended with its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCheck:
    """The result of a smoke check."""

    why: str = ""
    """One sentence why the version cannot be used; empty if it can."""
    observations: int = 0
    """Recorded observations on which it acted; 0 if there were none."""
    slowest_s: float = 0.0
    """Slowest call for one lane, as a real robot needs it, in s; each call at its fastest try."""
    deadline_s: float = 0.0
    """Longest time of a call, in s: `execute` periods of the task; 0 where the task is not installed."""
    clipped: float = 0.0
    """Share of the commands outside the action bounds of the task, which a station clips, in [0, 1]."""
    repeatable: bool = True
    """Whether the same seeds and observations give the same actions; False only for a policy that says so."""
    images: str = "none needed"
    """Where its images came from, or why it got none."""

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if self.why:
            return f"The version cannot be used: {self.why}"
        if not self.observations:
            why = "" if self.images == "none needed" else f" (images are {self.images})"
            return f"The version was loaded, but not tried: there are no recorded observations for it{why}."
        shares = f"{self.clipped:.1%} of the commands clipped, images {self.images}."
        limit = f" of {1000 * self.deadline_s:.0f}" if self.deadline_s else ""
        again = "" if self.repeatable else " Its actions cannot be repeated: its noise does not come from our seeds."
        return (
            f"The version acts on {counted(self.observations, 'recorded observation')}: slowest call "
            f"{1000 * self.slowest_s:.1f}{limit} ms, {shares}{again}"
        )


def require_acting(job: ImprovementJob) -> VersionCheck:
    """Check the version that a training run has made.

    Raises:
        LearningProblem: it cannot be used.
    """
    try:
        task = TASKS.make(job.task)
    except UnknownName:
        task = None  # the learner's machine may lack a lab's own task; the stations have it
    kind = str(versions.manifest(job.output)["kind"])
    unsandboxed = job.code is not None and job.code.unsandboxed
    allowed = AllowedKinds(kinds=(kind,), unsandboxed=unsandboxed)  # its learner's code ran in this process already
    found = check_version(job.output, task, job.episodes, allowed)
    if found.why:
        raise LearningProblem(f"The learner {job.recipe['learner']!r} made a version that cannot act: {found.why}")
    return found


def check_version(
    folder: Path, task: Task | None, episodes: Sequence[Path], allowed: AllowedKinds | None = None
) -> VersionCheck:
    """Load a version and let it act on a sample of recorded observations.

    Args:
        folder: of the version.
        task: gives the bounds of the actions and the deadline; without it these are not checked.
        episodes: folders of the episode store.
        allowed: what may be loaded besides the installed kinds.
    """
    try:
        policy = load_version(folder, folder.name, allowed)
        require_horizon(policy)
        collector = collector_of(policy)
    except PLUGIN_ERRORS as problem:
        return VersionCheck(why=f"it cannot be loaded: {described(problem).rstrip('.')}.")
    lanes = LANES_WITH_IMAGES if isinstance(policy, DeclaresImages) and policy.needs_images else LANES
    states = recorded_states(policy, task, episodes, lanes)
    if states is None or states.lacks_images:
        return VersionCheck(images=states.images if states else "none needed")
    spec = task.spec if task else None
    found = _acts(policy, spec, states)
    if collector is None or found.why:
        return found
    collecting = _acts(collector, spec, states)
    return replace(found, why=f"as a collector of data: {collecting.why}") if collecting.why else found


def _acts(policy: Policy, spec: TaskSpec | None, states: RecordedStates) -> VersionCheck:
    """Let a policy act twice from the same seeds in all lanes, then in one lane against the clock."""
    action_dim = spec.action_dim if spec else states.action_dim
    first, again = (_pass(policy, states, action_dim)[0] for _ in range(2))
    for answers in (first, again):
        if isinstance(answers, str):
            return VersionCheck(why=f"on recorded observations, its {answers.rstrip('.')}.")
    repeatable = not (isinstance(policy, Unrepeatable) and policy.unrepeatable)
    if repeatable and not all(map(np.array_equal, first, again)):
        return VersionCheck(why="from the same seeds and observations, it returned other actions the second time.")
    deadline_s = policy.execute * spec.period_s if spec else 0.0
    try:
        slowest_s = _slowest_s(policy, states.one_lane(), action_dim, deadline_s)
    except PolicyProblem as problem:
        return VersionCheck(why=str(problem))
    if deadline_s and slowest_s > deadline_s:
        return VersionCheck(
            why=f"one call for one robot takes {1000 * slowest_s:.0f} ms, longer than the {policy.execute} periods "
            f"({1000 * deadline_s:.0f} ms) for which its actions last."
        )
    return VersionCheck(
        observations=len(states.seeds) * len(states.observations), slowest_s=slowest_s, deadline_s=deadline_s,
        images=states.images, repeatable=repeatable, clipped=_clipped(np.stack(first), spec) if spec else 0.0,
    )  # fmt: skip


def _slowest_s(policy: Policy, states: RecordedStates, action_dim: int, deadline_s: float) -> float:
    """Seconds of the slowest call, each at its fastest try; PolicyProblem if the policy fails in one lane alone."""
    fastest = np.full(len(states.observations), np.inf)
    for attempt in range(TRIES):
        answers, seconds = _pass(policy, states, action_dim)
        if isinstance(answers, str):
            raise PolicyProblem(f"with one lane, its {answers.rstrip('.')}.")
        fastest = np.minimum(fastest, seconds)
        if attempt and (fastest.max() <= (deadline_s or np.inf) or fastest.max() > FAR * deadline_s):
            break
    return float(fastest.max())


def _pass(policy: Policy, states: RecordedStates, action_dim: int) -> tuple[list[FloatArray] | str, list[float]]:
    """(the chunks of each decision, or one clause why there are none; seconds of each call), from the beginning."""
    answers, seconds = list[FloatArray](), list[float]()
    wanted = (len(states.seeds), policy.horizon, action_dim)
    try:
        for lane, seed in enumerate(states.seeds):
            policy.begin(lane, policy_seed(seed))
    except PLUGIN_ERRORS as problem:
        return f"policy failed to begin: {described(problem)}", seconds
    for observation in states.observations:
        began_s = time.perf_counter()
        answer = call_policy(lambda shown=observation: policy.act(shown, states.lanes), wanted)
        seconds.append(time.perf_counter() - began_s)
        if isinstance(answer, str):
            return answer, seconds
        if not np.isfinite(answer).all():
            return NOT_FINITE, seconds
        answers.append(answer.copy())
    return answers, seconds


def _clipped(actions: FloatArray, spec: TaskSpec) -> float:
    """Share of the numbers of actions (..., action_dim) outside the bounds."""
    low, high = (np.array([getattr(item, end) for item in spec.action], np.float32) for end in ("low", "high"))
    return float(((actions < low) | (actions > high)).mean())


@contextmanager
def ending_after(seconds: float, failure: Path) -> Generator[None]:
    """End this process, with one sentence in the file `failure`, if the block takes longer.

    A thread ends it: a policy that hangs in compiled code cannot be interrupted.
    """

    def end() -> None:
        durable.write(failure, f"The version did not answer within {seconds:.0f} s.".encode())
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
