"""Who may do what: every command by every role, every address of the API by every role, and when a session ends."""

from __future__ import annotations

import sqlite3
import time
from typing import Literal, get_args

import pytest

from tests.web_ui.conftest import PASSWORD, Site
from web_ui.accounts import IDLE_S, ROLES, SEEN_EVERY_S, SESSION_S, Role
from web_ui.auth import COOKIE
from web_ui.live import CommandKind

EPISODE = "01JD3Y6Z8Q4M0C5T9V2K7B1XNA"
TARGETS = {
    "promote": "a" * 64, "judge success": EPISODE, "judge failure": EPISODE, "judge unsafe": EPISODE,
    "judge undo": EPISODE, "change limits": "budget.wall_s=7200", "acknowledge": "offline",
    "acknowledge undo": "offline", "experiment quarantine": "b" * 64, "experiment clear": "b" * 64,
    "experiment rerun": "b" * 64, "hypothesis propose": "passes=8", "hypothesis reject": EPISODE,
    "service": "sim-1", "service done": "sim-1", "reset": "sim-1", "home": "sim-1",
    "hypothesis restore": EPISODE, "hypothesis pin": EPISODE, "hypothesis unpin": EPISODE,
}  # fmt: skip
REASONS = {
    "service": "the gripper slips",
    "promote": "it is gentler", "rollback": "it grips too hard", "experiment quarantine": "it moves nothing",
    "experiment clear": "seen on video", "experiment rerun": "the light was off",
    "hypothesis propose": "it learns longer", "hypothesis reject": "tried last week",
}  # fmt: skip
FOR_ADMINS = {("GET", "/users"), ("POST", "/users"), ("DELETE", "/users/{name}"), ("GET", "/users/audit")} | {
    ("PUT", "/webhook"), ("PUT", "/webhook/images"), ("POST", "/webhook/test"),
    ("POST", "/tasks/authored/{task_id}/approve"), ("POST", "/tasks/authored/{task_id}/withdraw"),
}  # fmt: skip
FOR_OPERATORS = {("POST", "/start"), ("DELETE", "/queue/{queued_id}")}
OPEN = {("GET", "/session"), ("POST", "/session"), ("POST", "/setup")}
"""Addresses that answer without a session: signing in and setting up."""
SIGN_OUT = ("DELETE", "/session")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("verb", get_args(CommandKind))
def test_a_viewer_may_only_stop_and_operators_may_command(site: Site, role: Role, verb: str) -> None:
    body = {"verb": verb, "target": TARGETS.get(verb, ""), "reason": REASONS.get(verb, ""), "seen": 7}
    answer = site.enter(role).post("/api/v1/commands", json=body, headers={"Idempotency-Key": "test-key-0001"})
    may = verb == "stop" or role != "viewer"
    assert answer.status_code == (202 if may else 403), answer.text
    assert len(site.lab.given) == may
    if not may:
        assert "requires the role operator" in answer.json()["detail"]


def statuses(site: Site) -> dict[tuple[str, str], int]:
    """(method, path) of every address of the API -> status of a request for it, with ids of nothing in it."""
    paths = site.app.openapi()["paths"]
    every = [
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in paths.items() if path.startswith("/api/v1") for method in methods
    ]  # fmt: skip
    assert len(every) > 25
    every.sort(key=lambda one: one == SIGN_OUT)
    return {
        (method, path): site.client.request(method, f"/api/v1{path.replace('{', '').replace('}', '')}").status_code
        for method, path in every
    }


def test_without_a_session_every_address_but_the_sign_in_is_closed(site: Site) -> None:
    assert {one for one, status in statuses(site).items() if status != 401} == OPEN


@pytest.mark.parametrize("role", ROLES)
def test_accounts_are_closed_to_all_but_admins_and_starts_to_viewers(site: Site, role: Role) -> None:
    site.enter(role)
    found = statuses(site)
    closed = {"viewer": FOR_ADMINS | FOR_OPERATORS, "operator": FOR_ADMINS, "admin": set[tuple[str, str]]()}
    assert {one for one, status in found.items() if status == 403} == closed[role]
    assert {one for one, status in found.items() if status == 401} == set()


def set_back(site: Site, column: Literal["seen_s", "ends_s"], seconds: float) -> None:
    """Set back the last use or the end of all keys."""
    with sqlite3.connect(site.home / "web.db") as database:
        assert database.execute(f"update keys set {column} = {column} - ?", [seconds]).rowcount
    database.close()


@pytest.fixture
def ada(site: Site) -> str:
    """The secret of a session of ada, a viewer."""
    site.accounts.add_user("ada", "viewer", PASSWORD)
    return site.accounts.open_key("session", "ada", "a browser")


def test_a_session_ends_three_days_after_its_last_use(site: Site, ada: str) -> None:
    assert IDLE_S == 3 * 86400
    set_back(site, "seen_s", IDLE_S - 60)
    assert site.accounts.holder("session", ada) is not None
    set_back(site, "seen_s", IDLE_S - 60)
    assert site.accounts.holder("session", ada) is not None, "its use was noted"
    set_back(site, "seen_s", IDLE_S + 60)
    assert site.accounts.holder("session", ada) is None
    site.client.cookies.set(COOKIE, ada, domain="127.0.0.1")
    assert site.client.get("/api/v1/fleet").status_code == 401


def test_a_token_of_a_script_does_not_end_for_not_being_used(site: Site, ada: str) -> None:
    token = site.accounts.open_key("token", "ada", "a script")
    set_back(site, "seen_s", IDLE_S + 60)
    assert site.accounts.holder("token", token) is not None
    assert site.accounts.holder("session", ada) is None


def test_every_key_ends_fourteen_days_after_it_was_made(site: Site) -> None:
    assert SESSION_S == 14 * 86400
    site.accounts.add_user("ada", "viewer", PASSWORD)
    site.accounts.open_key("session", "ada", "a browser")
    [key] = site.accounts.keys("ada")
    assert key.ends_s - key.made_s == pytest.approx(SESSION_S)
    kinds: tuple[Literal["session", "token"], ...] = ("session", "token")
    keys = {kind: site.accounts.open_key(kind, "ada", "a key") for kind in kinds}
    for seconds, valid in ((SESSION_S - 60, True), (120, False)):
        set_back(site, "ends_s", seconds)
        assert [site.accounts.holder(kind, keys[kind]) is not None for kind in kinds] == [valid, valid]


def test_the_last_use_of_a_session_is_noted_once_a_minute(site: Site, ada: str) -> None:
    [before] = site.accounts.keys("ada")
    site.accounts.holder("session", ada)
    assert site.accounts.keys("ada") == [before]
    set_back(site, "seen_s", SEEN_EVERY_S + 10)
    site.accounts.holder("session", ada)
    [after] = site.accounts.keys("ada")
    assert after.seen_s == pytest.approx(time.time(), abs=30)
    assert after.seen_s >= before.seen_s
