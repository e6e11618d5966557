"""Campaigns, episodes, their time axis: read from a real ledger and real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from enpire.cli import app
from enpire.store.pictures import NAME, PicturesWriter, opened
from enpire.types import OUTCOME_KINDS
from tests.web_ui.conftest import ADDRESS, PASSWORD, Site
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.app import create_app


def test_a_campaign_with_its_rounds_gates_and_versions(site: Site) -> None:
    client = site.enter("viewer")
    (line,) = client.get("/api/v1/campaigns").json()
    assert line["id"] == site.campaign_id
    view = client.get(f"/api/v1/campaigns/{site.campaign_id}").json()
    assert [entry["gate"]["decision"] for entry in view["rounds"][1:]] == ["promote", "reject"]
    assert view["champion"]["id"] == "b" * 64
    ends = view["episodes"]
    assert sum(ends[kind] for kind in (*OUTCOME_KINDS, "open")) == ends["total"] == 264
    versions = client.get(f"/api/v1/campaigns/{site.campaign_id}/policies").json()
    assert [version["parent"] for version in versions] == ["", "a" * 64, "b" * 64]


def test_the_report_of_a_campaign_is_written_when_it_is_read(site: Site) -> None:
    client = site.enter("viewer")
    address = f"/api/v1/campaigns/{site.campaign_id}/report"
    page = client.get(address)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src" not in page.headers["content-security-policy"]
    assert "What raised success" in page.text
    assert client.get("/api/v1/campaigns/01JNOTHING/report").status_code == 404


def test_the_idea_tree_with_its_clock_and_the_climb(site: Site) -> None:
    view = site.enter("viewer").get(f"/api/v1/campaigns/{site.campaign_id}").json()
    first, second = view["ideas"]
    assert (first["depth"], second["depth"], second["parents"]) == (0, 1, ["idea-1"])
    assert second["edges"] == [["refutes", "idea-1"]]
    assert 0 < first["proposed_s"] <= second["proposed_s"]
    assert [(test["phase"], test["decision"], test["delta"]) for test in first["experiments"]] == [
        ("decided", "keep", 0.35)
    ]
    assert [(test["phase"], test["delta"]) for test in second["experiments"]] == [("queued", None)]
    assert [gate["decision"] for gate in view["gates"]] == ["promote", "reject"]
    assert [deployed["id"][0] for deployed in view["deployments"]] == ["a", "b"]
    assert view["deployments"][0]["at_s"] < view["gates"][0]["decided_s"] <= view["deployments"][1]["at_s"]


def test_what_hangs_on_a_verdict_is_said_before_a_person_judges(site: Site) -> None:
    client = site.enter("viewer")

    def asked(purpose: str, outcome: str) -> Any:
        wanted = {"purpose": purpose, "outcome": "success", "limit": 1}
        (row,) = client.get("/api/v1/episodes", params=wanted).json()["rows"]
        return client.get(f"/api/v1/episodes/{row['order_id']}/stake", params={"outcome": outcome})

    assert asked("collect", "failure").json()["decision"] == ""
    base = asked("base", "failure").json()
    assert base["decision"].startswith("Measurement of the base: 38.3%")
    assert "36.7%" in base["would"]
    assert base["changes"] is False
    gate = asked("gate", "failure").json()
    assert gate["decision"] == "Gate of round 2: reject (worse)"
    assert gate["would"].startswith("It would be")
    assert asked("gate", "aborted").status_code == 422


def test_pages_hold_every_episode_once_newest_first(site: Site) -> None:
    client = site.enter("viewer")
    seen: list[str] = []
    before = ""
    while True:
        page = client.get("/api/v1/episodes", params={"limit": 100, **({"before": before} if before else {})}).json()
        seen += [row["order_id"] for row in page["rows"]]
        if page["next"] is None:
            break
        before = page["next"]
    assert len(seen) == len(set(seen)) == 264
    assert seen == sorted(seen, reverse=True)


def test_filters_of_a_page(site: Site) -> None:
    client = site.enter("viewer")
    wanted = {"outcome": "failure", "purpose": "collect", "round": 2, "station": "sim-1"}
    rows = client.get("/api/v1/episodes", params=wanted).json()["rows"]
    assert rows
    assert {(row["outcome"], row["purpose"], row["round"], row["station"]) for row in rows} == {
        ("failure", "collect", 2, "sim-1")
    }


@pytest.mark.parametrize(("query", "status"), [
    ({"before": "01AAAAAAAAAAAAAAAAAAAAAAAA"}, 400), ({"outcome": "great"}, 400), ({"purpose": "fun"}, 400),
    ({"limit": 0}, 422), ({"limit": 5000}, 422), ({"round": "x"}, 422), ({"colour": "red"}, 422),
])  # fmt: skip
def test_a_query_that_does_not_fit_is_refused(site: Site, query: dict[str, object], status: int) -> None:
    answer = site.enter("viewer").get("/api/v1/episodes", params=query)  # pyright: ignore[reportArgumentType]
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_episode_on_its_time_axis(site: Site) -> None:
    client = site.enter("viewer")
    (row, *_) = client.get("/api/v1/episodes", params={"outcome": "success"}).json()["rows"]
    view = client.get(f"/api/v1/episodes/{row['order_id']}").json()
    assert view["episode"] == row
    assert str(site.home) not in str(view)
    series = client.get(f"/api/v1/episodes/{row['order_id']}/series").json()
    assert series["rate_hz"] == 20.0
    assert series["frames"] == 60
    assert [curve["name"] for curve in series["state"]] == ["x", "y", "z"]
    assert [segment["source"] for segment in series["segments"]] == ["policy", "human", "policy"]
    assert [curve["name"] for curve in series["figures"]] == ["p_v", "V_e", "g"]
    assert series["decisions"] == list(range(0, 60, 5))
    p_v = series["figures"][0]["values"]
    assert p_v[0] == p_v[4] == pytest.approx(0.3)
    assert p_v[-1] == pytest.approx(0.97)
    few = client.get(f"/api/v1/episodes/{row['order_id']}/series", params={"points": 10}).json()
    assert len(few["tick"]) == len(few["state"][0]["values"]) == 10


def test_pictures_are_served_by_name_and_nothing_else_is(site: Site) -> None:
    client = site.enter("viewer")
    (row, *_) = client.get("/api/v1/episodes").json()["rows"]
    folder = site.home / "episodes" / site.campaign_id / row["order_id"]
    address = f"/api/v1/episodes/{row['order_id']}"
    assert client.get(f"{address}/pictures/front_00000.jpg").status_code == 404
    writer = PicturesWriter(folder / NAME)
    writer.add("front", 0, np.full((4, 4, 3), 9, np.uint8))
    writer.add("front", 1, np.full((4, 4, 3), 8, np.uint8), "png")
    writer.finish()
    assert client.get(address).json()["pictures"] == ["front_00000.jpg", "front_00001.png"]
    for tick, kind in enumerate(("jpeg", "png")):
        answer = client.get(f"{address}/pictures/front_{tick:05d}.{kind.replace('e', '')}")
        assert opened(answer.content)[0, 0].tolist() == [9 - tick] * 3
        assert answer.headers["content-type"] == f"image/{kind}"
    assert client.get(f"{address}/pictures/arrays.npz").status_code == 404
    assert client.get(f"{address}/pictures/..%2farrays.npz").status_code == 404
    (folder / NAME).write_bytes(b"PK damaged")
    assert client.get(address).status_code == 400


def test_a_damaged_arrays_file_is_a_problem_document(site: Site) -> None:
    client = site.enter("viewer")
    (row, *_) = client.get("/api/v1/episodes").json()["rows"]
    (site.home / "episodes" / site.campaign_id / row["order_id"] / "arrays.npz").write_bytes(b"PK damaged")
    answer = client.get(f"/api/v1/episodes/{row['order_id']}/series")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", [
    "/api/v1/campaigns/none", "/api/v1/campaigns/none/policies", "/api/v1/episodes/none",
    "/api/v1/episodes/none/series",
    "/api/v1/stations/none", "/api/v1/stations/sim-1/cameras/none", "/api/v1/episodes/none/pictures/a.jpg",
])  # fmt: skip
def test_unknown_names_are_not_found(site: Site, path: str) -> None:
    answer = site.enter("viewer").get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_events_in_order_and_in_pages(site: Site) -> None:
    client = site.enter("viewer")
    first = client.get("/api/v1/events", params={"limit": 5}).json()
    second = client.get("/api/v1/events", params={"limit": 5, "after": first["next"]}).json()
    assert [row["seq"] for row in first["rows"] + second["rows"]] == list(range(1, 11))
    assert first["rows"][0]["kind"] == "campaign started"


def test_the_head_of_the_ledger_is_the_one_that_the_command_line_prints(site: Site) -> None:
    printed = CliRunner().invoke(app, ["ledger", "head", "--home", str(site.home)]).stdout.strip()
    events = int(printed.partition(":")[0])
    assert site.enter("viewer").get("/api/v1/ledger").json() == {"head": printed, "events": events}


def test_an_empty_home_is_shown_as_empty(tmp_path: Path) -> None:
    empty = create_app(tmp_path, ScriptedLab(gone=True))
    empty.state.accounts.add_user("root", "admin", PASSWORD)
    with TestClient(empty, base_url=ADDRESS, headers={"origin": ADDRESS}) as client:
        client.post("/api/v1/session", json={"name": "root", "password": PASSWORD})
        assert client.get("/api/v1/campaigns").json() == []
        assert client.get("/api/v1/episodes").json() == {"rows": [], "next": None}
        assert client.get("/api/v1/events").json() == {"rows": [], "next": 0}
        assert client.get("/api/v1/ledger").json() == {"head": "0:", "events": 0}
        assert client.get("/api/v1/campaigns/none").status_code in (404, 503)


@pytest.mark.parametrize("spoilt", ["{", "[" * 9000, '{"p_v": 3}', "FILL1" + "0" * 400, 'FILL"x"'])
def test_spoilt_figures_of_an_episode_are_told_in_a_sentence(site: Site, spoilt: str) -> None:
    client = site.enter("viewer")
    files = {path.parent.name: path for path in (site.home / "episodes").rglob("figures.json")}
    rows = client.get("/api/v1/episodes").json()["rows"]
    order_id = next(row["order_id"] for row in rows if row["order_id"] in files)
    decided = len(json.loads(files[order_id].read_text())["p_v"])
    row = f'{{"p_v": [{", ".join([spoilt.removeprefix("FILL")] * decided)}]}}'
    files[order_id].write_text(row if spoilt.startswith("FILL") else spoilt)
    answer = client.get(f"/api/v1/episodes/{order_id}/series")
    assert answer.status_code == 400
    assert "figures.json" in answer.json()["detail"]


def test_episodes_are_filtered_by_what_only_their_recordings_know(site: Site) -> None:
    client = site.enter("viewer")

    def rounds(**filters: object) -> set[int]:
        wanted = {"purpose": "collect", "limit": 200, **filters}
        found = client.get("/api/v1/episodes", params=wanted)  # pyright: ignore[reportArgumentType]
        return {row["round"] for row in found.json()["rows"]}

    assert rounds() == {1, 2}
    assert rounds(interventions="with") == {2}, "round 1 has no recordings"
    assert rounds(interventions="without") == set()
    assert rounds(p_v="middle") == {2}
    assert rounds(p_v="middle", interventions="with", round=1) == set()
    assert rounds(p_v="low") == rounds(p_v="high") == set()
    assert client.get("/api/v1/episodes", params={"p_v": "odd"}).status_code == 422
