"""`enpire robot serve` as a process: a simulated robot moves through it, and its guard ends with it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enpire.station.station_file import StationFile, write_station
from enpire.wire.private_socket import private_address

ENPIRE = (sys.executable, "-m", "enpire.cli", "robot")


def station(folder: Path, name: str, driver: str, **options: object) -> Path:
    """Write the file of a station with a simulated robot."""
    file = StationFile(
        name=name, task="pin_insertion", home=folder / name, driver=driver, options=options, pace="fast",
        reset="teleport",
    )  # fmt: skip
    path = folder / f"{name}.yaml"
    write_station(file, path)
    return path


@contextmanager
def served(robot: Path, home: Path, bind: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The process that serves a robot, and the two lines that it prints first."""
    process = subprocess.Popen(
        [*ENPIRE, "serve", str(robot), "--bind", bind, "--home", str(home)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        yield process, [process.stderr.readline() for _ in range(2)]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=600)


def test_a_station_moves_the_robot_of_another_computer_and_the_kit_says_that_it_conforms(tmp_path: Path) -> None:
    with served(station(tmp_path, "here", "mujoco"), tmp_path / "home", private_address(tmp_path, "robot")) as (
        process,
        said,
    ):
        address = re.search(r"ipc://[^}]+", said[0])
        assert address, said
        there = station(tmp_path, "there", "remote", address=address[0], answer_s=10.0)
        done = subprocess.run([*ENPIRE, "check", str(there)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"passes (\d+) of \1 checks", done.stdout), done.stdout
        card = tmp_path / "home" / "stations" / "here.guard" / "guard.json"
        assert str(card) in said[1]
        assert card.exists()
    assert process.returncode == 0
    assert not card.exists()


def test_what_cannot_be_served_is_one_sentence(tmp_path: Path) -> None:
    arm = tmp_path / "arm.py"
    arm.write_text("from robot_drivers.fake_robot import robot\n")
    for robot, sentence in ((arm, "enpire robot code"), ("nobody", "There is no file of stations")):
        done = subprocess.run(
            [*ENPIRE, "serve", str(robot), "--home", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
