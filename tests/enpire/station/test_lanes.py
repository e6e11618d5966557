import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from enpire.errors import EnvelopeViolation, PolicyProblem
from enpire.interfaces import Policy
from enpire.policy_calls import LoadedPolicy, explores, policy_seed
from enpire.station.chunks import NOT_FINITE
from enpire.station.lanes import TRIES, Lanes
from enpire.store import arrays
from enpire.types import (
    SOURCE_EXPERT,
    SOURCE_POLICY,
    Episode,
    FloatArray,
    IntArray,
    MaskArray,
    Observation,
    Order,
    Purpose,
    Verdict,
)
from enpire.wire.messages import Parcel, decode, encode
from tests.fakes.point_task import LIMIT, PointPolicy, PointRig, PointTask, PointVerifier, point_order

ORDERS = [point_order("p" * 64, index) for index in range(12)]


def loaded(policy: PointPolicy | None = None, source: int = SOURCE_POLICY) -> LoadedPolicy:
    return LoadedPolicy(policy_id="p" * 64, policy=policy or PointPolicy(), source=source)


def run_all(lanes: Lanes, orders: Sequence[Order], policy: LoadedPolicy, periods: int = 2000) -> dict[str, Parcel]:
    """The work of a station, without orchestrator and disk."""
    waiting, ended = list(orders), dict[str, Parcel]()
    for _ in range(periods):
        for lane in lanes.free():
            if waiting:
                lanes.begin(lane, waiting.pop(0), policy)
        lanes.sense()
        lanes.reset()
        lanes.verify()
        lanes.decide()
        lanes.act()
        ended |= {parcel.episode.order.order_id: parcel for parcel in lanes.take_ended()}
        if len(ended) == len(orders) or not (lanes.busy or waiting):
            break
    return ended


class Diary(PointRig):
    """Stores the states and commands of lane 0."""

    def __init__(self, lanes: int) -> None:
        super().__init__(PointTask.spec, lanes)
        self.sensed: list[FloatArray] = []
        self.sent: list[FloatArray] = []

    def observe(self):
        observation = super().observe()
        self.sensed.append(observation.state[0].copy())
        return observation

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        sent = super().act(action, moving)
        self.sent.append(sent[0].copy())
        return sent


def test_the_arrays_are_exactly_the_sensed_states_and_sent_commands() -> None:
    rig = Diary(1)
    [parcel] = run_all(Lanes(PointTask(), rig), ORDERS[:1], loaded()).values()
    found = arrays.unpack(parcel.arrays_file)
    episode = parcel.episode
    assert episode.outcome == "success"
    assert episode.confidence == 0.9
    assert episode.ticks == len(found.action) == len(rig.sent)
    np.testing.assert_array_equal(found.state, np.stack(rig.sensed))
    np.testing.assert_array_equal(found.action, np.stack(rig.sent).astype(np.float32))
    np.testing.assert_array_equal(found.chunk, np.arange(episode.ticks) // PointPolicy.execute)
    assert (found.source == SOURCE_POLICY).all()
    assert episode.clipped > 0
    assert np.abs(found.action).max() <= np.float32(0.1)
    assert episode.ran_policy_id == "p" * 64
    assert np.abs(np.asarray(episode.achieved_start) - ORDERS[0].start.values).max() < 0.05


def test_an_episode_is_the_same_alone_and_with_others_in_any_lane() -> None:
    together = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 5)), ORDERS, loaded())
    for order in ORDERS:
        [alone] = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 1)), [order], loaded()).values()
        assert alone.arrays_file == together[order.order_id].arrays_file
        assert alone.episode.outcome == together[order.order_id].episode.outcome


class Photographed(PointRig):
    """Images that show the number of the lane; counts them."""

    looks = 0

    def look(self, lane: int):
        self.looks += 1
        return {"top": np.full((4, 6, 3), lane, np.uint8)}


class Looking(PointPolicy):
    """Checks that each lane gets its own image."""

    def __init__(self, *, needs_images: bool) -> None:
        super().__init__()
        self.needs_images = needs_images

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        assert set(observation.images) == ({"top"} if self.needs_images else set[str]())
        if self.needs_images:
            np.testing.assert_array_equal(observation.images["top"][:, 0, 0, 0], lanes)
        return super().act(observation, lanes)


