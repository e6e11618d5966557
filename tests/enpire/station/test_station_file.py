from pathlib import Path

import pytest

from enpire.errors import FileProblem
from enpire.files import parse
from enpire.station.station_file import StationFile, read_station, write_station
from tests.fakes.point_task import point_station


def test_a_station_file_reads_back_the_same(tmp_path: Path) -> None:
    file = point_station(tmp_path, lanes=4, options={"period_s": 0.5, "reset_by_robot": True}, seed=3)
    write_station(file, tmp_path / "station.yaml")
    assert read_station(tmp_path / "station.yaml") == file


def test_options_of_a_driver_may_hold_others_and_cameras_are_named(tmp_path: Path) -> None:
    options = {"robot": {"type": "so101_follower", "port": "/dev/ttyACM0"}, "envelope": {"step": {"a": 0.1}}}
    told: dict[str, object] = {"name": "a", "task": "point", "home": str(tmp_path), "driver": "lerobot"}
    for record in ("all", ["front", "wrist"], []):
        file = parse(StationFile, {**told, "options": options, "record": record}, "here")
        write_station(file, tmp_path / "station.yaml")
        assert read_station(tmp_path / "station.yaml") == file
        assert file.options == options
        assert file.recording_rule.cameras == (record if record == "all" else tuple(record))
        assert file.recording_rule.policy_images, "it cannot run again"
    assert not parse(StationFile, {**told, "driver": "mujoco"}, "here").recording_rule.policy_images
    with pytest.raises(FileProblem, match="key 'record' must be a list, not 'front'"):
        parse(StationFile, {**told, "record": "front"}, "here")


def test_a_key_is_read_under_its_former_name(tmp_path: Path) -> None:
    path = tmp_path / "cell.yaml"
    head = "name: cell\ntask: pin_insertion\nhome: cell\n"
    path.write_text(head + "faces: {ros2: {domain: 7}}\n")
    assert read_station(path).bridges == {"ros2": {"domain": 7}}
    write_station(read_station(path), path)
    assert "bridges:" in path.read_text()
    path.write_text(head + "faces: {ros2: {domain: 7}}\nbridges: {}\n")
    with pytest.raises(FileProblem, match="has the key 'bridges' and its old name 'faces'; keep 'bridges' alone"):
        read_station(path)


def test_impossible_settings_are_refused(tmp_path: Path) -> None:
    whole: dict[str, object] = {"name": "a", "task": "point", "home": str(tmp_path)}
    assert parse(StationFile, whole, "here").pace == "realtime"
    for wrong in ({"name": "a/b"}, {"lanes": 0}, {"pace": "slow"}, {"colour": "red"}, {"reset_limit_s": 0}):
        with pytest.raises(FileProblem, match=next(iter(wrong))):
            parse(StationFile, {**whole, **wrong}, "here")
