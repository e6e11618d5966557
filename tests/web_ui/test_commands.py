"""Commands: one key is one command, roles, and the way to effect."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from enpire.home import open_home
from enpire.monitor.live_lab import LiveLab
from enpire.queries.campaigns import open_records, unchecked
from tests.fakes.sample_campaign import CAMPAIGN, record_campaign
from tests.web_ui.conftest import ADDRESS, PASSWORD, Site
from web_ui.app import create_app


def key(name: str) -> dict[str, str]:
    """The header of a key."""
    return {"Idempotency-Key": f"{name:0>8}"}


def until_settled(client: TestClient, command_id: str) -> dict[str, object]:
    """The command once it is effective or refused."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        found = client.get(f"/api/v1/commands/{command_id}").json()
        if found["state"] in ("effective", "refused"):
            return found
        time.sleep(0.02)
    raise AssertionError("the command never settled")


def test_a_stop_is_accepted_then_effective_and_the_station_says_so(site: Site) -> None:
    client = site.enter("operator")
    answer = client.post("/api/v1/commands", json={"verb": "stop", "target": "sim-2"}, headers=key("a"))
    assert answer.status_code == 202
    assert answer.json()["state"] == "requested"
    settled = until_settled(client, answer.json()["id"])
    assert settled["took_s"] is not None
    assert client.get("/api/v1/stations/sim-2").json()["phase"] == "stopped"
    assert client.get("/api/v1/stations/sim-1").json()["stopped"] is False


