"""A verifier whose rule was edited is another verifier: a campaign that recorded the old one does not go on with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TASKS = ("pin_insertion", "pin_insertion_blind", "push_t", "gpu_insertion", "ziptie_cutting", "bag_packing")
SAID = (
    "import sys; from enpire import plugins\n"
    "for name in sys.argv[1:]: print(plugins.load('tasks', name)().verifier().digest)"
)


def digests(folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SAID, *TASKS, "reach:Reach"], cwd=folder, capture_output=True, text=True, timeout=100,
        env=os.environ | {"PYTHONPATH": str(folder)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, path
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_an_edited_judge_has_another_digest(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "sim", tmp_path / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests/sim/task_check/reach.py", tmp_path / "reach.py")
    before = digests(tmp_path)
    assert len(before) == len(TASKS) + 1
    assert digests(tmp_path) == before
    for name in ("pin_verifier", "push_t", "gpu_verifier", "ziptie_verifier", "bag_verifier"):
        edit(tmp_path / "sim/tasks" / f"{name}.py", '"success" if', '"failure" if')
    edit(tmp_path / "reach.py", "< 0.03", "< 0.3")
    after = digests(tmp_path)
    assert not set(before) & set(after)
    edit(tmp_path / "sim/verifiers/sight.py", "== seen[:-1]", "!= seen[:-1]")
    changed = [name for name, one, other in zip(TASKS, after, digests(tmp_path), strict=False) if one != other]
    assert changed == ["pin_insertion", "pin_insertion_blind", "push_t", "gpu_insertion", "ziptie_cutting"]
