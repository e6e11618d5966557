"""A key that was set for one agent is in that agent's process, and in no other child."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from agent_loop.agent_context import AgentContext
from enpire.campaign.campaign import AgentPlan
from enpire.home import open_home
from enpire.processes.child_process import end_process, start_python
from enpire.processes.credentials import is_credential, without_credentials
from tests.agent_loop.pretend_lab import CAMPAIGN, Running

KEYS = {"ANTHROPIC_API_KEY": "k1", "ENPIRE_MCP_TOKEN": "k2", "AWS_SECRET_ACCESS_KEY": "k3", "SSH_AUTH_SOCK": "/k4"}


class Keyed:
    """An agent with a key that does nothing."""

    keys: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)

    def __init__(self, place: AgentContext, options: Mapping[str, object]) -> None:
        del place, options

    def turn(self, tools: Mapping[str, Callable[..., object]], brief: Mapping[str, object]) -> str:
        """Nothing."""
        return ""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def environment_of(process: subprocess.Popen[bytes]) -> set[str]:
    file, around = Path(f"/proc/{process.pid}/environ"), ""
    deadline = time.monotonic() + 300
    while not around and time.monotonic() < deadline:  # it has none before its program is loaded
        around = file.read_bytes().decode()
    return {line.partition("=")[0] for line in around.split("\0")}


def test_credentials_are_recognized_by_their_names() -> None:
    assert all(map(is_credential, KEYS))
    assert not any(map(is_credential, ("PATH", "HOME", "ANTHROPIC_BASE_URL", "ENPIRE_HOME", "KEYBOARD", "MUJOCO_GL")))
    assert without_credentials({"PATH": "p", **KEYS}, ("SSH_AUTH_SOCK",)) == {"PATH": "p", "SSH_AUTH_SOCK": "/k4"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_child_inherits_no_credentials(tmp_path: Path) -> None:
    process = start_python("http.server", ["0", "--bind", "127.0.0.1"], tmp_path / "log.txt")
    try:
        found = environment_of(process)
    finally:
        end_process(process)
    assert "PATH" in found
    assert not found & set(KEYS)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_lane_gets_the_keys_of_its_agent_and_no_other(tmp_path: Path) -> None:
    plans = (AgentPlan(name="search"), AgentPlan(name="tests.enpire.processes.test_credentials:Keyed"))
    home = open_home(tmp_path / "home")
    with Running(home, campaign=replace(CAMPAIGN, agents=plans), paused=True) as lab:
        lab.until(lambda lab: len(lab.agent_sessions) == 2 and all(one.process for one in lab.agent_sessions))  # pyright: ignore[reportAttributeAccessIssue]
        search, keyed = (environment_of(one.process) for one in lab.lab.agent_sessions)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType]
    assert not search & set(KEYS)
    assert keyed & set(KEYS) == {"ANTHROPIC_API_KEY"}
