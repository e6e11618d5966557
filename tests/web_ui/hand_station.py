"""A station's side of take-overs, without a robot: it follows the newest input, as a station does in each period."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from enpire.types import IntArray, Observation
from enpire.wire.hand_control import HandInput, HandListener, HandStatus, hand_address
from enpire.wire.private_socket import socket_path
from robot_drivers.browser_operator import BrowserOperator, BrowserOptions
from tests.fakes.waiting import until
from tests.web_ui.tiny_task import SPEC

PERIOD_S = 0.02


@dataclass
class HandStation:
    """Listens while entered."""

    home: Path
    name: str = "sim-1"
    inputs: list[HandInput] = field(default_factory=list[HandInput])
    ended: threading.Event = field(default_factory=threading.Event)
    looks: int = 0
    """How often it looked for inputs."""
    thread: threading.Thread = field(init=False)

    def __enter__(self) -> Self:
        self.listener = HandListener(hand_address(self.home, self.name))
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.ended.set()
        self.thread.join()
        self.listener.close()

    def until(self, true: Callable[[HandInput], bool]) -> HandInput:
        """The first input for which `true` holds."""
        found: list[HandInput] = []

        def came() -> list[HandInput]:
            found[:] = [one for one in list(self.inputs) if true(one)]
            return found

        until(came, "an input of a hand")
        return found[0]

    def until_alone(self) -> None:
        """Wait until no page holds a socket to this station, and its last inputs were taken."""
        path = socket_path(hand_address(self.home, self.name))
        assert path is not None
        until(lambda: not list(path.parent.glob("page-*")), "the pages to close their sockets")
        looks = self.looks
        until(lambda: self.looks >= looks + 2, "two more looks for inputs")

    def _follow(self) -> None:
        holder = ""
        while not self.ended.wait(PERIOD_S):
            self.looks += 1
            given = self.listener.newest()
            if given is not None:
                self.inputs.append(given)
                holder = "" if given.gives_back else given.holder
            self.listener.answer(HandStatus(actions=("vx_mm_s", "vy_mm_s"), holder=holder))


class RealOperator:
    """The operator of a station as it is, without a robot, while entered; its clock counts its periods.

    A test steps it: each `until` runs periods, as slow as the machine likes.
    """

    def __init__(self, home: Path, name: str = "sim-1") -> None:
        address = hand_address(home, name)
        self._operator = BrowserOperator(
            SPEC, BrowserOptions(address=address), HandListener(address), lambda: self.periods * SPEC.period_s,
            lambda seconds: None,
        )  # fmt: skip
        self.periods = 0
        self.held = False
        self.moves = False
        """Whether the operator commands a motion in the newest period."""
        self.silent_periods = 0
        """Periods since the newest input."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._operator.close()

    def until(self, true: Callable[[], bool]) -> None:
        """Run periods until it is true."""

        def next_period() -> None:
            time.sleep(SPEC.period_s)
            self.period()

        until(true, turn=next_period)

    def period(self) -> None:
        """One period of the station."""
        self.periods += 1
        heard_s = self._operator._heard_s
        seen = Observation(stamp_ns=0, state=np.zeros((1, SPEC.state_dim), np.float32))
        lane: IntArray = np.zeros(1, np.int64)
        self.held = bool(self._operator.watch(seen, lane, lane)[0])
        self.moves = self.held and bool(self._operator.act(seen, lane).any())
        self.silent_periods = self.silent_periods + 1 if self._operator._heard_s == heard_s else 0