def test_the_same_key_is_one_command_however_often_and_from_where(site: Site) -> None:
    client = site.enter("operator")
    body = {"verb": "pause", "target": "sim-1"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post("/api/v1/commands", json=body, headers=key("b")), range(40)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(site.lab.given) == 1


def test_a_resume_says_what_its_user_had_seen(site: Site) -> None:
    client = site.enter("operator")
    shown = client.get("/api/v1/fleet").json()["campaign"]["newest_event"]
    for number, body in enumerate(({"seen": 4127}, {"seen": shown}, {})):
        answer = client.post("/api/v1/commands", json={"verb": "resume", **body}, headers=key(f"seen{number}"))
        assert answer.status_code == 202, answer.text
    assert site.lab.seen == [4127, shown, None]
    again = client.post("/api/v1/commands", json={"verb": "resume", "seen": 9}, headers=key("seen0"))
    assert (again.status_code, len(site.lab.seen)) == (202, 3), "a repeated request is the same command"
    for wrong in (-1, 2**63, "many", 1.5):
        body = {"verb": "resume", "seen": wrong}
        assert client.post("/api/v1/commands", json=body, headers=key("seen4")).status_code == 422


def test_a_key_that_was_used_for_something_else_is_refused(site: Site) -> None:
    client = site.enter("operator")
    client.post("/api/v1/commands", json={"verb": "pause", "target": "sim-1"}, headers=key("c"))
    answer = client.post("/api/v1/commands", json={"verb": "resume", "target": "sim-1"}, headers=key("c"))
    assert answer.status_code == 409
    assert len(site.lab.given) == 1


@pytest.mark.parametrize(("role", "verb", "status"), [
    ("viewer", "stop", 202), ("viewer", "pause", 403), ("viewer", "resume", 403),
    ("operator", "pause", 202), ("operator", "resume", 202),
    ("viewer", "end campaign", 403), ("operator", "pause campaign", 202), ("admin", "resume", 202),
])  # fmt: skip
def test_everybody_may_stop_and_operators_may_go_on(site: Site, role: str, verb: str, status: int) -> None:
    client = site.enter(role)  # pyright: ignore[reportArgumentType]
    answer = client.post("/api/v1/commands", json={"verb": verb, "target": ""}, headers=key("d"))
    assert answer.status_code == status
    assert len(site.lab.given) == (status == 202)


@pytest.mark.parametrize(("body", "headers", "status"), [
    ({"verb": "stop", "target": "nowhere"}, key("e"), 404),
    ({"verb": "rollback"}, key("e"), 400), ({"verb": "rollback", "reason": " "}, key("e"), 400),
    ({"verb": "promote", "reason": "it is gentler"}, key("e"), 400), ({"verb": "judge success"}, key("e"), 400),
    ({"verb": "explode", "target": ""}, key("e"), 422),
    ({"verb": "promote", "target": ".", "reason": "it is gentler"}, key("e"), 422),
    ({"verb": "promote", "target": "G" * 64, "reason": "it is gentler"}, key("e"), 422),
    ({"verb": "judge failure", "target": "../.."}, key("e"), 422),
    ({"verb": "end campaign", "target": "sim-1"}, key("e"), 400),
    ({"verb": "stop", "target": "", "force": True}, key("e"), 422),
    ({"verb": "stop", "target": ""}, {}, 422),
    ({"verb": "stop", "target": ""}, {"Idempotency-Key": "short"}, 400),
])  # fmt: skip
def test_what_does_not_fit_is_refused(
    site: Site, body: dict[str, object], headers: dict[str, str], status: int
) -> None:
    answer = site.enter("admin").post("/api/v1/commands", json=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert site.lab.given == {}


def test_who_overrules_the_gate_says_why_and_the_page_shows_it(site: Site) -> None:
    client = site.enter("operator")
    body = {"verb": "promote", "target": "a" * 64, "reason": " it is gentler "}
    answer = client.post("/api/v1/commands", json=body, headers=key("h"))
    assert answer.status_code == 202
    assert {name: answer.json()[name] for name in body} == {**body, "reason": "it is gentler"}


def test_a_command_that_the_lab_forgot_is_refused_and_the_page_goes_on(site: Site) -> None:
    client = site.enter("operator")
    site.lab.effective_s = 60
    answer = client.post("/api/v1/commands", json={"verb": "stop", "target": ""}, headers=key("g"))
    site.lab.given.clear()
    settled = until_settled(client, answer.json()["id"])
    assert settled["state"] == "refused"
    assert "There is no command" in str(settled["why"])
    assert client.get("/healthz").json()["status"] == "ok"


def test_a_refused_command_says_why(site: Site) -> None:
    client = site.enter("operator")
    site.lab.refusals["pause campaign"] = "the campaign is over"
    answer = client.post("/api/v1/commands", json={"verb": "pause campaign", "target": ""}, headers=key("h"))
    settled = until_settled(client, answer.json()["id"])
    assert (settled["state"], settled["why"]) == ("refused", "the campaign is over")


def test_an_unknown_command_is_not_found(site: Site) -> None:
    assert site.enter("viewer").get("/api/v1/commands/none").status_code == 404


def test_without_a_lab_a_command_says_so(records_only: TestClient) -> None:
    answer = records_only.post("/api/v1/commands", json={"verb": "stop", "target": ""}, headers=key("f"))
    assert answer.status_code == 503
    assert "No campaign runs in this home" in answer.json()["detail"]
    assert records_only.get("/api/v1/fleet").json()["connected"] is False


def test_an_episode_is_judged_when_its_campaign_is_over(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    live = LiveLab(open_home(tmp_path))
    live.update(None)
    app = create_app(tmp_path, live)
    app.state.accounts.add_user("root", "admin", PASSWORD)
    with open_records(tmp_path) as records:
        chosen = unchecked(records, CAMPAIGN, 1)[0].order_id
    with TestClient(app, base_url=ADDRESS, headers={"origin": ADDRESS}) as client:
        client.post("/api/v1/session", json={"name": "root", "password": PASSWORD})
        body = {"verb": "judge failure", "target": chosen}
        answers = [client.post("/api/v1/commands", json=body, headers=key("j")) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [202, 202]
        assert until_settled(client, answers[0].json()["id"])["state"] == "effective"
        unknown = {"verb": "judge failure", "target": "01JD3Y6Z8Q4M0C5T9V2K7B1XNA"}
        answer = client.post("/api/v1/commands", json=unknown, headers=key("k"))
        assert "no episode of this home" in answer.json()["detail"]
        with open_records(tmp_path) as records:
            assert records.reading.labels(CAMPAIGN) == [("success", "failure")]
            (said,) = records.ledger.events(kinds=("person judged",))
            assert said.body["by"] == "root"
        undo = {"verb": "judge undo", "target": chosen}
        answer = client.post("/api/v1/commands", json=undo, headers=key("l"))
        assert until_settled(client, answer.json()["id"])["state"] == "effective"
        assert "no label to withdraw" in client.post("/api/v1/commands", json=undo, headers=key("m")).json()["detail"]
    with open_records(tmp_path) as records:
        assert records.reading.labels(CAMPAIGN) == []
        assert records.ledger.examine(lambda done, total: None).orders, "the orders equal their events"