@pytest.mark.parametrize("needs_images", [True, False])
def test_images_are_rendered_only_for_policies_that_need_them(*, needs_images: bool) -> None:
    rig = Photographed(PointTask.spec, 3)
    ended = run_all(Lanes(PointTask(), rig), ORDERS[:6], loaded(Looking(needs_images=needs_images)))
    assert {parcel.episode.outcome for parcel in ended.values()} == {"success"}
    assert bool(rig.looks) == needs_images


def test_both_sides_of_a_pair_draw_the_same_noise() -> None:
    champion = dataclasses.replace(ORDERS[0], side="champion", gate_id="g", pair=1)
    candidate = dataclasses.replace(ORDERS[0], side="candidate", gate_id="g", pair=1, order_id=ORDERS[1].order_id)
    ended = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 2)), [champion, candidate], loaded())
    assert ended[champion.order_id].arrays_file == ended[candidate.order_id].arrays_file
    assert policy_seed(1) != policy_seed(2)


class Counting(PointPolicy):
    """Keeps the sizes of its calls."""

    def __init__(self, noise: float = 0.005) -> None:
        super().__init__(noise)
        self.calls = list[int]()

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        self.calls.append(len(lanes))
        return super().act(observation, lanes)


class Collecting(Counting):
    """Has another policy for rollouts that only collect data."""

    def __init__(self) -> None:
        super().__init__()
        self.collector = Counting(noise=0.05)


def collecting(policy: Policy) -> LoadedPolicy:
    return LoadedPolicy.of("p" * 64, policy, SOURCE_POLICY)


@pytest.mark.parametrize("purpose", ["collect", "extra", "search", "base", "gate", "confirm", "demonstrate"])
def test_three_of_four_rollouts_that_only_collect_data_run_the_collector(purpose: Purpose) -> None:
    policy = Collecting()
    orders = [dataclasses.replace(point_order("p" * 64, index), purpose=purpose) for index in range(40)]
    ended = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 4)), orders, collecting(policy))
    explored = [order for order in orders if ended[order.order_id].episode.explored]
    assert len(explored) in (range(22, 37) if purpose in ("collect", "extra") else (0,))
    for acted, some in ((policy.collector, explored), (PointPolicy(), [one for one in orders if one not in explored])):
        alone = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 4)), some, loaded(acted)) if some else {}
        assert all(ended[key].arrays_file == item.arrays_file for key, item in alone.items())
    assert {item.episode.ran_policy_id for item in ended.values()} == {"p" * 64}
    plain = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 4)), orders, collecting(PointPolicy()))
    assert not any(item.episode.explored for item in plain.values())


def test_a_start_is_collected_from_in_both_ways_over_the_rounds() -> None:
    start = point_order("p" * 64, 3).start
    assert 50 < sum(explores("collect", start, round_) for round_ in range(100)) < 95


def test_orders_of_one_version_share_a_call_of_its_policy_whatever_they_are_for() -> None:
    policy = Collecting()
    orders = [dataclasses.replace(point_order("p" * 64, index), purpose="collect") for index in range(16)]
    mixed = sorted(orders, key=lambda one: explores(one.purpose, one.start, one.round))[:8]
    run_all(Lanes(PointTask(), PointRig(PointTask.spec, 8)), mixed, collecting(policy))
    explored = sum(explores(one.purpose, one.start, one.round) for one in mixed)
    assert 0 < explored < 8
    assert (policy.calls[0], policy.collector.calls[0]) == (8 - explored, explored)


class Changing(PointPolicy):
    """Its collector sends other chunks."""

    class collector(PointPolicy):  # noqa: N801
        horizon, execute = 8, 3


def test_a_collector_with_other_chunks_is_refused_when_the_version_is_loaded() -> None:
    with pytest.raises(PolicyProblem, match="collector has horizon 8 and execute 3; .* of the policy, 4 and 3"):
        collecting(Changing())


def test_a_rollout_out_of_time_is_a_failure_with_every_tick() -> None:
    class Still(PointPolicy):
        def act(self, observation, lanes):
            return np.zeros((len(lanes), self.horizon, 2), np.float32)

    ended = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 2)), ORDERS[:2], loaded(Still()))
    assert {parcel.episode.outcome for parcel in ended.values()} == {"failure"}
    assert {parcel.episode.ticks for parcel in ended.values()} == {LIMIT}


