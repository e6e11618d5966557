"""An operator at a page moves the first robot of a station, over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import FileProblem, TransportProblem, UsageError
from enpire.types import Bounds, IntArray, Observation, TaskSpec
from enpire.wire.hand_control import HandClient, HandListener, hand_address
from robot_drivers.browser_operator import SILENT_PERIODS, BrowserOperator, BrowserOptions, open_browser
from sim.tasks.pin_insertion import PinInsertion

PIN = PinInsertion()
SPEC = TaskSpec(
    name="slide", instruction="slide", rate_hz=30.0, limit_ticks=100,
    state=(Bounds(name="joint_rad", unit="rad", low=-1.0, high=1.0),),
    action=(
        Bounds(name="vx_mm_s", unit="mm/s", low=-20.0, high=20.0),
        Bounds(name="joint_rad", unit="rad", low=-1.0, high=1.0),
    ),
)  # fmt: skip
SEEN = Observation(stamp_ns=0, state=np.array([[0.5], [0.0]], np.float32))
BOTH: IntArray = np.arange(2, dtype=np.int64)


@dataclass
class Bench:
    """A station that takes inputs, and its clock."""

    home: Path
    operator: BrowserOperator = field(init=False)
    now_s: float = 100.0
    waited_s: float = 0.0

    def __post_init__(self) -> None:
        address = hand_address(self.home, "sim-1")
        listener = HandListener(address)
        self.operator = BrowserOperator(SPEC, BrowserOptions(address=address), listener, lambda: self.now_s, self.wait)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.waited_s += seconds

    def period(self) -> tuple[list[bool], list[float]]:
        """One period: which lanes are held, and the action of the operator."""
        held = self.operator.watch(SEEN, BOTH, np.zeros(2, np.int64))
        action = self.operator.act(SEEN, BOTH[:1])[0]
        return held.tolist(), [round(float(one), 4) for one in action]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.operator.close()


def test_the_newest_keys_move_the_first_robot_only(bench: Bench) -> None:
    assert bench.period()[0] == [False, False], "the policy moves until an operator takes over"
    client = HandClient(bench.home, "sim-1")
    assert client.send((0.0, 0.0))
    assert bench.period() == ([True, False], [0.0, 0.5]), "without a key the robot holds: no speed, the same position"
    client.send((1.0, 0.0))
    client.send((-1.0, 1.0))
    held, action = bench.period()
    assert held == [True, False]
    assert action == [-10.0, 0.54], "half of the speed; a step of 2 % of the range"
    status = client.status()
    assert status is not None
    assert (status.actions, status.holder) == (("vx_mm_s", "joint_rad"), client.holder)
    client.send((), gives_back=True)
    assert bench.period()[0] == [False, False]
    client.close()


def test_a_silent_tab_holds_the_robot_within_three_periods_and_then_gives_it_back(bench: Bench) -> None:
    client = HandClient(bench.home, "sim-1")
    client.send((1.0, 1.0))
    assert bench.period()[1] == [10.0, 0.54]
    for _ in range(SILENT_PERIODS):
        bench.now_s += SPEC.period_s
        bench.period()
    bench.now_s += SPEC.period_s
    kept = bench.period()
    assert kept[0] == [True, False]
    assert kept[1][0] == 0.0
    bench.now_s += SPEC.period_s
    assert bench.period() == kept, "the position stays"
    bench.now_s += 1.0
    assert bench.period()[0] == [False, False]
    client.close()


def test_a_second_holder_takes_the_robot_from_the_first(bench: Bench) -> None:
    first, second = HandClient(bench.home, "sim-1"), HandClient(bench.home, "sim-1")
    second.holder = first.holder[:-1] + ("Z" if first.holder[-1] != "Z" else "z")
    first.send((1.0, 0.0))
    bench.period()
    second.send((-1.0, 0.0))
    assert bench.period()[1][0] == -10.0
    first.send((1.0, 0.0))
    assert bench.period()[1][0] == -10.0, "the first has lost it"
    first.send((), gives_back=True)
    assert bench.period()[0] == [True, False], "and cannot give back what it does not hold"
    second.send((), gives_back=True)
    second.close()
    first.send((1.0, 0.0))
    assert bench.period()[0] == [False, False], "nor take it again with the old take-over"
    first.close()


def test_a_fast_simulation_keeps_real_time_while_it_is_held(bench: Bench) -> None:
    client = HandClient(bench.home, "sim-1")
    for _ in range(31):
        client.send((0.0, 0.0))
        bench.period()
    assert bench.waited_s == pytest.approx(1.0)
    client.send((), gives_back=True)
    client.close()
    bench.period()
    before = bench.waited_s
    for _ in range(10):
        bench.period()
    assert bench.waited_s == before


def test_what_is_no_input_moves_nothing(bench: Bench) -> None:
    client = HandClient(bench.home, "sim-1")
    for wrong in (b"", b"x", b"[]", b'{"holder": 1}', b'{"holder": "a", "axes": ["x"], "gives_back": false}'):
        client._socket.send(wrong)
        assert bench.period()[0] == [False, False]
    client._socket.send(f'{{"holder": "{client.holder}", "axes": [1e400], "gives_back": false}}'.encode())
    assert bench.period()[0] == [False, False]
    client.send((9.0,))
    assert bench.period()[1][0] == 10.0, "at most the whole axis"
    client.close()


def test_a_station_without_the_operator_says_what_its_file_needs(tmp_path: Path) -> None:
    with pytest.raises(TransportProblem, match="operator: browser"):
        HandClient(tmp_path, "sim-1")
    with pytest.raises(UsageError, match="operator_options"):
        open_browser(PIN, PIN.rig(1, 0), 0, {})
    with pytest.raises(FileProblem, match="speed"):
        open_browser(PIN, PIN.rig(1, 0), 0, {"address": hand_address(tmp_path, "a"), "speed": 2.0})
