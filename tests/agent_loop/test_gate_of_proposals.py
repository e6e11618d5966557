"""Over the official MCP client: the gate rejects a worse recipe and promotes a better one; the tree shows both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from mcp import Client, StdioServerParameters

from agent_loop.mcp_server import tool_server
from enpire import views
from enpire.commands import texts
from enpire.documents import ExperimentView
from enpire.files import plain
from enpire.home import open_home
from enpire.recipe import read_recipe
from enpire.recompute import recompute
from enpire.report import write_report
from tests.agent_loop.pretend_lab import Running, with_skill
from tests.agent_loop.test_mcp import answered

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
    with views.open_records(home) as records:
        view = views.campaign_view(records, views.find_campaign(records, ""))
        assert [check for check in recompute(records.ledger) if not check.equal] == []
    shown = {item.id: item for idea in view.ideas for item in idea.experiments}
    rejected, promoted = shown[worse["experiment_id"]], shown[better["experiment_id"]]
    assert rejected.decision == "revert"
    assert promoted.decision == "keep"
    assert bounds(rejected)[1] < 0.1
    assert bounds(promoted)[0] > -0.1
    assert promoted.policy_id in {gate.candidate for item in view.rounds if (gate := item.gate)}
    for page in (texts.campaign(view), write_report(home).read_text()):
        for item in (rejected, promoted):
            assert interval(item) in page
        assert f"revert ({rejected.why})" in page
        assert f"keep ({promoted.why})" in page


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
        async with Client(tool_server(lab.desk("mcp"))) as client:
            worse = await tried(client, Proposed(statement="less skill is enough", changes={"skill": 0.05}), 300)
            better = await tried(client, Proposed(statement="more skill helps", changes={"skill": 0.95}), 300)
            return worse, better

    home = open_home(tmp_path / "home")
    with Running(home, recipe=with_skill(0.5)) as lab:
        worse, better = lab.beside(lambda: anyio.run(talk))
        lab.until(lambda lab: lab.state.gate is None)
    seen_by_everybody(home.root, worse, better)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worse_and_a_better_recipe_in_the_simulator(tmp_path: Path) -> None:
    """The shipped campaign with the deliberately bad recipe, whose own rounds change little.

    It runs in lockstep with a secret that is given, so it is the same campaign each time.
    """
    home = open_home(tmp_path / "home").root
    (home / "secret").write_text("e2" * 32)
    enpire = [sys.executable, "-m", "enpire.cli"]
    with (tmp_path / "run.txt").open("wb") as log:
        command = [*enpire, "run", str(campaign_file(tmp_path)), "--home", str(home), "--headless"]
        campaign = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})

    async def talk() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        server = StdioServerParameters(command=enpire[0], args=[*enpire[1:], "mcp", "--home", str(home)])
        async with Client(server) as client:
            wild = {"learning_rate": 0.3, "most_steps": 300}
            worse = await tried(client, Proposed(statement="huge steps learn faster", changes=wild), 300)
            sound = {"learning_rate": 0.001, "most_steps": 900, "passes": 16.0}
            better = await tried(client, Proposed(statement="steps that change something", changes=sound), 300)
            return worse, better

    try:
        until_it_runs(home, campaign, 120)
        worse, better = anyio.run(talk)
    finally:
        campaign.send_signal(signal.SIGINT)
        campaign.wait(60)
    seen_by_everybody(home, worse, better)


def campaign_file(folder: Path) -> Path:
    """search_alone without its agent: two stations, and a space in which a destructive learning rate is possible."""
    recipe = json.loads(json.dumps(plain(read_recipe("habc_timid"))))
    recipe["space"]["learning_rate"] = [1e-7, 1.0, "log"]
    (folder / "timid.yaml").write_text(yaml.safe_dump(recipe))
    campaign = {
        "name": "worse_and_better", "task": "pin_insertion", "recipe": str(folder / "timid.yaml"),
        "stations": {"count": 2, "lanes": 16, "ahead": 12},
        "base": {"demonstrations": 80, "evaluate_starts": 20},
        "rounds": {"episodes": 100, "practised": 0.0, "lockstep": True},
        "gate": {"pairs": 150}, "budget": {"wall_s": 900, "rounds": 40},
    }  # fmt: skip
    path = folder / "campaign.yaml"
    path.write_text(yaml.safe_dump(campaign))
    return path


def until_it_runs(home: Path, campaign: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait until the recipe's search space is declared, which is when proposals are taken."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and campaign.poll() is None:
        if (home / "ledger.db").exists() and views.is_driven(home):
            with views.open_records(home) as records:
                if next(iter(records.ledger.events(kinds=("recipe declared",))), None):
                    return
        time.sleep(0.5)
    raise AssertionError(f"the campaign did not come up within {patience_s:.0f} s (exit code {campaign.poll()})")
