"""Start a campaign from the page: what may be named, what is refused, and the queue."""

from __future__ import annotations

from enpire.home import Home
from enpire.requests.campaign_queue import CampaignQueue
from tests.web_ui.conftest import Site


def test_an_operator_queues_and_removes_a_campaign(site: Site) -> None:
    client = site.enter("operator")
    offered = client.get("/api/v1/start").json()
    form = next(one for one in offered["templates"] if one["template"] == "pin_insertion")
    assert form["task"] in offered["tasks"]
    assert form["recipe"] in offered["recipes"]
    assert offered["about"]["sft"].startswith("Supervised fine-tuning (SFT)")
    assert {*offered["recipes"], *(one["template"] for one in offered["templates"])} == {*offered["about"]}
    assert all(10 < len(sentence) < 400 for sentence in offered["about"].values()), offered["about"]
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