def test_a_value_that_is_not_finite_ends_only_its_episode() -> None:
    ended = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 4)), ORDERS, loaded(PointPolicy(fault="nan")))
    outcomes = {order.order_id: ended[order.order_id].episode for order in ORDERS}
    right = [order for order in ORDERS if order.start.values[0] > 0.02]
    assert right
    for order in right:
        episode = outcomes[order.order_id]
        assert (episode.outcome, episode.cause, episode.ticks) == ("aborted", NOT_FINITE, 0)
    assert any(episode.outcome == "success" for episode in outcomes.values())


@pytest.mark.parametrize(("fault", "words"), [("raise", "policy failed: KeyError"), ("shape", "shape")])
def test_a_broken_policy_aborts_its_episodes_with_the_cause(fault: str, words: str) -> None:
    ended = run_all(Lanes(PointTask(), PointRig(PointTask.spec, 2)), ORDERS[:2], loaded(PointPolicy(fault=fault)))
    assert len(ended) == 2
    for parcel in ended.values():
        assert parcel.episode.outcome == "aborted"
        assert words in parcel.episode.cause
        assert parcel.arrays_file == b""


def test_the_experts_frames_carry_its_source() -> None:
    [parcel] = run_all(
        Lanes(PointTask(), PointRig(PointTask.spec, 1)), ORDERS[:1], loaded(source=SOURCE_EXPERT)
    ).values()
    assert (arrays.unpack(parcel.arrays_file).source == SOURCE_EXPERT).all()


def test_a_robot_resets_by_itself_and_the_reset_is_not_part_of_the_recording() -> None:
    rig = PointRig(PointTask.spec, 3, {"reset_by_robot": True})
    ended = run_all(Lanes(PointTask(), rig, reset_limit_ticks=200), ORDERS, loaded())
    assert {parcel.episode.outcome for parcel in ended.values()} == {"success"}
    for parcel in ended.values():
        assert parcel.episode.reset_attempts == 1
        first = arrays.unpack(parcel.arrays_file).state[0]
        assert np.abs(first - np.asarray(parcel.episode.order.start.values)).max() < 0.05


def test_a_reset_that_fails_three_times_raises_an_alarm_and_other_lanes_continue() -> None:
    start = dataclasses.replace(ORDERS[0].start, values=(90.0, 90.0))
    hopeless = dataclasses.replace(ORDERS[0], start=start)
    lanes = Lanes(PointTask(), PointRig(PointTask.spec, 2, {"reset_by_robot": True}), reset_limit_ticks=40)
    ended = run_all(lanes, [hopeless, *ORDERS[1:6]], loaded())
    episode = ended[hopeless.order_id].episode
    assert (episode.outcome, episode.cause) == ("aborted", "reset failed")
    assert episode.reset_attempts == TRIES
    assert all(ended[order.order_id].episode.outcome == "success" for order in ORDERS[1:6])
    assert "lane 0" in lanes.alarm
    assert lanes.time.phase(0) == "wait-person"
    assert list(lanes.free()) == [1]
    lanes.unstick()
    assert list(lanes.free()) == [0, 1]
    assert lanes.alarm == ""


class Strict(PointRig):
    """Refuses a command to a lane with x > 0.5 before any lane moves."""

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        if (moving & (self.at[:, 0] > 0.5)).any():
            raise EnvelopeViolation("a point right of the line may not be moved")
        return super().act(action, moving)


def test_an_envelope_violation_is_unsafe_for_its_lane_alone() -> None:
    ended = run_all(Lanes(PointTask(), Strict(PointTask.spec, 4)), ORDERS, loaded())
    for order in ORDERS:
        episode = ended[order.order_id].episode
        assert (episode.outcome == "unsafe") == (order.start.values[0] > 0.5)
        [alone] = run_all(Lanes(PointTask(), Strict(PointTask.spec, 1)), [order], loaded()).values()
        assert alone.arrays_file == ended[order.order_id].arrays_file


class Watched(PointRig):
    """A guarded rig: lane 1 leaves its envelope as soon as it has moved."""

    def __init__(self) -> None:
        super().__init__(PointTask.spec, 2)
        self.violated = np.zeros(2, np.bool_)
        self.offences = ["", ""]

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        if moving[1]:
            self.violated[1], self.offences[1] = True, "too close to the edge"
        return super().act(action, moving)


