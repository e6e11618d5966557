"""Checks of a task's verifier, expert, reset and Gymnasium environment."""

from __future__ import annotations

import timeit
import warnings

import numpy as np

from enpire.conformance import CheckFailed, DoesNotApply, require
from enpire.gate.intervals import wilson
from enpire.interfaces import Evidence, MarksSubtasks, Policy, Rig
from enpire.types import EpisodeArrays, FloatArray, Observation
from enpire.verifiers import VERDICT_BUDGET_MS
from sim.task_check.bench import LANES, Bench, Idle, limits

RESET_S = 60.0
"""Longest reset, in robot time."""


def check_verifier_is_frozen(bench: Bench) -> None:
    """Two verifiers have the same digest, which a campaign records."""
    one, other = bench.task.verifier(), bench.make().verifier()
    require(one.digest and one.digest == other.digest, f"The digests are {one.digest!r} and {other.digest!r}.")


def check_nothing_is_finished_at_its_start(bench: Bench) -> None:
    """`finished` of the verifier is false at every start, with one bool for each lane."""
    state, verifier = bench.placed(LANES).observe().state, bench.task.verifier()
    # Late in a rollout, too: a robot that has not moved has not done the task.
    for ticks in (0, bench.spec.limit_ticks - 1):
        done = verifier.finished(state, np.full(LANES, ticks, np.int64))
        require(done.shape == (LANES,) and done.dtype == np.bool_, f"`finished` gave {done.dtype} of {done.shape}.")
        lanes = np.flatnonzero(done).tolist()
        require(not lanes, f"Lanes {lanes} are at their start and called finished in period {ticks}.")


def check_a_start_is_no_success(bench: Bench) -> None:
    """A rollout that ends after one period of holding still is a failure."""
    rig = bench.placed(2)
    first = rig.observe().state.copy()
    hold = Idle(bench.spec).act(rig.observe(), np.arange(2))[:, 0]
    sent = rig.act(hold, np.ones(2, np.bool_))
    verifier = bench.task.verifier()
    for lane in range(2):
        states = np.stack([first[lane], rig.observe().state[lane]])
        verdict = verifier.judge(_evidence(bench, rig, lane, states, sent[lane][None]))
        require(verdict.kind != "success", f"Start {lane} is called a success.")


def check_idleness_fails_at_the_limit(bench: Bench) -> None:
    """A robot that holds still fails: at the limit, or where an environment of others ends its rollout."""
    may_end_early = getattr(bench.task, "starts_from_seeds", False)
    for tried in bench.idle:
        require(
            may_end_early or tried.ticks == bench.spec.limit_ticks, f"The rollout ended after {tried.ticks} periods."
        )
        require(tried.verdict.kind != "success", "Holding still is called a success.")


def check_expert_succeeds(bench: Bench) -> None:
    """The clean expert succeeds from most hidden starts, by the verifier."""
    good = [tried for tried in bench.shown if tried.verdict.kind == "success"]
    took = f" in {np.median([tried.ticks for tried in good]):.0f} periods" if good else ""
    bench.notes.append(f"the expert succeeds from {len(good)} of {LANES} starts{took}")
    require(len(good) >= 0.75 * LANES, f"It succeeded from {len(good)} of {LANES}.")


def check_success_ends_before_the_limit(bench: Bench) -> None:
    """The verifier detects a success before the time limit."""
    good = [tried for tried in bench.shown if tried.verdict.kind == "success"]
    require(good, "There was no success to detect.")
    late = sum(tried.ticks >= bench.spec.limit_ticks for tried in good)
    require(late < len(good), "Every success lasted to the limit: `finished` never became true.")


def check_verdicts_are_sane(bench: Bench) -> None:
    """A verdict is success, failure or unsafe, with a confidence in [0, 1] and the source `verifier`."""
    for tried in [*bench.shown, *bench.idle]:
        verdict = tried.verdict
        fits = verdict.kind in ("success", "failure", "unsafe") and 0.0 <= verdict.confidence <= 1.0
        require(fits and verdict.source == "verifier", f"It gave {verdict}.")


