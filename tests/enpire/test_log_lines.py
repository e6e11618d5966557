"""A process whose output is refused, as by a full disk, does its work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from enpire.log_lines import print_line
from enpire.station.station_file import write_station
from tests.fakes.point_task import environment, point_station
from tests.fakes.waiting import until

FULL = Path("/dev/full")
"""Refuses every write for lack of space."""
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
STATION = """
import os, sys
from enpire.station import station

class Reporting(station.Station):
    def turn(self):
        if sys.argv[1] == "fails":
            raise RuntimeError("a fault")
        super().turn()
        os.write(2, b"turned\\n")

    def end_orders(self):
        super().end_orders()
        os.write(2, f"left: stopped by {self._robot.stopped_by}\\n".encode())

    def fail(self, cause):
        super().fail(cause)
        os.write(2, f"failed: stopped by {self._robot.stopped_by}\\n".encode())

station.Station = Reporting
code = station.main(sys.argv[2:])
os.write(2, f"ended with {code}\\n".encode())
os._exit(0)
"""


def test_a_line_that_is_refused_is_lost() -> None:
    stream = FULL.open("w")
    print_line("a line", stream)
    with pytest.raises(OSError, match="No space left"):
        stream.close()


def test_a_line_without_a_reader_is_lost() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    print_line("a line", stream)
    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.mark.parametrize(("how", "ends"), [("fails", "ended with 1"), ("leaves", "ended with 0")])
def test_a_station_whose_log_is_full_stops_its_robot(tmp_path: Path, how: str, ends: str) -> None:
    path, seen = tmp_path / "station.yaml", tmp_path / "seen"
    write_station(point_station(tmp_path), path)
    command = [sys.executable, "-c", STATION, how, str(path), "--connect", f"ipc://{tmp_path}/lab"]
    with FULL.open("w") as out, seen.open("w") as log:
        process = subprocess.Popen(command, stdout=out, stderr=log, env=environment())
    try:
        if how == "leaves":
            until(lambda: "turned" in seen.read_text(), "the first turn")
            process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0
    finally:
        process.kill()
    lines = [line for line in seen.read_text().splitlines() if line != "turned"]
    stopped = "failed: stopped by a failure of the station" if how == "fails" else "left: stopped by the station, which"
    assert len(lines) == 2, lines
    assert lines[0].startswith(stopped)
    assert lines[1] == ends
