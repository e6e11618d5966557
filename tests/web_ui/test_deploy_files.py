"""The files of `deploy/` and the container files agree with what ENPIRE has: metrics, commands, settings, steps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def test_docker_and_ci_install_by_the_same_steps() -> None:
    assert "deploy/install /opt/enpire" in (ROOT / "Dockerfile").read_text()
    assert 'ROOT / "deploy" / "install"' in (ROOT / ".ci" / "wheel").read_text()
    copied = (ROOT / ".dockerignore").read_text().splitlines()
    assert "!.python-version" in copied
