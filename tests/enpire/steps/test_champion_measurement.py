"""Between gates robots measure a promising champion on hidden starts: its confirmation begins once it will pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from enpire.campaign.acceptance import EARLIER_PURPOSES, for_station
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Goal
from enpire.campaign.confirmation_forecast import MIN_TRIALS, ConfirmationForecast
from enpire.campaign.counts import Confirmation, Count
from enpire.campaign.gate_events import ConfirmationOpened, GateDecided, GateOpened
from enpire.campaign.order_events import OrdersIssued
from enpire.campaign.recipe import Recipe
from enpire.campaign.state import CampaignState, Training
from enpire.campaign.training_events import LearnerStarted
from enpire.gate.rule import GateRule
from enpire.home import Home, open_home
from enpire.lab import Lab
from enpire.loop import run
from enpire.queries.campaigns import campaigns, history, open_records
from enpire.queries.decision_audit import recompute
from enpire.queries.label_impact import stake
from enpire.requests.operator_commands import OperatorCommand
from enpire.scheduling.scheduler import FreeStation, Scheduler, measures_champion
from enpire.steps.ending import ending
from enpire.steps.evaluate import evaluate
from enpire.steps.handle_commands import handle_commands
from enpire.steps.take_snapshot import phase_text
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Page
from enpire.types import Order
from tests.enpire.scheduling.test_scheduler import CANDIDATE, CHAMPION, a_state, scheduler, with_gate
from tests.enpire.steps.test_speed_goal import FAST, TimedFleet
from tests.enpire.steps.test_speed_goal import lab as lab  # a fixture
from tests.enpire.test_loop import lab_of
from tests.fakes.fake_fleet import delivered
from tests.fakes.point_task import PointTask, point_order

GOAL = Goal(success=0.99, confirm_starts=400)


def purposes(state: CampaignState, room: int = 24) -> Counter[str]:
    return Counter(order.purpose for order in scheduler().next_orders(state, FreeStation("s", 1, room)))


@pytest.mark.parametrize(
    ("successes", "n", "measured"),
    [(0, 0, True), (1, 1, True), (8, 8, True), (29, 30, True), (8, 10, False), (34, 100, False), (215, 215, True),
     (300, 300, False)],
)  # fmt: skip
def test_a_champion_is_measured_while_more_trials_may_show_that_it_passes(
    successes: int, n: int, measured: bool
) -> None:
    """300 of 300 are enough for a confirmation; 8 of 10 predict less than 5 % for 396 of 400."""
    forecast = ConfirmationForecast(trials={CHAMPION: Count(successes, n)} if n else {})
    assert forecast.is_open(CHAMPION, GOAL) == measured


@pytest.mark.parametrize(("ticks", "measured"), [(40, True), (60, False)])
def test_a_champion_that_is_too_slow_is_not_measured(ticks: int, measured: bool) -> None:
    forecast = ConfirmationForecast(trials={CHAMPION: Count(100, 100)}, success_ticks={CHAMPION: [ticks] * 100})
    assert forecast.is_open(CHAMPION, replace(GOAL, commands=50)) == measured
    assert (forecast.chance(CHAMPION, replace(GOAL, commands=50)) > 0) == measured


def promising() -> CampaignState:
    """A state whose champion succeeded in 40 of 40 trials, and whose round trains."""
    state = a_state()
    state.training = Training(
        job="j", parent="", round=1, recipe_hash="", data_hash="", recipe=Recipe(name="clone", learner="clone"),
        episodes=(), experiment_id="", turn=0,
    )  # fmt: skip
    state.forecast.trials[CHAMPION] = Count(40, 40)
    return state


def test_robots_measure_a_promising_champion_on_hidden_starts_of_its_own() -> None:
    state, draws = promising(), scheduler()
    orders = draws.next_orders(state, FreeStation("s", 1, 24))
    assert {order.purpose for order in orders} == {"measure"}
    assert {order.start.split for order in orders} == {"holdout"}
    for order in orders:
        state.issue(order)
    again = draws.next_orders(state, FreeStation("s", 1, 24), [])
    assert len({order.start.seed for order in [*orders, *again]}) == 48


def test_a_champion_has_at_most_as_many_measurements_as_its_confirmation_has_starts() -> None:
    state, draws = promising(), scheduler()
    issued: list[Order] = []
    for _ in range(5):
        drawn = draws.next_orders(state, FreeStation("s", 1, 150))
        for order in drawn:
            state.issue(order)
        issued += drawn
    assert Counter(order.purpose for order in issued)["measure"] == draws.campaign.goal.confirm_starts == 400
    assert issued[-1].purpose == "extra"


@pytest.mark.parametrize("goal", [Goal(success=0.8, confirm_starts=50), Goal(success=0.999, confirm_starts=1000)])
def test_a_champion_without_failures_is_measured_until_its_trials_suffice_for_a_confirmation(goal: Goal) -> None:
    """An easy goal is predicted after ten trials, a hard one hardly ever; a confirmation needs thirty in any case."""
    for n in range(MIN_TRIALS):
        forecast = ConfirmationForecast(trials={CHAMPION: Count(n, n)})
        assert forecast.is_open(CHAMPION, goal)
        assert not forecast.is_due(CHAMPION, goal, 0.01)
    assert ConfirmationForecast(trials={CHAMPION: Count(200, 200)}).is_open(CHAMPION, goal) == (goal.success > 0.9)


@pytest.mark.parametrize("case", ["gate", "candidate", "confirmation", "confirmed", "base", "quarantine", "lockstep"])
def test_robots_measure_the_champion_only_when_nothing_else_decides(case: str) -> None:
    state, campaign = promising(), scheduler().campaign
    assert measures_champion(state, campaign)
    if case == "gate":
        state.gates = with_gate().gates
    elif case == "candidate":
        state.candidates.append((CANDIDATE, 1))
    elif case == "confirmation":
        state.confirmation = Confirmation(policy_id=CHAMPION, n=400)
    elif case == "confirmed":
        state.confirmed[CHAMPION] = False
    elif case == "base":
        state.base_measured = False
    elif case == "quarantine":
        state.quarantine.held[CHAMPION] = []
    else:
        campaign = replace(campaign, rounds=replace(campaign.rounds, hard_starts=0.0, lockstep=True))
    assert not measures_champion(state, campaign)


def test_while_a_round_needs_rollouts_half_of_the_orders_measure() -> None:
    state = promising()
    state.training = None
    orders = scheduler().next_orders(state, FreeStation("s", 1, 200))
    found = Counter(order.purpose for order in orders)
    assert set(found) == {"measure", "collect"}
    assert 70 <= found["measure"] <= 130


def test_a_station_that_refuses_the_champion_measures_nothing() -> None:
    state = promising()
    state.training, state.promising = None, CANDIDATE
    orders = scheduler().next_orders(state, FreeStation("s", 1, 20, refuses=frozenset({CHAMPION})))
    assert Counter(order.purpose for order in orders) == {"collect": 20}


@pytest.mark.parametrize("measured", [False, True])
def test_no_confirmation_begins_in_the_middle_of_the_base_measurement(lab: Lab, measured: bool) -> None:
    """`lab` has a champion with 60 successes of 60 trials, and no limit on its commands."""
    lab.campaign = replace(lab.campaign, goal=replace(lab.campaign.goal, commands=0))
    lab.state.base_measured = measured
    evaluate(lab)
    assert (lab.state.confirmation is not None) == measured


def test_the_rounds_budget_does_not_end_a_campaign_whose_champion_is_measured(lab: Lab) -> None:
    lab.campaign = replace(lab.campaign, goal=replace(lab.campaign.goal, commands=0))
    lab.state.round = lab.campaign.budget.rounds
    lab.state.forecast.trials[lab.state.champion] = Count(8, 8)
    assert ending(lab) is None
    lab.state.forecast.trials[lab.state.champion] = Count(8, 16)
    order = replace(point_order(lab.state.champion, 1), purpose="measure")
    lab.state.issue(order)
    assert ending(lab) is None, "its last trials are under way"
    lab.state.end(delivered(order, "failure", 70, "").episode)
    ended = ending(lab)
    assert ended is not None
    assert ended.reason == f"the budget of {lab.campaign.budget.rounds} rounds is used up"


def test_a_goal_that_an_operator_raises_opens_the_measurement_again(lab: Lab) -> None:
    lab.campaign = replace(lab.campaign, goal=replace(lab.campaign.goal, commands=0))
    assert isinstance(lab.scheduler, Scheduler)
    lab.scheduler.campaign = lab.campaign
    assert not measures_champion(lab.state, lab.scheduler.campaign)
    given = OperatorCommand(
        command_id="one", kind="change limits", target="goal.success=0.98", operator="ada", reason="more is needed",
    )  # fmt: skip
    lab.inbox.leave(given)
    lab.last_done_s["inbox"] = -1e9
    handle_commands(lab)
    assert measures_champion(lab.state, lab.scheduler.campaign)


class WatchedFleet(TimedFleet):
    """Calls `heard` whenever it gets orders."""

    heard: Callable[[], object] = staticmethod(lambda: None)

    def send(self, station: str, orders: Sequence[Order]) -> None:
        """As usual."""
        super().send(station, orders)
        self.heard()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home of a campaign whose gates end after a few pairs, so that they do not suffice for a confirmation."""
    home = open_home(tmp_path_factory.mktemp("measured") / "home")
    ledger = SqliteLedger(home.ledger)
    campaign = replace(FAST, goal=replace(FAST.goal, success=0.97, confirm_starts=150), gate=GateRule(pairs=60))
    fleet = WatchedFleet(home.versions)
    lab = lab_of(home, ledger, campaign, fleet)
    seen: set[str] = set()
    fleet.heard = lambda: seen.add(phase_text(lab).partition(":")[0])
    assert run(lab).reached
    assert "measuring the champion" in seen
    assert rebuilt(ledger, lab.state.campaign_id) == lab.state
    ledger.close()
    return home


