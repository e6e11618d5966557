"""What this machine has, what it lacks, and the exact fix: the lines of `enpire doctor`."""

from __future__ import annotations

import math
import os
import platform
import shutil
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, cast

from enpire.errors import EnpireError, UsageError
from enpire.plugins import make
from enpire.processes.sandbox import bubblewrap
from enpire.store.connection import SAFE_WAL, open_writer, run

Level = Literal["OK", "WARN", "FAIL"]
OK: Level = "OK"
WARN: Level = "WARN"
FAIL: Level = "FAIL"

PYTHON = ((3, 12), (3, 13))
STOP_MS = 100.0
"""A robot that stops later than this is too late for a person beside it."""
FREE_WARN_BYTES = 5_000_000_000
FREE_FAIL_BYTES = 500_000_000
EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "base": ("orchestrator, pages, command line", ("numpy", "pyzmq", "msgpack", "sqlite-utils", "fastapi", "typer")),
    "sim": ("simulated stations and the demo", ("mujoco", "gymnasium", "pillow")),
    "learn": ("learning and the demo", ("torch", "safetensors")),
    "heuristics": ("black-box search", ("cma",)),
    "lerobot": ("LeRobot robots, datasets and policies", ("lerobot",)),
    "ros2": ("ROS 2 robots without a ROS installation", ("cyclonedds",)),
    "ray": ("stations on a Ray cluster", ("ray",)),
    "agents": ("coding agents", ("anthropic", "mcp")),
}
"""Extra -> (what it gives, packages that must be there)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCheck:
    """One line: what was looked at, what was found, what to type."""

    level: Level
    subject: str
    found: str
    fix: str = ""
    """Empty when nothing needs to be done."""


def examine(home: Path) -> tuple[MachineCheck, ...]:
    """Look at everything, within seconds; imports none of the heavy packages."""
    return (
        python(sys.version_info[:2]),
        *(extra(name) for name in EXTRAS),
        tool("uv", "installs ENPIRE's environment", "pip install uv", apt=False),
        graphics(),
        browser(),
        rooms(),
        tool("ffmpeg", "videos of exported datasets", "ffmpeg"),
        sqlite(sqlite3.sqlite_version_info),
        writable(home),
        disk(home, shutil.disk_usage(_existing(home)).free),
        cores(len(os.sched_getaffinity(0))),
        port(),
    )


def stopping(trials: int = 20) -> MachineCheck:
    """How long a stop takes from asking to zero velocity, measured with a fake arm behind its guard."""
    try:
        took_ms = sorted(cast("Sequence[float]", make("inspections", "stop", trials)))
    except EnpireError as problem:
        return MachineCheck(level=WARN, subject="stop", found=f"not measured: {problem}", fix="enpire doctor again")
    middle, late = took_ms[len(took_ms) // 2], took_ms[math.ceil(0.99 * len(took_ms)) - 1]
    told = f"p50 {middle:.1f} ms, p99 {late:.1f} ms from asking to standing still, {len(took_ms)} stops of a fake arm"
    if late <= STOP_MS:
        return MachineCheck(level=OK, subject="stop", found=told)
    return MachineCheck(
        level=WARN, subject="stop", found=told, fix="end what else keeps this machine busy, then ask again"
    )


def require_ready(checks: Sequence[MachineCheck]) -> None:
    """Refuse to start what would fail later: UsageError names everything that must be fixed, with the fix."""
    broken = [f"{item.subject}: {item.found} (fix: {item.fix})" for item in checks if item.level == FAIL]
    if broken:
        raise UsageError(f"This machine is not ready: {'; '.join(broken)}. `enpire doctor` shows everything.")


def python(running: tuple[int, ...]) -> MachineCheck:
    """The interpreter must be one that the pins were made for."""
    low, high = PYTHON
    told = f"{platform.python_version()} in {sys.prefix}"
    if low <= running < high:
        return MachineCheck(level=OK, subject="python", found=told)
    return MachineCheck(
        level=FAIL, subject="python", found=f"{told}; needed is 3.12", fix="uv venv --python 3.12 && make setup"
    )


def extra(name: str) -> MachineCheck:
    """The packages of one extra, with their versions."""
    gives, packages = EXTRAS[name]
    have = {package: _version(package) for package in packages}
    missing = [package for package, found in have.items() if not found]
    if not missing:
        told = ", ".join(f"{package} {found}" for package, found in have.items())
        return MachineCheck(level=OK, subject=f"[{name}]", found=told)
    if name == "base":
        return MachineCheck(
            level=FAIL, subject="[base]", found=f"missing: {', '.join(missing)}", fix="pip install enpire"
        )
    return MachineCheck(
        level=WARN,
        subject=f"[{name}]",
        found=f"missing: {', '.join(missing)} ({gives})",
        fix=f"pip install 'enpire[{name}]'",
    )


def tool(command: str, gives: str, package: str, *, apt: bool = True) -> MachineCheck:
    """A program on the PATH."""
    path = shutil.which(command)
    if path:
        return MachineCheck(level=OK, subject=command, found=path)
    fix = f"sudo apt-get install {package}" if apt else package
    return MachineCheck(level=WARN, subject=command, found=f"not found ({gives})", fix=fix)


def rooms() -> MachineCheck:
    """Bubblewrap, installed and allowed to make the rooms that agents run in."""
    gives = "sandbox of agents; without it they run in the open"
    found = tool("bwrap", gives, "bubblewrap")
    if found.level != OK or bubblewrap():
        return found
    fix = "allow unprivileged user namespaces, or run where containers may make namespaces"
    return MachineCheck(level=WARN, subject="bwrap", found=f"{found.found} may make no room here ({gives})", fix=fix)


def graphics() -> MachineCheck:
    """An off-screen OpenGL library, for camera pictures of simulated stations."""
    found = [name for name in ("EGL", "OSMesa") if find_library(name)]
    if found:
        return MachineCheck(
            level=OK, subject="GL", found=f"{', '.join(found)}; MUJOCO_GL={os.environ.get('MUJOCO_GL', 'unset')}"
        )
    return MachineCheck(
        level=WARN,
        subject="GL",
        found="neither EGL nor OSMesa (camera pictures of simulated stations; everything else works)",
        fix="sudo apt-get install libegl1 libgl1-mesa-dri",
    )


def browser() -> MachineCheck:
    """A Chromium for the page's tests; any browser shows the page."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path:
        return MachineCheck(level=OK, subject="browser", found=path)
    return MachineCheck(
        level=WARN, subject="browser", found="no Chromium (tests of the page)", fix="sudo apt-get install chromium"
    )


