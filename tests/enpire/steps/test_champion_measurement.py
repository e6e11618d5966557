"""Between gates robots measure a promising champion on hidden starts: its confirmation begins once it will pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from enpire.campaign.acceptance import EARLIER_PURPOSES, for_station
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Goal
from enpire.campaign.confirmation_forecast import ConfirmationForecast
from enpire.campaign.counts import Count
from enpire.campaign.gate_events import ConfirmationOpened, GateDecided, GateOpened
from enpire.campaign.order_events import OrdersIssued
from enpire.campaign.state import CampaignState
from enpire.campaign.training_events import LearnerStarted
from enpire.gate.rule import GateRule
from enpire.home import Home, open_home
from enpire.loop import run
from enpire.queries.campaigns import campaigns, history, open_records
from enpire.queries.decision_audit import recompute
from enpire.queries.label_impact import stake
from enpire.scheduling.scheduler import FreeStation
from enpire.steps.take_snapshot import phase_text
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Page
from enpire.types import Order
from tests.enpire.scheduling.test_scheduler import CANDIDATE, CHAMPION, a_state, scheduler, with_gate
from tests.enpire.steps.test_speed_goal import FAST, TimedFleet
from tests.enpire.test_loop import lab_of
from tests.fakes.fake_fleet import delivered
from tests.fakes.point_task import point_order

GOAL = Goal(success=0.99, confirm_starts=400)


def purposes(state: CampaignState, room: int = 24) -> Counter[str]:
    return Counter(order.purpose for order in scheduler().next_orders(state, FreeStation("s", 1, room)))


@pytest.mark.parametrize(
    ("successes", "n", "measured"),
    [(0, 0, True), (8, 8, True), (29, 30, True), (8, 10, False), (34, 100, False), (215, 215, True), (300, 300, False)],
)
def test_a_champion_is_measured_while_more_trials_may_show_that_it_passes(
    successes: int, n: int, measured: bool
) -> None:
    """300 of 300 are enough for a confirmation; after 8 of 10 there is little hope for 396 of 400."""
    forecast = ConfirmationForecast(trials={CHAMPION: Count(successes, n)} if n else {})
    assert forecast.is_open(CHAMPION, GOAL) == measured


@pytest.mark.parametrize(("ticks", "measured"), [(40, True), (60, False)])
def test_a_champion_that_is_too_slow_is_not_measured(ticks: int, measured: bool) -> None:
    forecast = ConfirmationForecast(trials={CHAMPION: Count(100, 100)}, success_ticks={CHAMPION: [ticks] * 100})
    assert forecast.is_open(CHAMPION, replace(GOAL, commands=50)) == measured
    assert (forecast.chance(CHAMPION, replace(GOAL, commands=50)) > 0) == measured


def promising() -> CampaignState:
    """A state whose champion succeeded in 40 of 40 trials."""
    state = a_state()
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


@pytest.mark.parametrize("case", ["gate", "candidate", "confirmed", "base", "quarantine"])
def test_robots_measure_the_champion_only_when_nothing_else_decides(case: str) -> None:
    state = with_gate() if case == "gate" else a_state()
    state.forecast.trials[CHAMPION] = Count(40, 40)
    if case == "candidate":
        state.candidates.append((CANDIDATE, 1))
    elif case == "confirmed":
        state.confirmed[CHAMPION] = False
    elif case == "base":
        state.base_measured = False
    elif case == "quarantine":
        state.quarantine.held[CHAMPION] = []
        assert state.quarantine.holds(CHAMPION)
    assert "measure" not in purposes(state)


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
    assert state.hidden[CHAMPION] == Count(1, 2)
    assert CHAMPION not in state.unselected, "how many there are depends on their outcomes"


def test_a_station_of_an_earlier_version_measures_without_noise() -> None:
    order = replace(point_order(CHAMPION, 1), purpose="measure")
    assert for_station(order, EARLIER_PURPOSES).purpose == "base"
    assert for_station(order, f"{EARLIER_PURPOSES} measure") == order
