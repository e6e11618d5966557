"""Whole studies with a pretended fleet: real ledger, real versions, real schedule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from enpire.campaign.campaign import Stations
from enpire.campaign.order_events import EpisodeLabelled, OrdersIssued
from enpire.errors import FileProblem, UsageError
from enpire.files import parse
from enpire.gate.trials import PROCESS_ENDED, STATION_ENDS
from enpire.home import Home, open_home
from enpire.lab import Lab
from enpire.loop import run
from enpire.queries.decision_audit import recompute
from enpire.scheduling.scheduler import FreeStation
from enpire.service.studies import open_results, plan_power, read_report, run_study
from enpire.steps.ending import shut_down
from enpire.steps.study import StudyWork
from enpire.store import durable, versions
from enpire.store.ledger import SqliteLedger
from enpire.study.plan import StudyPlan
from enpire.types import Order, OutcomeKind
from enpire.wire.arrivals import Delivered
from tests.enpire.test_loop import lab_of
from tests.fakes.fake_fleet import COIN_KIND, FakeFleet, delivered

PLAN = StudyPlan(
    name="wrist", task="coin", arms={"old": "", "new": ""}, blocks=120, stations=Stations(count=0, lanes=4, ahead=0)
)


def known_home(folder: Path) -> Home:
    """A home with a known secret: what is random in a study is then the same in every run."""
    found = open_home(folder)
    durable.write(found.root / "secret", bytes(range(32)).hex().encode(), mode=0o600)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return known_home(tmp_path / "home")


def coin(home: Home, tmp: Path, chance: float) -> str:
    """A version that succeeds with this probability; its id."""
    folder = tmp / f"coin-{chance}"
    durable.make_folder(folder)
    durable.write(folder / "policy.json", json.dumps({"kind": COIN_KIND, "chance": chance}).encode())
    return versions.publish(folder, home.versions)


@dataclass
class Study:
    """One study in a home, which a test runs session by session."""

    home: Home
    plan: StudyPlan
    arms: dict[str, str]
    amend: str = ""
    campaign_id: str = "C1"
    spoil: Callable[[Order], OutcomeKind | None] = lambda order: None
    ending: Callable[[Order], Delivered] | None = None
    issued: list[Order] = field(default_factory=list[Order])

    @contextmanager
    def session(self, lease: int = 1) -> Iterator[tuple[Lab, StudyWork]]:
        ledger = SqliteLedger(self.home.ledger)
        fleet = FakeFleet(self.home.versions, names=("one", "two"), lease=lease, spoil=self.spoil, ending=self.ending)
        lab = lab_of(self.home, ledger, self.plan.campaign(), fleet, self.campaign_id)
        work = StudyWork(plan=self.plan, arms=self.arms, by="ann", amend=self.amend)
        try:
            work.begin(lab)
            yield lab, work
        finally:
            shut_down(lab)
            ledger.close()

    def run(self) -> StudyWork:
        with self.session() as (lab, work):
            assert run(lab, work.turn, work.ending).over
        return work

    def orders(self) -> list[Order]:
        ledger = SqliteLedger(self.home.ledger, read_only=True)
        try:
            return [
                order for entry in ledger.events(kinds=("order issued",))
                for order in entry.event.orders  # pyright: ignore[reportAttributeAccessIssue]
            ]  # fmt: skip
        finally:
            ledger.close()


def study(home: Home, tmp: Path, old: float, new: float, **changes: object) -> Study:
    plan = replace(PLAN, **changes)  # pyright: ignore[reportArgumentType]
    return Study(home, plan, {"old": coin(home, tmp, old), "new": coin(home, tmp, new)})


def test_a_better_arm_is_called_better_and_the_study_ends_there(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.1, 1.0)
    made.run()
    found = read_report(home, "wrist")
    [one] = found.comparisons
    assert one.answer == "better"
    assert one.sentence.startswith("new is better than old: ")
    assert 0 < one.low < one.difference <= one.high
    assert one.blocks < 40, "the test may end before the last block"
    assert found.ended == f"the study is complete after {found.blocks} blocks"
    assert [arm.name for arm in found.arms] == ["old", "new"]
    assert {arm.n for arm in found.arms} == {found.blocks}


def test_each_block_has_every_arm_once_from_one_start_at_one_station_in_random_order(
    home: Home, tmp_path: Path
) -> None:
    made = study(home, tmp_path, 0.5, 0.5, blocks=24)
    made.run()
    orders = made.orders()
    assert len(orders) == 48
    firsts: Counter[str] = Counter()
    starts: set[int] = set()
    for block in range(24):
        mine = [order for order in orders if order.pair == block]
        assert len({order.policy_id for order in mine}) == 2
        assert len({order.station for order in mine}) == len({order.start for order in mine}) == 1
        firsts[min(mine, key=lambda order: order.order_id).policy_id] += 1
        starts.add(mine[0].start.seed)
    assert len(starts) == 24
    assert len(firsts) == 2, "one arm is first in every block of 24 once in 8 million homes"


def test_a_block_stays_at_its_station_while_that_is_connected(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.5, 0.5, blocks=3)
    connected = {"one", "two"}
    with made.session() as (lab, work):
        scheduler = work.scheduler
        scheduler.is_connected = connected.__contains__
        one, two = (FreeStation(name, 1, 1) for name in ("one", "two"))
        [first] = scheduler.next_orders(lab.state, one)
        lab.write(OrdersIssued(orders=(first,)))
        [other] = scheduler.next_orders(lab.state, two)
        assert (first.pair, other.pair) == (0, 1)
        [drawn] = scheduler.next_orders(lab.state, two, [other])
        assert drawn.pair == 1, "both arms of a block run at one station"
        connected.remove("one")
        [moved] = scheduler.next_orders(lab.state, two)
        assert (moved.pair, moved.start) == (0, first.start)
        assert moved.policy_id != first.policy_id
        refusing = FreeStation("two", 1, 1, refuses=frozenset({moved.policy_id}))
        assert not scheduler.next_orders(lab.state, refusing), "a version that it cannot run waits"


def test_what_stations_and_the_ledger_show_names_no_arm(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.5, 0.5, blocks=10)
    made.arms["new"] = made.arms["old"]  # the same version in both arms is a fair study, too
    made.run()
    shown = {order.policy_id for order in made.orders()}
    assert len(shown) == 2
    assert not shown & set(made.arms.values())
    other = open_home(tmp_path / "other")
    again = study(other, tmp_path, 0.5, 0.5, blocks=10)
    again.run()
    assert not shown & {order.policy_id for order in again.orders()}, "another home has other copies"


def test_equal_arms_are_not_called_different(home: Home, tmp_path: Path) -> None:
    study(home, tmp_path, 0.6, 0.6, blocks=12).run()
    found = read_report(home, "wrist")
    assert [one.answer for one in found.comparisons] == ["not shown"]
    assert "does not show" in found.comparisons[0].sentence
    assert "better" not in found.comparisons[0].sentence


def test_results_are_hidden_until_the_end_or_until_a_person_opens_them(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.5, 0.5, blocks=30)
    with made.session() as (lab, work):
        while work.record.trials.complete < 3:
            work.turn(lab)
    found = read_report(home, "wrist")
    assert found.blocks >= 3
    assert not found.arms
    assert not found.comparisons
    open_results(home, "wrist", "bob", "a cable broke")
    found = read_report(home, "wrist")
    assert len(found.arms) == 2
    assert [(one.by, one.what, one.reason) for one in found.changes] == [("bob", "results opened", "a cable broke")]


def test_a_study_that_was_cut_off_resumes_where_it_was(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.3, 0.9, blocks=12, test="fixed")
    with made.session() as (lab, work):
        while work.record.trials.complete < 4:
            work.turn(lab)
        work.turn(lab)
        before = dict(work.record.trials.settled)
        versions_before = set(work.record.trials.arms)
    with made.session(lease=10) as (lab, work):
        assert before.items() <= work.record.trials.settled.items()
        assert set(work.record.trials.arms) == versions_before
        assert run(lab, work.turn, work.ending).reached
        assert work.record.trials.complete == 12
    settled = Counter((order.pair, order.policy_id) for order in made.orders())
    assert len(settled) == 24
    ledger = SqliteLedger(home.ledger, read_only=True)
    assert all(check.equal for check in recompute(ledger))
    ledger.close()


def test_a_trial_that_an_interruption_ended_runs_again_and_a_failure_of_its_own_does_not(
    home: Home, tmp_path: Path
) -> None:
    seen: Counter[tuple[int, str]] = Counter()

    def ending(order: Order) -> Delivered:
        key = order.pair, order.policy_id
        seen[key] += 1
        if order.pair == 2 and seen[key] == 1:
            return delivered(order, "aborted", 0, f"{PROCESS_ENDED} during the episode")
        if order.pair == 3:
            return delivered(order, "aborted", 0, "an operator stopped it")
        if order.pair == 4 and seen[key] <= 2:
            return delivered(order, "aborted", 0, "released")
        return delivered(order, "success", 20, "")

    made = study(home, tmp_path, 0.5, 0.5, blocks=8)
    made.ending = ending
    work = made.run()
    trials = work.record.trials
    assert {key[0]: count for key, count in seen.items() if count > 1} == {2: 2, 4: 3}
    assert {trials.outcome(3, arm) for arm in PLAN.arms} == {"aborted"}
    assert dict(trials.repeats) == {"old": 1, "new": 1}
    found = read_report(home, "wrist")
    assert [(arm.successes, arm.n, arm.other, arm.repeats) for arm in found.arms] == [(7, 8, 1, 1)] * 2


def test_a_version_that_ends_its_stations_loses_its_failures_at_some_point(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.5, 1.0, blocks=12)
    leases: Counter[str] = Counter()

    def ending(order: Order) -> Delivered:
        if order.policy_id == bad:
            leases[order.policy_id] += 1
            one = replace(order, lease=order.lease)
            return delivered(one, "aborted", 0, f"{PROCESS_ENDED} during the episode")
        return delivered(order, "success", 20, "")

    made.ending = ending
    with made.session() as (lab, work):
        bad = next(version for version, arm in work.record.trials.arms.items() if arm == "old")
        work.record.trials.reissues.ends[bad] = set(range(100, 100 + STATION_ENDS))
        assert run(lab, work.turn, work.ending).over
        assert work.record.trials.repeats["old"] == 0
        assert {work.record.trials.outcome(block, "old") for block in range(4)} == {"aborted"}


def test_an_amendment_needs_a_reason_and_stands_in_the_report(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.5, 0.5, blocks=20)
    with made.session() as (lab, work):
        while work.record.trials.complete < 3:
            work.turn(lab)
    made.plan = replace(made.plan, blocks=26)
    with pytest.raises(UsageError, match="changes blocks; say why with --amend"), made.session(lease=10):
        pass
    made.amend = "the arm is free until Friday"
    with made.session(lease=20) as (lab, work):
        assert run(lab, work.turn, work.ending).reached
    found = read_report(home, "wrist")
    assert found.planned == found.blocks == 26
    [change] = found.changes
    assert (change.by, change.what, change.reason) == ("ann", "blocks is now 26", "the arm is free until Friday")
    assert 3 <= change.after < 20


@pytest.mark.parametrize(
    ("test", "changes", "named"),
    [
        ("anytime", {"alpha": 0.1}, "alpha"),
        ("anytime", {"arms": {"old": "", "newer": ""}}, "arms"),
        ("fixed", {"blocks": 30}, "blocks"),
        ("group_sequential", {"blocks": 30}, "blocks"),
        ("group_sequential", {"looks": 2}, "looks"),
    ],
)
def test_what_would_change_the_test_is_refused_with_and_without_a_reason(
    home: Home, tmp_path: Path, test: str, changes: dict[str, object], named: str
) -> None:
    made = study(home, tmp_path, 0.5, 0.5, blocks=20, test=test)
    with made.session():
        pass
    made.plan = replace(made.plan, **changes)  # pyright: ignore[reportArgumentType]
    made.amend = "because"
    with pytest.raises(UsageError, match=f"{named} would change its test"), made.session(lease=10):
        pass


def test_another_version_under_the_name_of_an_arm_is_refused(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.5, 0.5)
    with made.session():
        pass
    made.arms["new"] = coin(home, tmp_path, 0.9)
    with pytest.raises(UsageError, match="began with another version of the arm 'new'"), made.session(lease=10):
        pass


def test_a_study_that_has_ended_does_not_begin_again(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.5, 0.5, blocks=4)
    made.run()
    plan = replace(made.plan, task="pin_insertion", arms={"old": "scripted:expert", "new": made.arms["new"]})
    with pytest.raises(UsageError, match="has ended.*give a new question a new name"):
        run_study(plan, home, "ann", "", print)


def test_people_judge_where_the_plan_says_so(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 1.0, 1.0, blocks=4, outcome="people", test="fixed")
    with made.session() as (lab, work):
        while len(work.record.trials.settled) < 8:
            work.turn(lab)
        trials = work.record.trials
        assert trials.complete == 0
        assert work.ending(lab) is None
        waiting = trials.waits_for_label()
        assert len(waiting) == 8
        for order_id in waiting:
            key = next(key for key, episode in trials.settled.items() if episode.order.order_id == order_id)
            verdict = "success" if key[1] == "new" else "failure"
            lab.write(EpisodeLabelled(order_id=order_id, outcome=verdict, by="ann"))
        assert trials.complete == 4
        ending = work.ending(lab)
        assert ending is not None
        assert ending.over
    found = read_report(home, "wrist")
    assert [(arm.name, arm.successes) for arm in found.arms] == [("old", 0), ("new", 4)]
    assert found.comparisons[0].answer == "not shown", "four blocks can show nothing"


def test_more_arms_share_the_error_and_each_has_its_own_answer(home: Home, tmp_path: Path) -> None:
    plan = replace(PLAN, arms={"old": "", "good": "", "same": ""}, blocks=30)
    assert plan.design.alpha == pytest.approx(0.025)
    made = Study(home, plan, {name: coin(home, tmp_path, rate) for name, rate in
                              (("old", 0.1), ("good", 1.0), ("same", 0.11))})  # fmt: skip
    made.run()
    answers = {one.arm: one.answer for one in read_report(home, "wrist").comparisons}
    assert answers["good"] == "better"
    assert answers["same"] == "not shown"


def test_arms_with_starts_of_their_own(home: Home, tmp_path: Path) -> None:
    made = study(home, tmp_path, 0.5, 0.5, blocks=10, starts="separate")
    made.run()
    assert len({order.start.seed for order in made.orders()}) == 20


def test_an_unknown_study_is_one_sentence(home: Home, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no study 'wrist'"):
        read_report(home, "wrist")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"arms": {"old": "a"}}, "compares 2 to 8 arms, not 1"),
        ({"control": "best"}, "control is 'best', but the arms are old, new"),
        ({"arms": dict.fromkeys("ab", "scripted:expert")}, "only one arm can be scripted:expert"),
        ({"blocks": 0}, "blocks must be from 1 to 2000"),
        ({"test": "group_sequential", "looks": 1}, "looks must be from 2 to 20"),
        ({"test": "group_sequential", "looks": 4, "blocks": 3}, "at most the 3 blocks"),
        ({"alpha": 5.0}, "for 5 % write 0.05"),
        ({"name": "../x"}, "its name must have"),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"test": "bayes"}, "must be one of anytime, group_sequential, fixed"),
    ],
)
def test_a_wrong_file_is_one_sentence(changes: dict[str, object], sentence: str) -> None:
    written = {"name": "wrist", "task": "coin", "arms": {"old": "a", "new": "b"}}
    with pytest.raises(FileProblem, match=sentence):
        parse(StudyPlan, {**written, **changes}, "The study x.yaml")


def test_a_plan_says_what_its_blocks_can_tell() -> None:
    found = plan_power(replace(PLAN, blocks=80), 0.6)
    assert found.blocks == (20, 40, 80)
    assert found.gains[-1] == 0.3
    last = [row[-1].better for row in found.power]
    assert last == sorted(last)
    assert last[-1] > 0.95 > 0.5 > last[0]
    with pytest.raises(UsageError, match="must lie between 0 and 0.95"):
        plan_power(PLAN, 0.99)
