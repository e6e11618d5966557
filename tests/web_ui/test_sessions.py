"""Signing in, roles, tokens, the set-up link."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import pytest
from fastapi.testclient import TestClient

from enpire.errors import UnknownName, UsageError
from tests.web_ui.conftest import ADDRESS, PASSWORD, Site
from web_ui import passwords
from web_ui.accounts import Accounts
from web_ui.attempts import FIRST_S, FORGOTTEN_S, FREE, FREE_OF_ADDRESS, LONGEST_S, Attempts


def test_set_up_link_makes_one_admin_and_is_void_afterwards(site: Site) -> None:
    assert site.client.get("/api/v1/session").json()["setup"] is True
    secret = site.accounts.mint_setup()
    body = {"secret": secret, "name": "ada", "password": PASSWORD}
    answer = site.client.post("/api/v1/setup", json=body)
    assert answer.status_code == 201
    assert site.client.get("/api/v1/session").json() == {
        "name": "ada",
        "role": "admin",
        "setup": False,
        "example": False,
    }
    again = site.client.post("/api/v1/setup", json={**body, "name": "eve"})
    assert again.status_code == 400
    assert "was used" in again.json()["detail"]
    with pytest.raises(UsageError, match="admin exists"):
        site.accounts.mint_setup()


def test_a_wrong_set_up_secret_makes_nobody(site: Site) -> None:
    site.accounts.mint_setup()
    answer = site.client.post("/api/v1/setup", json={"secret": "guess", "name": "eve", "password": PASSWORD})
    assert answer.status_code == 400
    assert site.accounts.users() == []


def test_signing_out_ends_the_session_on_the_server(site: Site) -> None:
    client = site.enter("viewer")
    secret = client.cookies["enpire_session"]
    assert client.get("/api/v1/fleet").status_code == 200
    assert client.delete("/api/v1/session").status_code == 204
    assert client.get("/api/v1/fleet", headers={"cookie": f"enpire_session={secret}"}).status_code == 401


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(site: Site) -> None:
    site.accounts.add_user("ada", "viewer", PASSWORD)
    answer = site.client.post("/api/v1/session", json={"name": "ada", "password": PASSWORD})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_wrong_password_and_unknown_name_get_the_same_answer(site: Site) -> None:
    site.accounts.add_user("ada", "viewer", PASSWORD)
    wrong = site.client.post("/api/v1/session", json={"name": "ada", "password": "not the one"})
    unknown = site.client.post("/api/v1/session", json={"name": "eve", "password": "not the one"})
    assert wrong.status_code == unknown.status_code == 401
    assert wrong.json() == unknown.json()


def test_guessing_is_stopped_and_says_for_how_long(site: Site) -> None:
    site.accounts.add_user("ada", "viewer", PASSWORD)
    tries = [
        site.client.post("/api/v1/session", json={"name": "ada", "password": f"guess number {index}"})
        for index in range(FREE + 1)
    ]
    assert [answer.status_code for answer in tries] == [401] * FREE + [429]
    assert 0 < int(tries[-1].headers["retry-after"]) <= FIRST_S + 1


def test_a_stranger_locks_nobody_out_at_another_address(site: Site) -> None:
    site.accounts.add_user("ada", "admin", PASSWORD)
    right, wrong = {"name": "ada", "password": PASSWORD}, {"name": "ada", "password": "a guess of it"}

    def sign_in(address: str, body: dict[str, str]) -> int:
        return (
            TestClient(site.app, base_url=ADDRESS, client=(address, 50000))
            .post("/api/v1/session", json=body)
            .status_code
        )

    assert {sign_in("203.0.113.9", wrong) for _ in range(FREE)} == {401}
    assert sign_in("203.0.113.9", right) == 429, "also the right one, or it could be told by the answer"
    assert sign_in("127.0.0.1", right) == 201


@dataclass
class Hands:
    """A clock that is moved by hand."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_each_failure_doubles_the_delay_and_time_heals() -> None:
    clock = Hands()
    attempts, waited = Attempts(clock), [0.0]
    while waited[-1] < LONGEST_S:
        wait_s = attempts.enter("10.0.0.1", "ada")
        if wait_s:
            waited.append(wait_s)
            clock.now_s += wait_s
            assert attempts.enter("10.0.0.1", "ada") == 0
    grown = [wait_s for wait_s in waited if wait_s]
    assert grown[:3] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert attempts.enter("10.0.0.1", "ada") == LONGEST_S
    assert attempts.enter("10.0.0.2", "ada") == 0, "another address is another guesser"
    assert attempts.enter("10.0.0.1", "grace") == 0, "and another name there another person"
    clock.now_s += FORGOTTEN_S + 1
    assert [attempts.enter("10.0.0.1", "ada") for _ in range(FREE)] == [0.0] * FREE


def test_whoever_tries_many_names_is_slowed_down_and_a_success_in_between_does_not_help() -> None:
    attempts = Attempts(Hands())
    for index in range(FREE_OF_ADDRESS):
        assert attempts.enter("2001:db8::1", "mallory") == 0
        attempts.passed("2001:db8::1", "mallory")
        assert attempts.enter(f"2001:db8::{index:x}", f"name-{index}") == 0, "one network of 64 bits is one address"
    assert attempts.enter("2001:db8::abcd", "one more") > 0
    assert attempts.enter("2001:db8:0:1::1", "one more") == 0


