"""A champion that falls is rolled back once. Where the restored version fell as well, the campaign pauses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from enpire.campaign.apply_events import apply_event, rebuilt
from enpire.campaign.gate_events import Deployed, RolledBack
from enpire.campaign.quarantine_events import ExperimentQuarantined
from enpire.campaign.state import CampaignState
from enpire.gate.regression import CHANGE_DETECTOR
from enpire.home import open_home
from enpire.lab import Lab
from enpire.loop import turn
from enpire.queries.campaigns import campaign_view, open_records
from enpire.queries.decision_audit import recompute
from enpire.requests import operator_commands
from enpire.steps.deploy import deploy
from enpire.steps.ending import shut_down
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode, Order, Purpose, Split, Start
from enpire.wire.arrivals import Delivered
from tests.enpire.test_loop import LONG_ROUNDS, lab_of, open_lab
from tests.fakes.fake_fleet import FakeFleet, delivered
from tests.fakes.lab_inbox import handled
from tests.fakes.waiting import until

FIRST, SECOND = "a" * 64, "b" * 64


def lab_whose_scene_falls(home_folder: Path) -> tuple[Lab, SqliteLedger, Callable[[], int]]:
    """A laboratory in which every version fails in data collection once a candidate was promoted."""
    home = open_home(home_folder)
    ledger, fleet = SqliteLedger(home.ledger), FakeFleet(home.versions)

    def ending(order: Order) -> Delivered:
        fallen = len(lab.state.champions) > 1 and order.purpose != "gate"
        return delivered(order, "failure", 20, "") if fallen else fleet.finish(order)

    fleet.ending = ending
    lab = lab_of(home, ledger, LONG_ROUNDS, fleet)
    return lab, ledger, lambda: sum(event.kind == "rolled back" for event in ledger.events())


def test_a_scene_that_falls_for_both_versions_pauses_the_campaign_after_one_rollback(tmp_path: Path) -> None:
    lab, ledger, rollbacks = lab_whose_scene_falls(tmp_path / "home")
    until(lambda: lab.state.paused or rollbacks() > 2, "a pause", turn=lambda: turn(lab))
    assert (lab.state.paused, rollbacks()) == (True, 1)
    first, second = lab.state.champions[:2]
    assert lab.state.champions == [first, second, first]
    assert lab.state.paused_by == CHANGE_DETECTOR
    assert lab.state.paused_why.startswith(f"Check the scene: {second[:12]} was rolled back, and now")
    assert lab.state.paused_why.endswith("Then resume (enpire campaign resume).")
    for _ in range(20):
        turn(lab)
    assert sum(event.kind == "campaign paused" for event in ledger.events()) == 1
    with open_records(lab.home.root) as records:
        assert campaign_view(records, "C1").paused_why == lab.state.paused_why

    cause = lab.state.paused_why
    operator_commands.leave(lab.home.inbox, "pause campaign", operator="ben")
    handled(lab)
    assert (lab.state.paused_by, lab.state.paused_why) == (CHANGE_DETECTOR, cause), "the second pause hides no cause"
    with open_records(lab.home.root) as records:
        assert campaign_view(records, "C1").paused_why == cause

    operator_commands.leave(lab.home.inbox, "continue campaign", operator="anna", seen=lab.state.newest_event)
    handled(lab)
    assert not lab.state.paused
    assert rebuilt(ledger, "C1").watch is lab.state.watch is None, "the scene of today is what counts from now on"
    ended = len(lab.state.ended)
    until(lambda: len(lab.state.ended) > ended + 100, "rollouts", turn=lambda: turn(lab))
    assert (lab.state.paused, rollbacks()) == (False, 1)
    assert all(check.equal for check in recompute(ledger))
    shut_down(lab)
    ledger.close()


def end(
    state: CampaignState, policy_id: str, purpose: Purpose, results: list[bool],
    side: Literal["", "champion", "candidate"] = "",
) -> None:  # fmt: skip
    """Trials of a version with these results."""
    for success in results:
        number = len(state.ended)
        split: Split = "train" if purpose == "collect" else "confirm" if purpose == "confirm" else "holdout"
        order = Order(
            order_id=f"{number}", campaign_id="C1", station="s", task="t", policy_id=policy_id, purpose=purpose,
            round=1, start=Start(split=split, index=2 * number, values=(), seed=number),
            side=side,
        )  # fmt: skip
        state.end(
            Episode(
                order=order, outcome="success" if success else "failure", cause="", confidence=1.0,
                ran_policy_id=policy_id, ticks=3, began_s=0.0, ended_s=1.0,
            )
        )  # fmt: skip


def begun(version: int = 4) -> CampaignState:
    """A campaign with a first champion that has 90 of 100 successes in data collection."""
    state = CampaignState(campaign_id="C1")
    state.reissues.rule_version = version
    crown(state, FIRST)
    end(state, FIRST, "collect", [True] * 90 + [False] * 10)
    return state


def crown(state: CampaignState, policy_id: str) -> None:
    apply_event(state, Deployed(policy_id=policy_id, previous=state.champion, reason="better", round=1), 1)


def test_a_restored_version_is_compared_with_its_own_rate_before() -> None:
    state = begun()
    assert state.watch is None, "a campaign's first version has no predecessor"
    crown(state, SECOND)
    assert state.watch is not None
    against_first = state.watch.rate
    end(state, SECOND, "collect", [False] * 50)
    assert state.watch.found
    apply_event(state, RolledBack(policy_id=SECOND, to=FIRST, reason="fell"), 2)
    assert (state.champion, state.restored) == (FIRST, True)
    assert state.watch.rate == against_first > 0.8
    crown(state, SECOND)
    assert not state.restored


@pytest.mark.parametrize(("version", "trials"), [(4, 150), (3, 100)])
def test_trials_that_did_not_choose_a_version_count_for_its_rate(version: int, trials: int) -> None:
    state = begun(version)
    end(state, FIRST, "gate", [True] * 20, side="champion")
    end(state, FIRST, "confirm", [True] * 20)
    end(state, FIRST, "base", [True] * 10)
    end(state, FIRST, "gate", [True] * 400, side="candidate")
    end(state, SECOND, "gate", [True] * 400, side="candidate")
    crown(state, SECOND)
    assert state.watch is not None
    expected = CampaignState()
    expected.crown(FIRST)
    end(expected, FIRST, "collect", [True] * (trials - 10) + [False] * 10)
    expected.crown(SECOND)
    assert expected.watch is not None
    assert state.watch.rate == expected.watch.rate


def test_trials_on_hidden_starts_do_not_count_where_rollouts_are_stopped_early() -> None:
    state, other = begun(), begun()
    end(state, FIRST, "gate", [True] * 200, side="champion")
    state.early_stops.stopped = 1
    crown(state, SECOND)
    crown(other, SECOND)
    assert state.watch is not None
    assert other.watch is not None
    assert state.watch.rate == other.watch.rate


def test_a_restored_version_that_fell_is_not_replaced_by_an_even_earlier_one(tmp_path: Path) -> None:
    with open_lab(open_home(tmp_path / "home")) as lab:
        crown(lab.state, "c" * 64)
        end(lab.state, "c" * 64, "collect", [True] * 100)
        crown(lab.state, FIRST)
        end(lab.state, FIRST, "collect", [True] * 100)
        crown(lab.state, SECOND)
        for fallen, champion in ((SECOND, FIRST), (FIRST, FIRST)):
            end(lab.state, fallen, "collect", [False] * 50)
            deploy(lab)
            assert lab.state.champion == champion
        assert lab.state.paused_why.startswith("Check the scene: bbbbbbbbbbbb was rolled back, and now")


def test_no_version_in_quarantine_is_restored(tmp_path: Path) -> None:
    with open_lab(open_home(tmp_path / "home")) as lab:
        crown(lab.state, FIRST)
        end(lab.state, FIRST, "collect", [True] * 100)
        crown(lab.state, SECOND)
        end(lab.state, SECOND, "collect", [False] * 50)
        lab.write(
            ExperimentQuarantined(experiment_id="", policy_id=FIRST, tripwire="operator", why="it hits the table")
        )
        deploy(lab)
        deploy(lab)
        assert lab.state.champion == SECOND
        assert lab.state.paused_why.startswith(
            "The champion fell, and no earlier version may replace it: the success of version bbbb"
        )
        assert sum(event.kind == "campaign paused" for event in lab.ledger.events()) == 1
