"""A disk that fails or is full at one system call after the other: nothing acknowledged is lost, one clear sentence."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults import system_calls
from tests.faults.durability_checks import broken
from tests.faults.system_calls import STRACE, WHY_NOT, Call

LIFE = "tests.faults.writing_process"
pytestmark = [pytest.mark.skipif(STRACE is None, reason=WHY_NOT)]
FAILING = ("fsync", "fdatasync", "syncfs", "write", "pwrite64", "ftruncate", "rename", "openat", "mkdir")
FULL = ("write", "pwrite64", "rename", "openat", "mkdir")
"""Calls that a full disk can refuse."""


def problems(home: Path, done: subprocess.CompletedProcess[str]) -> list[str]:
    """The program ran to its end or printed one sentence; all data acknowledged before is there."""
    said, told = done.stdout.splitlines(), done.stderr.strip().splitlines()
    found = broken(home, said)
    if done.returncode == 0 and said[-1] != "all done":
        found.append("it ended early and said nothing")
    if done.returncode and (done.returncode, len(told)) != (1, 1):
        found.append(f"exit code {done.returncode}, and {len(told)} lines: {told[-1] if told else 'none'}")
    return found


def refused(tmp_path: Path, call: Call, error: str) -> tuple[int, list[str]]:
    """(exit code, faults) when one call fails."""
    home = tmp_path / "refused"
    home.mkdir()
    done = system_calls.refuse(LIFE, home, call, error)
    found = [f"{call.name} {call.number} answered {error}: {problem}" for problem in problems(home, done)]
    shutil.rmtree(home)
    return done.returncode, found


def plan(tmp_path: Path, names: tuple[str, ...]) -> list[Call]:
    home = tmp_path / "whole"
    home.mkdir()
    return system_calls.calls(LIFE, home, names)


def test_a_failing_or_full_disk_loses_no_acknowledged_data(tmp_path: Path) -> None:
    """A sample: one call of each of a few kinds, in the middle of the run."""
    found = plan(tmp_path, ("fdatasync", "pwrite64", "write", "openat"))
    for name, error, where in (("fdatasync", "EIO", 0.5), ("pwrite64", "ENOSPC", 0.6), ("write", "ENOSPC", 0.5)):
        those = [call for call in found if call.name == name]
        assert refused(tmp_path, those[int(len(those) * where)], error) == (1, [])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("error", "names"), [("EIO", FAILING), ("ENOSPC", FULL)])
def test_any_refused_system_call_loses_no_acknowledged_data(tmp_path: Path, error: str, names: tuple[str, ...]) -> None:
    """Every call but writes, of which there are hundreds: every seventh of those."""
    found = plan(tmp_path, names)
    writes = [call for call in found if call.name in ("write", "pwrite64")]
    chosen = [call for call in found if call not in writes] + writes[::7]
    tried = [refused(tmp_path, call, error) for call in chosen]
    assert [problem for _, found in tried for problem in found] == []
    codes = [code for code, _ in tried]
    assert len(codes) > 60
    assert codes.count(1) > len(codes) // 2
