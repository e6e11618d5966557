"""A campaign whose stations may be real robots is told to count pairs in blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from enpire.campaign.advice import of_blocks
from enpire.campaign.campaign import Campaign, Stations, read_campaign
from enpire.cli import app
from enpire.commands.runs import GOAL_MISSED

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
    assert [name for name in names if of_blocks(read_campaign(name))] == []


@pytest.mark.parametrize(("more", "said"), [("", True), ("gate: {block: 8}\n", False)])
def test_run_says_so_on_stderr(more: str, said: bool, tmp_path: Path) -> None:
    file, wire = tmp_path / "bench.yaml", tmp_path / "wire"
    wire.mkdir(mode=0o700)
    stations = f"stations: {{count: 0, bind: 'ipc://{wire}/lab'}}\nbudget: {{wall_s: 0.5}}\n"
    file.write_text(f"name: bench\ntask: pin_insertion\nrecipe: habc_plus\n{stations}{more}")
    done = CliRunner().invoke(app, ["run", str(file), "--headless", "--home", str(tmp_path / "home")])
    assert done.exit_code == GOAL_MISSED, done.output
    assert ("Real robots may connect as stations: outcomes" in done.stderr) is said
    assert "block" not in done.stdout
