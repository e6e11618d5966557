"""A driver file is loaded with the modules of the current folder, and what is wrong with one is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from enpire.errors import FileProblem
from robot_drivers.driver_file import load_robot


def test_a_driver_file_imports_modules_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"bus_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text("from robot_drivers.fake_robot import robot\n")
    (tmp_path / "drivers").mkdir()
    driver = tmp_path / "drivers" / "arm.py"
    driver.write_text(f"from {name} import robot\n")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    assert load_robot(driver, {}).spec.name == "fake_reach"


def test_what_is_wrong_with_a_driver_file_is_named(tmp_path: Path) -> None:
    driver = tmp_path / "arm.py"
    with pytest.raises(FileProblem, match="does not exist"):
        load_robot(driver, {})
    for text, sentence in (
        ("def (", "is not Python"),
        ("raise OSError('no bus')", "fails with OSError: no bus"),
        ("arm = 1", r"needs a function robot\(\*\*options\)"),
        ("def robot(port): ...", "cannot make a robot of"),
        ("def robot(**options): return 1", "has no spec, connect"),
    ):
        driver.write_text(text)
        with pytest.raises(FileProblem, match=sentence):
            load_robot(driver, {})
