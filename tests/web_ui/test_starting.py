"""Start a campaign from the page: what may be named, what is refused, and the queue."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from enpire import files
from enpire.files import configs_root
from enpire.home import Home
from enpire.plugins import listed
from enpire.requests.campaign_queue import CampaignQueue
from enpire.service.starting import first_sentence
from enpire.wire.curve_keys import enroll
from tests.web_ui.conftest import Site
from web_ui.routes.starting import AgentChoice, NewCampaign, asked_campaign

WRONG = (
    "7000", "tcp://0.0.0.0", "tcp://0.0.0.0:0", "tcp://0.0.0.0:65536", "tcp://0.0.0.0:7000/x", "tcp://lab.example:7000",
    "tcp://:::7000", "tcp://[0.0.0.0]:7000", "tcp://300.0.0.1:7000", "ipc:///tmp/fleet", "tcp://0.0.0.0:7000\n",
)  # fmt: skip


def test_an_operator_queues_and_removes_a_campaign(site: Site) -> None:
    client = site.enter("operator")
    offered = client.get("/api/v1/start").json()
    form = next(one for one in offered["templates"] if one["template"] == "pin_insertion")
    assert form["task"] in offered["tasks"]
    assert form["recipe"] in offered["recipes"]
    assert (form["by"], form["confirm_starts"], form["commands"]) == ("bound", 400, 0)
    form = {key: value for key, value in form.items() if key not in {"by", "confirm_starts", "commands"}}
    asked = {**form, "name": "night-1", "wall_s": 7200, "stations": 2, "agents": [{"name": "search", "lanes": 1}]}
    made = client.post("/api/v1/start", json=asked)
    assert made.status_code == 202, made.text
    [queued] = CampaignQueue(Home(site.home)).waiting()
    assert (queued.campaign.name, queued.by[:8]) == ("night-1", "operator")
    assert (queued.campaign.budget.wall_s, queued.campaign.stations.count) == (7200, 2)
    assert [plan.name for plan in queued.campaign.agents] == ["search"]
    [line] = client.get("/api/v1/queue").json()
    assert (line["id"], line["name"], line["why"]) == (queued.id, "night-1", "")
    twice = client.post("/api/v1/start", json=asked)
    assert twice.status_code == 400
    assert "waits already" in twice.json()["detail"]
    assert client.delete(f"/api/v1/queue/{queued.id}").status_code == 204
    assert client.get("/api/v1/queue").json() == []
    assert client.delete(f"/api/v1/queue/{queued.id}").status_code == 404


def test_every_choice_says_what_it_is_in_the_words_of_its_own_file(site: Site) -> None:
    offered = site.enter("viewer").get("/api/v1/start").json()
    about = offered["about"]
    named = {"templates": [one["template"] for one in offered["templates"]]}
    named |= {kind: offered[kind] for kind in ("tasks", "recipes", "agents")}
    for kind, names in named.items():
        assert set(names) <= {*about[kind]}, kind
        assert all(10 < len(about[kind][name]) < 400 for name in names), about[kind]
    root = configs_root()
    for folder, said in (("campaigns", about["templates"]), ("recipes", about["recipes"])):
        for name, sentence in said.items():
            text = (root / folder / f"{name}.yaml").read_text(encoding="utf-8").replace("\n# ", " ")
            assert text.startswith(f"# {sentence}"), name
    assert about["tasks"]["push_t"] == next(one.what for one in listed("tasks") if one.name == "push_t")
    assert about["agents"]["search"].startswith("A seeded agent that needs no key.")


def test_a_file_without_a_comment_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    for text, said in (("name: one\n# later", ""), ("# No. 1 of\n# many. More.\nname: one", "No."), ("#\n", "")):
        path.write_text(text, encoding="utf-8")
        assert first_sentence(path) == said


def test_a_goal_that_no_result_reaches_is_refused(site: Site) -> None:
    client = site.enter("operator")
    good = {"template": "pin_insertion", "name": "night-1"}
    answer = client.post("/api/v1/start", json={**good, "success": 0.993})
    assert answer.status_code == 400
    assert "99.3% by the exact 95 % bound cannot be reached on 400 starts" in answer.json()["detail"]
    assert "bound 99.254%" in answer.json()["detail"]
    assert client.post("/api/v1/start", json={**good, "success": 0.992}).status_code == 202


def test_a_campaign_of_real_robots_starts_where_enrolled_stations_connect(site: Site) -> None:
    client = site.enter("operator")
    assert client.get("/api/v1/start").json()["enrolled"] == []
    enroll(Home(site.home).keys, "cell-7")
    offered = client.get("/api/v1/start").json()
    assert offered["enrolled"] == ["cell-7"]
    assert {one["bind"] for one in offered["templates"]} == {""}
    asked: dict[str, object] = {"template": "pin_insertion", "name": "lab-1", "stations": 0}
    for bind, why in (
        ("", "Without simulated stations the campaign needs an address where stations connect"),
        *((wrong, f"Stations cannot connect at {wrong!r}") for wrong in WRONG),
        ("tcp://192.0.2.1:7000", "192.0.2.1 is no address of this machine"),
    ):
        answer = client.post("/api/v1/start", json={**asked, "bind": bind})
        assert answer.status_code == 400, bind
        assert answer.json()["detail"].startswith(why)
        assert "such as tcp://0.0.0.0:7000" in answer.json()["detail"]
    made = client.post("/api/v1/start", json={**asked, "bind": "tcp://127.0.0.1:7000"})
    assert made.status_code == 202, made.text
    [queued] = CampaignQueue(Home(site.home)).waiting()
    assert (queued.campaign.stations.count, queued.campaign.stations.listens) == (0, "tcp://127.0.0.1:7000")


def test_a_campaign_has_limits_of_tokens_and_money(site: Site) -> None:
    client = site.enter("operator")
    form = next(one for one in client.get("/api/v1/start").json()["templates"] if one["template"] == "pin_insertion")
    assert (form["tokens"], form["money"]) == (0, 0)
    asked: dict[str, object] = {"template": "pin_insertion", "name": "paid"}
    for wrong in ({"tokens": -1}, {"tokens": 2.5}, {"money": -0.5}):
        assert client.post("/api/v1/start", json={**asked, **wrong}).status_code == 422
    assert client.post("/api/v1/start", json={**asked, "tokens": 500000, "money": 2.5}).status_code == 202
    [queued] = CampaignQueue(Home(site.home)).waiting()
    assert (queued.campaign.budget.tokens, queued.campaign.budget.money) == (500000, 2.5)


def test_an_agent_of_the_shipped_file_keeps_its_options_and_limits(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(configs_root(), tmp_path / "configs")
    file = tmp_path / "configs" / "campaigns" / "pin_insertion.yaml"
    mine = "{name: anthropic, lanes: 2, options: {model: large, tokens: 5}, tokens: 70, money: 1.5}"
    file.write_text(file.read_text(encoding="utf-8").replace("{name: search}", f"{{name: search}}, {mine}"))
    monkeypatch.setattr(files, "CONFIGS", tmp_path / "configs")
    client = site.enter("operator")
    form = next(one for one in client.get("/api/v1/start").json()["templates"] if one["template"] == "pin_insertion")
    chosen = [{"name": "search", "lanes": 1}, {"name": "anthropic", "lanes": 2}]
    assert form["agents"] == chosen
    shipped = NewCampaign(template="pin_insertion", name="night-1", agents=[AgentChoice(**one) for one in chosen])
    [search, model] = asked_campaign(shipped).agents
    assert (search.name, search.options) == ("search", {})
    assert (model.name, model.lanes, model.options) == ("anthropic", 2, {"model": "large", "tokens": 5})
    assert (model.tokens, model.money) == (70, 1.5)
    twice = client.post(
        "/api/v1/start",
        json={"template": "pin_insertion", "name": "n", "agents": [{"name": "search"}, {"name": "search", "lanes": 2}]},
    )
    assert twice.status_code == 400
    assert "its agents name search twice" in twice.json()["detail"]
    refused = client.post(
        "/api/v1/start",
        json={"template": "pin_insertion", "name": "n", "agents": [{"name": "cli", "options": {"recipe": "/tmp/x"}}]},
    )
    assert refused.status_code == 422, "an option may name a program, so it comes from the file alone"


def test_a_name_that_is_not_offered_is_refused(site: Site) -> None:
    client = site.enter("operator")
    good = {"template": "pin_insertion", "name": "night-1"}
    for wrong, why in (
        ({"template": "../../etc/passwd"}, "no shipped campaign"),
        ({"task": "os:system"}, "no task 'os:system'"),
        ({"recipe": "/etc/passwd"}, "no recipe '/etc/passwd'"),
        ({"regimes": ["nothing"]}, "no recipe 'nothing'"),
        ({"agents": [{"name": "nobody"}]}, "no agent 'nobody'"),
    ):
        answer = client.post("/api/v1/start", json={**good, **wrong})
        assert answer.status_code == 400, wrong
        assert why in answer.json()["detail"]
    assert client.post("/api/v1/start", json={**good, "name": "a/b"}).status_code == 422
    assert client.get("/api/v1/queue").json() == []


def test_viewers_start_nothing(site: Site) -> None:
    client = site.enter("viewer")
    assert client.post("/api/v1/start", json={"template": "pin_insertion", "name": "n"}).status_code == 403
    assert client.delete("/api/v1/queue/01M84V8HQ1MG4GCE0TBWJ2Q3V8").status_code == 403
    assert client.get("/api/v1/start/costs", params={"task": "sewing"}).json() == []
