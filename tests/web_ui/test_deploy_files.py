"""The files of `deploy/` and the container files agree with what ENPIRE has: metrics, commands, settings, steps."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from enpire.campaign.campaign import read_campaign
from enpire.cli import app
from enpire.station.station_file import read_station
from tests.web_ui.conftest import Site

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SELECTOR = re.compile(r"(enpire_[a-z_]+)(?:\{([^}]*)\})?")


def queries(board: dict[str, Any]) -> Iterator[str]:
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_every_panel_shows_metrics_and_labels_that_there_are(site: Site) -> None:
    families = text_string_to_metric_families(site.enter("viewer").get("/metrics").text)
    labels: dict[str, set[str]] = {}
    for family in families:
        labels.setdefault(family.name + ("_total" if family.type == "counter" else ""), set())
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    board = json.loads((DEPLOY / "grafana.json").read_text())
    shown = {name: given for query in queries(board) for name, given in SELECTOR.findall(query)}
    assert set(shown) <= set(labels)
    assert {name for name in labels if not name.endswith("_created")} == set(shown), "the dashboard shows all of them"
    for panel in board["panels"]:
        for target in panel["targets"]:
            (name,) = {found[0] for found in SELECTOR.findall(target["expr"])}
            used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            used |= set(re.findall(r"(\w+)=~?\"", target["expr"]))
            assert not labels[name] or used <= labels[name], panel["title"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_prometheus_scrapes_where_the_metrics_are(site: Site) -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"]
    assert site.client.get(job["metrics_path"]).status_code == 401, "it is there, and asks for a token"


def test_the_containers_run_commands_that_exist_on_files_that_can_be_read() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    campaign = read_campaign(DEPLOY / "campaign.yaml")
    assert campaign.stations.count == 0
    names = set()
    for service in services.values():
        verb, file, *options = service["command"]
        said = CliRunner().invoke(app, [verb, "--help"]).output
        assert all(option in said for option in options if option.startswith("--"))
        inside = DEPLOY / Path(file).relative_to("/etc/enpire")
        if verb == "station":
            station = read_station(inside)
            names.add((station.name, station.home))
            assert (station.connect, station.task) == (campaign.stations.bind, campaign.task)
    assert len(names) == len(services) - 1
    assert all(service["stop_signal"] == "SIGINT" for service in services.values())


@pytest.fixture(scope="module")
def image() -> ModuleType:
    """`.ci/image.py`, with which CI carries out the Dockerfile."""
    found = spec_from_file_location("image", ROOT / ".ci" / "image.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_ci_runs_the_commands_of_the_dockerfile_and_installs_its_packages(image: ModuleType) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    ran = [image.commands(rest) for word, rest in image.instructions(dockerfile) if word == "RUN"]
    assert [part for _, parts in ran for part in parts] == ["make ui", "deploy/install /opt/enpire"]
    system = [part for parts, _ in ran for part in parts if not part.startswith("apt-get install ")]
    assert system == [
        "apt-get update", "rm -rf /var/lib/apt/lists/*", "apt-get update", "rm -rf /var/lib/apt/lists/*",
        "useradd --create-home enpire", "install -d -o enpire -m 700 /var/lib/enpire",
    ], "they change the system of the image"  # fmt: skip
    installed = re.search(r"for package in (.+); do", (ROOT / ".ci" / "run").read_text())
    assert installed is not None
    assert image.packages(dockerfile) - set(installed[1].split()) == {"make", "git"}, "CI has these two"
    assert "build(ROOT" in (ROOT / ".ci" / "wheel").read_text()


@pytest.mark.parametrize(
    "command",
    ['rm -rf "/opt/x"', "rm -rf '/opt/x'", "apt-get update; make ui", "apt-get update || make ui", "ls | make ui",
     "apt-get update & make ui", "rm -rf $(echo /opt/x)", "echo x >/opt/x"],
)  # fmt: skip
def test_ci_refuses_a_command_that_it_would_skip_or_run_outside_the_folder(
    command: str, image: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(f"RUN {command}\n")
    with pytest.raises(SystemExit, match="only && may join"):
        image.build(tmp_path, tmp_path / "image")


def test_options_of_apt_may_stand_anywhere_and_comments_above_instructions_only(image: ModuleType) -> None:
    assert image.packages("RUN apt-get -y install --no-install-recommends git\n") == {"git"}
    with pytest.raises(SystemExit, match="a comment inside a continued line"):
        image.instructions("RUN make ui \\\n    # why\n    && make\n")


def test_the_context_of_the_image_is_what_its_build_reads(image: ModuleType) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sent = {str(path) for path in image.context(ROOT)}
    assert {"Makefile", "pyproject.toml", "constraints.txt", ".python-version", "deploy/install"} <= sent
    kept = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    assert {name for name in kept - sent if not any(part[0] == "." for part in Path(name).parts)} == set()
    assert not [name for name in sent if {"node_modules", ".git", ".venv", ".enpire"} & set(Path(name).parts)]
    assert not [name for name in sent if name.startswith("web_ui/static/")], "the image builds its own page"


def test_the_dockerfile_is_carried_out_below_a_folder(image: ModuleType, tmp_path: Path) -> None:
    checkout, folder = tmp_path / "checkout", tmp_path / "image"
    (checkout / "node_modules").mkdir(parents=True)
    for name in ("kept", ".secret", "node_modules/gone"):
        (checkout / name).write_text(name)
    (checkout / ".dockerignore").write_text("**/.*\n**/node_modules\n")
    (checkout / "Dockerfile").write_text(
        "# A comment\nFROM base AS build\nRUN apt-get update && apt-get install -y \\\n    nothing-at-all\n"
        "WORKDIR /src\nCOPY . .\nRUN mkdir -p /opt/made && cp kept /opt/made/program\nFROM base\n"
        'COPY --from=build /opt/made /opt/made\nENV PATH=/opt/made:$PATH\nUSER one\nENTRYPOINT ["program"]\n'
    )
    variables, entry = image.build(checkout, folder)
    assert sorted(path.name for path in (folder / "src").iterdir()) == ["Dockerfile", "kept"]
    assert (folder / "opt" / "made" / "program").read_text() == "kept"
    assert (variables["PATH"].split(":")[0], entry) == (f"{folder}/opt/made", ["program"])
    (checkout / "Dockerfile").write_text("ADD . /src\n")
    with pytest.raises(SystemExit, match="an instruction that CI does not run: ADD . /src"):
        image.build(checkout, folder)
    (checkout / "Dockerfile").write_text("RUN false && true\n")
    with pytest.raises(SystemExit, match="ended with 1"):
        image.build(checkout, folder)
