"""The checks of `enpire doctor`: what this machine has, what is missing, and how to fix it."""

from __future__ import annotations

import math
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from enpire.errors import EnpireError, UsageError
from enpire.parts import PartGroup
from enpire.processes.sandbox import bubblewrap
from enpire.store.connection import LOADED_SQLITE, SAFE_WAL, journal_mode

Level = Literal["OK", "WARN", "FAIL"]
OK: Level = "OK"
WARN: Level = "WARN"
FAIL: Level = "FAIL"

PYTHON = ((3, 12), (3, 13))
STOP_MS = 100.0
"""Longest time from a stop request to standstill that is safe for a person next to the robot, in milliseconds."""
FREE_WARN_BYTES = 5_000_000_000
FREE_FAIL_BYTES = 500_000_000
EXTRAS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "base": (
        "orchestrator, web pages, command line",
        ("numpy", "pyzmq", "msgpack", "sqlite-utils", "fastapi", "typer"),
    ),
    "sim": ("simulated stations and the demo", ("mujoco", "gymnasium", "pillow")),
    "learn": ("learning and the demo", ("torch", "safetensors")),
    "heuristics": ("program search and the demo", ("cma",)),
    "lerobot": ("LeRobot robots, datasets and policies", ("lerobot",)),
    "onnx": ("ONNX policies", ("onnx", "onnxruntime")),
    "ros2": ("ROS 2 robots without a ROS installation", ("cyclonedds",)),
    "ray": ("stations on a Ray cluster", ("ray",)),
    "agents": ("coding agents", ("anthropic", "mcp")),
    "rerun": ("episodes in Rerun's viewer", ("rerun-sdk",)),
    "mcap": ("episodes in Foxglove and ROS 2 tools", ("mcap", "mcap-ros2-support")),
    "trackio": ("numbers of campaigns in trackio", ("trackio",)),
    "tensorboard": ("numbers of campaigns in TensorBoard", ("tensorboard",)),
    "wandb": ("numbers of campaigns in Weights & Biases, offline", ("wandb",)),
    "otel": ("traces of campaigns by OpenTelemetry", ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")),
    "hub": ("versions and datasets on object stores and model hubs", ("fsspec", "huggingface-hub")),
    "mlflow": ("numbers of campaigns in MLflow", ("mlflow-skinny",)),
}
"""Extra -> (what it is for, packages that must be installed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCheck:
    """The result of one check of this machine."""

    level: Level
    subject: str
    found: str
    fix: str = ""
    """The command to type; empty where nothing is needed."""


def examine(home: Path) -> tuple[MachineCheck, ...]:
    """Run all checks except `stop_time`; takes seconds and imports no heavy package."""
    return (
        python(sys.version_info[:2]),
        *(extra(name) for name in EXTRAS),
        tool("uv", "installs ENPIRE's environment", "pip install uv", apt=False),
        graphics(),
        browser(),
        sandbox(),
        tool("git", "code candidates of agents", "git"),
        tool("ffmpeg", "videos of exported datasets", "ffmpeg"),
        sqlite(LOADED_SQLITE),
        writable(home),
        disk(home, shutil.disk_usage(_existing(home)).free),
        cores(len(os.sched_getaffinity(0))),
        port(),
    )


def stop_time(trials: int = 20) -> MachineCheck:
    """Measure the time from a stop request to zero velocity, with a fake arm behind its guard."""
    times_ms: PartGroup[[int], Sequence[float]] = PartGroup("inspections")
    try:
        took_ms = sorted(times_ms.make("stop", trials))
    except EnpireError as problem:
        return MachineCheck(level=WARN, subject="stop", found=f"not measured: {problem}", fix="run enpire doctor again")
    middle, late = took_ms[len(took_ms) // 2], took_ms[math.ceil(0.99 * len(took_ms)) - 1]
    found = f"p50 {middle:.1f} ms, p99 {late:.1f} ms from request to standstill, {len(took_ms)} stops of a fake arm"
    if late <= STOP_MS:
        return MachineCheck(level=OK, subject="stop", found=found)
    return MachineCheck(
        level=WARN,
        subject="stop",
        found=found,
        fix="end other programs that load this machine, then run enpire doctor again",
    )


def require_ready(checks: Sequence[MachineCheck]) -> None:
    """Refuse to start on a machine where a check failed.

    Raises:
        UsageError: names each failed check and its fix.
    """
    broken = [f"{item.subject}: {item.found} (fix: {item.fix})" for item in checks if item.level == FAIL]
    if broken:
        raise UsageError(f"This machine is not ready: {'; '.join(broken)}. `enpire doctor` shows all checks.")


def python(running: tuple[int, ...]) -> MachineCheck:
    """The Python version must be one that the pinned packages support."""
    low, high = PYTHON
    found = f"{platform.python_version()} in {sys.prefix}"
    if low <= running < high:
        return MachineCheck(level=OK, subject="python", found=found)
    return MachineCheck(
        level=FAIL, subject="python", found=f"{found}; Python 3.12 is needed", fix="uv venv --python 3.12 && make setup"
    )


def extra(name: str) -> MachineCheck:
    """The packages of one extra, with their versions."""
    gives, packages = EXTRAS[name]
    have = {package: _version(package) for package in packages}
    missing = [package for package, found in have.items() if not found]
    if not missing:
        found = ", ".join(f"{package} {found}" for package, found in have.items())
        return MachineCheck(level=OK, subject=f"[{name}]", found=found)
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


def sandbox() -> MachineCheck:
    """Bubblewrap must be installed and allowed to create the sandboxes of agents."""
    gives = "sandbox of agents; without it agents run unconfined"
    found = tool("bwrap", gives, "bubblewrap")
    if found.level != OK or bubblewrap():
        return found
    fix = "allow unprivileged user namespaces, or use a container that may create namespaces"
    return MachineCheck(
        level=WARN, subject="bwrap", found=f"{found.found} cannot create a sandbox here ({gives})", fix=fix
    )


def graphics() -> MachineCheck:
    """An off-screen OpenGL library, for camera images of simulated stations."""
    found = [name for name in ("EGL", "OSMesa") if find_library(name)]
    if found:
        return MachineCheck(
            level=OK, subject="GL", found=f"{', '.join(found)}; MUJOCO_GL={os.environ.get('MUJOCO_GL', 'unset')}"
        )
    return MachineCheck(
        level=WARN,
        subject="GL",
        found="neither EGL nor OSMesa (camera images of simulated stations; everything else works)",
        fix="sudo apt-get install libegl1 libgl1-mesa-dri",
    )


def browser() -> MachineCheck:
    """Chromium, for the tests of the page; the page itself works in any browser."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path:
        return MachineCheck(level=OK, subject="browser", found=path)
    return MachineCheck(
        level=WARN, subject="browser", found="no Chromium (tests of the page)", fix="sudo apt-get install chromium"
    )


