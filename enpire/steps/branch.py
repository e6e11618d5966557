"""Run branches: train their versions in turns, and decide which version becomes a candidate and which branch ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from enpire.campaign.branch import Branch
from enpire.campaign.branch_events import BranchEnd, BranchEnded, BranchEnteredGate, RoundsHandedOver
from enpire.campaign.branch_spending import spending_text, used_up
from enpire.campaign.branch_time import has_another_turn
from enpire.campaign.learner_data import DataRow, data_hash
from enpire.campaign.recipe import Recipe
from enpire.campaign.training_events import LearnerFailed, LearnerStarted
from enpire.campaign.training_seeds import seed_of_turn
from enpire.ids import file_name, mint
from enpire.lab import Lab
from enpire.processes.cpu_time import read_cpu_s
from enpire.steps.evaluate import why_unloadable
from enpire.steps.improve import follow, job_of, present_stage, suitable_parent, why_not_parent
from enpire.types import COLLECTION

PERIOD_S = 0.5
"""Period, in seconds, at which branches are decided, and the CPU time of training runs is held against budgets."""


def branch(lab: Lab) -> None:
    """Follow the training runs of branches, decide the branches, and start the training runs that are due.

    Learners begin while robots still measure the base. A branch is decided after that.
    """
    if not lab.campaign.branches.recipes:
        return
    _follow_learners(lab)
    if lab.state.paused or not lab.state.champion or not lab.due("branches", PERIOD_S):
        return
    _hand_over(lab)
    free = [one for one in lab.state.branches.undecided if not one.quarantined]
    for one in sorted(free, key=lambda branch: (not _is_pinned(lab, branch), branch.learner_s)):
        if one.phase == "queued" and (spent := used_up(one.spent, lab.campaign.branches)):
            lab.write(branch_ended(lab, one, spent))
            continue
        if one.phase == "search" and not _end_repeated(lab, one) and lab.state.base_measured:
            _decide(lab, one)
        if lab.state.confirmation is None and (one.phase == "queued" or _turn_is_due(lab, one)):
            _train(lab, one)  # as for rounds: a confirmation may end the campaign


def _hand_over(lab: Lab) -> None:
    """Let robots act for branches once the gates of rounds show no more success, or no round is left."""
    state, campaign = lab.state, lab.campaign
    rounds = state.branches.hand_over
    if not rounds.waits:
        return
    works = state.training or state.free_candidates or state.gates
    if rounds.stalled or (state.round >= campaign.budget.rounds and not works):
        lab.write(
            RoundsHandedOver(
                policy_id=state.champion, round=state.round, without_gain=rounds.without_gain,
                reason="stalled" if rounds.stalled else "no round left",
            )
        )  # fmt: skip


def _is_pinned(lab: Lab, one: Branch) -> bool:
    """Whether an operator pinned its hypothesis, so that it gets the next training slot."""
    proposals = lab.state.proposals
    return proposals.is_pinned(proposals.experiments[one.experiment_id])


def _is_rerun(lab: Lab, one: Branch) -> bool:
    """Whether an operator asked for it again. It may act like the branch that it repeats."""
    return bool(lab.state.proposals.experiments[one.experiment_id].rerun_of)


def _follow_learners(lab: Lab) -> None:
    """Follow each training run.

    One whose branch was given up, or has used up its CPU time, is ended; one that this process did not start resumes.
    """
    running = {one.job: one for one in lab.state.branches.by_experiment.values() if one.job and one.phase == "training"}
    budgets_due = lab.due("CPU budgets of branches", PERIOD_S)
    for job in lab.state.branch_trainings.keys() - running.keys():
        _end_learner(lab, job, "Its branch is over, so the training run was ended.", branch_over=True)
    for job in running:
        training = lab.state.branch_trainings[job]
        if job not in lab.branch_learners:
            lab.branch_learners[job] = lab.train(job_of(lab, training))
        if (left := follow(lab, training, lab.branch_learners[job])) is None:
            del lab.branch_learners[job]
            if running[job].phase == "search":
                _end_repeated(lab, running[job])  # before a robot acts for it
        elif budgets_due and running[job].learner_s + left.cpu_s() >= lab.campaign.branches.learner_s:
            used = f"Its branch has used up its {lab.campaign.branches.learner_s:g} s of CPU time (branches: learner_s)"
            _end_learner(lab, job, f"{used}, so the training run was ended.", branch_over=False)
        else:
            lab.branch_learners[job] = left


def _end_learner(lab: Lab, job: str, why: str, *, branch_over: bool) -> None:
    """End a training run of a branch that is over or over its budget, also one that this process did not start."""
    learner = lab.branch_learners.pop(job, None)
    if learner is not None:
        learner.end()
    folder = lab.home.learning / file_name(job, "a training run")
    used_s = learner.cpu_s() if learner is not None else read_cpu_s(folder)
    lab.write(LearnerFailed(job=job, why=why, cpu_s=used_s, over_budget=not branch_over, branch_over=branch_over))


def _turn_is_due(lab: Lab, one: Branch) -> bool:
    """Whether the newest version has acted often enough to train again, and the budget allows another training run.

    After turns 1, 2, 4, 8, ... the version is compared with the champion first. The next version must have robot time
    left to be compared, too.
    """
    plan, branches = lab.campaign.branches, lab.state.branches
    if one.phase != "search":
        return False
    found = branches.searched.get(one.newest)
    needed = min(one.turn_rollouts, lab.campaign.rounds.train_starts)  # results are counted by start
    if found is None or len(found.results) < needed or one.learner_s >= plan.learner_s:
        return False
    if used_up(one.spent, plan):
        return False
    is_power_of_two = one.turn & (one.turn - 1) == 0
    if is_power_of_two and branches.gain(one.newest, lab.task.spec.limit_ticks).n < plan.least_starts:
        return False
    return has_another_turn(branches, one, plan.robot_s, plan.least_starts)


def _end_repeated(lab: Lab, one: Branch) -> bool:
    """End a branch whose newest version is the champion's or another branch's, bit by bit; whether it ended."""
    champion, knows = lab.state.champion, _knows(lab, one)
    if one.quarantined:
        return False
    if one.newest == champion:
        detail = "its newest version is the champion"
    elif not _is_rerun(lab, one) and (other := lab.state.branches.maker(one, knows)) is not None:
        detail = f"experiment {other.experiment_id}"
    else:
        return False
    lab.write(branch_ended(lab, one, "same actions", detail))
    return True


def _decide(lab: Lab, one: Branch) -> None:
    """Write the event of a branch whose newest version enters a gate, or which ends."""
    branches, plan, limit = lab.state.branches, lab.campaign.branches, lab.task.spec.limit_ticks
    if not _is_rerun(lab, one) and (twin := branches.twin(one, _knows(lab, one))) is not None:
        lab.write(branch_ended(lab, one, "same actions", f"experiment {twin.experiment_id}"))
        return
    ran = any(version == one.newest for _, version in branches.ran)
    if not ran and (why := why_unloadable(lab, one.newest)):
        lab.write(branch_ended(lab, one, "unloadable", why))
        return
    gain = branches.gain(one.newest, limit)
    is_late = one.robot_s >= plan.robot_s or one.learner_s >= plan.learner_s
    used: BranchEnd | None = "no gain" if is_late else used_up(one.spent, plan)
    if gain.n < plan.least_starts and (one.robot_s < plan.robot_s or branches.champion_is_behind()):
        return
    found = _look_is_due(lab, one, gain.n) and gain.low > 0
    if found or (used and gain.n >= plan.least_starts and gain.promising):
        lab.write(BranchEnteredGate(**asdict(branches.measure(one, limit))))
    elif used:
        lab.write(branch_ended(lab, one, used))
    elif branches.in_worse_half(one, plan.robot_s, limit, _knows(lab, one)):
        lab.write(branch_ended(lab, one, "worse half"))


def _look_is_due(lab: Lab, one: Branch, n: int) -> bool:
    """Whether a version has twice as many starts in common with the champion as at its last look.

    A version that is no better shows a gain by chance if it is looked at after every rollout.
    """
    compared = one.newest, lab.state.champion
    if n < 2 * lab.branch_looks.get(compared, 0):
        return False
    lab.branch_looks[compared] = n
    return True


def branch_ended(lab: Lab, one: Branch, reason: BranchEnd, detail: str = "") -> BranchEnded:
    """The event that ends a branch without a gate."""
    measure = asdict(lab.state.branches.measure(one, lab.task.spec.limit_ticks))
    if text := spending_text(reason, one.spent, lab.campaign.branches):
        tokens, money = one.spent.tokens, one.spent.budgeted_money
        return BranchEnded(**measure, reason=reason, detail=text, tokens=tokens, money=money)
    return BranchEnded(**measure, reason=reason, detail=detail)


def _train(lab: Lab, one: Branch) -> None:
    """Start the next training run of a branch, if a slot is free."""
    state, plan = lab.state, lab.campaign.branches
    if len(lab.branch_learners) >= (plan.slots or lab.learner_slots()) or not state.champion:
        return
    parent = _parent(lab, one)
    episodes = _learns_from(lab, one, parent)
    started = LearnerStarted(
        job=mint(), learner=one.recipe.learner, parent=parent,
        round=(one.round if one.turn else max(1, state.round)) + one.turn + 1,
        episodes=tuple(item.order_id for item in episodes), recipe=one.recipe, recipe_hash=one.recipe.hash,
        data_hash=data_hash(episodes), experiment_id=one.experiment_id, turn=one.turn + 1,
        seed=seed_of_turn(lab.campaign.seed, state.branches, one, _knows(lab, one)),
    )  # fmt: skip
    lab.write(started)
    lab.branch_learners[started.job] = lab.train(job_of(lab, state.branch_trainings[started.job]))


def _learns_from(lab: Lab, one: Branch, parent: str) -> Sequence[DataRow]:
    """The episodes that the next training run of a branch learns from. An isolated session's are its own."""
    state, plan = lab.state, lab.campaign.branches
    data_orders = [order for order in state.open.values() if order.purpose in (*COLLECTION, "search")]
    if plan.learns_from == "own" or plan.isolates(one.lane):
        lineage = {*state.branches.lineage(parent), *state.branches.lineage(one.newest)}
        return state.data.of_branch(lineage, lab.campaign, data_orders)
    isolated = {
        version for other in state.branches.by_experiment.values() if plan.isolates(other.lane)
        for version in other.versions
    }  # fmt: skip
    known = {row.policy_id for row in state.data.rows} | state.data.searched.keys()
    held = {version for version in known if state.quarantine.holds(version)}
    return state.data.of_branch(known - isolated - held, lab.campaign, data_orders)


