"""The socket: a snapshot, then deltas that add up; refusals; pictures."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from enpire.store.ledger import SqliteLedger
from enpire.wire.live_images import Preview
from tests.enpire.code_candidates.authored_task import proposed, scored
from tests.fakes.sample_events import append
from tests.web_ui.conftest import Site
from web_ui.documents import delta
from web_ui.routes.socket import MOST_TOPICS

SOCKET = "ws://127.0.0.1:8421/api/v1/socket"
KINDS = ("command requested", "command accepted", "command effective")


def patched(old: Any, patch: Any) -> Any:
    """A merge patch (RFC 7396), as the page applies it."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = patched(merged.get(name), value)
    return merged


def next_of(socket: WebSocketTestSession, topic: str) -> dict[str, Any]:
    """The next message of a topic; beats and others are passed over."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        message = json.loads(socket.receive_text())
        if message.get("topic") == topic:
            return message
    raise AssertionError(f"nothing came for {topic}")


def test_deltas_add_up_to_what_the_fleet_is(site: Site) -> None:
    client = site.enter("viewer")
    with client.websocket_connect(SOCKET) as socket:
        socket.send_json({"subscribe": ["fleet"]})
        message = next_of(socket, "fleet")
        assert message["kind"] == "snapshot"
        assert message["seq"] == 1
        document = message["body"]
        assert set(document["stations"]) == {"sim-1", "sim-2", "sim-3", "sim-4"}
        client.post(
            "/api/v1/commands", json={"verb": "stop", "target": "sim-3"}, headers={"Idempotency-Key": "key-00001"}
        )
        for seq in range(2, 400):
            message = next_of(socket, "fleet")
            assert (message["kind"], message["seq"]) == ("delta", seq)
            document = patched(document, message["body"])
            if document["stations"]["sim-3"]["stopped"]:
                break
        assert document["stations"]["sim-3"]["phase"] == "stopped"
        assert document["stations"]["sim-1"]["stopped"] is False


def test_a_command_is_watched_until_it_is_effective(site: Site) -> None:
    client = site.enter("operator")
    with client.websocket_connect(SOCKET) as socket:
        socket.send_json({"subscribe": ["commands"]})
        document = next_of(socket, "commands")["body"]
        answer = client.post(
            "/api/v1/commands", json={"verb": "pause", "target": ""}, headers={"Idempotency-Key": "key-00002"}
        )
        command_id, states = answer.json()["id"], []
        while "effective" not in states:
            document = patched(document, next_of(socket, "commands")["body"])
            states.append(document[command_id]["state"])
        assert states[0] == "requested"
        assert document[command_id]["took_s"] > 0


def test_tasks_of_agents_come_when_they_change(site: Site) -> None:
    client = site.enter("admin")
    with client.websocket_connect(SOCKET) as socket:
        socket.send_json({"subscribe": ["tasks"]})
        document = next_of(socket, "tasks")["body"]
        assert document == {"problem": "", "tasks": {}}
        made = proposed(site.home)
        document = patched(document, next_of(socket, "tasks")["body"])
        assert document["tasks"][made.task_id]["refused"].startswith("These files have no score")
        scored(site.home, made)
        document = patched(document, next_of(socket, "tasks")["body"])
        assert (document["tasks"][made.task_id]["refused"], document["tasks"][made.task_id]["approved"]) == ("", "")
        seen = document["tasks"][made.task_id]["digest"]
        client.post(f"/api/v1/tasks/authored/{made.task_id}/approve", json={"seen": seen, "reason": "It is a point."})
        document = patched(document, next_of(socket, "tasks")["body"])
        assert document["tasks"][made.task_id]["approved"] == made.digest


def test_a_command_from_a_terminal_is_shown_with_who_gave_it(site: Site) -> None:
    said = {"command_id": "C7", "verb": "pause campaign", "station": "", "by": "root", "reason": "the pins are used up"}
    ledger = SqliteLedger(site.home / "ledger.db")
    append(ledger, [(kind, {"campaign_id": site.campaign_id, **said}) for kind in KINDS])
    ledger.close()
    with site.enter("viewer").websocket_connect(SOCKET) as socket:
        socket.send_json({"subscribe": ["commands"]})
        document = next_of(socket, "commands")["body"]
        while "C7" not in document:
            document = patched(document, next_of(socket, "commands")["body"])
        told = document["C7"]
        assert (told["by"], told["verb"], told["reason"]) == ("root", "pause campaign", "the pins are used up")
        assert (told["state"], "took_s" in told) == ("effective", False)


def test_a_campaign_is_sent_when_it_is_watched(site: Site) -> None:
    with site.enter("viewer").websocket_connect(SOCKET) as socket:
        socket.send_json({"subscribe": [f"campaign/{site.campaign_id}", "campaign/none"]})
        assert next_of(socket, f"campaign/{site.campaign_id}")["body"]["id"] == site.campaign_id
        assert "no campaign" in next_of(socket, "campaign/none")["body"]["problem"]


def test_a_silent_lab_is_told_apart_from_a_silent_server(site: Site) -> None:
    with site.enter("viewer").websocket_connect(SOCKET) as socket:
        message = json.loads(socket.receive_text())
        assert message["kind"] == "beat"
        assert abs(message["at_ms"] / 1000 - time.time()) < 60


def test_a_lab_that_hangs_is_told_although_the_server_lives(site: Site) -> None:
    site.lab.frozen = site.lab.snapshot()
    with site.enter("viewer").websocket_connect(SOCKET) as socket:
        ages = [0.0]
        while ages[-1] < 1.5:
            message = json.loads(socket.receive_text())
            ages.append(message.get("lab_s", ages[-1]))
        assert ages == sorted(ages)


@pytest.mark.parametrize("said", ["{", "[]", "{}", '{"subscribe": "fleet"}', '{"subscribe": ["secrets"]}', '{"x": []}'])
def test_what_is_not_understood_gets_a_sentence_and_the_line_stays(site: Site, said: str) -> None:
    with site.enter("viewer").websocket_connect(SOCKET) as socket:
        socket.send_text(said)
        message = json.loads(socket.receive_text())
        while message["kind"] == "beat":
            message = json.loads(socket.receive_text())
        assert message["kind"] == "problem"
        socket.send_json({"subscribe": ["fleet"]})
        assert next_of(socket, "fleet")["kind"] == "snapshot"


def test_pictures_come_as_binary_frames(site: Site) -> None:
    site.lab.pictures["sim-1", "front"] = Preview(jpeg=b"\xff\xd8 picture")
    with site.enter("viewer").websocket_connect(SOCKET) as socket:
        socket.send_json({"subscribe": ["camera/sim-1/front"]})
        data = None
        while not data:
            data = socket.receive().get("bytes")
        size = int.from_bytes(data[:2], "big")
        head = json.loads(data[2 : 2 + size])
        assert (head["topic"], head["age_ms"] < 60_000) == ("camera/sim-1/front", True)
        assert data[2 + size :] == b"\xff\xd8 picture"
        assert client_picture(site).content == b"\xff\xd8 picture"


def test_an_old_picture_comes_with_its_age(site: Site) -> None:
    an_hour_ago_ns = time.time_ns() - 3600 * 10**9
    site.lab.pictures["sim-1", "front"] = Preview(jpeg=b"\xff\xd8 picture", came_ns=an_hour_ago_ns)
    with site.enter("viewer").websocket_connect(SOCKET) as socket:
        socket.send_json({"subscribe": ["camera/sim-1/front"]})
        data = None
        while not data:
            data = socket.receive().get("bytes")
        head = json.loads(data[2 : 2 + int.from_bytes(data[:2], "big")])
        assert head["age_ms"] >= 3_600_000
    assert int(client_picture(site).headers["age"]) >= 3600


def test_a_camera_without_pictures_says_why_once(site: Site) -> None:
    site.lab.pictures["sim-1", "front"] = Preview(why="No GL library is installed.")
    with site.enter("viewer").websocket_connect(SOCKET) as socket:
        socket.send_json({"subscribe": ["camera/sim-1/front"]})
        assert next_of(socket, "camera/sim-1/front")["body"] == {"why": "No GL library is installed."}
        answer = client_picture(site)
        assert (answer.status_code, answer.json()["detail"]) == (404, "No GL library is installed.")
        beats = [json.loads(socket.receive_text())["kind"] for _ in range(2)]
        assert beats == ["beat", "beat"]


def test_a_topic_too_many_is_refused_by_name_and_had_once_another_is_left(site: Site) -> None:
    site.lab.pictures["sim-1", "front"] = Preview(why="The cable is out.")
    many = [f"camera/sim-9/{number}" for number in range(MOST_TOPICS)]
    with site.enter("viewer").websocket_connect(SOCKET) as socket:
        socket.send_json({"subscribe": [*many, "camera/sim-1/front"]})
        message = json.loads(socket.receive_text())
        while message["kind"] != "problem":
            message = json.loads(socket.receive_text())
        assert message["topics"] == ["camera/sim-1/front"]
        assert f"At most {MOST_TOPICS} topics" in message["detail"]
        socket.send_json({"unsubscribe": many[:1], "subscribe": ["camera/sim-1/front"]})
        assert next_of(socket, "camera/sim-1/front")["body"] == {"why": "The cable is out."}


def client_picture(site: Site) -> Any:
    return site.client.get("/api/v1/stations/sim-1/cameras/front")


def test_nobody_listens_without_a_session_or_from_another_origin(site: Site) -> None:
    with pytest.raises(WebSocketDisconnect) as refused, site.client.websocket_connect(SOCKET) as socket:
        socket.receive_text()
    assert refused.value.code == 4401
    client = site.enter("admin")
    with (
        pytest.raises(WebSocketDisconnect) as foreign,
        client.websocket_connect(SOCKET, headers={"origin": "http://evil.example"}) as socket,
    ):
        socket.receive_text()
    assert foreign.value.code == 4403


def test_a_revoked_session_loses_its_line(site: Site) -> None:
    client = site.enter("viewer")
    with client.websocket_connect(SOCKET) as socket:
        socket.receive_text()
        site.accounts.revoke(site.accounts.keys("viewer-0")[0].id)
        with pytest.raises(WebSocketDisconnect) as ended:  # noqa: PT012
            while True:
                socket.receive_text()
        assert ended.value.code == 4401


plain_values = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=2), plain_values, max_size=4)


@given(old=objects, new=objects)
def test_a_delta_turns_any_document_into_any_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert patched(old, delta(old, new)) == new
