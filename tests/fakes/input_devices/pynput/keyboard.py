"""A keyboard whose keys a test presses."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

LISTENERS: list[Listener] = []


class Key(Enum):
    up, down, left, right = "up", "down", "left", "right"
    shift, shift_r, ctrl_l, ctrl_r, esc = "shift", "shift_r", "ctrl_l", "ctrl_r", "esc"
    enter, backspace, space, tab = "enter", "backspace", "space", "tab"


class Letter:
    def __init__(self, char: str) -> None:
        self.char = char


class Listener:
    def __init__(self, on_press: Callable[[Any], None], on_release: Callable[[Any], None]) -> None:
        self.press, self.release, self.alive = on_press, on_release, False

    def start(self) -> None:
        self.alive = True
        LISTENERS.append(self)

    def stop(self) -> None:
        self.alive = False

    def is_alive(self) -> bool:
        return self.alive