def test_the_confirmation_begins_after_the_measurement_and_without_another_gate(home: Home) -> None:
    with open_records(home.root) as records:
        told = [entry.event for entry in records.ledger.events()]
        assert all(check.equal for check in recompute(records.ledger))
    [confirmed] = [number for number, one in enumerate(told) if isinstance(one, ConfirmationOpened)]
    measured = [
        (number, order)
        for number, one in enumerate(told) if isinstance(one, OrdersIssued)
        for order in one.orders if order.purpose == "measure"
    ]  # fmt: skip
    promoted = max(
        number for number, one in enumerate(told) if isinstance(one, GateDecided) and one.decision == "promote"
    )
    mine = [order for number, order in measured if promoted < number < confirmed]
    assert len(mine) > 20
    assert len({order.start.seed for order in mine}) == len(mine), "no hidden start twice"
    assert not any(isinstance(one, GateOpened) for one in told[promoted:confirmed])
    learned = {episode for one in told if isinstance(one, LearnerStarted) for episode in one.episodes}
    assert learned.isdisjoint({order.order_id for _, order in measured}), "no learner sees a hidden start"


def test_a_label_of_a_measurement_changes_no_decision(home: Home) -> None:
    with open_records(home.root) as records:
        [campaign] = campaigns(records)
        [row] = records.reading.episodes(Page(campaign_id=campaign.id, purpose="measure", limit=1))
        past = history(records, campaign.id)
        assert stake(records.reading, past, row, "failure").would == (
            "It only helped to choose when a confirmation begins."
        )


