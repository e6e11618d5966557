"""The wheel holds every file that the product reads. `.ci/wheel` also installs it and runs the demo from it."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = shutil.which("uv", path=f"{ROOT / '.tools'}:{ROOT / '.venv' / 'bin'}") or shutil.which("uv")
PACKAGES = ("enpire", "robot_drivers", "sim", "policies", "agent_loop", "web_ui")


def read_by_the_product() -> set[str]:
    """Every file of the packages and of configs, by its name in the wheel; the page as far as it is built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *PACKAGES, "configs"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    names = {name for name in listed if name and not name.startswith("web_ui/ui/") and (ROOT / name).is_file()}
    static = ROOT / "web_ui" / "static"
    built = {str(path.relative_to(ROOT)) for path in static.rglob("*") if path.is_file()}
    return {f"enpire/_{name}" if name.startswith("configs/") else name for name in names | built}


@pytest.mark.skipif(UV is None, reason="uv is not installed")
def test_the_wheel_holds_every_file_of_the_packages_and_configs(tmp_path: Path) -> None:
    build = [str(UV), "build", "-q", "--wheel", "-o", str(tmp_path), str(ROOT)]
    subprocess.run(build, capture_output=True, check=True, timeout=600)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as held:
        inside = set(held.namelist())
    wanted = read_by_the_product()
    assert {"enpire/_configs/campaigns/pin_insertion.yaml", "enpire/report/templates/report.html.j2"} <= wanted
    assert wanted - inside == set(), "Name these in pyproject.toml under tool.hatch.build.targets.wheel."
    assert not {name for name in inside if name.startswith(("tests/", "web_ui/ui/", "benchmarks/"))}