def test_a_lane_that_the_guard_holds_is_unsafe() -> None:
    ended = run_all(Lanes(PointTask(), Watched()), ORDERS[:2], loaded())
    first, second = (ended[order.order_id].episode for order in ORDERS[:2])
    assert first.outcome == "success"
    assert (second.outcome, second.cause, second.ticks) == ("unsafe", "too close to the edge", 1)


class Frozen(PointRig):
    """A rig whose sensor is frozen from the third command on."""

    commands = 0

    @property
    def stale(self) -> str:
        return "the sensor is frozen" if self.commands > 2 else ""

    def act(self, action: FloatArray, moving: MaskArray) -> FloatArray:
        self.commands += 1
        return super().act(action, moving)


def test_a_frozen_sensor_makes_the_episode_invalid() -> None:
    [parcel] = run_all(Lanes(PointTask(), Frozen(PointTask.spec, 1)), ORDERS[1:2], loaded()).values()
    assert (parcel.episode.outcome, parcel.episode.cause) == ("invalid", "the sensor is frozen")


def test_abort_ends_every_running_order_once() -> None:
    lanes = Lanes(PointTask(), PointRig(PointTask.spec, 3))
    for lane, order in enumerate(ORDERS[:2]):
        lanes.begin(lane, order, loaded())
    for _ in range(3):
        for step in (lanes.sense, lanes.reset, lanes.verify, lanes.decide, lanes.act):
            step()
    lanes.abort("stopped by a test")
    lanes.abort("stopped by a test")
    ended = lanes.take_ended()
    assert [parcel.episode.cause for parcel in ended] == ["stopped by a test"] * 2
    for parcel in ended:
        found = arrays.unpack(parcel.arrays_file)
        assert parcel.episode.ticks == len(found.action) == len(found.state) - 1 == 2


def test_the_seconds_of_all_phases_add_up_to_the_age() -> None:
    lanes = Lanes(PointTask(), PointRig(PointTask.spec, 3))
    run_all(lanes, ORDERS, loaded())
    seconds = lanes.time.seconds()
    assert set(seconds) >= {"rollout", "reset", "verify", "wait-order"}
    assert all(value > 0 for value in seconds.values())


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({"confidence": float("nan")}, "verifier failed: its confidence is nan, not a number from 0 to 1"),
        ({"confidence": 1.5}, "verifier failed: its confidence is 1.5, not a number from 0 to 1"),
        ({"kind": "invalid"}, "verifier failed: its verdict is 'invalid', not success, failure or unsafe"),
        ({"kind": None}, "verifier failed: its verdict is None, not success, failure or unsafe"),
    ],
)
def test_an_invalid_verdict_ends_the_order_as_invalid(said: dict[str, object], cause: str) -> None:
    episode = judged(Verdict(**{"kind": "failure", "confidence": 0.9, "source": "verifier", **said}))  # type: ignore[arg-type]
    assert (episode.outcome, episode.cause, episode.confidence) == ("invalid", cause, 0.0)


def test_a_reason_that_is_too_long_to_deliver_is_cut() -> None:
    episode = judged(Verdict(kind="failure", confidence=0.9, source="verifier", reason="bent " * 2000))
    assert (episode.outcome, episode.confidence) == ("failure", 0.9)
    assert decode(encode(Parcel(episode=episode, arrays_file=b""))).message == Parcel(episode=episode, arrays_file=b"")


def judged(verdict: Verdict) -> Episode:
    """The episode of an order with this verdict."""
    task, verifier = PointTask(), PointVerifier()
    verifier.judge = lambda evidence: verdict
    task.verifier = lambda: verifier
    [parcel] = run_all(Lanes(task, PointRig(task.spec, 1)), ORDERS[:1], loaded()).values()
    return parcel.episode


def test_the_reading_is_the_newest_state_also_while_the_robot_moves() -> None:
    lanes = Lanes(PointTask(), PointRig(PointTask.spec, 1))
    assert lanes.reading() == ()
    lanes.begin(0, ORDERS[0], loaded())
    lanes.sense()
    sensed = lanes.reading()
    assert len(sensed) == PointTask.spec.state_dim
    for step in (lanes.reset, lanes.verify, lanes.decide, lanes.act):
        step()
    assert lanes.running()
    assert lanes.reading() == sensed
    lanes.sense()
    assert lanes.reading() != sensed
