"""Which actions a guard lets pass, in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_drivers.guard_rules import JITTER_S, ActionRate, GuardRules, Ticket

PATIENCE = 100


def rules() -> GuardRules:
    made = GuardRules(patience_ns=PATIENCE)
    made.unlatch()
    made.begin(ticket(0))
    return made


def ticket(sequence: int, stamp: int = 0, lease: int = 1) -> Ticket:
    return Ticket(sequence=sequence, lease=lease, stamp_ns=stamp)


def test_it_starts_latched():
    fresh = GuardRules(patience_ns=PATIENCE)
    assert fresh.admit(ticket(1), 0) == "latched"
    assert fresh.begin(ticket(1)) == "latched"


def test_after_a_resume_the_runner_begins_anew():
    fresh = GuardRules(patience_ns=PATIENCE)
    fresh.unlatch()
    assert fresh.admit(ticket(1), 0) == "tripped"
    assert fresh.begin(ticket(1)) == ""
    assert fresh.admit(ticket(2), 0) == ""


def test_repeated_stale_and_old_are_dropped_and_counted():
    guard = rules()
    assert guard.admit(ticket(5, 1000), 1000) == ""
    assert guard.admit(ticket(5, 1000), 1000) == "repeated"
    assert guard.admit(ticket(4, 1000), 1000) == "repeated"
    assert guard.admit(ticket(6, 899), 1000) == "stale"
    assert guard.admit(ticket(6, 1001), 1000) == "stale"  # of the future: no clock of this machine said so
    assert guard.admit(ticket(7, 1000, lease=0), 1000) == "old lease"
    assert guard.dropped == {"repeated": 2, "stale": 2, "old lease": 1}
    assert not guard.greet(0)
    assert guard.greet(2)
    assert guard.admit(ticket(1, 1000, lease=2), 1000) == ""
    assert guard.admit(ticket(8, 1000, lease=1), 1000) == "old lease"


def test_the_watchdog_trips_at_the_deadline_and_not_before():
    guard = rules()
    assert not guard.overdue(10**9)  # not armed: no rollout has begun
    guard.admit(ticket(1, 1000), 1000)
    assert not guard.overdue(1000 + PATIENCE - 1)
    assert guard.overdue(1000 + PATIENCE)
    assert not guard.overdue(1000 + PATIENCE + 1)  # once
    assert guard.admit(ticket(2, 1200), 1200) == "tripped"
    assert guard.begin(ticket(3)) == ""
    assert guard.admit(ticket(4, 1300), 1300) == ""


def test_a_command_that_was_sent_when_it_was_overdue_trips_a_guard_that_was_held_up_itself():
    guard = rules()
    guard.admit(ticket(1, 1000), 1000)
    assert guard.admit(ticket(2, 1000 + PATIENCE + 1), 1000 + 2 * PATIENCE) == "tripped"
    assert guard.tripped.startswith("No new action came")


def test_a_command_that_was_sent_in_time_passes_a_guard_that_was_held_up_itself():
    guard = rules()
    guard.admit(ticket(1, 1000), 1000)
    assert guard.admit(ticket(2, 1000 + PATIENCE), 1000 + PATIENCE + 1) == ""


def test_the_watchdog_says_what_the_driver_is_at():
    guard = rules()
    guard.admit(ticket(1, 1000), 1000)
    assert not guard.overdue(1000 + PATIENCE - 1, "look")
    assert guard.overdue(1000 + PATIENCE, "look")
    assert guard.tripped.startswith("The driver hangs in look; check its bus and power. No new action came")


def test_many_drops_in_a_row_trip():
    guard = rules()
    guard.admit(ticket(1, 0), 0)
    for _ in range(guard.drops_allowed):
        guard.admit(ticket(1, 0), 0)
    assert "in a row" in guard.tripped
    assert guard.admit(ticket(2, 0), 0) == "tripped"


def test_the_gravest_fault_holds():
    guard = rules()
    guard.trip("late")
    guard.latch("stop")
    guard.trip("later")
    assert (guard.tripped, guard.latched) == ("late", "stop")
    assert guard.admit(ticket(9), 0) == "latched"
    guard.unlatch()
    assert guard.admit(ticket(9), 0) == "tripped"


def test_a_stop_without_a_cause_is_a_stop():
    guard = rules()
    guard.latch("")
    assert guard.admit(ticket(1), 0) == "latched"


def test_a_guard_that_no_runner_has_used_takes_the_first_action():
    guard = rules()
    assert (guard.lease, guard.drops_allowed, guard.armed, guard.due_ns) == (1, 10, False, None)
    assert guard.admit(ticket(0, 1000), 1000) == ""
    assert (guard.armed, guard.due_ns, guard.tripped) == (True, 1000 + PATIENCE, "")
    assert guard.greet(1), "the same runner, started again"
    assert guard.admit(ticket(0, 1000), 1000) == ""
    assert GuardRules(patience_ns=PATIENCE).lease == 0


def test_no_action_has_a_number_below_zero():
    guard = rules()
    assert guard.admit(ticket(-1, 1000), 1000) == "repeated"
    assert guard.greet(1)
    assert guard.admit(ticket(-1, 1000), 1000) == "repeated"
    assert guard.admit(ticket(0, 1000), 1000) == ""


@pytest.mark.parametrize(("age", "refusal"), [(-1, "stale"), (0, ""), (PATIENCE, ""), (PATIENCE + 1, "stale")])
def test_an_action_passes_up_to_the_age_that_is_allowed(age: int, refusal: str):
    assert rules().admit(ticket(0, 1000 - age), 1000) == refusal


def test_drops_trip_an_armed_guard_when_as_many_came_in_a_row_as_are_too_many():
    guard = rules()
    for _ in range(25):
        assert guard.admit(ticket(1, 0), 1000) == "stale"
    assert guard.tripped == "", "no action has passed, so the robot is at rest"
    guard.begin(ticket(0))
    for _ in range(2):
        assert guard.admit(ticket(guard.dropped.total(), 1000), 1000) == ""
        for _ in range(9):
            guard.admit(ticket(0, 1000), 1000)
        assert guard.tripped == ""
    guard.admit(ticket(0, 1000), 1000)
    assert guard.tripped == "10 actions in a row were dropped, the last because it was repeated."
    assert (guard.armed, guard.dropped) == (False, {"stale": 25, "repeated": 19})
    guard.begin(ticket(0))
    assert guard.admit(ticket(99, 1000), 1000) == ""
    for _ in range(9):
        guard.admit(ticket(0, 1000), 1000)
    assert guard.tripped == "", "a rollout begins without drops"


def test_the_deadline_restarts_when_an_action_was_carried_out():
    guard = rules()
    guard.served(5000)
    assert not guard.armed, "nothing was carried out yet"
    guard.admit(ticket(1, 1000), 1000)
    guard.served(1090)
    assert guard.due_ns == 1090 + PATIENCE
    assert not guard.overdue(1000 + PATIENCE)


@pytest.mark.parametrize("end", ["trip", "latch"])
def test_a_guard_that_stopped_waits_for_no_action(end: str):
    guard = rules()
    guard.admit(ticket(1, 1000), 1000)
    getattr(guard, end)("a cause")
    assert (guard.armed, guard.overdue(10**9)) == (False, False)


def test_a_rollout_that_begins_waits_for_no_action_and_needs_a_lease():
    guard = rules()
    guard.admit(ticket(1, 1000, lease=4), 1000)
    assert guard.begin(ticket(0, 1000, lease=3)) == "old lease"
    assert (guard.lease, guard.armed) == (4, True)
    assert guard.begin(ticket(0, 1000, lease=4)) == ""
    assert (guard.lease, guard.armed) == (4, False)
    assert guard.begin(ticket(0, 1000, lease=6)) == ""
    assert guard.lease == 6
    assert not guard.greet(5)
    assert guard.dropped == {"old lease": 2}


def test_the_causes_that_an_operator_reads():
    guard = GuardRules(patience_ns=100_000_000)
    guard.latch("later")
    assert guard.latched == "The guard has started; look at the robot, then resume it."
    guard.unlatch()
    assert (guard.latched, guard.tripped) == ("", "An operator resumed the robot; the runner must begin a new rollout.")
    guard.latch("")
    assert guard.latched == "A stop was requested."
    guard.unlatch()
    guard.begin(ticket(0))
    guard.admit(ticket(1, 10**9), 10**9)
    assert guard.overdue(10**9 + 150_000_000)
    assert guard.tripped == "No new action came for 150 ms; 100 ms are allowed."


def test_the_rate_of_actions_without_a_clock():
    rate = ActionRate(0.1)
    assert JITTER_S == 0.01
    assert rate.wait_s(-5.0) == 0
    assert not rate.passes(0.0), "the first action follows none"
    assert rate.wait_s(0.0) == 0
    assert not rate.passes(0.05), "due at 0.1, and 0.11 early is allowed"
    assert rate.wait_s(0.05) == pytest.approx(0.2 - 0.11 - 0.05)
    assert not rate.passes(0.3), "due at 0.2, and the robot is at rest from 0.31 on"
    assert rate.passes(0.52), "due at 0.4, and the robot is at rest from 0.51 on"
    assert rate.wait_s(0.5) == pytest.approx(0.62 - 0.11 - 0.5)


def test_a_simulation_at_its_own_pace_is_never_delayed_nor_at_rest():
    rate = ActionRate(0.0)
    for now in (0.0, 0.0, 5.0, 5.5, 900.0):
        assert not rate.passes(now)
        assert rate.wait_s(now) == 0


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("act"), st.integers(0, 30), st.integers(-50, 150), st.integers(0, 3)),
        st.tuples(st.just("begin"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["latch", "unlatch", "trip", "tick"])),
        st.tuples(st.just("greet"), st.integers(0, 3)),
    ),
    max_size=60,
)


class Model:
    """The simplest model of the guard, to compare it with."""

    def __init__(self) -> None:
        self.guard = GuardRules(patience_ns=PATIENCE)
        self.now, self.lease, self.passed = 1000, 0, -1
        self.latched, self.begun = True, False

    def act(self, sequence: int, age: int, lease: int) -> None:
        if self.guard.admit(ticket(sequence, self.now - age, lease), self.now) == "":
            assert not self.latched
            assert self.begun
            assert 0 <= age <= PATIENCE
            assert lease >= self.lease
            assert sequence > self.passed
            self.passed, self.lease = sequence, lease

    def begin(self, lease: int) -> None:
        if self.guard.begin(ticket(0, self.now, lease)) == "":
            assert not self.latched
            self.begun, self.lease = True, max(self.lease, lease)

    def greet(self, lease: int) -> None:
        if self.guard.greet(lease):
            assert lease >= self.lease
            self.lease, self.passed = lease, -1

    def latch(self) -> None:
        self.guard.latch("stop")
        self.latched = True

    def unlatch(self) -> None:
        self.guard.unlatch()
        self.latched, self.begun = False, False

    def trip(self) -> None:
        self.guard.trip("fault")
        self.begun = False

    def tick(self) -> None:
        if self.guard.overdue(self.now):
            self.begun = False


@settings(deadline=None, max_examples=100)
@given(EVENTS)
def test_nothing_passes_that_must_not(events):
    model = Model()
    for verb, *details in events:
        model.now += 7
        getattr(model, verb)(*details)
