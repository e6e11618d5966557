"""Texts that no honest client sends, to every route: the server answers each with a refusal, never with a mistake."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.web_ui.conftest import ADDRESS, PASSWORD
from tests.web_ui.foreign_texts import BODIES, HEADERS, QUERIES, SEGMENTS
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.app import create_app


@pytest.fixture(scope="module")
def admin(recorded: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = shutil.copytree(recorded[0], tmp_path_factory.mktemp("foreign") / "home")
    app = create_app(home, ScriptedLab(campaign_id=recorded[1]))
    app.state.accounts.add_user("root", "admin", PASSWORD)
    secret = app.state.accounts.open_key("token", "root", "foreign")
    headers = {"authorization": f"Bearer {secret}", "content-type": "application/json", "Idempotency-Key": "foreign-1"}
    with TestClient(app, base_url=ADDRESS, headers=headers, raise_server_exceptions=False) as client:
        yield client


def routes(client: TestClient) -> list[tuple[str, str]]:
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    found = [(method, path) for path, methods in paths.items() for method in methods]
    kept = [route for route in found if route != ("delete", "/api/v1/session")]
    return [*kept, ("get", "/"), ("get", "/assets/{name}"), ("get", "/{name}"), ("get", "/api/{name}")]


def test_every_route_refuses_every_text_as_part_of_its_path(admin: TestClient) -> None:
    with_names = [(method, path) for method, path in routes(admin) if "{" in path]
    assert len(with_names) > 8
    mistakes: list[object] = []
    for method, path in with_names:
        for segment in SEGMENTS:
            parts = [segment if part.startswith("{") else part for part in path.split("/")]
            answer = admin.request(method, "/".join(parts), content=b"{}")
            if answer.status_code >= 500:
                mistakes.append((method, path, segment[:40], answer.text))
            if answer.status_code >= 400 and path.startswith("/api/v1"):
                assert answer.headers["content-type"] == "application/problem+json", (path, segment[:40])
    assert not mistakes


def test_every_route_refuses_every_body_and_query(admin: TestClient) -> None:
    for method, path in routes(admin):
        plain = path.replace("{", "").replace("}", "")
        for body in BODIES if method != "get" else ():
            answer = admin.request(method, plain, content=body)
            assert answer.status_code < 500, (method, path, body[:40], answer.text)
        for query in QUERIES:
            answer = admin.request(method, plain, params=query, content=b"{}")
            assert answer.status_code < 500, (method, path, query, answer.text)


def test_every_header_is_refused_or_ignored(admin: TestClient) -> None:
    mistakes: list[object] = []
    for header in HEADERS:
        for method, path in (("get", "/api/v1/campaigns"), ("post", "/api/v1/session"), ("post", "/api/v1/commands")):
            sent = {name: value.encode("latin-1") for name, value in header.items()}
            answer = admin.request(method, path, headers=sent, content=b"{}")  # pyright: ignore[reportArgumentType]
            if answer.status_code >= 500:
                mistakes.append((method, path, str(header)[:80], answer.text))
    assert not mistakes
