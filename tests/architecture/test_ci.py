"""The rules of .ci/test: what failed once has failed, only tests of wall time are repeated, nothing is skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

FAILS_AT_FIRST = """
import os, pathlib, pytest

@pytest.mark.realtime
def test_time():
    runs = pathlib.Path("runs")
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    assert len(runs.read_text()) not in {FAILING}
"""
LOSES_A_RACE = "def test_race():\n    assert False, 'lost'\n"


def pytest_in(folder: Path, *arguments: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    """Run pytest over a folder with the plugin that the project's own tests use."""
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.strict_run"]\n')
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    realtime: compares wall time\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], cwd=folder, env=env(ci),
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def env(ci: str = "") -> dict[str, str]:
    """Of these runs. Of the plugins that are installed here they need only the one of `-n 0`; loading all is dear."""
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    return {**os.environ, **plugins, "PYTHONPATH": str(ROOT), "CI": ci}


def decided(folder: Path, failing: set[int]) -> tuple[int, list[str]]:
    """Exit status of .ci/repeat after a first run, and the files that it kept."""
    (folder / "test_it.py").write_text(FAILS_AT_FIRST.replace("{FAILING}", repr(failing)))
    assert pytest_in(folder, "--failures", "failures.jsonl").returncode == 1
    ended = subprocess.run(
        [sys.executable, ROOT / ".ci" / "repeat", "failures.jsonl", "kept"], cwd=folder, env=env(),
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    return ended.returncode, sorted(path.name for path in (folder / "kept").iterdir())


def test_a_realtime_test_needs_three_passes_and_each_is_kept(tmp_path: Path) -> None:
    assert decided(tmp_path, {1}) == (0, ["first.txt", "pass-1.txt", "pass-2.txt", "pass-3.txt"])
    assert "test_time" in (tmp_path / "kept" / "first.txt").read_text()
    assert "1 passed" in (tmp_path / "kept" / "pass-3.txt").read_text()


@pytest.mark.parametrize("failing", [{1, 2}, {1, 3}, {1, 4}], ids=["first pass", "second pass", "third pass"])
def test_a_realtime_test_that_fails_again_has_failed(tmp_path: Path, failing: set[int]) -> None:
    status, kept = decided(tmp_path, failing)
    assert status == 1
    assert kept == ["first.txt", *(f"pass-{number}.txt" for number in range(1, max(failing)))]


def test_any_other_test_that_failed_once_has_failed(tmp_path: Path) -> None:
    (tmp_path / "test_race.py").write_text(LOSES_A_RACE)
    assert decided(tmp_path, {1}) == (1, ["first.txt"]), "nothing is repeated"


@pytest.mark.parametrize("folder", ["tests/chaos", "tests/faults", "tests/enpire/store"])
def test_chaos_faults_and_store_may_not_be_repeated(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "test_it.py").write_text(FAILS_AT_FIRST.replace("{FAILING}", "set()"))
    ended = pytest_in(tmp_path)
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "may not be marked realtime" in ended.stderr


SKIPS = {
    "a test": "import pytest\n\ndef test_it():\n    pytest.skip('{reason}')\n",
    "a mark": "import pytest\n\n@pytest.mark.skipif(True, reason='{reason}')\ndef test_it():\n    pass\n",
    "a module": "import pytest\n\npytest.skip('{reason}', allow_module_level=True)\n",
    "a package": "import pytest\n\npytest.importorskip('no_such_package', reason='{reason}')\n",
}


@pytest.mark.parametrize("what", SKIPS)
def test_in_ci_a_test_that_cannot_run_has_failed(tmp_path: Path, what: str) -> None:
    (tmp_path / "test_it.py").write_text(SKIPS[what].format(reason="chromium is not installed"))
    (tmp_path / "test_more.py").write_text("def test_more():\n    pass\n")
    assert pytest_in(tmp_path).returncode == 0
    ended = pytest_in(tmp_path, ci="true")
    assert ended.returncode != 0
    assert "chromium is not installed" in ended.stdout
    assert "every test must run" in ended.stdout


def test_what_no_machine_of_this_kind_can_run_may_be_skipped_in_ci(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SKIPS["a test"].format(reason="root may write everywhere"))
    ended = pytest_in(tmp_path, ci="true")
    assert ended.returncode == 0
    assert "1 skipped" in ended.stdout