def sqlite(loaded: tuple[int, ...]) -> MachineCheck:
    """The loaded SQLite version, and the journal mode that the ledger uses with it."""
    found = ".".join(map(str, loaded))
    try:
        with tempfile.TemporaryDirectory() as folder:
            mode = journal_mode(Path(folder) / "probe.db")
    except EnpireError as problem:
        return MachineCheck(
            level=FAIL, subject="SQLite", found=f"{found}: {problem}", fix="free space in the temporary folder"
        )
    why = (
        ""
        if loaded >= SAFE_WAL
        else f" (WAL is safe from {'.'.join(map(str, SAFE_WAL))} on, so the ledger does not use it)"
    )
    return MachineCheck(level=OK, subject="SQLite", found=f"{found}, journal mode {mode}{why}")


def writable(home: Path) -> MachineCheck:
    """The home folder, or the folder where it will be created, must be writable."""
    place = _existing(home)
    above = (home, *home.parents)
    blocked = next((f"{path} is no folder" for path in above if path.exists() and not path.is_dir()), "")
    if not blocked and os.access(place, os.W_OK | os.X_OK):
        found = str(home) if home.is_dir() else f"{home} (will be created)"
        return MachineCheck(level=OK, subject="home", found=found)
    return MachineCheck(
        level=FAIL,
        subject="home",
        found=blocked or f"{place} is not writable",
        fix="choose another home: --home DIR or ENPIRE_HOME",
    )


def disk(home: Path, free_bytes: int) -> MachineCheck:
    """Free space for episodes; stations get no new orders while the disk is full."""
    found = f"{free_bytes / 1e9:.1f} GB free for {home}{_recorded(home)}"
    if free_bytes >= FREE_WARN_BYTES:
        return MachineCheck(level=OK, subject="disk", found=found)
    level = WARN if free_bytes >= FREE_FAIL_BYTES else FAIL
    return MachineCheck(
        level=level, subject="disk", found=found, fix="free disk space, or choose a home on another disk with --home"
    )


def _recorded(home: Path) -> str:
    sizes = [path.stat().st_size for path in (home / "episodes").glob("*/*/pictures.zip")]
    if not sizes:
        return ""
    each = sum(sizes) / len(sizes)
    return f"; the images of {len(sizes)} episodes take {sum(sizes) / 1e9:.1f} GB, {each / 1e6:.1f} MB each"


def cores(number: int) -> MachineCheck:
    """CPU cores that this process may use."""
    if number >= 2:
        return MachineCheck(level=OK, subject="cores", found=str(number))
    return MachineCheck(
        level=WARN,
        subject="cores",
        found=f"{number}, shared by learner and stations",
        fix="use two cores or more; with one, campaigns take about twice as long",
    )


def port() -> MachineCheck:
    """Ports on the loopback address: stations and pages listen there."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return MachineCheck(
                level=OK, subject="ports", found=f"127.0.0.1 has free ports (such as {listener.getsockname()[1]})"
            )
    except OSError as problem:
        return MachineCheck(
            level=FAIL,
            subject="ports",
            found=f"cannot listen on 127.0.0.1: {problem}",
            fix="allow sockets on the loopback address",
        )


def as_text(checks: Sequence[MachineCheck]) -> str:
    """One line per check, with the fix below it where one is needed."""
    lines: list[str] = []
    for check in checks:
        lines.append(f"{check.level:<4}  {check.subject:<12}  {check.found}")
        if check.fix:
            lines.append(f"      {'':<12}  fix: {check.fix}")
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _existing(path: Path) -> Path:
    """The deepest existing folder of a path."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.is_dir())
