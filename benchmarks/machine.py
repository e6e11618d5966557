"""Describes the machine of a measurement: printed by every benchmark, or alone by `python -m benchmarks.machine`."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "mujoco", "torch", "gymnasium", "lerobot")


def describe(seeds: Sequence[int] = (), commits: Sequence[str] = ()) -> str:
    """Machine, versions, commit (or the commits of the results) and seeds, in four lines."""
    lines = [
        f"machine   {_processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {platform.platform()}",
        f"versions  python {platform.python_version()}, " + ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        f"commit    {', '.join(commits or [commit()])}",
    ]
    if seeds:
        lines.append(f"seeds     {', '.join(str(seed) for seed in seeds)}")
    return "\n".join(lines)


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


WRITTEN = ("benchmarks/results.json", "docs/benchmarks.md", "docs/benchmarks")
"""What `benchmarks.overview` writes: no change of the code that is measured."""


def commit() -> str:
    """The commit, with a plus if the working tree has changes."""
    root = Path(__file__).parents[1]
    named = subprocess.run(
        ["git", "-C", str(root), "describe", "--always"], capture_output=True, text=True, check=False
    )
    if named.returncode:
        return "unknown (not a git checkout)"
    compare = ["git", "-C", str(root), "diff", "--quiet", "HEAD", "--", ".", *(f":(exclude){path}" for path in WRITTEN)]
    changed = subprocess.run(compare, check=False).returncode != 0
    return named.stdout.strip() + "+" * changed


if __name__ == "__main__":
    print(describe())
