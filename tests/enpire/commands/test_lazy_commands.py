"""The subcommands are those of `enpire.commands`, and one of them imports no other."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import typer
from typer.main import get_group

import enpire.commands
from enpire.cli import MODULES

ONE = """
import json, sys
from enpire.cli import app
app(["task", "--help"], prog_name="enpire", standalone_mode=False)
print(json.dumps([name for name in sys.modules if name.startswith("enpire.commands.")]), file=sys.stderr)
"""
TABLES = """
import json, sqlite3, sys
from enpire.service.tables import database
database(sqlite3.connect(":memory:")).table("users").insert({"name": "ada"})
print(json.dumps([name for name in ("pandas", "sqlite_utils") if name in sys.modules]), file=sys.stderr)
"""


def printed(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    return json.loads(done.stderr)


def test_every_module_registers_the_subcommands_under_which_it_is_found() -> None:
    folder = Path(enpire.commands.__path__[0])
    named = {path.stem for path in folder.glob("*.py") if "def add_to(" in path.read_text()}
    assert set(MODULES.values()) == named
    for module in named:
        app = typer.Typer()
        importlib.import_module(f"enpire.commands.{module}").add_to(app)
        assert set(get_group(app).commands) == {name for name, where in MODULES.items() if where == module}


def test_a_subcommand_imports_no_other() -> None:
    assert "enpire.commands.tasks" in (found := printed(ONE))
    assert not {"enpire.commands.campaigns", "enpire.commands.runs", "enpire.commands.agents"} & set(found)


def test_tables_are_made_without_pandas() -> None:
    assert printed(TABLES) == ["sqlite_utils"]
