from __future__ import annotations

import os
from pathlib import Path

import pytest

from enpire import doctor
from enpire.doctor import FAIL, OK, WARN, MachineCheck, as_text
from enpire.errors import UsageError


def test_every_line_that_is_not_ok_names_its_fix(tmp_path: Path) -> None:
    found = doctor.examine(tmp_path / "home")
    assert {item.subject for item in found} >= {
        "python",
        "[base]",
        "uv",
        "GL",
        "SQLite",
        "home",
        "disk",
        "cores",
        "ports",
    }
    assert all(bool(item.fix) == (item.level != OK) for item in found)
    assert not (tmp_path / "home").exists(), "looking makes nothing"


def test_the_python_of_the_tests_is_right_and_others_are_not() -> None:
    assert doctor.python((3, 12)).level == OK
    assert doctor.python((3, 11)).level == FAIL
    assert doctor.python((3, 13)).level == FAIL


def test_a_missing_extra_names_its_package_and_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"base": ("all", ("numpy",)), "sim": ("stations", ("no-such-package",))})
    check = doctor.extra("sim")
    assert check.level == WARN
    assert "no-such-package" in check.found
    assert check.fix == "pip install 'enpire[sim]'"
    assert doctor.extra("base").found.startswith("numpy ")


def test_a_missing_program_is_a_warning_with_a_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.tool("bwrap", "sandbox", "bubblewrap").fix == "sudo apt-get install bubblewrap"
    assert doctor.browser().level == WARN
    program = tmp_path / "bwrap"
    program.touch(mode=0o755)
    assert doctor.tool("bwrap", "sandbox", "bubblewrap").found == str(program)


def test_sqlite_names_the_journal_mode_that_is_safe_with_it() -> None:
    assert "journal mode" in doctor.sqlite((3, 52, 0)).found
    assert "WAL is safe from 3.51.3" in doctor.sqlite((3, 40, 1)).found


def test_space_runs_from_fine_over_short_to_none(tmp_path: Path) -> None:
    assert [doctor.disk(tmp_path, free).level for free in (10**10, 10**9, 10**8)] == [OK, WARN, FAIL]


def test_what_recorded_pictures_take_is_said(tmp_path: Path) -> None:
    assert doctor.disk(tmp_path, 10**10).found == f"10.0 GB free for {tmp_path}"
    for name, size in (("E1", 3_000_000), ("E2", 5_000_000)):
        folder = tmp_path / "episodes" / "C1" / name
        folder.mkdir(parents=True)
        (folder / "pictures.zip").write_bytes(b"\0" * size)
    assert doctor.disk(tmp_path, 10**10).found.endswith("; the images of 2 episodes take 0.0 GB, 4.0 MB each")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert doctor.writable(tmp_path / "home").level == FAIL


def test_a_home_that_is_a_file_or_below_one_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "home"):
        check = doctor.writable(home)
        assert (check.level, check.found) == (FAIL, f"{tmp_path / 'file'} is no folder")


def test_one_core_is_a_warning() -> None:
    assert [doctor.cores(number).level for number in (1, 2)] == [WARN, OK]


def test_lines_are_aligned_with_the_fix_below() -> None:
    text = as_text(
        [
            MachineCheck(level=OK, subject="a", found="b"),
            MachineCheck(level=FAIL, subject="c", found="d", fix="type this"),
        ]
    )
    assert text.splitlines()[1].startswith("FAIL  c")
    assert text.splitlines()[2].endswith("fix: type this")


def test_what_must_be_fixed_stops_a_run_and_warnings_do_not(tmp_path: Path) -> None:
    fine = MachineCheck(level=WARN, subject="bwrap", found="not found", fix="install it")
    doctor.require_ready([fine])
    with pytest.raises(UsageError, match=r"disk: 0.1 GB free .*\(fix: free disk space"):
        doctor.require_ready([fine, doctor.disk(tmp_path, 10**8)])


def test_a_stop_is_measured_through_a_guard() -> None:
    check = doctor.stop_time(trials=3)
    assert check.level in (OK, WARN)
    assert "3 stops of a fake arm" in check.found, check.found
