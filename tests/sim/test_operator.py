"""The simulated operator: whom it helps, when, how it is recorded, and how the learner sees it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from enpire.campaign.campaign import Campaign, Rounds, Stations
from enpire.campaign.state import CampaignState
from enpire.errors import FileProblem, UsageError
from enpire.home import open_home
from enpire.ids import mint
from enpire.interfaces import Rig
from enpire.policy_calls import LoadedPolicy
from enpire.scheduling.scheduler import FreeStation, Scheduler
from enpire.session import run_campaign
from enpire.station.command_blending import PERIODS
from enpire.station.lanes import Lanes
from enpire.station.people import HoldStill
from enpire.station.robot_session import RobotSession
from enpire.station.station_file import StationFile
from enpire.store import arrays
from enpire.types import (
    PEOPLE,
    SOURCE_EXPERT,
    SOURCE_HUMAN,
    SOURCE_POLICY,
    EpisodeArrays,
    FloatArray,
    IntArray,
    Observation,
    Order,
    Split,
    Start,
)
from enpire.wire.messages import Parcel
from policies.habc.segments import Part, WindowSpec, cut, efficiency_mask, viability_labels
from policies.training_data import RecordedEpisode
from robot_drivers.mujoco_robot import open_rig
from sim.operator import OperatorBehaviour, SimulatedOperator
from tests.sim.task_check.reach import Reach

TASK = Reach()
SEED = 3


class Stalls:
    """Goes to the middle, but stands still where x is above a line: those episodes are doomed."""

    horizon, execute = 8, 4

    def __init__(self, line_m: float = 0.1) -> None:
        self.line_m = line_m

    def begin(self, lane: int, seed: int) -> None:
        pass

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        command = TASK.steer(observation.state, np.zeros_like(observation.state)) * 0.5
        command[observation.state[:, 0] > self.line_m] = 0.0
        return np.repeat(command[:, None], self.horizon, axis=1).astype(np.float32)


def order(index: int, *, supervised: bool = True) -> Order:
    return Order(
        order_id=f"o{index}", campaign_id="c", station="s", task="reach", policy_id="p",
        start=TASK.start("train", index, b""), purpose="collect", round=1, supervised=supervised,
    )  # fmt: skip


def run(orders: Sequence[Order], lanes: Lanes, policy: Stalls | None = None) -> Mapping[str, Parcel]:
    loaded = LoadedPolicy(policy_id="p", policy=policy or Stalls(), source=SOURCE_POLICY)
    waiting, ended = list(orders), {}
    for _ in range(5000):
        for lane in lanes.free():
            if waiting:
                lanes.begin(lane, waiting.pop(0), loaded)
        for step in (lanes.sense, lanes.reset, lanes.verify, lanes.decide, lanes.act):
            step()
        ended |= {parcel.episode.order.order_id: parcel for parcel in lanes.take_ended()}
        if len(ended) == len(orders):
            return ended
    raise AssertionError(f"only {sorted(ended)} ended")


def watched(count: int, behaviour: OperatorBehaviour) -> Lanes:
    rig = open_rig(TASK, count, SEED, {})
    return Lanes(TASK, rig, 0, SimulatedOperator(TASK, rig, SEED, asdict(behaviour)))


def recording(parcel: Parcel) -> EpisodeArrays:
    return arrays.unpack(parcel.arrays_file)


ORDERS = [order(index) for index in range(16)]
DOOMED = {item.order_id for item in ORDERS if item.start.values[0] > 0.12}
SAFE = {item.order_id for item in ORDERS if item.start.values[0] < 0.08}
FINISHES, HANDS_BACK = OperatorBehaviour(hands_back=0.0, branches=2), OperatorBehaviour(hands_back=1.0, branches=2)


@pytest.fixture(scope="module")
def finished() -> Mapping[str, Parcel]:
    return run(ORDERS, watched(4, FINISHES))


def test_doomed_episodes_are_taken_over_and_the_others_left_alone(finished: Mapping[str, Parcel]) -> None:
    assert len(DOOMED) >= 4
    assert len(SAFE) >= 4
    for order_id in DOOMED:
        parcel = finished[order_id]
        late = parcel.episode.ticks == TASK.spec.limit_ticks
        assert parcel.episode.outcome == "success" or late
        assert (recording(parcel).source == SOURCE_HUMAN).any()
    assert sum(finished[order_id].episode.outcome == "success" for order_id in DOOMED) >= len(DOOMED) - 1
    for order_id in SAFE:
        assert (recording(finished[order_id]).source == SOURCE_POLICY).all()


def test_the_person_reacts_late_and_trembles_at_first(finished: Mapping[str, Parcel]) -> None:
    for order_id in DOOMED:
        found = recording(finished[order_id])
        first = int(np.flatnonzero(found.source == SOURCE_HUMAN)[0])
        assert first >= 1 + FINISHES.reaction_ticks[0]
        assert (found.source[first:] == SOURCE_HUMAN).all()
        assert (found.chunk[first:] == -1).all()
        assert (found.chunk[:first] >= 0).all()
        held = first + PERIODS  # before, the hand-over smooths what the hand does
        early = np.abs(np.diff(found.action[held : held + 4], axis=0)).mean()
        late = np.abs(np.diff(found.action[first + FINISHES.adaptation_ticks + 1 :], axis=0))
        assert early > 0.01
        assert not len(late) or late.mean() < early / 3


def test_an_episode_that_is_not_supervised_is_never_touched() -> None:
    plain = run([replace(item, supervised=False) for item in ORDERS[:8]], watched(4, FINISHES))
    alone = run(ORDERS[:8], Lanes(TASK, open_rig(TASK, 4, SEED, {})))
    for order_id, parcel in plain.items():
        assert parcel.arrays_file == alone[order_id].arrays_file
        assert (parcel.episode.outcome == "failure") == (order_id in DOOMED)


def test_an_episode_is_the_same_in_any_lane_beside_any_others(finished: Mapping[str, Parcel]) -> None:
    again = run(list(reversed(ORDERS)), watched(3, FINISHES))
    assert all(again[order_id].arrays_file == parcel.arrays_file for order_id, parcel in finished.items())


def test_a_person_hands_back_when_the_policy_will_make_it() -> None:
    ended = run(ORDERS, watched(4, HANDS_BACK))
    handed = 0
    for order_id in DOOMED:
        found = recording(ended[order_id])
        held = np.flatnonzero(found.source == SOURCE_HUMAN)
        if found.source[-1] == SOURCE_POLICY and len(held):
            handed += 1
            assert len(held) >= HANDS_BACK.least_hold_ticks
            after = int(held[-1]) + 1
            assert found.chunk[after] > found.chunk[: held[0]].max()
            assert ended[order_id].episode.outcome == "success"
    assert handed >= 2


def test_the_learner_routes_the_segments_as_the_method_says() -> None:
    """habc.md: before, without a label; the person's frames, without a label; the policy's rest, with the outcome."""
    ended = run(ORDERS, watched(4, HANDS_BACK))
    how = WindowSpec(horizon=4, execute=4, stride=1)
    seen: set[Part] = set()
    for parcel in ended.values():
        found, success = recording(parcel), parcel.episode.outcome == "success"
        recorded = RecordedEpisode(
            order_id=parcel.episode.order.order_id, round=1, success=success, supervised=True, arrays=found
        )
        windows = cut([recorded], how)
        label, efficient = viability_labels(windows), efficiency_mask(windows)
        touched = bool((found.source == SOURCE_HUMAN).any())
        for part in Part:
            rows = windows.part == part
            if not rows.any():
                continue
            seen.add(part)
            if part in (Part.BEFORE_INTERVENTION, Part.INTERVENTION):
                assert touched
                assert (label[rows] == -1).all()
            if part in (Part.AFTER_INTERVENTION, Part.AUTONOMOUS):
                assert (label[rows] == success).all()
            if part == Part.BEFORE_INTERVENTION:
                assert not efficient[rows].any()
    assert seen >= {Part.AUTONOMOUS, Part.BEFORE_INTERVENTION, Part.INTERVENTION, Part.AFTER_INTERVENTION}


def test_a_station_file_calls_the_operator(tmp_path: Path) -> None:
    file = StationFile(
        name="s", task="tests.sim.task_check.reach:Reach", home=tmp_path, lanes=2, pace="fast", reset="teleport",
        operator="simulated", seed=SEED,
    )  # fmt: skip
    keeper = RobotSession(file, TASK, lambda line: None)
    doomed = [item for item in ORDERS if item.order_id in DOOMED][:2]
    ended = run(doomed, keeper.lanes)
    keeper.close()
    assert all((recording(parcel).source == SOURCE_HUMAN).any() for parcel in ended.values())


class Bare(Reach):
    """Its rig cannot be copied."""

    def rig(self, lanes: int, seed: int) -> Rig:  # type: ignore[override]
        class Plain:
            spec = Reach.spec
            lanes = 1

        return Plain()  # pyright: ignore[reportReturnType]


def test_a_rig_that_cannot_be_copied_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="leave `operator` empty"):
        SimulatedOperator(Bare(), Bare().rig(1, 0), 0, {})


def orders_drawn(supervised: float) -> list[Order]:
    campaign = Campaign(
        name="n", task="reach", recipe="r", stations=Stations(operator="simulated"),
        rounds=Rounds(supervised=supervised, episodes=10_000),
    )  # fmt: skip

    def starts(split: Split, index: int, scope: str = "") -> Start:
        return TASK.start(split, index, b"a secret of the tests")

    state = CampaignState(campaign_id="c", champion="p", base_policy="p", base_measured=True, confirmed={"p": False})
    return Scheduler(campaign, starts, random.Random(1)).next_orders(state, FreeStation("s", 1, 600))


def test_half_of_the_collection_is_supervised_and_drawn_before() -> None:
    drawn = orders_drawn(0.5)
    assert {item.purpose for item in drawn} == {"collect"}
    assert 240 <= sum(item.supervised for item in drawn) <= 360
    assert not any(item.supervised for item in orders_drawn(0.0))


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="supervised must lie in"):
        Rounds(supervised=1.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"branches": 0}, "branches must be at least 2, not 0"), ({"branches": 1}, "at least 2"),
        ({"look_every_ticks": 0}, "look_every_ticks must be at least 1"),
        ({"adaptation_ticks": 0}, "adaptation_ticks must be at least 1"),
        ({"least_hold_ticks": -5}, "least_hold_ticks must be at least 0"),
        ({"reaction_ticks": [9, 3]}, r"reaction_ticks must be \[least, most\], from 0 up, not \[9, 3\]"),
        ({"hands_back": 3.0}, r"hands_back must lie in \[0, 1\], not 3; for 3 % write 0\.03"),
        ({"tremor": -1.0}, r"tremor must lie in \[0, 1\], not -1\."), ({"nope": 1}, "unknown key 'nope'"),
    ],
)  # fmt: skip
def test_operator_options_out_of_range_are_refused_before_anything_starts(
    options: Mapping[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(FileProblem, match=f"operator_options.*{said}"):
        SimulatedOperator(TASK, TASK.rig(1, 0), 0, options)
    plan = {
        "name": "n", "task": "tests.sim.task_check.reach:Reach", "recipe": "habc_plus",
        "stations": {"operator": "simulated", "operator_options": options},
    }  # fmt: skip
    (tmp_path / "n.yaml").write_text(yaml.safe_dump(plan))
    home = open_home(tmp_path / "home")
    with pytest.raises(FileProblem, match=f"operator_options.*{said}"):
        run_campaign(tmp_path / "n.yaml", home)
    assert not home.ledger.exists()


def test_a_simulated_person_demonstrates_from_the_first_period_to_the_last() -> None:
    rig = TASK.rig(1, 0)
    lanes = Lanes(TASK, rig, operator=SimulatedOperator(TASK, rig, SEED, {}))
    order = Order(
        order_id=mint(), campaign_id="C", station="s", task="reach", policy_id=PEOPLE, purpose="demonstrate",
        start=TASK.start("train", 5, b""), round=0, supervised=True,
    )  # fmt: skip
    lanes.begin(0, order, LoadedPolicy(policy_id=PEOPLE, policy=HoldStill(TASK.spec), source=SOURCE_EXPERT))
    for _ in range(TASK.spec.limit_ticks + 2):
        lanes.sense()
        lanes.reset()
        lanes.verify()
        lanes.decide()
        lanes.act()
    [parcel] = lanes.take_ended()
    assert parcel.episode.outcome == "success"
    assert (arrays.unpack(parcel.arrays_file).source == SOURCE_EXPERT).all()
