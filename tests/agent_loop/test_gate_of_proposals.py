"""Over the official MCP client: the gate rejects a worse recipe and promotes a better one; the tree shows both."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from agent_loop.mcp_server import tool_server
from enpire.gate.reasons import reason_text
from enpire.home import open_home
from enpire.queries import campaigns, texts
from enpire.queries.decision_audit import recompute
from enpire.queries.models import ExperimentView
from enpire.report.report import write_report
from tests.agent_loop.mcp_clients import answered
from tests.agent_loop.pretend_lab import Running, with_skill
from tests.agent_loop.simulated_campaign import running
from tests.fakes.event_loops import run_async

Use = Callable[..., Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """One proposal of the client: what it says, and which settings it changes."""

    statement: str
    changes: Mapping[str, object]


async def tried(client: Client, proposed: Proposed, patience_s: float) -> Mapping[str, Any]:
    """Propose, submit and wait until the gate has decided; the experiment as the client is told it."""

    async def use(name: str, **arguments: object) -> Mapping[str, Any]:
        said = answered(await client.call_tool(name, arguments))
        assert "problem" not in said, said
        return said

    made = await use(
        "propose_hypothesis", statement=proposed.statement, falsifier="the gate does not promote it",
        regime="offline RL", kind="improve",
    )  # fmt: skip
    sent = await use("submit_candidate", hypothesis_id=made["hypothesis_id"], changes=dict(proposed.changes))
    deadline, after = time.monotonic() + patience_s, 0
    while time.monotonic() < deadline:
        waited = await use("wait", seconds=10.0, after=after)
        after = waited["after"]
        mine = await use("get_experiment", experiment_id=sent["experiment_id"])
        if mine["phase"] in ("decided", "invalid", "cancelled"):
            return mine
    raise AssertionError(f"not decided within {patience_s:.0f} s")


def seen_by_everybody(home: Path, worse: Mapping[str, Any], better: Mapping[str, Any]) -> None:
    """The idea tree of the terminal, of the documents and of the report show both with their intervals."""
    with campaigns.open_records(home) as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, ""))
        assert [check for check in recompute(records.ledger) if not check.equal] == []
    shown = {item.id: item for idea in view.ideas for item in idea.experiments}
    rejected, promoted = shown[worse["experiment_id"]], shown[better["experiment_id"]]
    # Turned down: shown to be worse, or so far behind that even a perfect rest of the pairs could not promote it.
    assert rejected.decision == "revert" or (rejected.decision, rejected.why) == ("inconclusive", "hopeless")
    assert promoted.decision == "keep"
    assert sum(bounds(rejected)) < 0 < sum(bounds(promoted))  # their middles
    assert promoted.policy_id in {gate.candidate for item in view.rounds if (gate := item.gate)}
    for page in (texts.campaign(view), write_report(home).read_text()):
        for item in (rejected, promoted):
            assert interval(item) in page
        assert f"{rejected.decision} ({reason_text(rejected.why)})" in page
        assert f"keep ({reason_text(promoted.why)})" in page


def bounds(item: ExperimentView) -> tuple[float, float]:
    assert item.low is not None
    assert item.high is not None
    assert item.low < item.high
    return item.low, item.high


def interval(item: ExperimentView) -> str:
    low, high = bounds(item)
    return f"[{100 * low:+.1f}, {100 * high:+.1f}]"


def test_a_worse_and_a_better_recipe_of_a_client(tmp_path: Path) -> None:
    async def talk() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        async with Client(tool_server(lab.client("mcp"))) as client:
            worse = await tried(client, Proposed(statement="less skill is enough", changes={"skill": 0.05}), 300)
            better = await tried(client, Proposed(statement="more skill helps", changes={"skill": 0.95}), 300)
            return worse, better

    home = open_home(tmp_path / "home")
    with Running(home, recipe=with_skill(0.5)) as lab:
        worse, better = lab.beside(lambda: run_async(talk))
        lab.until(lambda lab: not lab.state.gates)
    seen_by_everybody(home.root, worse, better)


@pytest.mark.slow
def test_a_worse_and_a_better_recipe_in_the_simulator(tmp_path: Path) -> None:
    """The shipped campaign with the deliberately bad recipe, whose own rounds change little.

    It runs in lockstep with a secret that is given, so it is the same campaign each time.
    """
    home = open_home(tmp_path / "home").root
    (home / "secret").write_text("e2" * 32)

    async def talk() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        command = ["-m", "enpire.cli", "mcp", "--home", str(home)]
        server = StdioServerParameters(command=sys.executable, args=command)
        async with Client(server) as client:
            wild = {"learning_rate": 0.3, "most_steps": 300}
            worse = await tried(client, Proposed(statement="huge steps learn faster", changes=wild), 300)
            sound = {"learning_rate": 0.001, "most_steps": 900, "passes": 16.0}
            better = await tried(client, Proposed(statement="steps that change something", changes=sound), 300)
            return worse, better

    with running(tmp_path, home):
        worse, better = run_async(talk)
    seen_by_everybody(home, worse, better)
