"""CONTRIBUTING.md, AGENTS.md and the hooks before a commit name files, targets and commands that exist."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("CONTRIBUTING.md", "AGENTS.md")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_targets_and_commands_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([\w-]+)", text, re.MULTILINE)) - targets == set()
    commands = set(re.findall(r"^\.venv/bin/([\w-]+)", text, re.MULTILINE))
    assert [command for command in commands if not (Path(sys.executable).parent / command).exists()] == []


def test_every_hook_is_local_and_its_command_is_installed() -> None:
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [one["repo"] for one in repositories] == ["local"]
    hooks = {hook["id"]: hook for hook in repositories[0]["hooks"]}
    assert set(hooks) == {"ruff-check", "ruff-format", "pyright", "lint-imports"}
    for hook in hooks.values():
        assert hook["language"] == "system"
        folder, _, command = hook["entry"].split()[0].rpartition("/")
        assert folder == ".venv/bin"
        assert (Path(sys.executable).parent / command).is_file(), command
