"""A campaign whose stations may be real robots is told to count pairs in blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from enpire.campaign.advice import advice, of_blocks, of_pairs
from enpire.campaign.campaign import Campaign, Stations, read_campaign
from enpire.cli import app
from enpire.commands.runs import GOAL_MISSED
from enpire.gate.rule import GateRule

GUARD = "robot_drivers.guard_client:open_rig"


def campaign(stations: dict[str, Any], block: int = 1) -> Campaign:
    shipped = read_campaign("pin_insertion")
    changed = Stations(**stations)
    return replace(shipped, stations=changed, gate=replace(shipped.gate, block=block))


@pytest.mark.parametrize(
    ("stations", "begins"),
    [
        ({"count": 2, "driver": "lerobot"}, "The stations are not simulated: outcomes of one session"),
        ({"count": 1, "driver": GUARD, "options": {"guard": {"driver": "ros2"}}}, "The stations are not simulated"),
        ({"count": 0}, "Real robots may connect as stations: outcomes of one session can be correlated"),
        ({"count": 4, "bind": "tcp://10.0.0.5:7000"}, "Real robots may connect as stations"),
    ],
)
def test_stations_that_may_be_real_are_told_to_use_blocks(stations: dict[str, Any], begins: str) -> None:
    said = of_blocks(campaign(stations))
    assert said.startswith(begins)
    assert "set gate: {block: 8} in the campaign file" in said
    assert said.count(".") == 2, "one sentence, and the name of a document"
    assert of_blocks(campaign(stations, block=8)) == ""


@pytest.mark.parametrize(
    "stations",
    [
        {"count": 4},
        {"count": 1, "driver": "fake"},
        {"count": 1, "driver": GUARD, "options": {"guard": {"driver": "fake"}}},
    ],
)  # fmt: skip
def test_simulated_stations_need_no_blocks(stations: dict[str, Any]) -> None:
    assert of_blocks(campaign(stations)) == ""


def test_the_shipped_campaigns_say_nothing_about_blocks() -> None:
    names = [path.stem for path in Path("configs/campaigns").glob("*.yaml")]
    assert len(names) >= 7
    assert [name for name in names if advice(read_campaign(name))] == []


@pytest.mark.parametrize(("block", "least"), [(1, 254), (8, 1584), (16, 3168)])
def test_a_gate_that_can_promote_no_faster_candidate_is_named_with_the_pairs_that_it_takes(
    block: int, least: int
) -> None:
    assert of_pairs(GateRule(block=block, pairs=least), block) == ""
    said = of_pairs(GateRule(block=block, pairs=least - 1), block)
    assert said.startswith(
        f"With gate: {{block: {block}, pairs: {least - 1}}} a candidate can be promoted as better, but not as"
    )
    assert f"that needs at least {least} pairs at a margin of 2.0%" in said
    assert of_pairs(GateRule(block=block, pairs=least - 1, margin=0.05), block) == "", (
        "a larger loss needs fewer pairs to test"
    )


def test_a_gate_of_fewer_pairs_than_the_proposed_block_is_no_problem() -> None:
    plan = campaign({"count": 0})
    _, pairs = advice(replace(plan, gate=replace(plan.gate, pairs=2)))
    assert pairs.startswith(
        "With gate: {block: 8, pairs: 2} a candidate can be promoted as better, but not as faster: "
    )


def test_the_proposed_blocks_are_counted_with_the_pairs_of_the_file() -> None:
    blocks, pairs = advice(campaign({"count": 0}))
    assert blocks == of_blocks(campaign({"count": 0}))
    assert pairs.startswith(
        "With gate: {block: 8, pairs: 400} a candidate can be promoted as better, but not as faster: "
    )
    assert advice(campaign({"count": 0}, block=8)) == [pairs]
    assert advice(campaign({"count": 4})) == []


@pytest.mark.parametrize(("more", "said"), [("", True), ("gate: {block: 8}\n", False)])
def test_run_says_so_on_stderr(more: str, said: bool, tmp_path: Path) -> None:
    file, wire = tmp_path / "bench.yaml", tmp_path / "wire"
    wire.mkdir(mode=0o700)
    stations = f"stations: {{count: 0, bind: 'ipc://{wire}/lab'}}\nbudget: {{wall_s: 0.5}}\n"
    file.write_text(f"name: bench\ntask: pin_insertion\nrecipe: habc_plus\n{stations}{more}")
    done = CliRunner().invoke(app, ["run", str(file), "--headless", "--home", str(tmp_path / "home")])
    assert done.exit_code == GOAL_MISSED, done.output
    assert ("Real robots may connect as stations: outcomes" in done.stderr) is said
    assert "a candidate can be promoted as better, but not as faster" in done.stderr
    assert "block" not in done.stdout


@pytest.mark.parametrize(("by", "goal"), [("rate", "to 95.0%"), ("bound", "to at least 95.0%")])
def test_run_names_a_goal_of_the_bound_as_one(by: str, goal: str, tmp_path: Path) -> None:
    file, wire = tmp_path / "bench.yaml", tmp_path / "wire"
    wire.mkdir(mode=0o700)
    stations = f"stations: {{count: 0, bind: 'ipc://{wire}/lab'}}\nbudget: {{wall_s: 0.5}}\n"
    aim = f"goal: {{success: 0.95, by: {by}, confirm_starts: 400}}\n"
    file.write_text(f"name: bench\ntask: pin_insertion\nrecipe: habc_plus\n{stations}{aim}")
    done = CliRunner().invoke(app, ["run", str(file), "--headless", "--home", str(tmp_path / "home")])
    assert f"bench: {goal} confirmed success within" in done.output