def check_verdicts_repeat(bench: Bench) -> None:
    """The same evidence gets the same verdict again, also from a fresh verifier."""
    verifier = bench.task.verifier()
    for tried in [*bench.shown, *bench.idle]:
        evidence = Evidence(arrays=tried.arrays, images=tried.images)
        for judge in (verifier, verifier, bench.task.verifier()):
            require(judge.judge(evidence) == tried.verdict, "The second verdict differs.")


def check_verdicts_are_fast(bench: Bench) -> None:
    """A verdict takes at most 150 ms (p95), as the robot waits for it. The faster of two calls counts."""
    verifier, took_ms = bench.task.verifier(), list[float]()
    for tried in [*bench.shown, *bench.idle]:
        evidence = Evidence(arrays=tried.arrays, images=tried.images)
        took_ms.append(1e3 * min(timeit.repeat(lambda evidence=evidence: verifier.judge(evidence), repeat=2, number=1)))
    p95_ms = float(np.percentile(took_ms, 95))
    bench.notes.append(f"a verdict takes {p95_ms:.1f} ms (p95)")
    require(p95_ms <= VERDICT_BUDGET_MS, f"It took {p95_ms:.0f} ms.")


def check_verdicts_agree_with_the_truth(bench: Bench) -> None:
    """The verifier, which uses sensors only, agrees with the ground truth (at most one in ten verdicts differs)."""
    tried = [*bench.shown, *bench.demonstrated, *bench.idle]
    if any(item.known_truth is None for item in tried):
        raise DoesNotApply("the rig has no `truth` to compare with")
    wrong = sum((item.verdict.kind == "success") != item.truth.success for item in tried)
    agreement = wilson(len(tried) - wrong, len(tried))
    bench.notes.append(f"verdicts agree with the truth {agreement.successes} of {agreement.n} times")
    require(wrong <= 0.1 * len(tried), f"{wrong} of {len(tried)} verdicts were wrong.")


def check_marks_follow_the_subtasks(bench: Bench) -> None:
    """Subtasks are marked: none at a start, the last in every success, and not while the robot holds still."""
    named = bench.spec.subtasks
    if not named:
        raise DoesNotApply("it names no subtasks, so retries within an episode are not counted")
    if not isinstance(bench.task, MarksSubtasks):
        raise CheckFailed(f"Nothing marks {', '.join(named)}: give the task `subtask_marks`, or remove the names.")
    for tried in [*bench.shown, *bench.idle]:
        marks = bench.task.subtask_marks(tried.arrays.state)
        wanted = (len(tried.arrays.state), len(named))
        require(marks.shape == wanted and marks.dtype == np.bool_, f"Marks are {marks.dtype} of {marks.shape}.")
        require(not marks[0].any(), f"At its start, {marks[0].tolist()} of the subtasks are marked as done.")
        ended = bool(marks[:, -1].any())
        require(ended or tried.verdict.kind != "success", f"A success never had {named[-1]}.")
        require(not ended or tried in bench.shown, f"A robot that held still had {named[-1]}.")


def check_expert_chunks(bench: Bench) -> None:
    """The demonstrating expert gives finite chunks (lanes, horizon, action_dim) and executes 1 to horizon actions."""
    expert = bench.task.expert(0)
    require(1 <= expert.execute <= expert.horizon, f"It executes {expert.execute} of {expert.horizon}.")
    chunks = expert.act(_begun(bench, expert, 0), np.arange(2))
    wanted = (2, expert.horizon, bench.spec.action_dim)
    require(chunks.shape == wanted, f"A chunk has the shape {chunks.shape}, not {wanted}.")
    require(np.isfinite(chunks).all(), "A command is not finite.")


def check_expert_repeats(bench: Bench) -> None:
    """The demonstrating expert decides the same for the same seeds, with and without other lanes."""
    chunks: list[FloatArray] = []
    for lanes in (np.arange(2), np.arange(1)):
        expert = bench.task.expert(5)
        seen = _begun(bench, expert, 11)
        rows = Observation(stamp_ns=seen.stamp_ns, state=seen.state[lanes])
        chunks.append(expert.act(rows, lanes)[0])
    require(np.array_equal(chunks[0], chunks[1]), "The second decision differs.")