def sqlite(loaded: tuple[int, ...]) -> MachineCheck:
    """The SQLite that is loaded, and the journal mode that the ledger gets with it."""
    told = ".".join(map(str, loaded))
    try:
        with tempfile.TemporaryDirectory() as folder:
            database = open_writer(Path(folder) / "probe.db")
            mode = run(database, "PRAGMA journal_mode").fetchone()[0]
            database.close()
    except EnpireError as problem:
        return MachineCheck(
            level=FAIL, subject="SQLite", found=f"{told}: {problem}", fix="give the temporary folder space"
        )
    why = (
        "" if loaded >= SAFE_WAL else f" (WAL is safe from {'.'.join(map(str, SAFE_WAL))} on; the ledger does without)"
    )
    return MachineCheck(level=OK, subject="SQLite", found=f"{told}, journal mode {mode}{why}")


def writable(home: Path) -> MachineCheck:
    """The home folder, or the place where it will be made."""
    place = _existing(home)
    if os.access(place, os.W_OK | os.X_OK):
        told = str(home) if home.is_dir() else f"{home} (will be made)"
        return MachineCheck(level=OK, subject="home", found=told)
    return MachineCheck(
        level=FAIL, subject="home", found=f"{place} cannot be written", fix="choose another: --home DIR or ENPIRE_HOME"
    )


def disk(home: Path, free_bytes: int) -> MachineCheck:
    """Space for episodes; a full disk stops new orders."""
    told = f"{free_bytes / 1e9:.1f} GB free for {home}{_recorded(home)}"
    if free_bytes >= FREE_WARN_BYTES:
        return MachineCheck(level=OK, subject="disk", found=told)
    level = WARN if free_bytes >= FREE_FAIL_BYTES else FAIL
    return MachineCheck(
        level=level, subject="disk", found=told, fix="free some space, or choose another disk with --home"
    )


def _recorded(home: Path) -> str:
    sizes = [path.stat().st_size for path in (home / "episodes").glob("*/*/pictures.zip")]
    if not sizes:
        return ""
    each = sum(sizes) / len(sizes)
    return f"; the pictures of {len(sizes)} episodes take {sum(sizes) / 1e9:.1f} GB, {each / 1e6:.1f} MB each"


def cores(number: int) -> MachineCheck:
    """Processors that this process may use."""
    if number >= 2:
        return MachineCheck(level=OK, subject="cores", found=str(number))
    return MachineCheck(
        level=WARN,
        subject="cores",
        found=f"{number}: learner and stations share it",
        fix="give the machine two cores; until then campaigns take about twice as long",
    )


def port() -> MachineCheck:
    """The loopback must give sockets: stations and pages are reached through them."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return MachineCheck(
                level=OK, subject="ports", found=f"loopback gives free ports (such as {listener.getsockname()[1]})"
            )
    except OSError as problem:
        return MachineCheck(
            level=FAIL, subject="ports", found=f"no port on 127.0.0.1: {problem}", fix="allow sockets on the loopback"
        )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _existing(path: Path) -> Path:
    """The deepest folder of a path that exists."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.is_dir())
