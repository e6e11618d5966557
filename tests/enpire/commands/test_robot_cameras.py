"""`enpire robot cameras`: real cameras of LeRobot over recorded images, and the station file that names them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

pytest.importorskip("lerobot")

from lerobot.cameras.opencv import OpenCVCamera

from enpire.cli import app
from enpire.errors import FileProblem, RobotProblem
from enpire.files import find
from enpire.service.station_cameras import write_cameras
from enpire.station.station_file import read_station
from robot_drivers import camera_finder

SIZE = (24, 32)
BLOCK = """\
# my arm
name: desk
task: marker_in_cup   # the shipped one
home: desk.enpire
driver: robot_drivers.guard_client:open_rig
options:
  guard: {driver: lerobot, folder: desk.guard}
  options:
    robot:
      type: so101_follower   # an SO-101
      cameras:
        front:
          type: opencv
          index_or_path: /dev/video7
      # the port changes with the cable
      port: /dev/ttyACM0
      id: desk
"""
FLOW = """\
name: desk
task: marker_in_cup
home: desk.enpire
driver: lerobot
options: {robot: {type: so101_follower, port: /dev/ttyACM0, id: desk}}  # one line
"""


class RecordedCapture:
    """What `cv2.VideoCapture` is to LeRobot, for two cameras of one colour each."""

    rate_hz = 25.0

    def __init__(self, place: object, *_: object) -> None:
        self.shade = {"/dev/video0": 50, "/dev/video2": 200}.get(str(place))

    def isOpened(self) -> bool:  # noqa: N802 - the name in OpenCV
        return self.shade is not None

    def get(self, what: int) -> float:
        import cv2

        sizes = {cv2.CAP_PROP_FRAME_WIDTH: SIZE[1], cv2.CAP_PROP_FRAME_HEIGHT: SIZE[0], cv2.CAP_PROP_FPS: self.rate_hz}
        return float(sizes.get(what, 0.0))

    def set(self, what: int, value: float) -> bool:
        return True

    def read(self) -> tuple[bool, Any]:
        time.sleep(0.005)  # its rate
        return True, np.full((*SIZE, 3), self.shade, np.uint8)

    def getBackendName(self) -> str:  # noqa: N802 - the name in OpenCV
        return "recorded"

    def release(self) -> None: ...


@pytest.fixture
def two_cameras(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two cameras at /dev/video0 and /dev/video2; the current folder is empty."""
    from lerobot.cameras.opencv import camera_opencv

    monkeypatch.setattr(camera_opencv.cv2, "VideoCapture", RecordedCapture)
    places = [Path(f"/dev/video{number}") for number in (0, 1, 2)]  # 1 is no camera
    monkeypatch.setattr(camera_opencv, "Path", _Devices(places))
    monkeypatch.setattr(camera_finder, "WARM_S", 0)
    monkeypatch.chdir(tmp_path)


class _Devices:
    """`Path("/dev").glob("video*")` of LeRobot's search."""

    def __init__(self, places: list[Path]) -> None:
        self._places = places

    def __call__(self, *_: str) -> _Devices:
        return self

    def glob(self, _: str) -> list[Path]:
        return self._places


def typed(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["robot", "cameras", *words])
    return done.exit_code, done.stdout, done.stderr


def cameras_in(path: Path) -> Mapping[str, Any]:
    options: Any = read_station(path).options
    return options.get("options", options)["robot"]["cameras"]


def test_cameras_are_found_with_a_still_of_each(two_cameras: None) -> None:
    from PIL import Image

    code, out, _ = typed("--json")
    assert code == 0
    found = json.loads(out)
    assert [one["index_or_path"] for one in found] == ["/dev/video0", "/dev/video2"]
    assert found[0] | {"still": ""} == {
        "type": "opencv", "index_or_path": "/dev/video0", "width": 32, "height": 24, "fps": 25, "still": "",
    }  # fmt: skip
    shades = [np.asarray(Image.open(one["still"]))[0, 0, 0] for one in found]
    assert shades == [50, 200]


