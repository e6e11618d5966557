"""Texts that no honest client sends, to every route: the server answers each with a refusal, never with a mistake."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.web_ui.conftest import ADDRESS, PASSWORD
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.app import create_app

DIGITS = "9" * 5000
SEGMENTS = (
    "%00", "a%00b", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "x" * 30_000, "%ff%fe", "%ed%a0%80", DIGITS, "%0d%0aset-cookie",
    "{0.__class__}", "-1", "..", "%25s%25n", "a" * 255 + ".jpg", "top_99999.jpg", "top_\u0663.jpg",
)  # fmt: skip
BODIES: tuple[bytes, ...] = (
    b"[" * 100_000, b'{"a":' * 40_000, b'{"verb": ' + DIGITS.encode() + b"}", b"\xff\xfe", b"\0", b'"\\ud800"', b"",
    b"{}", b'{"verb": "\\u0000", "target": "\\u0000", "name": "\\u0000", "password": "\\u0000", "role": "\\u0000"}',
    b'{"verb": "stop", "target": "\\ud800", "name": "\\ud800", "password": "\\ud800", "role": "admin"}',
    b'{"verb": 1e400, "name": NaN}', b"null", json.dumps({"name": "x" * 200_000}).encode(), b'{"verb": "stop"}x',
)  # fmt: skip
QUERIES = (
    {"limit": DIGITS}, {"after": DIGITS}, {"before": "\0"}, {"round": "1e400"}, {"campaign": "\0"},
    {"points": "-" + DIGITS}, {"station": "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")},
    {"policy": "%"}, {"outcome": "\0"},
)  # fmt: skip
HEADERS = (
    {"content-length": DIGITS}, {"content-length": "\u00b2"}, {"content-length": "-1"}, {"origin": "http://["},
    {"origin": "http://127.0.0.1:" + DIGITS}, {"host": "["}, {"host": "127.0.0.1:" + DIGITS}, {"host": "\u00b2"},
    {"authorization": "Bearer " + "x" * 50_000}, {"authorization": "Bearer \u00ff\u0000"},
    {"authorization": "Basic \u00ff"},
    {"cookie": "enpire=\u00ff; ;;=;" * 1000}, {"idempotency-key": "x" * 50_000}, {"content-type": "application/\u00ff"},
    {"x-forwarded-for": "[" * 5000}, {"range": f"bytes={DIGITS}-"}, {"accept-encoding": ";q=" + DIGITS},
)  # fmt: skip


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
