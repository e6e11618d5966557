"""A station's side of take-overs, without a robot: it follows the newest input, as a station does in each period."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from enpire.wire.hand_control import HandInput, HandListener, HandStatus, hand_address

PERIOD_S = 0.02


@dataclass
class HandStation:
    """Listens while entered."""

    home: Path
    name: str = "sim-1"
    inputs: list[HandInput] = field(default_factory=list[HandInput])
    ended: threading.Event = field(default_factory=threading.Event)
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
        """The first input for which `true` holds, within half a minute."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for one in list(self.inputs):
                if true(one):
                    return one
            time.sleep(PERIOD_S)
        raise AssertionError(f"not within 30 s; the last inputs were {self.inputs[-3:]}")

    def _follow(self) -> None:
        holder = ""
        while not self.ended.wait(PERIOD_S):
            given = self.listener.newest()
            if given is not None:
                self.inputs.append(given)
                holder = "" if given.gives_back else given.holder
            self.listener.answer(HandStatus(actions=("vx_mm_s", "vy_mm_s"), holder=holder))
