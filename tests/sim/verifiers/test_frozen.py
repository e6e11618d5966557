"""A verifier whose rule was edited is another verifier: a campaign that recorded the old one does not go on with it."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from enpire import plugins
from enpire.interfaces import Task
from enpire.verifiers import UnanimousVerifier, earlier_digests
from sim.tasks.push_t import PushT
from sim.verifiers.classifier import Classifier, ClassifierInfo
from sim.verifiers.earlier_digests import EARLIER, earlier_digest

ROOT = Path(__file__).resolve().parents[3]
TASKS = (
    "pin_insertion", "pin_insertion_blind", "fragile_insertion", "push_t", "gpu_insertion", "ziptie_cutting",
    "fragile_ziptie", "bag_packing",
)  # fmt: skip
BESIDE = ("push_t classifier", "push_t anthropic")
SAID = """
import sys
from enpire import plugins
from enpire.verifiers import VerifierSettings, open_verifier

options = {"classifier": {"folder": "seen"}, "anthropic": {"model": "m"}}
for name in sys.argv[1:]:
    task, _, verifier = name.partition(" ")
    plans = [VerifierSettings(name=verifier, options=options[verifier])] if verifier else []
    print(open_verifier(plugins.load("tasks", task)(), plans).digest)
"""


@pytest.mark.parametrize("task", sorted(EARLIER))
def test_an_earlier_digest_counts_only_for_the_code_of_now(task: str) -> None:
    now = cast("type[Task]", plugins.load("tasks", task))().verifier().digest
    assert EARLIER[task].now == now, f"Another verifier of {task} than at commit 0ea805b: remove its row."
    assert earlier_digest(now) == EARLIER[task].before
    assert earlier_digest(EARLIER[task].before) == ""


def test_several_verifiers_have_earlier_digests_together() -> None:
    task = PushT()
    plain, classifier = task.verifier(), Classifier(task, ClassifierInfo(task="push_t", cameras=(), threshold=0.5,
                                                                         examples=0), {})  # fmt: skip
    assert earlier_digests(plain) == {EARLIER["push_t"].before}
    assert earlier_digests(classifier) == frozenset()
    assert earlier_digests(UnanimousVerifier([plain, classifier])) == {
        hashlib.sha256(repr([EARLIER["push_t"].before, classifier.digest]).encode()).hexdigest()
    }


def digests(folder: Path, *names: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SAID, *names], cwd=folder, capture_output=True, text=True, timeout=600,
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
    Classifier(PushT(), ClassifierInfo(task="push_t", cameras=(), threshold=0.5, examples=0), {}).write(
        tmp_path / "seen"
    )
    names = (*TASKS, *BESIDE, "reach:Reach")
    before = digests(tmp_path, *names)
    assert len(before) == len(names)
    assert digests(tmp_path, *names) == before
    for name in ("classifier", "vision_judge"):
        edit(tmp_path / "sim/verifiers" / f"{name}.py", '"success" if', '"failure" if')
    judged = digests(tmp_path, *names)
    assert [name for name, one, other in zip(names, before, judged, strict=True) if one != other] == [*BESIDE]
    for name in ("pin_verifier", "push_t", "gpu_verifier", "ziptie_verifier", "bag_verifier"):
        edit(tmp_path / "sim/tasks" / f"{name}.py", '"success" if', '"failure" if')
    edit(tmp_path / "reach.py", "< 0.03", "< 0.3")
    after = digests(tmp_path, *names)
    assert not set(judged) & set(after), "the two beside the task's own ask that when a rollout is finished"
    edit(tmp_path / "sim/verifiers/camera_estimates.py", "== seen[:-1]", "!= seen[:-1]")
    changed = [name for name, one, other in zip(names, after, digests(tmp_path, *names), strict=True) if one != other]
    pins = ["pin_insertion", "pin_insertion_blind", "fragile_insertion"]
    assert changed == [*pins, "push_t", "gpu_insertion", "ziptie_cutting", "fragile_ziptie", *BESIDE]


def test_docstrings_comments_and_layout_leave_the_digest_as_it_is(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "sim", tmp_path / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests/sim/task_check/reach.py", tmp_path / "reach.py")
    names = (*TASKS, "reach:Reach")
    before = digests(tmp_path, *names)
    for path in [tmp_path / "reach.py", *(tmp_path / "sim").rglob("*.py")]:
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            for statement in getattr(node, "body", []) if isinstance(getattr(node, "body", []), list) else []:
                value = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    value.value = "Another sentence."
        path.write_text(f"# A comment.\n{ast.unparse(tree)}\n", encoding="utf-8")
    assert digests(tmp_path, *names) == before


@pytest.mark.parametrize(
    ("imported", "folder", "rule"),
    [
        ("from .rules import near", "lab", "near(state)"),
        ("from . import rules", "lab", "rules.near(state)"),
        ("from lab import rules", "lab", "rules.near(state)"),
        ("import lab.rules", "lab", "lab.rules.near(state)"),
        ("import rules", "", "rules.near(state)"),
        ("from rules import near", "", "near(state)"),
    ],
)
def test_a_rule_that_is_imported_counts_however_it_is_imported(
    tmp_path: Path, imported: str, folder: str, rule: str
) -> None:
    home = tmp_path / folder
    home.mkdir(exist_ok=True)
    (home / "__init__.py").touch()
    lines = "import numpy as np\n\n\ndef near(state):\n    return np.hypot(state[:, 0], state[:, 1]) < 0.03\n"
    (home / "rules.py").write_text(lines)
    reach = (ROOT / "tests/sim/task_check/reach.py").read_text("utf-8")
    own = "np.hypot(state[:, 0], state[:, 1]) < 0.03"
    assert own in reach
    (home / "own.py").write_text(
        reach.replace("import numpy as np\n", f"import numpy as np\n{imported}\n").replace(own, rule)
    )
    name = f"{folder}.own:Reach" if folder else "own:Reach"
    before = digests(tmp_path, name)
    edit(home / "rules.py", "0.03", "0.3")
    assert digests(tmp_path, name) != before