def check_reset_reaches_the_start(bench: Bench) -> None:
    """After a rollout, the reset skill moves the robot near another start within a minute, with finite commands."""
    if getattr(bench.task, "starts_from_seeds", False):
        raise DoesNotApply("a seed begins each episode, so no robot resets the scene")
    rig, low_high = bench.placed(3), limits(bench.spec)
    bench.drive(rig, bench.random_commands(3, 20))
    goals = [bench.start(20 + lane) for lane in range(3)]
    skill = bench.task.reset_skill()
    if hasattr(rig, "teleport"):
        rig.teleport = False  # pyright: ignore[reportAttributeAccessIssue]
    for lane, goal in enumerate(goals):
        if hasattr(rig, "teleport"):
            rig.place(lane, goal)
        skill.begin(lane, goal)
    going = np.ones(3, np.bool_)
    ticks = 0
    while going.any() and ticks < RESET_S * bench.spec.rate_hz:
        lanes = np.flatnonzero(going)
        commands, finished = skill.step(rig.observe().state[lanes], lanes)
        require(np.isfinite(commands).all() and finished.shape == lanes.shape, f"A step gave {commands}, {finished}.")
        sent = np.broadcast_to(np.clip(0.0, *low_high), (3, bench.spec.action_dim)).astype(np.float32)
        sent[lanes] = commands
        going[lanes[finished]] = False
        rig.act(sent, going)
        ticks += 1
    require(not going.any(), f"Lanes {np.flatnonzero(going).tolist()} did not finish in {RESET_S:.0f} s.")
    states = rig.observe().state
    for lane, goal in enumerate(goals):
        achieved, near = bench.task.start_error(states[lane], goal)
        require(near, f"The start is {goal.values}, and {achieved} was reached.")
    bench.notes.append(f"three resets by the robot took {ticks * bench.spec.period_s:.1f} s")


def check_gymnasium(bench: Bench) -> None:
    """Its Gymnasium environment passes Gymnasium's checker."""
    try:
        from gymnasium.utils.env_checker import check_env

        from sim.gym_env import TaskEnv
    except ImportError as missing:
        raise DoesNotApply(f"{missing.name} is not installed") from missing
    env = TaskEnv(bench.task)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_env(env, skip_render_check=True)
    except AssertionError as broken:
        raise CheckFailed(f"{broken}") from broken
    finally:
        env.close()


def check_gymnasium_hides_the_truth(bench: Bench) -> None:
    """The Gymnasium environment gives a reward only with a verdict, and its info holds no ground truth."""
    try:
        from sim.gym_env import TaskEnv
    except ImportError as missing:
        raise DoesNotApply(f"{missing.name} is not installed") from missing
    env = TaskEnv(bench.task)
    try:
        env.reset(seed=1)
        for _ in range(5):
            _, reward, over, late, info = env.step(np.zeros(bench.spec.action_dim, np.float32))
            require((over or late) or (reward == 0.0 and not info), f"Before the end it gave {reward}, {info}.")
            require(set(info) <= {"verdict", "confidence"}, f"The info holds {sorted(info)}.")
            if over or late:
                return
    finally:
        env.close()


def check_rigs_close(bench: Bench) -> None:
    """Every rig that was used can be closed."""
    bench.close()


def _begun(bench: Bench, expert: Policy, seed: int) -> Observation:
    rig = bench.placed(2)
    for lane in range(2):
        expert.begin(lane, seed + lane)
    return rig.observe()


def _evidence(bench: Bench, rig: Rig, lane: int, states: FloatArray, sent: FloatArray) -> Evidence:
    arrays = EpisodeArrays(
        state=states, action=sent, source=np.zeros(len(sent), np.uint8), chunk=np.zeros(len(sent), np.int32)
    )
    return Evidence(arrays=arrays, images=rig.look(lane) if bench.task.verifier().needs_images else {})


CHECKS = (
    check_verifier_is_frozen, check_nothing_is_finished_at_its_start, check_a_start_is_no_success,
    check_idleness_fails_at_the_limit, check_expert_succeeds, check_success_ends_before_the_limit,
    check_verdicts_are_sane, check_verdicts_repeat, check_verdicts_are_fast, check_verdicts_agree_with_the_truth,
    check_marks_follow_the_subtasks, check_expert_chunks, check_expert_repeats, check_reset_reaches_the_start,
    check_gymnasium, check_gymnasium_hides_the_truth, check_rigs_close,
)  # fmt: skip
