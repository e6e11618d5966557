"""The part of pygame that LeRobot's game pads use, with one pad whose sticks and buttons a test moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

JOYBUTTONDOWN, JOYBUTTONUP = 1, 2
PADS: list[Pad] = []
EVENTS: list[Any] = []


class error(RuntimeError):  # noqa: N801 - its name in pygame
    pass


class Pad:
    def __init__(self) -> None:
        self.axes, self.buttons = [0.0] * 4, set[int]()

    def init(self) -> None: ...

    def quit(self) -> None: ...

    def get_name(self) -> str:
        return "a pad"

    def get_axis(self, number: int) -> float:
        return self.axes[number]

    def get_button(self, number: int) -> bool:
        return number in self.buttons

    def hold(self, *buttons: int) -> None:
        """Hold these buttons and no other."""
        EVENTS.extend(SimpleNamespace(type=JOYBUTTONDOWN, button=one) for one in buttons if one not in self.buttons)
        EVENTS.extend(SimpleNamespace(type=JOYBUTTONUP, button=one) for one in self.buttons if one not in buttons)
        self.buttons = set(buttons)


def init() -> None: ...


def quit() -> None: ...


def _take() -> list[Any]:
    found = list(EVENTS)
    EVENTS.clear()
    return found


event = SimpleNamespace(get=_take)
joystick = SimpleNamespace(
    init=lambda: None, quit=lambda: None, get_init=lambda: True, get_count=lambda: len(PADS),
    Joystick=lambda number: PADS[number],
)  # fmt: skip