def test_a_late_result_of_a_measurement_counts_and_an_aborted_one_does_not() -> None:
    state = promising()
    orders = [replace(point_order(CHAMPION, 1), purpose="measure") for _ in range(3)]
    for order, outcome in zip(orders, ("aborted", "unknown", "failure"), strict=True):
        state.issue(order)
        state.end(delivered(order, outcome, 70, "").episode)
    assert state.forecast.trials[CHAMPION] == Count(40, 41)
    state.end_late(delivered(orders[1], "success", 40, "").episode)
    assert state.forecast.trials[CHAMPION] == Count(41, 42)
    assert CHAMPION not in state.hidden, "how many there are depends on their outcomes"


def test_a_late_failure_of_the_base_counts_for_its_prediction() -> None:
    state = promising()
    order = replace(point_order(CHAMPION, 1), purpose="base")
    state.issue(order)
    state.end(delivered(order, "unknown", 0, "").episode)
    state.end_late(delivered(order, "failure", 70, "").episode)
    assert state.forecast.trials[CHAMPION] == Count(40, 41)


def test_a_station_of_an_earlier_version_measures_without_noise() -> None:
    """As `collect` its collector would act, if the version has one."""
    order = replace(point_order(CHAMPION, 1), purpose="measure", start=PointTask().start("holdout", 1, b""))
    assert for_station(order, EARLIER_PURPOSES).purpose == "base"
    assert for_station(order, f"{EARLIER_PURPOSES} measure") == order
