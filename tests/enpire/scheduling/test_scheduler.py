"""Which order a free station gets: gates before data, both trials of a pair together, uncertain starts more often."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enpire.campaign.campaign import Base, Campaign, Rounds, Stations
from enpire.campaign.confirmation_forecast import ConfirmationForecast
from enpire.campaign.learner_data import DataRow
from enpire.campaign.state import CampaignState, Confirmation, Count, OpenGate
from enpire.errors import FileProblem
from enpire.files import parse
from enpire.gate.gate import judge
from enpire.gate.rule import GateRule
from enpire.gate.trials import pairs_in_order
from enpire.scheduling.lockstep import demonstrated
from enpire.scheduling.scheduler import FreeStation, Scheduler
from enpire.types import PEOPLE, Order, Split, Start
from tests.fakes.fake_fleet import delivered
from tests.fakes.point_task import PointTask

CHAMPION, CANDIDATE = "a" * 64, "b" * 64
POOL = 60
"""Train starts."""


def starts(split: Split, index: int, scope: str = "") -> Start:
    return PointTask().start(split, index, scope.encode())


def scheduler(seed: int = 1, hard_starts: float = 0.5, pairs: int = 400) -> Scheduler:
    campaign = Campaign(
        name="n", task="point", recipe="r", rounds=Rounds(train_starts=POOL, hard_starts=hard_starts),
        base=Base(evaluate_starts=5), gate=GateRule(pairs=pairs),
    )  # fmt: skip
    return Scheduler(campaign, starts, random.Random(seed))


def a_state(start_results: Mapping[int, Count] | None = None) -> CampaignState:
    return CampaignState(
        campaign_id="C",
        champion=CHAMPION,
        base_policy=CHAMPION,
        base_measured=True,
        start_results=dict(start_results or {}),
        forecast=ConfirmationForecast(trials={CHAMPION: Count(10, 40)}),
    )


def with_gate() -> CampaignState:
    state = a_state()
    state.gates["G"] = OpenGate(gate_id="G", champion=CHAMPION, candidate=CANDIDATE, round=1, k=1, level=0.05)
    return state


def collected(
    start_results: Mapping[int, Count], seed: int = 1, hard_starts: float = 0.5, n: int = 6000
) -> Counter[int]:
    """How often each train start is drawn."""
    orders = scheduler(seed, hard_starts).next_orders(a_state(start_results), FreeStation("s", 1, n))
    return Counter(order.start.index for order in orders)


COUNTS = st.integers(1, 6).flatmap(lambda n: st.builds(Count, successes=st.integers(0, n), n=st.just(n)))
KNOWN = {index: Count(2, 4) if index % 6 == 1 else Count(4 * (index % 4 == 1), 4) for index in range(1, POOL, 2)}
"""Every third odd start succeeds with probability 0.5; the others always succeed or always fail."""


@given(
    start_results=st.dictionaries(st.integers(0, POOL - 1), COUNTS), seed=st.integers(0, 1000),
    hard_starts=st.floats(0, 1, exclude_max=True), room=st.integers(1, 50),
)  # fmt: skip
def test_the_collection_fills_all_lanes_with_train_starts_and_is_repeatable(start_results, seed, hard_starts, room):
    orders = scheduler(seed, hard_starts).next_orders(a_state(start_results), FreeStation("s", 3, room))
    assert len(orders) == room
    assert {(order.policy_id, order.station, order.lease) for order in orders} == {(CHAMPION, "s", 3)}
    due = min(room, Rounds().episodes)
    assert [order.purpose for order in orders] == ["collect"] * due + ["extra"] * (room - due)
    assert all(order.start == starts("train", order.start.index) for order in orders)
    assert all(0 <= order.start.index < POOL for order in orders)
    again = scheduler(seed, hard_starts).next_orders(a_state(start_results), FreeStation("s", 3, room))
    assert [order.start for order in again] == [order.start for order in orders], "the same history, the same draws"


def test_a_round_gets_as_many_rollouts_as_it_needs_over_all_stations_and_turns() -> None:
    draws, state, purposes = scheduler(), a_state(), list[str]()
    for _ in range(5):
        drawn: list[Order] = []
        for station in ("s", "t"):
            drawn += draws.next_orders(state, FreeStation(station, 1, 15), drawn)
        state.open |= {order.order_id: order for order in drawn}
        purposes += [order.purpose for order in drawn]
    assert purposes == ["collect"] * Rounds().episodes + ["extra"] * (5 * 30 - Rounds().episodes)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_uncertain_starts_are_drawn_more_often_and_every_start_is_drawn(seed: int) -> None:
    often = collected(KNOWN, seed)
    coins = [often[index] for index in KNOWN if KNOWN[index].successes == 2]
    sure = [often[index] for index in KNOWN if KNOWN[index].successes != 2]
    assert min(coins) > 3 * max(sure)
    uniform = 6000 * 0.5 / POOL
    assert all(0.5 * uniform < often[index] < 2 * uniform for index in range(0, POOL, 2)), "even ones stay uniform"
    assert min(sure) > 0.5 * uniform, "nor do the sure ones fall below that"


def test_a_higher_share_of_hard_starts_draws_more_uncertain_starts() -> None:
    shares = [
        sum(often for index, often in collected(KNOWN, hard_starts=share).items() if index % 6 == 1) / 6000
        for share in (0.0, 0.3, 0.6, 0.9)
    ]
    assert shares[0] == pytest.approx(10 / POOL, abs=0.03)
    assert all(more > less + 0.1 for less, more in itertools.pairwise(shares))


def test_a_start_with_certain_success_is_drawn_less_often() -> None:
    state = a_state(KNOWN)
    before = collected(state.start_results)[1]
    for order in scheduler().next_orders(a_state(), FreeStation("s", 1, 3000)):
        if order.start.index == 1:
            state.end(delivered(order, "success", 9, "").episode)
    assert collected(state.start_results)[1] < before / 3
    assert collected(KNOWN)[1] == before, "the counts that a state begins with stay as they are"


def test_without_enough_data_all_starts_are_equally_likely() -> None:
    few = {index: KNOWN[index] for index in list(KNOWN)[:19]}
    assert collected(few) == collected({})
    often = collected({})
    assert 0.6 * 6000 / POOL < min(often.values()) <= max(often.values()) < 1.5 * 6000 / POOL
    assert len(often) == POOL


def test_hard_start_sampling_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="hard_starts must lie in"):
        Rounds(hard_starts=1.0)


@given(rooms=st.lists(st.integers(1, 9), min_size=1, max_size=20), pairs=st.integers(1, 30), seed=st.integers(0, 99))
def test_both_sides_of_a_pair_go_to_one_station_from_one_hidden_start(rooms: list[int], pairs: int, seed: int) -> None:
    draw, state = scheduler(seed, pairs=pairs), with_gate()
    for number, room in enumerate(rooms):
        orders = draw.next_orders(state, FreeStation(f"s{number % 3}", 1, room))
        trials = [order for order in orders if order.purpose == "gate"]
        assert room <= len(orders) <= room + 1, "robots never wait"
        assert orders == [*trials, *(order for order in orders if order.purpose == "extra")], "the gate first"
        for order in orders:
            state.issue(order)
    trials = [order for order in state.open.values() if order.purpose == "gate"]
    assert len(trials) <= 2 * pairs
    twos = list(zip(trials[::2], trials[1::2], strict=True))
    assert [first.pair for first, _ in twos] == list(range(len(twos)))
    for first, second in twos:
        assert (first.pair, first.start, first.station) == (second.pair, second.start, second.station)
        assert {(one.side, one.policy_id) for one in (first, second)} == {
            ("champion", CHAMPION), ("candidate", CANDIDATE),
        }  # fmt: skip
        assert first.start.split == "holdout"
    assert len({first.start.values for first, _ in twos}) == len(twos), "no start is used twice"


def test_the_first_side_of_a_pair_is_random() -> None:
    orders = scheduler().next_orders(with_gate(), FreeStation("s", 1, 200))
    first = Counter(order.side for order in orders[::2])
    assert 30 <= first["candidate"] <= 70


def test_released_trials_are_reissued_from_the_same_start_to_any_free_station() -> None:
    draw, state = scheduler(pairs=3), with_gate()

    def ask(station: str, refuses: frozenset[str] = frozenset()) -> list[Order]:
        orders = [
            order for order in draw.next_orders(state, FreeStation(station, 1, 8, refuses)) if order.purpose == "gate"
        ]
        for order in orders:
            state.issue(order)
        return orders

    first = ask("s")
    assert [order.pair for order in first] == [0, 0, 1, 1, 2, 2]
    assert ask("t") == []
    for order in (first[1], first[4], first[5]):
        state.end(delivered(order, "aborted", 0, "released: the station left").episode)
    assert ask("u", frozenset({first[0].policy_id})) == [], "it would run all trials of the other version"
    assert ask("u", frozenset({first[1].policy_id})) == []
    again = ask("t")
    assert [order.pair for order in again] == [0, 2, 2]
    assert (again[0].side, again[0].start, again[0].policy_id) == (first[1].side, first[1].start, first[1].policy_id)
    assert {order.side for order in again[1:]} == {"champion", "candidate"}
    assert {order.start for order in again[1:]} == {first[4].start}
    assert ask("s") == []
    state.end(delivered(again[0], "aborted", 0, "stopped by anna").episode)
    assert ask("s") == [], "a stop counts; nothing is given again for it"


def test_a_gate_does_not_use_up_its_pairs_behind_a_slow_one() -> None:
    draw, state = scheduler(pairs=400), with_gate()
    [slow, *rest] = draw.next_orders(state, FreeStation("slow", 1, 2))
    for order in (slow, *rest):
        state.issue(order)
    for _ in range(200):
        orders = draw.next_orders(state, FreeStation("quick", 1, 8))
        assert len(orders) == 8, "robots never wait"
        for order in orders:
            state.issue(order)
            state.end(delivered(order, "success", 9, "").episode)
    gate = state.gates["G"]
    assert 20 < gate.issued < 40
    state.end(delivered(slow, "success", 9, "").episode)
    state.end(delivered(rest[0], "success", 9, "").episode)
    gate.decision = judge(pairs_in_order(gate.trials), GateRule(), 0.05)
    assert [order.purpose for order in draw.next_orders(state, FreeStation("quick", 1, 8))] == ["gate"] * 8


def test_the_most_valuable_order_is_first() -> None:
    state = with_gate()
    state.base_measured = False
    state.confirmation = Confirmation(policy_id=CHAMPION, n=3)
    orders = scheduler(pairs=2).next_orders(state, FreeStation("s", 1, 16))
    assert [order.purpose for order in orders] == ["confirm"] * 3 + ["gate"] * 4 + ["base"] * 5 + ["extra"] * 4


def test_a_round_collects_with_its_parent_and_further_rollouts_measure_the_champion() -> None:
    state = a_state()
    state.promising = CANDIDATE
    orders = scheduler().next_orders(state, FreeStation("s", 1, 104))
    assert [(order.purpose, order.policy_id) for order in orders] == [("collect", CANDIDATE)] * 100 + [
        ("extra", CHAMPION)
    ] * 4
    refusing = scheduler().next_orders(state, FreeStation("s", 1, 4, refuses=frozenset({CANDIDATE})))
    assert [(order.purpose, order.policy_id) for order in refusing] == [("collect", CHAMPION)] * 4


def test_campaign_files_of_before_spell_hard_starts_as_practised() -> None:
    assert parse(Rounds, {"practised": 0.25}, "The rounds") == Rounds(hard_starts=0.25)
    with pytest.raises(FileProblem, match="unknown key 'practised'"):
        parse(Rounds, {"practised": 0.25, "hard_starts": 0.25}, "The rounds")


def by_people(demonstrations: int) -> Scheduler:
    base = Base(demonstrations=demonstrations, demonstrators="people")
    campaign = Campaign(name="n", task="point", recipe="r", base=base, stations=Stations(operator="browser"))
    return Scheduler(campaign, starts, random.Random(1))


def test_people_demonstrate_one_at_a_time_at_each_station_and_no_more_than_are_missing() -> None:
    draws, state = by_people(2), CampaignState(campaign_id="C")
    [first] = draws.next_orders(state, FreeStation("one", 1, 16))
    assert (first.policy_id, first.purpose, first.supervised) == (PEOPLE, "demonstrate", True)
    state.open[first.order_id] = first
    assert draws.next_orders(state, FreeStation("one", 1, 16)) == []
    [second] = draws.next_orders(state, FreeStation("two", 1, 16))
    state.open[second.order_id] = second
    assert draws.next_orders(state, FreeStation("three", 1, 16)) == [], "two are wanted and two are under way"
    del state.open[first.order_id]
    state.data.add(DataRow(order_id=first.order_id, sha256="f" * 64, round=0, purpose="demonstrate",
                           policy_id=PEOPLE, success=False, supervised=True))  # fmt: skip
    assert len(draws.next_orders(state, FreeStation("one", 1, 16))) == 1, "a failed one is demonstrated again"
    assert draws.next_orders(state, FreeStation("one", 1, 16, refuses=frozenset({PEOPLE}))) == []


def test_a_robot_that_waits_for_a_person_keeps_no_other_person_from_demonstrating() -> None:
    draws, state = by_people(1), CampaignState(campaign_id="C")
    [first] = draws.next_orders(state, FreeStation("one", 1, 16))
    state.open[first.order_id] = first
    assert draws.next_orders(state, FreeStation("two", 1, 16)) == [], "its person may have begun"
    waits = frozenset({first.order_id})
    [second] = draws.next_orders(state, FreeStation("two", 1, 16, waits_for_person=waits))
    assert second.station == "two"
    assert draws.next_orders(state, FreeStation("one", 1, 16, waits_for_person=waits)) == [], "one at a time"


def test_a_station_whose_person_walked_away_does_not_hide_what_others_demonstrated() -> None:
    draws, state = by_people(3), CampaignState(campaign_id="C")
    [left] = draws.next_orders(state, FreeStation("one", 1, 16))
    state.open[left.order_id] = left
    [shown] = draws.next_orders(state, FreeStation("two", 1, 16))
    state.data.add(DataRow(order_id=shown.order_id, sha256="f" * 64, round=0, purpose="demonstrate",
                           policy_id=PEOPLE, success=True, supervised=True))  # fmt: skip
    assert demonstrated(state, draws.campaign) == 1
    rows = state.data.of_round(0, "", draws.campaign, state.open.values())
    assert [row.order_id for row in rows] == [shown.order_id], "the learner gets what is counted"


@pytest.mark.parametrize(
    ("stations", "rounds", "said"),
    [
        ({"count": 1}, {}, "needs an operator under `stations`"),
        (
            {"count": 1, "operator": "browser"},
            {"lockstep": True, "hard_starts": 0.0},
            "need base demonstrators",
        ),
    ],
)
def test_people_who_cannot_demonstrate_are_refused(
    stations: Mapping[str, object], rounds: Mapping[str, object], said: str
) -> None:
    content = {"name": "n", "task": "t", "recipe": "r", "base": {"demonstrators": "people"}}
    with pytest.raises(FileProblem, match=said):
        parse(Campaign, {**content, "stations": stations, "rounds": rounds}, "The file")
    assert parse(Campaign, {**content, "stations": {"count": 0}}, "The file").base.demonstrators == "people"
