"""The files for systemd: they parse, name settings that exist, and start a guard that a station finds."""

from __future__ import annotations

import configparser
import json
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from enpire.cli import app
from enpire.station.station_file import read_station

KNOWN = {
    "Unit": {"Description", "Requires", "Wants", "After", "StartLimitIntervalSec"},
    "Service": {
        "Type", "User", "WorkingDirectory", "ExecStart", "Restart", "RestartSec", "SupplementaryGroups", "KillSignal",
        "SuccessExitStatus", "TimeoutStopSec", "OOMScoreAdjust", "LimitRTPRIO", "Environment", "NoNewPrivileges",
        "CapabilityBoundingSet", "LockPersonality", "PrivateTmp", "ProtectHostname", "ProtectKernelModules",
        "ProtectSystem", "ProtectHome", "ProtectControlGroups", "ProtectKernelLogs", "ProtectKernelTunables",
        "ProtectProc", "RestrictSUIDSGID", "RestrictNamespaces", "RestrictAddressFamilies", "ReadWritePaths",
        "SystemCallArchitectures", "UMask",
    },
    "Install": {"WantedBy"},
}  # fmt: skip
"""Settings of systemd 245 and later that the units use, from its manual."""


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def station_file(folder: Path, **changes: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "name": "left", "task": "pin_insertion", "home": "left.enpire",
        "driver": "robot_drivers.guard_client:open_rig",
        "options": {"guard": {"driver": "fake", "folder": "guard"}, "options": {}}, **changes,
    }  # fmt: skip
    path = folder / "left.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def installed(root: Path, *words: str | Path) -> tuple[dict[str, Path], str]:
    """(name -> path of the written files, what was said)."""
    result = enpire(*words, "--to", root)
    assert result.exit_code == 0, result.output
    paths = [Path(line) for line in result.stdout.splitlines()]
    return {path.name: path for path in paths}, result.stderr


