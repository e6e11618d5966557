"""Layers, and what an import may cost: nothing heavy before somebody asks for it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from enpire.plugins import BUILT_IN
from tests.architecture.sources import PACKAGES, ROOT, files, imports, tree, where

HEAVY = (
    "torch", "mujoco", "lerobot", "gymnasium", "scipy", "ray", "cyclonedds", "anthropic", "mcp", "safetensors", "PIL",
)  # fmt: skip
NAMED = ast.FunctionDef | ast.ClassDef
LAYERS = (("web_ui", "agent_loop"), ("robot_drivers", "policies"), ("sim",), ("enpire",))
"""Upper first; a package imports from lower lines only."""


@pytest.mark.parametrize("module", ["enpire", "enpire.service", "enpire.cli", "enpire.views", "enpire.loop"])
def test_importing_the_brain_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, json, {module}; print(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout)) & set(HEAVY)
    assert not loaded, f"import {module} loads {sorted(loaded)}; import them inside the functions that need them."


def test_the_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; import enpire.cli as c;"
        "sys.argv = ['enpire', '--help']\n"
        "try:\n    c.main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"heavy = set(sys.modules) & set({HEAVY!r})\nassert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_packages_import_downward_only() -> None:
    """As import-linter checks it, and also inside functions."""
    rank = {name: number for number, line in enumerate(LAYERS) for name in line}
    wrong = [
        f"{where(path, node)} imports {module}"
        for package in PACKAGES
        for path in files((package,))
        for node, module in imports(path)
        if (target := module.partition(".")[0]) in rank and target != package and rank[target] <= rank[package]
    ]
    assert not wrong, wrong


def test_every_built_in_part_exists() -> None:
    """Each name leads to a module of ours with that attribute, checked without importing torch or mujoco."""
    missing: list[str] = []
    for group, parts in BUILT_IN.items():
        for name, address in parts.items():
            module, _, attribute = address.partition(":")
            path = ROOT / f"{module.replace('.', '/')}.py"
            defined = (
                {node.name for node in tree(path).body if isinstance(node, NAMED)} if path.is_file() else set[str]()
            )
            if attribute not in defined:
                missing.append(f"{group} {name}: {address}")
    assert not missing, f"Names without a part: {missing}"


def test_the_packages_do_not_import_tests_or_benchmarks() -> None:
    wrong = [
        where(path, node)
        for path in files(PACKAGES)
        for node, module in imports(path)
        if module.partition(".")[0] in {"tests", "benchmarks", "pytest", "hypothesis"}
    ]
    assert not wrong, wrong
