"""Runs in a process of its own, where LeRobot finds the keyboard and the game pad of tests/fakes/input_devices.

LeRobot's own classes of teleoperators read them, behind the operator `lerobot`.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from enpire.errors import RobotProblem, UsageError
from enpire.types import Bounds, Observation, TaskSpec
from robot_drivers.teleoperators import Teleoperation, open_lerobot

pygame: Any = import_module("pygame")
keyboard: Any = import_module("pynput.keyboard")
NAMES = ("delta_x", "delta_y", "delta_z", "gripper")
SPEC = TaskSpec(
    name="hand", instruction="", state=(), rate_hz=10.0, limit_ticks=10,
    action=tuple(Bounds(name=name, unit="mm/s", low=-20.0, high=20.0) for name in NAMES),
)  # fmt: skip
ROVER = replace(SPEC, action=tuple(replace(SPEC.action[0], name=f"{one}_velocity") for one in ("linear", "angular")))
SEEN = Observation(stamp_ns=0, state=np.zeros((1, 0), np.float32))
LANE = np.zeros(1, np.int64)
OPTIONS = {"scale": {**dict.fromkeys(NAMES[:3], 10.0), "gripper": 5.0}, "zero": {"gripper": 1.0}, "rests_s": 0.0001}


def opened(kind: str, spec: TaskSpec = SPEC, **options: Any) -> Teleoperation:
    task: Any = SimpleNamespace(spec=spec)
    rig: Any = SimpleNamespace(lanes=1)
    return open_lerobot(task, rig, 0, {"teleoperator": {"type": kind}, **options})


def read(operator: Teleoperation) -> tuple[bool, list[float]]:
    in_use = bool(operator.watch(SEEN, LANE, LANE)[0])
    return in_use, operator.act(SEEN, LANE)[0].tolist()


def the_arrow_keys_move_a_hand_and_a_held_key_acts_in_every_period() -> None:
    operator = opened("keyboard_ee", **OPTIONS)
    keys = keyboard.LISTENERS[-1]
    assert read(operator) == (False, [0.0, 0.0, 0.0, 0.0]), "a gripper that stays is 0"
    keys.press(keyboard.Key.left)
    for _ in range(3):
        assert read(operator) == (True, [10.0, 0.0, 0.0, 0.0])
    keys.press(keyboard.Key.ctrl_r)
    assert read(operator) == (True, [10.0, 0.0, 0.0, 5.0])
    keys.release(keyboard.Key.ctrl_r)
    keys.release(keyboard.Key.left)
    read(operator)
    operator._used_s = -np.inf
    assert read(operator)[0] is False
    operator.close()
    assert not keys.alive
    operator.close()


def letters_drive_a_rover() -> None:
    operator = opened("keyboard_rover", ROVER)
    keys = keyboard.LISTENERS[-1]
    assert read(operator) == (False, [0.0, 0.0])
    keys.press(keyboard.Letter("w"))
    assert read(operator) == (True, [1.0, 0.0])
    operator.close()


def a_game_pad_moves_a_hand_while_its_button_is_held() -> None:
    with pytest.raises(RobotProblem, match="no game pad is connected to this computer"):
        opened("gamepad", **OPTIONS)
    pad = pygame.Pad()
    pygame.PADS.append(pad)
    operator = opened("gamepad", **OPTIONS)
    pad.axes[1] = -0.5
    assert read(operator)[0] is False, "the stick alone takes nothing over"
    pad.hold(5)
    assert read(operator) == (True, [5.0, 0.0, 0.0, 0.0])
    pad.hold(5, 7)
    assert read(operator) == (True, [5.0, 0.0, 0.0, 5.0])
    pad.axes[1] = 0.0
    assert read(operator)[0] is True
    pad.hold()
    read(operator)
    operator._used_s = -np.inf
    assert read(operator)[0] is False
    operator.close()
    operator.close()


def what_gives_no_actions_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="gives keys and no actions; use `operator: keyboard`"):
        opened("keyboard", **OPTIONS)


def no_display_is_one_sentence() -> None:
    from lerobot.teleoperators.keyboard import teleop_keyboard

    teleop_keyboard.pynput_can_capture = lambda: False
    with pytest.raises(RobotProblem, match="it captures no keys here: .* X11 session"):
        opened("keyboard_ee", **OPTIONS)


if __name__ == "__main__":
    the_arrow_keys_move_a_hand_and_a_held_key_acts_in_every_period()
    letters_drive_a_rover()
    a_game_pad_moves_a_hand_while_its_button_is_held()
    what_gives_no_actions_is_one_sentence()
    no_display_is_one_sentence()
    print("driven")
