"""What lies in the tree: configurations that load, no lock files, no addresses of package registries."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from agent_loop.agents.cli_recipe import read_cli_recipe
from agent_loop.model_gateway.prices import Prices
from enpire.campaign.campaign import Campaign, read_campaign
from enpire.campaign.recipe import Recipe, read_recipe
from enpire.files import parse, plain, read_yaml
from enpire.gate.rule import GateRule
from tests.architecture.sources import ROOT

CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
HOSTS = ("pypi" + ".org", "pythonhosted" + ".org", "registry.npm" + "js", "deb.deb" + "ian.org")
LOCKS = {"uv.lock", "poetry.lock", "Pipfile.lock", "yarn.lock", "pnpm-lock.yaml"}


def tracked() -> list[Path]:
    """The files that git keeps; in a folder without git, every file that is not hidden or built."""
    asked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    if asked.returncode:
        return [path for path in ROOT.rglob("*") if path.is_file() and not {".venv", "node_modules"} & set(path.parts)]
    return [path for name in asked.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def read(path: Path) -> object:
    """A configuration file through the reader of its kind; a kind without a reader is an error here."""
    kind = path.parent.name
    if kind == "campaigns":
        return read_campaign(path)
    if kind == "recipes":
        return read_recipe(path)
    if kind == "gates":
        return parse(GateRule, read_yaml(path), str(path))
    if kind == "code":
        return read_yaml(path)  # of the template of code candidates; tests/enpire/code_candidates reads it whole
    if kind == "agents":
        return read_cli_recipe(str(path))
    if path.name == "prices.yaml":
        return parse(Prices, read_yaml(path), str(path))
    if kind == "stations":
        from enpire.station.station_file import read_station

        return read_station(path)
    raise AssertionError(f"{path} is of a kind that this test does not know: add its reader.")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shipped_file_loads(path: Path) -> None:
    content = read(path)
    assert content == read(path)


@pytest.mark.parametrize("path", [p for p in CONFIGS if p.parent.name == "campaigns"], ids=lambda path: path.stem)
def test_a_campaign_dumps_back_the_same_and_names_what_exists(path: Path) -> None:
    campaign = read_campaign(path)
    assert parse(Campaign, plain(campaign), "the dump") == campaign
    for recipe in (campaign.recipe, campaign.base.recipe):
        assert isinstance(read_recipe(recipe), Recipe)


def test_no_lock_file_and_no_registry_host() -> None:
    files = tracked()
    assert len(files) > 30
    locks = [str(path) for path in files if path.name in LOCKS]
    hosts = [
        str(path)
        for path in files
        if path.suffix not in {".png", ".jpg", ".npz", ".woff2", ".gif", ".ico"}
        and any(host in path.read_text(encoding="utf-8", errors="replace") for host in HOSTS)
    ]
    assert not locks, f"Lock files with addresses: {locks}"
    assert not hosts, f"Files that name a package registry: {hosts}"


def test_constraints_pin_exactly_to_the_bytes() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) > 50
    assert [line for line in lines if line.count("==") != 1 or "://" in line or "--hash=sha256:" not in line] == []


def test_everything_that_is_installed_here_is_held_to_them() -> None:
    steps = [
        line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "$(UV) pip install" in line
    ]
    assert steps
    assert [line for line in steps if "-c constraints.txt" not in line] == []


def test_an_installed_wheel_carries_every_package_and_the_configurations() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    assert set(wheel["packages"]) == {"enpire", "robot_drivers", "sim", "policies", "agent_loop", "web_ui"}
    assert wheel["force-include"] == {"configs": "enpire/_configs"}


def test_wheel_and_source_archive_carry_the_built_page_although_git_does_not() -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert "/web_ui/static/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {kind: target["artifacts"] for kind, target in targets.items()} == {
        "wheel": ["web_ui/static/**"], "sdist": ["web_ui/static/**"],
    }  # fmt: skip
