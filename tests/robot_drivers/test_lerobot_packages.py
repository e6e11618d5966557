"""LeRobot's keyboards and game pads move a robot, and what a type needs is said before LeRobot begins with it."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from importlib.metadata import metadata
from pathlib import Path

import pytest

from enpire.errors import MissingExtra
from robot_drivers.lerobot_packages import NEEDS, require_packages

pytest.importorskip("lerobot")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_keyboards_and_game_pads_of_lerobot_move_a_robot() -> None:
    environment = {key: value for key, value in os.environ.items() if "WAYLAND" not in key and "XDG" not in key}
    paths = os.pathsep.join([str(ROOT / "tests" / "fakes" / "input_devices"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.robot_drivers.driving_input_devices"], cwd=ROOT, capture_output=True, text=True,
        env={**environment, "PYTHONPATH": paths, "DISPLAY": ":0"}, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "driven" in done.stdout


@pytest.mark.slow
def test_every_type_of_lerobot_is_known_with_an_extra_that_lerobot_has() -> None:
    from lerobot import robots, teleoperators

    known: set[str] = set()
    for package, base in ((robots, robots.RobotConfig), (teleoperators, teleoperators.TeleoperatorConfig)):
        for inner in pkgutil.iter_modules(package.__path__):
            if inner.ispkg:
                import_module(f"{package.__name__}.{inner.name}")
        choices = base.get_known_choices()
        known |= {name for name, made in choices.items() if made.__module__.startswith("lerobot.")}
    assert len(known) > 25
    assert not known - set(NEEDS)
    extras = {name.replace("_", "-") for name in metadata("lerobot").get_all("Provides-Extra") or ()}
    assert {extra.replace("_", "-") for needs in NEEDS.values() for extra in needs.values()} <= extras


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"type": "reachy2"}, r"reachy2 needs the package reachy2_sdk.*pip install 'lerobot\[reachy2\]'"),
        ({"type": "phone"}, r"phone needs the package hebi.*'lerobot\[phone\]'"),
        ({"type": "x", "cameras": {"top": {"type": "intelrealsense"}}}, r"camera intelrealsense needs .*pyrealsense2"),
    ],
)
def test_a_missing_package_is_one_sentence(config: dict[str, object], sentence: str) -> None:
    with pytest.raises(MissingExtra, match=sentence):
        require_packages(config)


def test_the_type_of_a_plug_in_needs_nothing_that_is_known_here() -> None:
    require_packages({"type": "of_a_lab", "cameras": {"top": {"type": "opencv"}, "odd": None}})
