"""A goal with speed: a confirmation passes only when success and the median number of commands both reach it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Goal, read_campaign
from enpire.campaign.counts import Confirmation, Count
from enpire.campaign.event_forms import EventBase
from enpire.campaign.gate_events import ConfirmationOpened, Confirmed
from enpire.campaign.recipe import Recipe
from enpire.campaign.state import Training
from enpire.errors import FileProblem, UsageError
from enpire.gate.gate import confirm
from enpire.gate.intervals import predicted
from enpire.gate.median import predicted_fast
from enpire.gate.rule import GateRule
from enpire.home import Home, open_home
from enpire.lab import Lab
from enpire.loop import run
from enpire.monitor.event_lines import line_of
from enpire.parts import TASKS
from enpire.queries import texts
from enpire.queries.campaigns import campaign_view, history, open_records
from enpire.queries.decision_audit import recompute
from enpire.queries.label_impact import stake
from enpire.report.report import headline
from enpire.session import require_parts
from enpire.steps.evaluate import LONG_ENOUGH, evaluate
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Page
from enpire.types import Order, OutcomeKind
from enpire.wire.arrivals import Delivered
from tests.enpire.test_loop import CAMPAIGN, lab_of
from tests.fakes.fake_fleet import CoinTask, FakeFleet, delivered
from tests.fakes.point_task import point_order
from tests.fakes.sample_campaign import BASE, begin, record_campaign
from tests.fakes.sample_campaign import CAMPAIGN as CAMPAIGN_ID

FAST = replace(
    CAMPAIGN, goal=replace(CAMPAIGN.goal, commands=50), gate=GateRule(pairs=60),
    budget=replace(CAMPAIGN.budget, rounds=4),
)  # fmt: skip
VERSION = "a" * 64


class TimedFleet(FakeFleet):
    """Stations on which every version after the base succeeds, in 40 commands where the base takes 70."""

    def finish(self, order: Order) -> Delivered:
        """As usual for the base, otherwise a success."""
        number = 0
        if order.policy_id != "scripted:expert":
            number = json.loads((self.versions / order.policy_id / "policy.json").read_text())["round"]
        jitter = random.Random(order.order_id).randrange(-3, 4)
        usual = super().finish(order).episode.outcome if number == 0 else "success"
        return delivered(order, usual, (40 if number else 70) + jitter, "")


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home of a campaign that ran until a champion was confirmed."""
    home = open_home(tmp_path_factory.mktemp("fast") / "home")
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger, FAST, TimedFleet(home.versions))
    end = run(lab)
    assert end.reached, end
    assert end.reason == "the champion is confirmed at 90% with a median of at most 50 commands"
    assert rebuilt(ledger, lab.state.campaign_id) == lab.state
    ledger.close()
    return home


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A laboratory with a champion that succeeded in each of 60 trials of gates."""
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger, FAST)
    lab.state.champion, lab.state.base_measured = VERSION, True
    lab.state.forecast.trials[VERSION] = Count(60, 60)
    yield lab
    ledger.close()


def events[E: EventBase](ledger: SqliteLedger, kind: type[E]) -> list[E]:
    return [entry.event for entry in ledger.events(kinds=(kind.KIND,)) if isinstance(entry.event, kind)]


def confirmed_in(home: Home) -> Confirmed:
    with open_records(home.root) as records:
        return events(records.ledger, Confirmed)[-1]


def test_a_campaign_continues_until_the_champion_is_fast_enough(reached: Home) -> None:
    with open_records(reached.root) as records:
        (opened,) = events(records.ledger, ConfirmationOpened)
        assert all(check.equal for check in recompute(records.ledger))
    assert opened.commands == 50
    confirmed = confirmed_in(reached)
    assert confirmed.passed
    assert confirmed.median is not None
    assert confirmed.median_low is not None
    assert confirmed.median_high is not None
    assert 37 <= confirmed.median_low <= confirmed.median <= confirmed.median_high <= 43


@pytest.mark.parametrize(
    ("ticks", "opens"), [([40] * 60, True), ([40] * 45 + [80] * 15, True), ([40] * 33 + [80] * 27, False),
                         ([80] * 60, False), ([], False)]
)  # fmt: skip
def test_a_confirmation_opens_only_if_the_champion_is_probably_fast_enough(
    lab: Lab, ticks: list[int], opens: bool
) -> None:
    lab.state.forecast.success_ticks[VERSION] = ticks
    evaluate(lab)
    assert (lab.state.confirmation is not None) == opens


def test_both_must_be_probable_together(lab: Lab) -> None:
    """Either alone reaches 90 %, by the trials; together they may not."""
    lab.state.forecast.trials[VERSION] = Count(58, 60)
    lab.state.forecast.success_ticks[VERSION] = [40] * 38 + [80] * 20
    goal = lab.campaign.goal
    alone = predicted(58, 60, goal.confirm_starts, goal.success)
    fast = predicted_fast(lab.state.forecast.success_ticks[VERSION], 50, goal.confirm_starts, goal.success)
    assert min(alone, fast) >= goal.attempt_chance > alone + fast - 1
    evaluate(lab)
    assert lab.state.confirmation is None


@pytest.mark.parametrize(("ended", "opens"), [(-1, False), (0, True)])
def test_without_a_gate_for_long_a_lower_chance_is_enough(lab: Lab, ended: int, opens: bool) -> None:
    """No better version is in sight then, so a champion that was measured would never be confirmed."""
    lab.state.forecast.trials[VERSION] = Count(57, 60)
    lab.state.forecast.success_ticks[VERSION] = [40] * 57
    goal, rounds = lab.campaign.goal, lab.campaign.rounds
    chance = predicted(57, 60, goal.confirm_starts, goal.success)
    assert goal.attempt_chance / 2 <= chance < goal.attempt_chance
    lab.state.ended_since_gate = LONG_ENOUGH * max(goal.confirm_starts, rounds.episodes) + ended
    evaluate(lab)
    assert (lab.state.confirmation is not None) == opens


def test_orders_count_as_without_a_gate_only_while_nothing_may_open_one(lab: Lab) -> None:
    state, counts = lab.state, [lab.state.ended_since_gate]
    training = Training(
        job="j", parent="", round=1, recipe_hash="", data_hash="", recipe=Recipe(name="clone", learner="clone"),
        episodes=(), experiment_id="", turn=0,
    )  # fmt: skip
    for trains, candidates in ((None, []), (training, []), (None, [("b" * 64, 1)]), (None, [])):
        state.training, state.candidates = trains, candidates
        state.end(delivered(point_order(VERSION, 1, purpose="extra"), "failure", 70, "").episode)
        counts.append(state.ended_since_gate)
    assert counts == [0, 1, 1, 1, 2]
    state.crown("c" * 64)
    assert state.ended_since_gate == 0


@pytest.mark.parametrize(("commands", "passes"), [(50, True), (49, False), (0, True)])
def test_a_confirmation_passes_only_with_its_median(lab: Lab, commands: int, passes: bool) -> None:
    lab.state.confirmation = Confirmation(
        policy_id=VERSION, n=30, goal=0.9, commands=commands, ended=Count(30, 30), ticks=[45, 55] * 15
    )
    evaluate(lab)
    (event,) = events(lab.ledger, Confirmed)  # pyright: ignore[reportArgumentType]
    assert (event.passed, event.median, event.median_low, event.median_high) == (passes, 50, 45, 55)
    assert lab.state.confirmed == {VERSION: passes}
    evaluate(lab)
    assert lab.state.confirmation is None, "each version has one confirmation"


@pytest.mark.parametrize(("commands", "passes"), [(40, True), (39, False)])
def test_the_recomputation_takes_the_median_from_the_records(tmp_path: Path, commands: int, passes: bool) -> None:
    """Every success of this campaign needed 40 commands."""
    record = begin(tmp_path)
    record.tell("confirm opened", policy_id=BASE, n=60, goal=0.3, commands=commands)
    successes = [record.run("confirm", BASE, 1, 0.6) for _ in range(60)].count("success")
    result = confirm(successes, 60, 0.3)
    told = {"policy_id": BASE, "successes": successes, "n": 60, "low": result.interval.low, "passed": passes,
            "high": result.interval.high, "reissued": 0, "median": 40, "median_low": 40, "median_high": 40}  # fmt: skip
    for forged in ({}, {"passed": not passes}, {"median": 39}, {"median_high": 41}, {"median": None}):
        record.tell("confirmed", **told | forged)
    record.flush()
    with open_records(tmp_path) as records:
        found = [check for check in recompute(records.ledger) if check.kind == "confirmed"]
    assert [check.equal for check in found] == [True, False, False, False, False]
    assert "median 40 commands [40, 40]" in found[0].sentence
    assert "the ledger has median = 39" in found[2].sentence


def test_a_confirmation_of_an_older_enpire_without_median_still_agrees(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    with open_records(tmp_path) as records:
        assert all(check.equal for check in recompute(records.ledger))
        confirm = campaign_view(records, CAMPAIGN_ID).confirm
    assert confirm is not None
    assert confirm.median is None
    assert "median" not in texts.rate(confirm)


def test_every_place_that_shows_a_confirmation_shows_its_median(reached: Home) -> None:
    with open_records(reached.root) as records:
        view = campaign_view(records, "C1")
    assert view.confirm is not None
    shown = f"median {view.confirm.median:g} commands [{view.confirm.median_low}, {view.confirm.median_high}]"
    assert line_of(confirmed_in(reached)).endswith(f"{shown}, passed: yes")
    limit = CoinTask.spec.limit_ticks
    assert f" of 30 within {limit} commands [" in line_of(confirmed_in(reached))
    assert view.confirm.limit_ticks == limit
    assert f"{shown}: passed" in texts.campaign(view)
    assert shown in headline(view)
    slow = replace(view, confirm=None, goal=replace(view.goal, commands=50))
    assert headline(slow).endswith("with a median of at most 50 commands.")


def test_the_median_is_shown_while_the_confirmation_runs(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.tell("confirm opened", policy_id=BASE, n=60, goal=0.9, commands=50)
    for _ in range(20):
        record.run("confirm", BASE, 1, 0.6)
    record.flush()
    with open_records(tmp_path) as records:
        confirm = campaign_view(records, CAMPAIGN_ID).confirm
    assert confirm is not None
    assert (confirm.passed, confirm.median, confirm.median_low, confirm.median_high) == (None, 40, 40, 40)


@pytest.mark.parametrize(("outcome", "label", "changes"), [("success", "failure", True), ("success", "unsafe", True),
                                                           ("failure", "success", False)])  # fmt: skip
def test_a_label_can_change_whether_the_median_is_reached(
    tmp_path: Path, outcome: OutcomeKind, label: OutcomeKind, changes: bool
) -> None:
    """31 successes need 40 commands and 30 need 90: without one of the former the median is 65."""
    record = begin(tmp_path)
    record.tell("confirm opened", policy_id=BASE, n=62, goal=0.5, commands=50)
    orders = [record.order("confirm", BASE, 1) for _ in range(62)]
    for order in orders[:31]:
        record.end(order, "success", ticks=40)
    for order in orders[31:61]:
        record.end(order, "success", ticks=90)
    record.end(orders[61], "failure", ticks=40)
    interval = confirm(61, 62, 0.5).interval
    told = {"policy_id": BASE, "successes": 61, "n": 62, "low": interval.low, "high": interval.high, "reissued": 0,
            "passed": True, "median": 40, "median_low": 40, "median_high": 90}  # fmt: skip
    record.tell("confirmed", **told)
    record.flush()
    with open_records(tmp_path) as records:
        assert all(check.equal for check in recompute(records.ledger))
        past = history(records, CAMPAIGN_ID)
        assert past.started is not None
        past.started = replace(past.started, goal={"success": 0.5, "commands": 50})
        rows = records.reading.episodes(Page(campaign_id=CAMPAIGN_ID, purpose="confirm", outcome=outcome, limit=100))
        found = {row.episode.ticks: stake(records.reading, past, row, label) for row in rows if row.episode}
    assert found[40].changes == changes
    assert "goal 50.0% with a median of at most 50 commands" in found[40].would
    assert outcome != "success" or not found[90].changes


def test_a_campaign_has_no_limit_of_commands_unless_its_file_says_so() -> None:
    assert read_campaign("pin_insertion").goal.commands == 0
    assert read_campaign("best_regime").goal.commands == 50


@pytest.mark.parametrize("commands", ["-1", "fifty", "2.5"])
def test_a_number_of_commands_that_is_none_is_refused(tmp_path: Path, commands: str) -> None:
    file = tmp_path / "fast.yaml"
    file.write_text(f"name: fast\ntask: pin_insertion\nrecipe: habc_warm\ngoal: {{commands: {commands}}}\n")
    with pytest.raises(FileProblem, match="commands"):
        read_campaign(file)


def test_a_median_above_the_time_limit_of_the_task_is_refused(tmp_path: Path) -> None:
    limit = TASKS.make("pin_insertion").spec.limit_ticks
    plan = read_campaign("pin_insertion")
    require_parts(replace(plan, goal=Goal(commands=limit)), Home(tmp_path), "local")
    with pytest.raises(UsageError, match=f"at most {limit}, the time limit of pin_insertion"):
        require_parts(replace(plan, goal=Goal(commands=limit + 1)), Home(tmp_path), "local")