def test_a_token_calls_without_cookie_and_origin_and_can_be_ended(site: Site) -> None:
    client = site.enter("operator")
    secret = client.post("/api/v1/keys", json={"label": "night script"}).json()["secret"]
    client.cookies.clear()
    bearer = {"authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/fleet", headers=bearer).status_code == 200
    assert client.post("/api/v1/keys", json={"label": "breed"}, headers=bearer).status_code == 403
    listed = client.get("/api/v1/keys", headers=bearer).json()
    token = next(key for key in listed if key["kind"] == "token")
    assert secret not in str(listed)
    assert client.delete(f"/api/v1/keys/{token['id']}", headers=bearer).status_code == 204
    assert client.get("/api/v1/fleet", headers=bearer).status_code == 401


def test_nobody_ends_a_session_of_somebody_else_unless_admin(site: Site) -> None:
    site.accounts.add_user("grace", "viewer", PASSWORD)
    site.accounts.open_key("session", "grace", "her browser")
    foreign = site.accounts.keys("grace")[0]
    viewer = site.enter("viewer")
    assert viewer.delete(f"/api/v1/keys/{foreign.id}").status_code == 404
    assert [key["user"] for key in viewer.get("/api/v1/keys").json()] == ["viewer-1"]
    assert site.enter("admin").delete(f"/api/v1/keys/{foreign.id}").status_code == 204


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_accounts_are_for_admins(site: Site, role: str) -> None:
    client = site.enter(role)  # pyright: ignore[reportArgumentType]
    refused = client.get("/api/v1/users")
    assert refused.status_code == 403
    assert "requires the role admin" in refused.json()["detail"]


def test_the_last_admin_stays_and_nobody_removes_themselves(site: Site) -> None:
    client = site.enter("admin")
    me = client.get("/api/v1/session").json()["name"]
    assert client.delete(f"/api/v1/users/{me}").status_code == 409
    with pytest.raises(UsageError, match="only admin"):
        site.accounts.remove_user(me)
    made = client.post("/api/v1/users", json={"name": "grace", "role": "viewer", "password": PASSWORD})
    assert made.status_code == 201
    assert client.delete("/api/v1/users/grace").status_code == 204
    assert client.delete("/api/v1/users/grace").status_code == 404
    assert "removed the user 'grace'" in str(client.get("/api/v1/users/audit").json())


def test_removing_a_user_ends_their_sessions(site: Site) -> None:
    site.accounts.add_user("grace", "viewer", PASSWORD)
    secret = site.accounts.open_key("session", "grace", "browser")
    site.accounts.remove_user("grace")
    assert site.accounts.holder("session", secret) is None


def test_a_new_password_needs_the_present_one_and_ends_other_sessions(site: Site) -> None:
    client = site.enter("viewer")
    other = site.accounts.open_key("token", "viewer-0", "a script")
    body = {"present": "not the one", "fresh": "a fresh password"}
    assert client.put("/api/v1/session/password", json=body).status_code == 403
    assert site.accounts.holder("token", other) is not None
    assert client.put("/api/v1/session/password", json={**body, "present": PASSWORD}).status_code == 204
    assert site.accounts.holder("token", other) is None
    assert client.get("/api/v1/session").json()["name"] == "viewer-0"
    assert site.accounts.check("viewer-0", PASSWORD) is None
    assert site.accounts.check("viewer-0", "a fresh password") is not None


@pytest.mark.parametrize(("name", "password"), [("Ada", PASSWORD), ("a b", PASSWORD), ("", PASSWORD), ("ada", "short")])
def test_unusable_names_and_passwords_are_refused(site: Site, name: str, password: str) -> None:
    client = site.enter("admin")
    answer = client.post("/api/v1/users", json={"name": name, "role": "viewer", "password": password})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_accounts_outlive_the_server_and_hold_no_secret(site: Site) -> None:
    site.accounts.add_user("ada", "admin", PASSWORD)
    secret = site.accounts.open_key("token", "ada", "script")
    path = site.home / "web.db"
    other = Accounts(path)
    held = other.holder("token", secret)
    assert held is not None
    assert held[0].name == "ada"
    assert other.holder("session", secret) is None
    other.close()
    content = path.read_bytes()
    assert PASSWORD.encode() not in content
    assert secret.encode() not in content
    assert path.stat().st_mode & 0o077 == 0


def test_an_ended_key_is_refused(site: Site) -> None:
    site.accounts.add_user("ada", "admin", PASSWORD)
    assert site.accounts.holder("token", site.accounts.open_key("token", "ada", "old", life_s=-1)) is None
    with pytest.raises(UnknownName, match="no session or token"):
        site.accounts.revoke("nothing")


def test_passwords_cost_their_finder_something() -> None:
    fresh = importlib.util.find_spec("web_ui.passwords")
    assert fresh is not None
    assert fresh.loader is not None
    module = importlib.util.module_from_spec(fresh)
    fresh.loader.exec_module(module)  # the other tests here use a small cost
    assert (module.COST, module.BLOCK) == (2**14, 8)
    assert module.seal(PASSWORD).startswith("scrypt$16384$8$")
    assert module.DUMMY.startswith("scrypt$16384$8$"), "an unknown name costs as much"


def test_passwords_are_salted() -> None:
    first, second = passwords.seal(PASSWORD), passwords.seal(PASSWORD)
    assert first != second
    assert passwords.matches(PASSWORD, first)
    assert not passwords.matches(PASSWORD + "x", first)
