"""What is refused before any route runs, and what every answer carries."""

from __future__ import annotations

import pytest

from tests.web_ui.conftest import ADDRESS, Site
from web_ui.request_guard import BODY_LIMIT

KEY = {"Idempotency-Key": "test-key-0001"}
STOP = {"verb": "stop", "target": ""}


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:8421.evil.example"},
    ],
)
def test_a_foreign_origin_changes_nothing(site: Site, headers: dict[str, str]) -> None:
    answer = site.enter("admin").post("/api/v1/commands", json=STOP, headers={**KEY, **headers})
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert site.lab.given == {}


def test_a_cross_site_fetch_or_a_cookie_without_origin_changes_nothing(site: Site) -> None:
    client = site.enter("admin")
    del client.headers["origin"]
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {}):
        answer = client.post("/api/v1/commands", json=STOP, headers={**KEY, **headers})
        assert answer.status_code == 403, headers
    assert site.lab.given == {}
    assert client.post("/api/v1/commands", json=STOP, headers={**KEY, "sec-fetch-site": "same-origin"}).is_success


def test_another_host_name_is_not_served(site: Site) -> None:
    answer = site.client.get("/healthz", headers={"host": "rebound.example"})
    assert answer.status_code == 421
    assert "rebound.example" in answer.json()["detail"]


def test_a_large_body_is_refused_whether_its_length_is_said_or_not(site: Site) -> None:
    said = site.client.post("/api/v1/session", content=b"x" * 10_000_000)
    assert said.status_code == 413

    def parts():
        for _ in range(40):
            yield b"x" * (BODY_LIMIT // 20)

    assert site.client.post("/api/v1/session", content=parts()).status_code == 413


def test_every_answer_carries_the_policy(site: Site) -> None:
    for path in ("/", "/healthz", "/api/v1/fleet", "/nowhere"):
        headers = site.client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/fleet", 401),
        ("GET", "/api/v1/stations/sim-1", 401),
        ("GET", "/api/v1/campaigns", 401),
        ("GET", "/api/v1/episodes", 401),
        ("GET", "/api/v1/events", 401),
        ("GET", "/api/v1/users", 401),
        ("GET", "/api/v1/keys", 401),
        ("POST", "/api/v1/commands", 401),
        ("DELETE", "/api/v1/session", 401),
        ("GET", "/api/v1/nothing", 404),
        ("PUT", "/api/v1/fleet", 405),
    ],
)
def test_without_a_session_nothing_is_said(site: Site, method: str, path: str, status: int) -> None:
    answer = site.client.request(method, path, headers=KEY, json=STOP if method == "POST" else None)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"{", 400), (b"\xff\xfe", 400), (b"[]", 422), (b'{"name": "ada"}', 422), (b"[" * 9000, 400)],
)
def test_broken_json_is_a_problem_document(site: Site, content: bytes, status: int) -> None:
    answer = site.client.post("/api/v1/session", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_page_says_how_to_build_itself(site: Site) -> None:
    site.app.state.static = site.home / "nothing"
    answer = site.client.get("/")
    assert answer.status_code == 200
    assert "make ui" in answer.text


def test_the_built_page_is_served_for_every_path_and_files_stay_inside(site: Site) -> None:
    static = site.home / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<title>page</title>")
    (static / "assets" / "a.js").write_text("1")
    site.app.state.static = static
    assert "page" in site.client.get("/campaigns/x").text
    assert "immutable" in site.client.get("/assets/a.js").headers["cache-control"]
    assert site.client.get("/assets/b.js").status_code == 404
    for path in ("/..%2fweb.db", "/%2e%2e/web.db", "//etc/passwd"):
        assert b"SQLite" not in site.client.get(f"{ADDRESS}{path}").content


def test_openapi_has_examples_and_no_foreign_address(site: Site) -> None:
    document = site.client.get("/api/v1/openapi.json").json()
    assert {"/api/v1/commands", "/api/v1/episodes", "/healthz"} <= set(document["paths"])
    assert document["components"]["schemas"]["Command"]["examples"]
    assert site.client.get("/docs").headers["content-type"].startswith("text/html")
