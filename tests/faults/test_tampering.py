"""A package whose bytes are not those that the constraints name is not installed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = shutil.which("uv", path=f"{ROOT / '.tools'}:{ROOT / '.venv' / 'bin'}") or shutil.which("uv")
WHEEL = "enpire_probe-1.0-py3-none-any.whl"
ABOUT = "enpire_probe-1.0.dist-info"
FILES = {
    "enpire_probe.py": "ANSWER = 42\n",
    f"{ABOUT}/METADATA": "Metadata-Version: 2.1\nName: enpire-probe\nVersion: 1.0\n",
    f"{ABOUT}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{ABOUT}/RECORD": "",
}


def write(wheel: Path, **other: str) -> bytes:
    """A small wheel that can be installed; returns its exact bytes."""
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in (FILES | other).items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return wheel.read_bytes()


@pytest.mark.skipif(UV is None, reason="uv is not installed")
@pytest.mark.parametrize("changed", [False, True])
def test_a_wheel_of_other_bytes_is_refused(tmp_path: Path, changed: bool) -> None:
    wheel, constraints = tmp_path / "wheels" / WHEEL, tmp_path / "constraints.txt"
    wheel.parent.mkdir()
    whole = write(wheel)
    constraints.write_text(f"enpire-probe==1.0 --hash=sha256:{hashlib.sha256(whole).hexdigest()}\n")
    if changed:
        other = write(wheel, **{"enpire_probe.py": "ANSWER = 43\n"})
        assert len(other) == len(whole)
    # As `make setup` does, but from a folder, and into one.
    installed = subprocess.run(
        [
            str(UV), "pip", "install", "--no-index", "--find-links", str(wheel.parent), "--no-cache",
            "--python", sys.executable, "--target", str(tmp_path / "here"), "-c", str(constraints), "enpire-probe",
        ],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert (installed.returncode != 0) is changed, installed.stderr
    assert (tmp_path / "here" / "enpire_probe.py").exists() is not changed
    assert not changed or "Hash mismatch" in installed.stderr
