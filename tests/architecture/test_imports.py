"""Layers, and what an import may cost: nothing heavy before somebody asks for it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from enpire.plugins import BUILT_IN
from tests.architecture.sources import PACKAGES, ROOT, files, imports, nodes, tree, where
from tests.fakes.sample_campaign import record_campaign

HEAVY = (
    "torch", "mujoco", "lerobot", "gymnasium", "scipy", "ray", "cyclonedds", "anthropic", "mcp", "safetensors", "PIL",
)  # fmt: skip
SLOW = ("numpy", "pandas", "sqlite_utils", "pydantic", "rich", "yaml", "fastapi", "zmq", "msgpack", "jinja2")
"""Light enough for a campaign, too slow for a verb that answers within 0.3 s (`benchmarks/verbs.py`)."""
READING = (
    ["--help"], ["campaign", "list"], ["campaign", "show"], ["campaign", "show", "--json"], ["policy", "list"],
    ["policy", "show", "cccc"], ["episodes", "list"], ["episodes", "show", f"01J{7:023}"],
    ["ledger", "verify", "--ledger-only"], ["ledger", "head"], ["ledger", "tail"], ["task", "list"],
    ["robot", "list"], ["agent", "list"],
)  # fmt: skip
VERB = """
import json, sys
from enpire.cli import app
try:
    app(sys.argv[1:], prog_name="enpire")
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""
NAMED = ast.FunctionDef | ast.ClassDef
LAYERS = (("web_ui", "agent_loop"), ("robot_drivers", "policies"), ("sim",), ("enpire",))
"""Upper first; a package imports from lower lines only."""


@pytest.mark.parametrize(
    "module",
    ["enpire", "enpire.session", "enpire.service.reading", "enpire.cli", "enpire.queries.campaigns", "enpire.loop"],
)
def test_importing_the_brain_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, json, {module}; print(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout)) & set(HEAVY)
    assert not loaded, f"import {module} loads {sorted(loaded)}; import them inside the functions that need them."


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    record_campaign(folder)
    return folder


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_reading_verbs_load_nothing_heavy(lab: Path, words: Sequence[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VERB, *words], capture_output=True, text=True, cwd=ROOT, timeout=600, check=False,
        env={**os.environ, "ENPIRE_HOME": str(lab)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stderr)) & {*HEAVY, *SLOW}
    assert not loaded, f"`enpire {' '.join(words)}` loads {sorted(loaded)}; import them where they are needed."


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


def test_sqlite_is_used_in_the_store_only() -> None:
    """The accounts of the page are a database of their own."""
    own = {ROOT / "web_ui" / "accounts.py", *files(("enpire/store",))}
    wrong = [
        where(path, node)
        for path in files(PACKAGES)
        if path not in own
        for node, module in imports(path)
        if module.partition(".")[0] in {"sqlite3", "sqlite_utils"}
    ]
    wrong += [
        where(path, node)
        for path in files(PACKAGES)
        if path not in own
        for node in nodes(path)
        if (isinstance(node, ast.Attribute) and node.attr == "database")
        or (
            isinstance(node, ast.Call)
            and ast.unparse(node).startswith("isinstance(")
            and "SqliteL" in ast.unparse(node)
        )
    ]
    assert not wrong, wrong
