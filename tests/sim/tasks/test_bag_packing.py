"""Bag packing: the expert, what two cameras see, the verifier against the truth, and the robot's own reset."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from enpire.errors import UsageError
from enpire.interfaces import Evidence
from enpire.types import EpisodeArrays, FloatArray
from sim.bimanual.arm_goals import Hands
from sim.bimanual.rig import ACTION, commands_of, force_of, opening_of
from sim.faults import FaultyRig
from sim.rollouts import GradedRollout, roll_out
from sim.task_check.suite import check_made
from sim.tasks.bag_flap import AJAR_RAD, Opener
from sim.tasks.bag_packing import BagPacking
from sim.tasks.bag_rig import FLAP, GENTLE_N, TILT, BagRig, place_of, seen_of
from sim.tasks.bag_world import World

SECRET = b"a secret of the tests"


@pytest.fixture(scope="module")
def bag() -> BagPacking:
    return BagPacking()


@pytest.fixture(scope="module")
def packed(bag: BagPacking) -> list[GradedRollout]:
    """What the expert at its best does from two hidden starts."""
    starts = [bag.start("holdout", index, SECRET) for index in range(2)]
    return roll_out(bag, bag.rig(2, 11), bag.clean_expert(), starts)


def placed(bag: BagPacking, lanes: int = 1, seed: int = 0) -> BagRig:
    rig = bag.rig(lanes, seed)
    for lane in range(lanes):
        rig.place(lane, bag.start("train", lane, b""))
    return rig


def hold(rig: BagRig, ticks: int, command: FloatArray | None = None) -> FloatArray:
    """Repeat one command (none: hold still); the state of lane 0 afterwards."""
    command = np.zeros((rig.lanes, len(ACTION)), np.float32) if command is None else command
    for _ in range(ticks):
        rig.act(command, np.ones(rig.lanes, np.bool_))
    return rig.observe().state[0]


def opened(rig: BagRig) -> FloatArray:
    """Let the left arm of lane 0 open the bag; the state then."""
    opener, world = Opener(), World()
    for _ in range(240):
        state = rig.observe().state.astype(np.float64)
        hands = Hands(state)
        world.sense(state[0])
        if opener.step(world, hands.of(0, "left")):
            return hold(rig, 1)
        rig.act(hands.commands(), np.ones(rig.lanes, np.bool_))
    raise AssertionError("The bag did not open within eight seconds.")


def kind(bag: BagPacking, arrays: EpisodeArrays, state: FloatArray) -> str:
    """The verdict when the sensors had said something else."""
    return bag.verifier().judge(Evidence(arrays=replace(arrays, state=state), images={})).kind


def test_the_expert_packs_three_things_in_three_quarters_of_the_time(
    bag: BagPacking, packed: list[GradedRollout]
) -> None:
    assert all(item.truth.success and item.verdict.kind == "success" for item in packed)
    assert np.mean([item.ticks for item in packed]) < 0.75 * bag.spec.limit_ticks


def test_a_hand_whose_commands_come_late_presses_on_nothing(bag: BagPacking) -> None:
    world, lanes = placed(bag, 8), np.arange(8)
    rig, expert = FaultyRig(world, {"delayed_command": 1.0}, 0), bag.expert(0)
    for lane in lanes:
        rig.place(int(lane), bag.start("train", int(lane), b""))
        expert.begin(int(lane), int(lane))
    for _ in range(125):
        chunk = expert.act(rig.observe(), lanes)
        for tick in range(expert.execute):
            rig.act(chunk[:, tick], np.ones(8, np.bool_))
    assert world.peak_n.max() < GENTLE_N


def test_a_hand_that_stops_a_quarter_of_a_second_late_has_given_way(bag: BagPacking) -> None:
    places_m = ((0.17, 0.12), (0.05, 0.12), (0.2, 0.3), (0.2, 0.42))
    rig, late = placed(bag, len(places_m)), np.zeros(len(places_m))
    for tick in range(150):
        hands = Hands(rig.observe().state.astype(np.float64))
        for lane, place_m in enumerate(places_m):
            hand = hands.of(lane, "right")
            late[lane] += hand.upward_n > 14.0
            if tick < 60:
                hand.go(np.array([*place_m, 0.1]), hand.turn, 0.3)
            elif late[lane] < 8:
                hand.go(hand.at_m - (0.0, 0.0, 0.1), hand.turn, 0.1)
        rig.act(hands.commands(), np.ones(len(places_m), np.bool_))
    assert (late >= 8).all(), "each stands on the table"
    assert rig.peak_n.max() < 0.9 * GENTLE_N


def test_the_subtasks_are_marked_one_after_the_other(bag: BagPacking, packed: list[GradedRollout]) -> None:
    for item in packed:
        marks = bag.subtask_marks(item.arrays.state)
        assert not marks[0].any()
        assert marks[-1].all()
        first = np.argmax(marks, axis=0)
        assert (np.diff(first) > 0).all(), "opened, then one thing after the other"


def test_the_flap_falls_shut_when_nobody_holds_it_and_hides_what_lies_inside(bag: BagPacking) -> None:
    rig = placed(bag)
    state = opened(rig)
    assert state[FLAP] > AJAR_RAD
    assert state[opening_of("left") + 1] < -5.0, "the pads hold the knob"
    release = np.zeros((1, len(ACTION)), np.float32)
    release[0, commands_of("left").stop] = 60.0
    inside = rig.scene.qpos[0, 16:19] + (0.0, 0.0, 0.025)
    rig.scene.qpos[0, 24:27] = inside
    before = hold(rig, 2)
    assert before[seen_of("top", 0)] > 0.0
    state = hold(rig, 60, release)
    assert state[FLAP] < 0.2
    assert state[seen_of("top", 0)] == state[seen_of("left_wrist", 0)] == 0.0
    again = hold(rig, 1)
    assert np.array_equal(again[place_of("top", 0)], state[place_of("top", 0)]), (
        "what is hidden stays where it was seen"
    )


def test_a_camera_that_disagrees_makes_a_failure(bag: BagPacking, packed: list[GradedRollout]) -> None:
    arrays = packed[0].arrays
    for view in ("top", "left_wrist"):
        state = arrays.state.copy()
        state[:, place_of(view, 1)] = state[0, place_of(view, 1)]
        assert kind(bag, arrays, state) == "failure"
    above = arrays.state.copy()
    above[-5:, place_of("left_wrist", 2).stop - 1] += 60.0
    assert kind(bag, arrays, above) == "failure", "from above, a thing that hovers over the bag looks as if it were in"


def test_a_thing_in_hand_a_tipped_bag_and_a_blow_are_no_success(bag: BagPacking, packed: list[GradedRollout]) -> None:
    arrays = packed[0].arrays
    held, tipped, blow = arrays.state.copy(), arrays.state.copy(), arrays.state.copy()
    held[-5:, opening_of("right")], held[-5:, opening_of("right") + 1] = 28.0, -14.0
    tipped[-5:, TILT] = 0.5
    blow[40, force_of("left")] = (0.0, GENTLE_N + 1.0, 0.0)
    assert kind(bag, arrays, arrays.state) == "success"
    assert [kind(bag, arrays, state) for state in (held, tipped, blow)] == ["failure", "failure", "unsafe"]


def test_the_truth_knows_a_tipped_bag_and_the_reset_leaves_it_to_a_person(bag: BagPacking) -> None:
    rig, skill = placed(bag), bag.reset_skill()
    rig.scene.qpos[0, 16:23] = [-0.2, 0.3, 0.06, np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0]
    state = hold(rig, 20)
    assert state[TILT] > 1.0
    assert rig.truth(0).metrics["tilt_rad"] > 1.0
    skill.begin(0, bag.start("train", 3, b""))
    rig.teleport = False
    commands = np.zeros((1, len(ACTION)), np.float32)
    for _ in range(90):
        commands, done = skill.step(rig.observe().state, np.arange(1))
        rig.act(commands, np.ones(1, np.bool_))
        assert not done[0]
    assert np.abs(commands[:, commands_of("right")]).max() < 0.2, "it waits"


def test_a_lane_is_the_same_alone_and_beside_others_bit_for_bit(bag: BagPacking) -> None:
    crowd, alone = placed(bag, 3, 1), bag.rig(1, 1)
    alone.place(0, bag.start("train", 2, b""))
    commands = np.random.default_rng(0).uniform(-0.4, 0.4, (20, 3, len(ACTION))).astype(np.float32)
    for tick, command in enumerate(commands):
        crowd.act(command, np.array([tick % 2 == 0, tick < 9, True]))
        alone.act(command[2:], np.ones(1, np.bool_))
        assert np.array_equal(crowd.observe().state[2], alone.observe().state[0])


def test_a_flap_that_sticks_does_not_open_and_pads_that_give_way_lose_it(bag: BagPacking) -> None:
    rig, rng = placed(bag, 2), np.random.default_rng(0)
    rig.disturb(1, "jammed", rng)
    opener, world = (Opener(), Opener()), (World(), World())
    for _ in range(150):
        state = rig.observe().state.astype(np.float64)
        hands = Hands(state)
        for lane in range(2):
            world[lane].sense(state[lane])
            opener[lane].step(world[lane], hands.of(lane, "left"))
        rig.act(hands.commands(), np.ones(2, np.bool_))
    state = rig.observe().state
    assert state[0, FLAP] > AJAR_RAD > 0.5 > state[1, FLAP]
    rig.disturb(0, "slipping_gripper", rng)
    assert hold(rig, 60)[FLAP] < 0.2
    with pytest.raises(UsageError, match="has no fault"):
        rig.disturb(0, "earthquake", rng)


@pytest.mark.slow
def test_the_robot_takes_the_things_out_and_puts_everything_back(bag: BagPacking) -> None:
    rig, skill = bag.rig(2, 4), bag.reset_skill()
    done_before = roll_out(bag, rig, bag.clean_expert(), [bag.start("train", index, b"") for index in range(2)])
    assert all(item.truth.success for item in done_before)
    rig.teleport = False
    goals = [bag.start("train", 100 + lane, b"") for lane in range(2)]
    for lane, goal in enumerate(goals):
        rig.place(lane, goal)
        skill.begin(lane, goal)
    done = np.zeros(2, np.bool_)
    for _ in range(1500):
        lanes = np.flatnonzero(~done)
        if not len(lanes):
            break
        command = np.zeros((2, len(ACTION)), np.float32)
        command[lanes], done[lanes] = skill.step(rig.observe().state[lanes], lanes)
        rig.act(command, ~done)
    assert done.all()
    state = rig.observe().state
    assert all(bag.start_error(state[lane], goal)[1] for lane, goal in enumerate(goals))
    assert (state[:, -1] > 0.9).all(), "the clock starts at the start"


@pytest.mark.slow
def test_it_keeps_the_contract_of_tasks() -> None:
    report = check_made("bag_packing", BagPacking)
    assert report.conforms, [failure.line for failure in report.failures]