def unit(path: Path) -> Mapping[str, Mapping[str, str]]:
    """A unit, each of whose settings is known and stands in its section once."""
    parser = configparser.ConfigParser(strict=True, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    parser.read_string(path.read_text())
    assert not {(name, key) for name in parser.sections() for key in set(parser[name]) - KNOWN[name]}
    if analyze := shutil.which("systemd-analyze"):
        done = subprocess.run([analyze, "verify", path], capture_output=True, text=True, timeout=600, check=False)
        assert "Unknown" not in done.stderr, done.stderr
    return {name: dict(parser[name]) for name in parser.sections()}


def test_a_station_is_stopped_before_its_guard_which_is_another_user(tmp_path: Path) -> None:
    path = station_file(tmp_path / "etc")
    files, said = installed(tmp_path / "root", "station", "install", path)
    station, guard = unit(files["enpire-station-left.service"]), unit(files["enpire-guard-left.service"])
    assert station["Unit"]["Requires"] == "enpire-guard-left.service"
    assert station["Unit"]["After"].split()[-1] == "enpire-guard-left.service", "stopped in the opposite order"
    assert (station["Service"]["User"], guard["Service"]["User"]) == ("enpire", "enpire-guard")
    assert station["Service"]["ReadWritePaths"] == str(tmp_path / "etc" / "left.enpire")
    assert guard["Service"]["ReadWritePaths"] == str(tmp_path / "etc" / "guard")
    assert shlex.split(station["Service"]["ExecStart"])[1:] == ["station", str(path)]
    settings = json.loads(files["left.guard.json"].read_text())
    assert settings["folder"] == str(tmp_path / "etc" / "guard")
    assert (settings["group"], settings["task"], settings["person_to_resume"]) == (
        "enpire-robots",
        "pin_insertion",
        True,
    )
    assert "m enpire-guard dialout\n" in files["enpire-guard.conf"].read_text()
    assert "dialout" not in station["Service"]["SupplementaryGroups"], "it may not open the robot's port"
    made = files["enpire-left.conf"].read_text().splitlines()
    assert f"d {tmp_path / 'etc' / 'guard'} 0750 enpire-guard enpire-robots -" in made
    assert "robot code" in said
    assert "systemctl enable --now enpire-station-left" in said


def test_the_guard_of_the_unit_starts_and_ends_as_systemd_asks_it(tmp_path: Path) -> None:
    guard_options = {"driver": "fake", "folder": str(tmp_path / "guard"), "person_to_resume": False}
    path = station_file(tmp_path / "etc", options={"guard": guard_options})
    files, said = installed(tmp_path / "root", "station", "install", path)
    assert "robot code" not in said, "a simulated robot needs none"
    settings = json.loads(files["left.guard.json"].read_text())
    files["left.guard.json"].write_text(json.dumps({**settings, "group": ""}))  # its group is not on this machine
    words = shlex.split(unit(files["enpire-guard-left.service"])["Service"]["ExecStart"])
    (tmp_path / "guard").mkdir()  # as systemd-tmpfiles makes it
    with subprocess.Popen([*words[:-1], files["left.guard.json"]], cwd=tmp_path) as guard:
        until = time.monotonic() + 300
        while not (tmp_path / "guard" / "guard.json").exists() and guard.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        assert enpire("robot", "status", tmp_path / "guard" / "guard.json").exit_code == 0
        guard.send_signal(signal.SIGTERM)
        assert guard.wait(600) == 0


def test_a_simulated_station_needs_no_guard_and_a_real_one_is_refused_without(tmp_path: Path) -> None:
    path = station_file(tmp_path / "etc", driver="mujoco", options={})
    files, _ = installed(tmp_path / "root", "station", "install", path)
    assert {name for name in files if name.endswith(".service")} == {"enpire-station-left.service"}
    assert "Requires" not in unit(files["enpire-station-left.service"])["Unit"]
    path = station_file(tmp_path / "etc", driver="lerobot", options={})
    result = enpire("station", "install", path)
    assert result.exit_code == 1
    assert "has no guard" in result.stderr
    assert "guard: {driver: lerobot, folder: /var/lib/enpire/left}" in result.stderr


def test_the_pages_are_interrupted_as_with_ctrl_c(tmp_path: Path) -> None:
    files, _ = installed(tmp_path / "root", "serve", "install", "--home", "/srv/lab", "--port", "8080", "--user", "lab")
    service = unit(files["enpire-serve.service"])["Service"]
    assert (service["KillSignal"], service["SuccessExitStatus"], service["User"]) == ("SIGINT", "130", "lab")
    assert shlex.split(service["ExecStart"])[1:] == [
        "serve", "--home", "/srv/lab", "--host", "127.0.0.1", "--port", "8080",
    ]  # fmt: skip
    assert files["enpire-serve.conf"].read_text() == "d /srv/lab 0750 lab lab -\n"


def test_odd_paths_are_quoted_as_systemd_reads_them(tmp_path: Path) -> None:
    path = station_file(tmp_path / "50% of $HOME", driver="mujoco", options={})
    files, _ = installed(tmp_path / "root", "station", "install", path)
    service = unit(files["enpire-station-left.service"])["Service"]
    start = shlex.split(service["ExecStart"].replace("%%", "%").replace("$$", "$"))
    assert start[-1] == str(path)
    assert "50%% of $$HOME" in service["ExecStart"]
    assert service["ReadWritePaths"] == f'"{str(tmp_path / "50% of $HOME" / "left.enpire").replace("%", "%%")}"'


def test_without_a_folder_the_files_are_printed_and_nothing_is_written(tmp_path: Path) -> None:
    path = station_file(tmp_path / "etc")
    before = sorted(tmp_path.rglob("*"))
    result = enpire("station", "install", path)
    assert result.exit_code == 0
    assert result.stdout.startswith("# /etc/systemd/system/enpire-guard-left.service\n[Unit]\n")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["station", "install"], "Name the station file"),
        (["station", "install", "no-such"], "no-such"),
        (["station", "simulated_pins", "--user", "x"], "are for `enpire station install FILE`"),
        (["serve", "instal"], "did you mean `enpire serve install`?"),
        (["serve", "--user", "x"], "are for `enpire serve install`"),
        (["serve", "install", "--user", "a b"], "is no name of a user"),
        (["serve", "install", "--home", "a\nb"], "cannot stand in a unit"),
    ],
)
def test_wrong_lines_get_one_sentence(words: list[str], said: str) -> None:
    result = enpire(*words)
    assert result.exit_code == 1
    assert said in result.stderr


def test_the_station_and_the_units_read_the_same_file(tmp_path: Path) -> None:
    path = station_file(tmp_path / "etc", options={"guard": {"driver": "fake", "folder": "guard", "watchdog": 3}})
    assert read_station(path).name == "left"
    result = enpire("station", "install", path)
    assert result.exit_code == 1
    assert "watchdog" in result.stderr