def _knows(lab: Lab, one: Branch) -> Callable[[str], bool]:
    """Whether the session of a branch knows another session."""
    return lambda lane: lab.campaign.branches.between(one.lane, lane) != "isolated"


def _parent(lab: Lab, one: Branch) -> str:
    """The version that the next training run of a branch starts from: its newest, or the champion where it is behind.

    It is behind when the same learner made a better champion (`Branches.is_behind`). An isolated session does not
    start from the champions of others. Where a new stage of its recipe cannot start from that version, the branch
    starts again as a new one does.
    """
    branches, champion = lab.state.branches, lab.state.champion
    recipe = present_stage(one.recipe, one.turn + 1)
    if one.newest:
        known = not lab.campaign.branches.isolates(one.lane)
        is_behind = known and branches.is_behind(one, lab.task.spec.limit_ticks)
        version = champion if is_behind else one.newest
        if not why_not_parent(lab, recipe, version):
            return version
    return _first_parent(lab, one, recipe)


def _first_parent(lab: Lab, one: Branch, recipe: Recipe) -> str:
    """The version that a new branch starts from: the newest of the branch that it continues, else the champion.

    If the learner cannot start from a version of that kind, it is the newest champion of a kind that it can start from;
    empty if there is none. A champion that was rolled back is never one. An isolated session starts from the newest
    champion in which no other session had a part.
    """
    continued = lab.state.branches.by_experiment.get(one.parent_experiment)
    state = lab.state
    wanted = state.may_be_parents([continued.newest] if continued is not None and continued.newest else [])
    champions = state.may_be_parents(state.branches.known_champions(state.champions, _knows(lab, one)))
    present = [state.champion] if state.champion in champions else []
    return suitable_parent(lab, recipe, [*wanted, *present], champions)
