"""Whatever is sent, the server answers with a document and stays up; whoever floods it, a stop gets through."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.sync.client import connect

from tests.web_ui.conftest import ADDRESS, PASSWORD
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.accounts import Accounts
from web_ui.app import create_app
from web_ui.server import Server

ODD = st.text(max_size=30) | st.sampled_from(
    ["..", "../../etc/passwd", "%00", "'; drop table users", "9" * 400, "null"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def admin(recorded: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """An application over a copy of the recorded home, called with an admin's token."""
    home = shutil.copytree(recorded[0], tmp_path_factory.mktemp("fuzzed") / "home")
    app = create_app(home, ScriptedLab(campaign_id=recorded[1]))
    app.state.accounts.add_user("root", "admin", PASSWORD)
    secret = app.state.accounts.open_key("token", "root", "fuzz")
    with TestClient(app, base_url=ADDRESS, headers={"authorization": f"Bearer {secret}"}) as client:
        yield client


@pytest.fixture(scope="module")
def routes(admin: TestClient) -> list[tuple[str, str]]:
    """Every method and path of the API, except those that would end the caller's own token."""
    paths = admin.get("/api/v1/openapi.json").json()["paths"]
    found = [(method, path) for path, methods in paths.items() for method in methods]
    return [
        route for route in found if route not in (("delete", "/api/v1/session"), ("delete", "/api/v1/keys/{key_id}"))
    ]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_request_is_answered_with_a_mistake_of_the_server(
    admin: TestClient, routes: list[tuple[str, str]], data: st.DataObject
) -> None:
    method, path = data.draw(st.sampled_from(routes))
    while "{" in path:
        head, _, tail = path.partition("{")
        path = head + quote(data.draw(ODD), safe="") + tail.partition("}")[2]
    names: tuple[str, ...] = ("before", "limit", "round", "after", "points", "outcome", "campaign", "purpose")
    query = data.draw(st.dictionaries(st.sampled_from(names), ODD | st.integers().map(str), max_size=3))
    content = json.dumps(data.draw(VALUES)) if method in ("post", "put", "patch") else None
    answer = admin.request(
        method, path, params={str(name): value for name, value in query.items()}, content=content,
        headers={"content-type": "application/json", "Idempotency-Key": "fuzz-key-1"},
    )  # fmt: skip
    assert answer.status_code < 500, (method, path, query, content, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


def test_a_mistake_of_the_server_is_a_problem_document_too(tmp_path: Path) -> None:
    app = create_app(tmp_path, ScriptedLab(gone=True))

    def broken() -> None:
        raise ZeroDivisionError

    app.get("/api/v1/broken")(broken)
    app.router.routes.insert(0, app.router.routes.pop())
    with TestClient(app, base_url=ADDRESS, raise_server_exceptions=False) as client:
        answer = client.get("/api/v1/broken")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "GET /api/v1/broken failed (ZeroDivisionError)" in answer.json()["detail"]


def test_a_stop_gets_through_a_flood(recorded: tuple[Path, str], tmp_path: Path) -> None:
    accounts = Accounts(tmp_path / "web.db")
    accounts.add_user("ada", "viewer", PASSWORD)
    accounts.add_user("root", "admin", PASSWORD)
    bearer = {"authorization": f"Bearer {accounts.open_key('token', 'ada', 'flood')}"}
    accounts.close()
    lab = ScriptedLab(campaign_id=recorded[1])
    server = Server(tmp_path, lab)
    address = server.start()
    host, _, port = address.removeprefix("http://").partition(":")
    with ExitStack() as stack:
        stack.callback(server.stop)
        for _ in range(40):  # tabs that subscribe and never read
            line = stack.enter_context(connect(f"ws://{host}:{port}/api/v1/socket", additional_headers=bearer))
            line.send(json.dumps({"subscribe": ["fleet", "commands"]}))
        for _ in range(40):  # connections that say half a request
            half = stack.enter_context(socket.create_connection((host, int(port))))
            half.sendall(b"POST /api/v1/session HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 50\r\n\r\n{")
        done = threading.Event()
        flood = threading.Thread(target=_ask_until, args=(address, bearer, done))
        flood.start()
        stack.callback(flood.join)
        stack.callback(done.set)
        answer = httpx.post(
            f"{address}/api/v1/commands", json={"verb": "stop"}, timeout=600,
            headers={**bearer, "Idempotency-Key": "flood-key-1"},
        )  # fmt: skip
        assert answer.status_code == 202
        assert len(lab.given) == 1


def _ask_until(address: str, headers: dict[str, str], done: threading.Event) -> None:
    with httpx.Client(base_url=address, headers=headers, timeout=600) as client:
        while not done.is_set():
            client.get("/api/v1/episodes")