@pytest.mark.parametrize("text", [BLOCK, FLOW], ids=["block", "flow"])
@pytest.mark.parametrize("which", ["2", "/dev/video2"])
def test_a_named_camera_is_written_and_nothing_else_changes(
    text: str, which: str, two_cameras: None, tmp_path: Path
) -> None:
    path = tmp_path / "desk.yaml"
    path.write_text(text)
    code, out, problem = typed(str(path), "--name", f"front={which}")
    assert code == 0, problem
    assert "front is /dev/video2" in out
    assert cameras_in(path) == {
        "front": {"type": "opencv", "index_or_path": "/dev/video2", "width": 32, "height": 24, "fps": 25}
    }
    after = path.read_text()
    assert [line.split("#")[1] for line in after.splitlines() if "#" in line] == [
        line.split("#")[1] for line in text.splitlines() if "#" in line
    ]
    rest, before = yaml.safe_load(after), yaml.safe_load(text)
    for content in (rest, before):
        robot = content["options"].get("options", content["options"])["robot"]
        robot.pop("cameras", None)
    assert rest == before


def test_the_shipped_station_files_take_cameras(two_cameras: None, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(find("stations", "so101").read_text())
    write_cameras(path, {"front": {"type": "opencv", "index_or_path": 3, "width": 8, "height": 8, "fps": 9}})
    assert cameras_in(path)["front"]["index_or_path"] == 3
    assert "# A real SO-101" in path.read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--name", "front=1"], "Name the station file, too"),
        (["desk.yaml", "--name", "front"], "--name takes NAME=CAMERA"),
        (["desk.yaml", "--name", "front=9"], r"There is no camera '9'; there are: 1 \(/dev/video0\)"),
        (["desk.yaml", "--name", "wrist=1"], "Name each camera of the task, and no other: front"),
        (["desk.yaml"], "Say which camera is which: enpire robot cameras desk.yaml --name front=NUMBER"),
        (["so101"], "so101 is no station file"),
        (["pins.yaml", "--name", "top=1"], "has no LeRobot robot under `options`"),
        (["absent.yaml"], "'absent.yaml' does not exist"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: list[str], sentence: str, two_cameras: None, tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(FLOW)
    (tmp_path / "pins.yaml").write_text("name: pins\ntask: pin_insertion\nhome: p\n")
    code, _, problem = typed(*words)
    assert code == 1
    assert re.search(sentence, problem), problem
    assert (tmp_path / "desk.yaml").read_text() == FLOW


def test_no_camera_makes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(OpenCVCamera, "find_cameras", staticmethod(list))
    monkeypatch.chdir(tmp_path)
    code, _, problem = typed()
    assert code == 1
    assert "No camera is found" in problem
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("two_cameras")
@pytest.mark.parametrize("rate_hz", [0.0, 29.97])
def test_a_camera_without_a_whole_rate_keeps_its_own(monkeypatch: pytest.MonkeyPatch, rate_hz: float) -> None:
    """LeRobot refuses a rate that the camera does not have exactly."""
    monkeypatch.setattr(RecordedCapture, "rate_hz", rate_hz)
    [camera, _] = camera_finder.find()
    assert camera == {"type": "opencv", "index_or_path": "/dev/video0", "width": 32, "height": 24}
    camera_finder.take_still(camera, Path("still.png"))
    assert Path("still.png").stat().st_size > 0


@pytest.mark.usefixtures("two_cameras")
def test_a_still_is_taken_as_the_station_will_open_the_camera() -> None:
    [camera, _] = camera_finder.find()
    with pytest.raises(RobotProblem, match="It gives no image: .*fps"):
        camera_finder.take_still({**camera, "fps": 60}, Path("still.png"))


ALIAS = BLOCK.replace("    robot:\n", "    robot: &arm\n") + "operator_options: {teleoperator: *arm}\n"
ANCHOR = BLOCK.replace("        front:\n", "        front: &eye\n") + "operator_options: {eye: *eye}\n"


@pytest.mark.parametrize("text", [ALIAS, ANCHOR])
def test_a_file_in_which_something_else_would_change_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "desk.yaml"
    path.write_text(text)
    with pytest.raises(FileProblem, match="cannot be written into"):
        write_cameras(path, {"front": {"type": "opencv", "index_or_path": 3}})
    assert path.read_text() == text


def test_a_link_and_the_ends_of_lines_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "real.yaml", tmp_path / "desk.yaml"
    path.write_bytes(BLOCK.replace("\n", "\r\n").encode())
    link.symlink_to(path)
    write_cameras(link, {"front": {"type": "opencv", "index_or_path": 3}})
    assert link.is_symlink()
    assert b"# my arm\r\n" in path.read_bytes()
    assert cameras_in(path) == {"front": {"type": "opencv", "index_or_path": 3}}
