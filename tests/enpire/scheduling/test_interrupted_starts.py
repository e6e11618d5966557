"""The interrupted trials of a base measurement and of a confirmation are reissued from their own starts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from enpire.campaign.campaign import Base, Campaign, Stations
from enpire.campaign.counts import Confirmation
from enpire.campaign.state import CampaignState
from enpire.gate.trials import PROCESS_ENDED, STATION_TRIALS
from enpire.scheduling.lockstep import Lockstep
from enpire.scheduling.scheduler import FreeStation, Scheduler
from enpire.types import Order, Purpose
from tests.enpire.scheduling.test_scheduler import CHAMPION, starts
from tests.fakes.fake_fleet import delivered

N = 40
DURING = f"{PROCESS_ENDED} during the episode"


def draws(kind: type[Scheduler]) -> Scheduler:
    campaign = Campaign(
        name="n", task="point", recipe="r", base=Base(evaluate_starts=N), stations=Stations(count=2, lanes=16)
    )
    return kind(campaign, starts, random.Random(1))


def measuring(purpose: Purpose) -> CampaignState:
    state = CampaignState(campaign_id="C", champion=CHAMPION, base_policy=CHAMPION, base_measured=purpose != "base")
    state.candidates = [("b" * 64, 1)]  # so that no round collects
    state.confirmation = Confirmation(policy_id=CHAMPION, n=N) if purpose == "confirm" else None
    return state


def ordered(
    state: CampaignState, draw: Scheduler, purpose: Purpose, names: Sequence[str], room: int = N
) -> list[Order]:
    """The orders of one turn for these stations; they are issued."""
    drawn: list[Order] = []
    for name in names:
        drawn += draw.next_orders(state, FreeStation(name, 1, room), drawn)
    orders = [order for order in drawn if order.purpose == purpose]
    for order in orders:
        state.issue(order)
    return orders


def end(state: CampaignState, order: Order, outcome: str = "success", cause: str = "") -> None:
    state.end(delivered(order, outcome, 20, cause).episode)  # type: ignore[arg-type]


@pytest.mark.parametrize("purpose", ["base", "confirm"])
@pytest.mark.parametrize("kind", [Scheduler, Lockstep])
def test_starts_of_interrupted_trials_come_first_each_once(kind: type[Scheduler], purpose: Purpose) -> None:
    state, draw = measuring(purpose), draws(kind)
    names = draw.campaign.stations.names
    first = ordered(state, draw, purpose, names[:1], 8)
    assert [order.start.index for order in first] == list(range(8))
    for order in first[:2]:
        end(state, order, "aborted", DURING)
    end(state, first[2], "aborted", "released: the station stops")
    for order in first[3:]:
        end(state, order)
    again = ordered(state, draw, purpose, names[::-1], 2)
    assert [order.start for order in again[:3]] == [order.start for order in first[:3]], "at any station"
    assert [order.start.index for order in again[3:]] in ([8], []), "then new ones, as their turn is"
    rest: list[Order] = []
    while more := ordered(state, draw, purpose, names, N):
        rest += more
    assert sorted(order.start.index for order in [*first[3:], *again, *rest]) == list(range(N))


@pytest.mark.parametrize("purpose", ["base", "confirm"])
def test_a_version_that_kills_its_station_of_16_robots_on_hard_starts_gains_nothing(purpose: Purpose) -> None:
    """The 20 odd starts are hard: there the version ends its station's process before it fails."""
    state, draw = measuring(purpose), draws(Scheduler)
    lease = 0
    while orders := ordered(state, draw, purpose, ["s"], 16):
        lease += 1
        for order in orders:
            hard = order.start.index % 2 == 1
            end(state, replace(order, lease=lease), "aborted" if hard else "success", DURING if hard else "")
    found = state.base if purpose == "base" or state.confirmation is None else state.confirmation.ended
    assert (found.successes, found.n) == (20, N)
    assert state.reissues.trials[CHAMPION] <= STATION_TRIALS


def test_a_late_result_that_the_trial_never_began_lets_its_start_wait() -> None:
    state, draw = measuring("confirm"), draws(Scheduler)
    first = ordered(state, draw, "confirm", ["s"], 4)
    for order in first:
        end(state, order, "unknown", "the station fell silent")
    state.end_late(delivered(first[1], "aborted", 0, "released: the station stops").episode)
    state.end_late(delivered(first[2], "success", 20, "").episode)
    assert state.confirmation is not None
    assert (state.confirmation.ended.successes, state.confirmation.ended.n) == (1, 3)
    [again] = ordered(state, draw, "confirm", ["s"], 1)
    assert again.start == first[1].start
