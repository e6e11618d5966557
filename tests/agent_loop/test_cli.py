"""The agent `cli` with a CLI in miniature, in its room: the tools over MCP, the models through the gateway."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_loop.agent_context import AgentContext
from agent_loop.agents.cli import Cli, CliProblem, CliRun
from agent_loop.agents.cli_recipe import own_count, read_cli_recipe, read_lines
from agent_loop.agents.gateway_budget import LeaseRefused
from agent_loop.tools import TOOLS
from enpire.campaign.campaign import AgentPlan, Budget
from enpire.code_candidates.repository import CodeRepository
from enpire.errors import FileProblem, UsageError
from enpire.files import configs_root
from enpire.home import open_home
from enpire.processes.model_providers import PROVIDERS
from enpire.processes.sandbox import bubblewrap
from enpire.queries import campaigns
from enpire.service.code import template
from enpire.steps.agent_process import AgentProcess
from tests.agent_loop.model_gateway.scripted_provider import Answer, Script, messages, serving
from tests.agent_loop.pretend_lab import CAMPAIGN, Running
from tests.agent_loop.recorded_model import Recording, served
from tests.fakes.code_agent import CODED, REGIMES
from tests.fakes.waiting import has_ended, until

COUNT = {"input_tokens": 20, "cache_creation_input_tokens": 80, "cache_read_input_tokens": 400, "output_tokens": 50}
TURNS = 60_000
SHIPPED = sorted(path.stem for path in (configs_root() / "agents").glob("*.yaml"))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    script = Script(answers=[Answer(messages(COUNT))] * 50)
    with serving(script) as address:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "the key")
        yield script


def tiny(folder: Path, source: str = "tiny_cli.py") -> dict[str, Any]:
    """Options of the agent with a CLI in miniature."""
    program = folder / "tiny"
    program.write_text(f"#!{os.path.realpath(sys.executable)}\n{(Path(__file__).parent / source).read_text()}")
    program.chmod(0o755)
    (folder / "hidden.txt").write_text("not for the room")
    recipe = {
        "program": "tiny", "package": "none", "provider": "anthropic",
        "arguments": ["${tools}", "${gateway}", "${lease}", str(folder / "hidden.txt")],
        "environment": {"OWN": "${model}"}, "files": {".tiny/settings": "model = ${model}"},
        "answer": {"where": {"type": "end"}, "value": "text"},
        "count": {
            "at": {"where": {"type": "end"}, "value": "usage"}, "fresh": "in", "cached": "read",
            "cache_write": "written", "output": "out",
        },
    }  # fmt: skip
    (folder / "tiny.yaml").write_text(yaml.safe_dump(recipe))
    return {"recipe": str(folder / "tiny.yaml"), "model": "a-model", "program": str(program)}


def test_a_cli_works_in_the_room_with_the_tools_and_the_gateway(script: Script, tmp_path: Path) -> None:
    plan = AgentPlan(name="cli", options=tiny(tmp_path))
    home = open_home(tmp_path / "home")
    with Running(home, campaign=replace(CAMPAIGN, agents=(plan,)), paused=True) as lab:
        lab.until(lambda lab: list(lab.ledger.events(kinds=("agent turned",))), turns=TURNS)
        lab.until(lambda lab: list(lab.ledger.events(kinds=("model called",))), turns=TURNS)
        [turned, *_] = lab.ledger.events(kinds=("agent turned",))
        [call, *_] = lab.ledger.events(kinds=("model called",))
        [own, *_] = lab.ledger.events(kinds=("tokens spent",))
    seen = json.loads(str(turned.body["text"]))
    assert (seen["tools"], seen["lane"], seen["refused"], seen["answer"]) == (len(TOOLS), "cli-1", True, "yes")
    assert seen["keys"] == []
    assert seen["hidden"] is not bool(bubblewrap())
    counted = [call.body[name] for name in ("lane", "fresh", "cache_read", "cache_write", "output", "outcome")]
    assert counted == ["cli-1", 20, 400, 80, 50, "answered"]
    reported = [own.body[name] for name in ("fresh", "cached", "cache_write", "output", "self_reported")]
    assert reported == [20, 400, 80, 50, True]
    assert script.headers[0]["x-api-key"] == "the key"
    [log] = home.root.glob("agents/*/*/work/conversation.jsonl")
    assert json.loads(log.read_text().splitlines()[0]) == {"output": "not JSON"}


@pytest.mark.slow
@pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or is not allowed here")
def test_a_cli_writes_code_and_after_a_kill_of_its_session_its_calls_change_the_lab_once(
    script: Script, tmp_path: Path
) -> None:
    plan = AgentPlan(name="cli", options=tiny(tmp_path, "tiny_code_cli.py"))
    home = open_home(tmp_path / "home")
    with Running(home, campaign=replace(CODED, agents=(plan,)), regimes=REGIMES, paused=True) as lab:
        proposals = lab.lab.state.proposals
        lab.until(lambda lab: any(one.commit for one in proposals.experiments.values()), turns=TURNS)
        session = lab.lab.agent_sessions[0]
        assert isinstance(session, AgentProcess)
        assert session.process is not None
        session.process.kill()
        lab.until(lambda lab: list(lab.ledger.events(kinds=("agent turned",))), turns=TURNS)
        [turned, *_] = lab.ledger.events(kinds=("agent turned",))
        assert len(list(lab.ledger.events(kinds=("agent ended",)))) == 1, "the session was killed"
    seen = json.loads(str(turned.body["text"]))
    refused, accepted = proposals.experiments.values()
    assert (refused.phase, accepted.phase, seen["experiment"]) == ("invalid", "queued", accepted.experiment_id)
    assert len(proposals.hypotheses) == 1
    assert "'verifier.py' is outside the edit surface" in seen["refused"]
    assert seen["arguments"] == ["hypothesis_id", "parent_experiment"], "the lab takes the files of the folder"
    files = CodeRepository(home.root).files(accepted.commit)
    assert files == {**template(), "recipe.yaml": template()["recipe.yaml"].replace("0.1", "0.3")}


def test_a_session_whose_limit_is_reached_ends_and_the_campaign_shows_what_was_spent(
    script: Script, tmp_path: Path
) -> None:
    plan = AgentPlan(name="cli", tokens=3000, options=tiny(tmp_path))
    home = open_home(tmp_path / "home")
    with Running(home, campaign=replace(CAMPAIGN, agents=(plan,), budget=Budget(tokens=9000)), paused=True) as lab:
        lab.until(lambda lab: list(lab.ledger.events(kinds=("agent ended",))), turns=TURNS)
        [ended] = lab.ledger.events(kinds=("agent ended",))
        turns = [str(event.body["text"]) for event in lab.ledger.events(kinds=("agent turned",))]
        assert (ended.body["again"], "ended with code 0" in str(ended.body["why"])) == (False, True)
        assert turns[-1].startswith("done: The call is not sent: it could cost")
    assert len(script.asked) == 2, "two calls of 550 tokens, then a third could exceed 3000"
    with campaigns.open_records(home.root) as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, ""))
    assert view.spending is not None
    [lane] = view.spending.lanes
    assert (lane.lane, lane.calls, lane.lost, lane.calls_of_unknown_cost) == ("cli-1", 2, 0, 2)
    assert (lane.fresh, lane.cache_read, lane.cache_write, lane.output) == (40, 800, 160, 100)
    assert lane.counted_for_budget == view.tokens.fresh + view.tokens.cached + view.tokens.output == 1100
    assert view.spending.total.money == {}


def test_what_is_missing_is_said_before_a_room_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = tiny(tmp_path)
    with pytest.raises(UsageError, match="'/none/there' is not installed: npm install -g none, or name its path"):
        Cli.program_files({**options, "program": "/none/there"})
    with pytest.raises(FileProblem, match="no file of agents called 'nothing'"):
        Cli.providers({**options, "recipe": "nothing"})
    (tmp_path / "script").write_text("#!/usr/bin/env node\n")
    (tmp_path / "script").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="'node' is not installed: install Node"):
        Cli.program_files({**options, "program": str(tmp_path / "script")})
    context = AgentContext(seed=0, lane="a", work=tmp_path, spent=lambda said: None)
    with pytest.raises(UsageError, match="in the room of an agent session only"):
        Cli(context, options).turn({}, {})


@pytest.mark.parametrize("place", ["/etc/passwd", "../other", "a/../../b"])
def test_a_recipe_writes_below_its_home_only(tmp_path: Path, place: str) -> None:
    options = tiny(tmp_path)
    path = Path(options["recipe"])
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "files": {place: "x"}}))
    with pytest.raises(FileProblem, match="write a path below the CLI's home"):
        Cli.providers(options)


def test_a_program_from_npm_brings_its_packages_and_node(tmp_path: Path) -> None:
    package = tmp_path / "x" / "node_modules" / "some" / "node_modules" / "inner"
    package.mkdir(parents=True)
    (package / "run.js").write_text("#!/usr/bin/env node\n")
    (package / "run.js").chmod(0o755)
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\n")
    node.chmod(0o755)
    (tmp_path / "link").symlink_to(package / "run.js")
    options = {**tiny(tmp_path), "program": str(tmp_path / "link"), "node": str(node)}
    wanted = [package / "run.js", node, tmp_path / "x" / "node_modules", tmp_path / "tiny.yaml"]
    assert list(Cli.program_files(options)) == wanted


def test_a_run_that_is_late_is_ended(tmp_path: Path) -> None:
    run = CliRun(print, turn_s=0.05)
    assert run.run(["sleep", "600"], {"PATH": "/usr/bin:/bin"}, tmp_path) == -9
    assert run.late


def test_a_run_leaves_no_process_behind(tmp_path: Path) -> None:
    lines: list[str] = []
    run, child = CliRun(lines.append, turn_s=600.0), tmp_path / "child"
    command = ["sh", "-c", f"sleep 600 & echo $! > {child}; echo begun; echo wrong >&2; exit 4"]
    assert run.run(command, {"PATH": "/usr/bin:/bin"}, tmp_path) == 4
    assert (run.late, run.output, run.errors) == (False, "begun\n", "wrong\n")
    assert sorted(lines) == ['{"errors": "wrong"}', '{"output": "begun"}']
    until(lambda: has_ended(int(child.read_text())), "the end of the child")


def test_a_cli_that_fails_is_a_problem_of_the_turn(tmp_path: Path) -> None:
    with pytest.raises(CliProblem, match="cannot be started: No such file"):
        CliRun(print, turn_s=1.0).run(["/none/there"], {}, tmp_path)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_recipes_can_be_filled(name: str) -> None:
    recipe = read_cli_recipe(name)
    values: dict[str, str] = dict.fromkeys(("home", "tools", "model", "lease", "gateway", "prompt"), "x")
    texts = [*recipe.arguments, *recipe.environment.values(), *recipe.files.values()]
    filled = [recipe.filled(text, values) for text in texts]
    assert not any("${" in text for text in filled)
    assert any("${lease}" in text for text in texts)
    assert any("${gateway}" in text for text in texts)
    assert recipe.provider in PROVIDERS
    with pytest.raises(ValueError, match="names \\$\\{key\\}; there are: home"):
        recipe.filled("${key}", values)


@pytest.mark.parametrize(
    ("name", "output", "counted"),
    [
        (
            "claude_code",
            '{"type":"system"}\n{"type":"result","result":"yes","usage":{"input_tokens":6,"output_tokens":4,'
            '"cache_creation_input_tokens":3,"cache_read_input_tokens":9,"server_tool_use":{"web_search_requests":0}}}',
            {"fresh": 6, "cached": 9, "cache_write": 3, "output": 4},
        ),
        (
            "codex",
            '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}\n'
            '{"type":"turn.completed","usage":{"input_tokens":7,"cached_input_tokens":7,"output_tokens":1}}',
            {"fresh": 6, "cached": 11, "cache_write": 0, "output": 3},
        ),
        (
            "opencode",
            '{"type":"step_finish","part":{"tokens":{"input":5,"output":2,"cache":{"read":3,"write":1}}}}\n'
            '{"type":"step_finish","part":{"tokens":{"input":1,"output":1,"cache":{"read":8,"write":0}}}}',
            {"fresh": 6, "cached": 11, "cache_write": 1, "output": 3},
        ),
        ("codex", "an error, not JSON", {}),
        ("claude_code", '{"type":"result","usage":{"input_tokens":"many"}}',
         {"fresh": 0, "cached": 0, "cache_write": 0, "output": 0}),
    ],
)  # fmt: skip
def test_the_own_count_of_each_cli_is_read(name: str, output: str, counted: Mapping[str, int]) -> None:
    assert own_count(read_cli_recipe(name), read_lines(output)) == counted


def test_each_turn_of_a_cli_asks_another_question_and_a_refused_lease_fails_it_at_once(tmp_path: Path) -> None:
    recipe = {"program": "echo", "package": "none", "provider": "anthropic", "arguments": ["${prompt}"]}
    (tmp_path / "echo.yaml").write_text(yaml.safe_dump(recipe))
    recording = Recording(answers=[])
    kept: list[str] = []
    with served(recording) as address:
        context = AgentContext(
            seed=0, lane="cli-1", work=tmp_path / "work", spent=lambda tokens: None, models=address, lease="a lease",
            programs=(Path("/bin/echo"),), keep=lambda line, anew: kept.append(line) or True,
        )  # fmt: skip
        cli = Cli(context, {"recipe": str(tmp_path / "echo.yaml"), "model": "a-model"})
        first, second = cli.turn({}, {}), cli.turn({}, {})
        turns = [json.loads(line)["turn"] for line in kept]
        assert f"(Turn {turns[0]} of the session.)" in first
        assert f"(Turn {turns[2]} of the session.)" in second
        assert turns[0] != turns[2]
        recording.lease_over = True
        with pytest.raises(LeaseRefused, match="^It is over.$"):
            cli.turn({}, {})
