"""The live stream of a station, read from its file by Rerun's own reader."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.errors import MissingExtra, TransportProblem, UnknownName, UsageError
from enpire.home import open_home
from enpire.monitor import rerun_stream
from enpire.monitor.lab_snapshot import LabSnapshot, Sensed, StationLine
from enpire.monitor.live_file import LiveFileWriter
from enpire.monitor.rerun_stream import TIMELINE, RerunStream, watch
from tests.enpire.test_loop import open_lab

JPEG = b"\xff\xd8 an image \xff\xd9"
LINE = StationLine(
    name="one", phase="rollout", cameras=("front",), moved_by="c" * 64, viability=0.9, episodes=3, verdicts="sf",
    sensed=(Sensed(name="x", unit="mm", value=1.0), Sensed(name="y", unit="", value=2.0)),
)  # fmt: skip


def rows(path: Path) -> dict[str, list[tuple[float, Any]]]:
    """Entity -> (wall clock in s, row), in order."""
    from rerun.chunk import RrdReader

    found: dict[str, list[tuple[float, Any]]] = {}
    for chunk in RrdReader(str(path)).stream().to_chunks():
        for row in chunk.to_record_batch().to_pylist():
            if row.get(TIMELINE) is not None:
                found.setdefault(chunk.entity_path, []).append((row[TIMELINE].timestamp(), row))
    return {entity: sorted(each, key=lambda row: row[0]) for entity, each in found.items()}


def test_reruns_reader_finds_state_critics_interventions_verdicts_and_images(tmp_path: Path) -> None:
    path = tmp_path / "one.rrd"
    stream = RerunStream(str(path))
    stream.show(LINE, {"front": JPEG}, 100.0)
    stream.show(LINE, {"front": JPEG}, 101.0)  # nothing new
    moved = replace(LINE, moved_by="operator", sensed=(LINE.sensed[0], replace(LINE.sensed[1], value=5.0)))
    stream.show(moved, {}, 102.0)
    done = replace(
        moved, moved_by="", phase="reset", episodes=5, verdicts="sfsu", viability=0.2, alarm="the arm is pushed"
    )
    stream.show(done, {"front": JPEG + b"2"}, 103.0)
    stream.close()
    assert stream.written == 3

    found = rows(path)

    def numbers(entity: str) -> list[tuple[float, list[float]]]:
        return [(at, row["Scalars:scalars"]) for at, row in found[entity]]

    assert numbers("/state") == [(100.0, [1.0, 2.0]), (102.0, [1.0, 5.0])]
    assert numbers("/critics/viability") == [(100.0, [0.9]), (103.0, [0.2])]
    assert numbers("/intervention") == [(100.0, [0.0]), (102.0, [1.0]), (103.0, [0.0])]
    assert [(at, bytes(row["EncodedImage:blob"][0])) for at, row in found["/cameras/front"]] == [
        (100.0, JPEG), (103.0, JPEG + b"2"),
    ]  # fmt: skip
    assert [row["TextDocument:text"][0] for _, row in found["/verdict"]] == ["success", "unsafe"]
    notes = {(at, row["TextLog:level"][0], row["TextLog:text"][0]) for at, row in found["/events"]}
    assert notes == {
        (100.0, "INFO", "Phase: rollout"), (100.0, "INFO", f"Moved by {'c' * 64}"),
        (102.0, "WARN", "Intervention: a person takes over"), (103.0, "INFO", "Phase: reset"),
        (103.0, "INFO", "Moved by nothing"), (103.0, "ERROR", "Guard or station: the arm is pushed"),
        (103.0, "INFO", "Verdict: success"), (103.0, "ERROR", "Verdict: unsafe"),
    }  # fmt: skip


def test_the_stream_follows_the_lab_of_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, path = open_home(tmp_path / "home"), tmp_path / "one.rrd"
    with open_lab(home):
        writer, ended = LiveFileWriter(home), threading.Event()

        def work() -> None:
            while not ended.wait(0.05):
                writer.update(LabSnapshot(campaign_id="C1", stations=(LINE,)))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            stream = RerunStream(str(path))
            looks = watch(home, "one", stream)
            for _ in range(3000):
                if next(looks) and stream.written:
                    break
            looks.close()
            assert stream.written == 1
            monkeypatch.setattr(rerun_stream, "JOINS_S", 0.0)
            with pytest.raises(UnknownName, match="no station 'two'; it has: one"):
                for _, _ in zip(range(3000), watch(home, "two", RerunStream(str(tmp_path / "two.rrd"))), strict=False):
                    pass
        finally:
            ended.set()
            thread.join()
    assert [row["Scalars:scalars"] for _, row in rows(path)["/state"]] == [[1.0, 2.0]]


def test_a_station_that_has_not_joined_yet_is_waited_for(tmp_path: Path) -> None:
    assert rerun_stream._line(LabSnapshot(stations=(LINE,)), "two", late=False) is None  # pyright: ignore[reportPrivateUsage]


def test_a_recording_replaces_no_file_and_a_viewer_that_is_away_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "night.rrd"
    there.write_bytes(b"kept")
    with pytest.raises(UsageError, match="exists already"):
        RerunStream(str(there))
    assert there.read_bytes() == b"kept"
    monkeypatch.setattr(rerun_stream, "FLUSH_S", 0.5)
    stream = RerunStream("rerun+http://127.0.0.1:9/proxy")
    stream.show(LINE, {}, 100.0)
    with pytest.raises(TransportProblem, match="viewer did not take"):
        stream.close()


def test_a_place_that_is_none_and_a_missing_package_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"name a file NAME\.rrd"):
        RerunStream("somewhere")
    with open_lab(open_home(tmp_path)):
        pass  # a campaign that no orchestrator runs now
    result = CliRunner().invoke(app, ["campaign", "watch", "one", "--rerun", "nowhere", "--home", str(tmp_path)])
    assert result.exit_code == 1
    assert "No campaign runs in" in result.stderr
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(MissingExtra, match=r"pip install 'enpire\[rerun\]'"):
        RerunStream("")
