"""Pictures: real ones where a GL library is, one plain line where none is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sim import cameras
from sim.tasks.pin_insertion import PinInsertion
from sim.tasks.push_t import PushT

ROOT = Path(__file__).parents[2]
SAY = (
    "from sim import cameras; from sim.tasks.pin_insertion import PinInsertion; t = PinInsertion(); r = t.rig(1, 0); "
    "r.place(0, t.start('train', 0, b'')); print(len(r.look(0)), cameras.why_no_images())"
)


def said(**environment: str) -> str:
    """What a fresh process prints: how many pictures it made, and why not more."""
    full = {**os.environ, **environment}
    command = [sys.executable, "-c", SAY]
    done = subprocess.run(command, cwd=ROOT, env=full, capture_output=True, text=True, timeout=600, check=True)
    return done.stdout.strip()


def test_without_rendering_there_are_no_pictures_and_one_line_says_why() -> None:
    line = said(MUJOCO_GL="disable")
    assert line.startswith("0 No pictures: the environment variable MUJOCO_GL")
    assert "\n" not in line


def test_without_a_library_the_line_names_the_debian_package() -> None:
    line = said(MUJOCO_GL="glx")
    assert line.startswith("0 No pictures")
    assert "apt install lib" in line


def test_pictures_show_the_lane_that_was_asked(pin: PinInsertion) -> None:
    if cameras.why_no_images():
        pytest.skip(cameras.why_no_images())
    rig = pin.rig(2, 0)
    for lane in range(2):
        rig.place(lane, pin.start("train", lane, b""))
    first, second = rig.look(0), rig.look(1)
    assert set(first) == {"top", "side"}
    for name, picture in first.items():
        assert picture.shape == (224, 224, 3)
        assert picture.dtype == np.uint8
        assert picture.std() > 10.0, f"{name} shows nothing"
        assert not np.array_equal(picture, second[name])
    assert np.array_equal(rig.look(0)["top"], first["top"])


def test_scenes_that_are_drawn_in_turn_keep_their_own_pictures(pin: PinInsertion) -> None:
    if cameras.why_no_images():
        pytest.skip(cameras.why_no_images())
    rigs = [pin.rig(1, 0), PushT().rig(1, 0), pin.rig(1, 0)]
    for rig, task in zip(rigs, (pin, PushT(), pin), strict=True):
        rig.place(0, task.start("train", 0, b""))
    first, _, again = (rig.look(0) for rig in rigs)
    for name, picture in first.items():
        np.testing.assert_array_equal(picture, again[name])


def test_pictures_get_worse_as_it_is_said(pin: PinInsertion) -> None:
    if cameras.why_no_images():
        pytest.skip(cameras.why_no_images())
    rig = pin.rig(1, 0)
    rig.place(0, pin.start("train", 0, b""))
    clear = rig.look(0)["top"].astype(float)
    dark = rig.look(0, cameras.ImageDisturbance(light=0.4))["top"].astype(float)
    moved = rig.look(0, cameras.ImageDisturbance(offset_m=(0.005, 0.0, 0.0)))["top"].astype(float)
    turned = rig.look(0, cameras.ImageDisturbance(turned_rad=(0.0, 0.0, 0.05)))["top"].astype(float)
    warm = rig.look(0, cameras.ImageDisturbance(tint=(1.1, 1.0, 0.8)))["top"].astype(float)
    lit = rig.look(0, cameras.ImageDisturbance(lamp_m=(0.3, 0.0, 0.0)))["top"].astype(float)
    covered = rig.look(0, cameras.ImageDisturbance(cover=(0.0, 0.0, 0.5)))["top"].astype(float)
    assert dark.mean() < 0.8 * clear.mean()
    assert np.abs(moved - clear).mean() > 2.0
    assert np.abs(turned - clear).mean() > 2.0
    red, _, blue = warm.mean(axis=(0, 1)) / clear.mean(axis=(0, 1))
    assert blue < 0.95 < red
    assert np.abs(lit - clear).mean() > 0.5
    changed = np.abs(covered - clear).max(axis=2) > 8.0
    assert 0.15 < changed.mean() < 0.35, "half of the width and of the height is a quarter of the picture"
    assert np.array_equal(rig.look(0)["top"], clear), "trouble is over with its picture"
