"""Accounts, keys and the delay of sign-ins, without a server."""

from __future__ import annotations

import itertools
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.requests import HTTPConnection

from enpire.errors import UnknownName, UsageError
from tests.web_ui.conftest import PASSWORD
from web_ui import attempts as limits
from web_ui import passwords
from web_ui.accounts import IDLE_S, ROLES, SEEN_EVERY_S, SESSION_S, Accounts, Key, User
from web_ui.attempts import FREE, FREE_OF_ADDRESS, Attempts
from web_ui.auth import COOKIE, Caller, cookie, find_caller


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Accounts]:
    with closing(Accounts(tmp_path / "home" / "web.db")) as opened:
        yield opened


def test_the_file_is_readable_by_its_owner_only(accounts: Accounts, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "home" / "web.db").stat().st_mode) == 0o600


def test_a_set_up_link_works_once_and_only_the_newest(accounts: Accounts) -> None:
    assert not accounts.has_admin()
    first, second = accounts.mint_setup(), accounts.mint_setup()
    with pytest.raises(UsageError, match="was used or replaced"):
        accounts.redeem_setup(first, "eve", PASSWORD)
    assert accounts.redeem_setup(second, "ada", PASSWORD) == User(name="ada", role="admin")
    assert accounts.users() == [User(name="ada", role="admin")]
    assert [line[1:] for line in accounts.audit_log()] == [("ada", "set up the first admin")]
    with pytest.raises(UsageError, match="was used or replaced"):
        accounts.redeem_setup(second, "eve", PASSWORD)


def test_a_set_up_link_is_void_once_there_is_an_admin(accounts: Accounts) -> None:
    secret = accounts.mint_setup()
    accounts.add_user("grace", "operator", PASSWORD)
    assert not accounts.has_admin()
    accounts.add_user("ada", "admin", PASSWORD)
    assert accounts.has_admin()
    with pytest.raises(UsageError, match="was used or replaced"):
        accounts.redeem_setup(secret, "eve", PASSWORD)
    assert [user.name for user in accounts.users()] == ["ada", "grace"]


def test_an_admin_stays_and_others_can_be_removed(accounts: Accounts) -> None:
    for name, role in (("ada", "admin"), ("bob", "viewer"), ("eve", "admin")):
        accounts.add_user(name, role, PASSWORD)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a user 'bob' already"):
        accounts.add_user("bob", "viewer", PASSWORD)
    accounts.remove_user("eve")
    accounts.remove_user("bob")
    with pytest.raises(UsageError, match="only admin"):
        accounts.remove_user("ada")
    with pytest.raises(UnknownName, match="'bob'"):
        accounts.remove_user("bob")
    assert accounts.users() == [User(name="ada", role="admin")]


def test_a_new_user_of_an_old_name_has_none_of_the_old_keys(accounts: Accounts) -> None:
    accounts.add_user("bob", "operator", PASSWORD)
    session = accounts.open_key("session", "bob", "a browser")
    accounts.remove_user("bob")
    assert accounts.keys() == []
    accounts.add_user("bob", "viewer", PASSWORD)
    assert accounts.holder("session", session) is None
    with pytest.raises(sqlite3.IntegrityError):
        accounts.open_key("session", "nobody", "")


def test_only_the_right_password_signs_in(accounts: Accounts) -> None:
    accounts.add_user("ada", "operator", PASSWORD)
    assert accounts.check("ada", PASSWORD) == User(name="ada", role="operator")
    assert accounts.check("ada", f"{PASSWORD}!") is None
    assert accounts.check("eve", PASSWORD) is None


@pytest.mark.parametrize(("length", "fits"), [(9, False), (10, True), (200, True), (201, False)])
def test_the_length_of_a_password(accounts: Accounts, length: int, fits: bool) -> None:
    if fits:
        accounts.add_user("ada", "viewer", "x" * length)
        return
    with pytest.raises(UsageError, match="10 to 200"):
        accounts.add_user("ada", "viewer", "x" * length)


def test_a_new_password_ends_all_keys_but_one(accounts: Accounts) -> None:
    for name in ("ada", "bob"):
        accounts.add_user(name, "viewer", PASSWORD)
    kept, ended, foreign = (accounts.open_key("session", name, "") for name in ("ada", "ada", "bob"))
    held = accounts.holder("session", kept)
    assert held is not None
    accounts.change_password("ada", f"another {PASSWORD}", keep=held[1].id)
    assert [accounts.holder("session", key) is not None for key in (kept, ended, foreign)] == [True, False, True]
    assert accounts.check("ada", PASSWORD) is None
    assert accounts.check("ada", f"another {PASSWORD}") is not None
    assert accounts.check("bob", PASSWORD) is not None


def test_a_key_is_for_its_kind_its_user_and_its_time(accounts: Accounts, tmp_path: Path) -> None:
    accounts.add_user("ada", "viewer", PASSWORD)
    accounts.add_user("bob", "viewer", PASSWORD)
    session, token = accounts.open_key("session", "ada", "x" * 200), accounts.open_key("token", "ada", "", life_s=60.0)
    assert accounts.holder("token", session) is accounts.holder("session", token) is None
    held = accounts.holder("session", session)
    assert held is not None
    user, key = held
    assert user == User(name="ada", role="viewer")
    assert (len(key.id), key.label, key.user, key.kind) == (12, "x" * 120, "ada", "session")
    assert key.made_s == key.seen_s == pytest.approx(time.time(), abs=60)
    assert [round(one.ends_s - one.made_s) for one in accounts.keys("ada")] == [60, SESSION_S]
    accounts.open_key("session", "bob", "")
    assert [len(accounts.keys(name)) for name in ("ada", "bob", "eve", "")] == [2, 1, 0, 3]
    with sqlite3.connect(tmp_path / "home" / "web.db") as database:
        database.execute("update keys set ends_s = 1 where kind = 'token'")
    database.close()
    accounts.open_key("session", "bob", "")
    assert [one.kind for one in accounts.keys("ada")] == ["session"], "ended keys are removed when one is made"


def test_a_key_holds_up_to_the_moment_at_which_it_ends(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1_000_000.0
    monkeypatch.setattr("web_ui.accounts.time", SimpleNamespace(time=lambda: now_s))
    accounts.add_user("ada", "viewer", PASSWORD)
    session, token = accounts.open_key("session", "ada", ""), accounts.open_key("token", "ada", "", life_s=60.0)
    now_s += SEEN_EVERY_S
    assert accounts.holder("token", token) is not None
    assert [one.seen_s for one in accounts.keys("ada")] == [1_000_000.0] * 2, "its use is not noted yet"
    now_s += 0.5
    assert accounts.holder("token", token) is None
    assert accounts.holder("session", session) is not None
    assert [one.seen_s for one in accounts.keys("ada") if one.kind == "session"] == [now_s]
    now_s += IDLE_S
    assert accounts.holder("session", session) is not None
    now_s += IDLE_S + 0.5
    assert accounts.holder("session", session) is None


def test_accounts_make_the_folders_of_their_file_and_close_it(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path / "labs" / "one" / "web.db")
    assert accounts.users() == []
    accounts.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        accounts.users()


def test_a_key_is_ended_by_its_user_or_an_admin(accounts: Accounts) -> None:
    accounts.add_user("ada", "viewer", PASSWORD)
    for _ in range(3):
        accounts.open_key("session", "ada", "")
    first, second, third = accounts.keys()
    with pytest.raises(UnknownName):
        accounts.revoke(first.id, "bob")
    accounts.revoke(first.id, "ada")
    accounts.revoke(second.id)
    assert accounts.keys() == [third]
    with pytest.raises(UnknownName):
        accounts.revoke(first.id)


def test_the_audit_log_is_newest_first(accounts: Accounts) -> None:
    for number in range(105):
        accounts.record("ada", f"action {number}")
    assert [action for _, _, action in accounts.audit_log()] == [f"action {104 - number}" for number in range(100)]
    stamp_s, user, action = accounts.audit_log(1)[0]
    assert (user, action) == ("ada", "action 104")
    assert stamp_s == pytest.approx(time.time(), abs=60)


def test_a_role_includes_the_roles_below_it() -> None:
    assert (ROLES, SEEN_EVERY_S) == (("viewer", "operator", "admin"), 60.0)
    key = Key(id="", kind="token", user="ada", label="", made_s=0.0, seen_s=0.0, ends_s=0.0)
    for (rank, held), (wanted, role) in itertools.product(enumerate(ROLES), repeat=2):
        assert Caller(user=User(name="ada", role=held), key=key).may(role) == (rank >= wanted)


def test_a_cookie_is_kept_from_scripts_and_other_sites() -> None:
    assert cookie("s", secure=True, life_s=60.5) == {
        "key": COOKIE, "value": "s", "max_age": 60, "path": "/", "httponly": True, "samesite": "strict", "secure": True,
    }  # fmt: skip
    assert cookie("s", secure=False)["max_age"] == SESSION_S
    assert cookie("s", secure=False)["secure"] is False


def test_a_token_comes_as_bearer_and_a_session_as_cookie(accounts: Accounts) -> None:
    accounts.add_user("ada", "viewer", PASSWORD)
    session, token = (accounts.open_key(kind, "ada", "") for kind in ("session", "token"))  # type: ignore[arg-type]
    app = SimpleNamespace(state=SimpleNamespace(accounts=accounts, example=False))

    def kind(**headers: str) -> str:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        caller = find_caller(HTTPConnection({"type": "http", "headers": raw, "app": app}))
        return caller.key.kind if caller else ""

    assert kind(authorization=f"Bearer {token}") == kind(authorization=f"bearer  {token} ") == "token"
    assert kind(cookie=f"{COOKIE}={session}") == "session"
    assert kind(authorization=f"Bearer {session}") == kind(cookie=f"{COOKIE}={token}") == kind() == ""
    assert kind(authorization=f"Basic {token}", cookie=f"{COOKIE}={session}") == "session"


class Clock:
    """Seconds that a test sets."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_the_delays_that_a_guesser_meets() -> None:
    assert (FREE, FREE_OF_ADDRESS, limits.REMEMBERED) == (5, 40, 20_000)
    clock = Clock()
    attempts, waits = Attempts(clock), list[float]()
    for _ in range(15):
        wait_s = attempts.enter("10.0.0.1", "ada")
        waits.append(wait_s)
        clock.now_s += wait_s / 2
        assert attempts.enter("10.0.0.1", "ada") == pytest.approx(wait_s / 2) or not wait_s
        clock.now_s += wait_s / 2
        if wait_s:
            assert attempts.enter("10.0.0.1", "ada") == 0, "exactly when the delay is over"
    doubled = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0]
    free = [wait for wait in waits if not wait]
    assert len(free) <= FREE
    assert [wait for wait in waits if wait][: len(doubled)] == doubled


@pytest.mark.parametrize(("pause_s", "waits"), [(3600.0, True), (3600.5, False)])
def test_an_hour_without_a_failure_forgets_them(pause_s: float, waits: bool) -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for _ in range(FREE):
        attempts.enter("10.0.0.1", "ada")
    clock.now_s += pause_s
    assert attempts.enter("10.0.0.1", "ada") == 0
    assert (attempts.enter("10.0.0.1", "ada") > 0) == waits
    more = [attempts.enter("10.0.0.1", "ada") for _ in range(FREE - 1)]
    assert [wait_s > 0 for wait_s in more] == [waits] * (FREE - 2) + [True], "and counts anew from the first"


def test_whoever_waited_longer_than_the_delay_waits_no_more() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for number in range(FREE_OF_ADDRESS):
        attempts.enter("10.0.0.1", "ada" if number < FREE else f"name {number}")
    assert attempts.enter("10.0.0.1", "ada") == 2.0
    clock.now_s += 300.0
    assert attempts.enter("10.0.0.1", "ada") == 0.0


def test_a_success_forgets_its_name_and_one_failure_of_its_address() -> None:
    attempts = Attempts(Clock())
    attempts.passed("10.0.0.1", "never tried")
    for number in range(FREE_OF_ADDRESS - 1):
        attempts.enter("10.0.0.1", f"name {number}")
    attempts.enter("10.0.0.1", "ada")
    attempts.passed("10.0.0.1", "ada")
    assert attempts.enter("10.0.0.1", "ada") == 0, "39 failures of the address are left"
    assert attempts.enter("10.0.0.1", "bob") == 2.0
    assert attempts.enter("10.0.0.2", "bob") == 0


def test_a_flood_of_names_displaces_the_oldest_counts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMEMBERED", 10)
    attempts = Attempts(Clock())
    for number in range(3):
        for name in ("ada", "ada", "old", f"a{number}", f"b{number}"):
            attempts.enter("10.0.0.1" if name == "ada" else f"10.1.{number}.{len(name)}", name)
    assert attempts.enter("10.0.0.1", "ada") == 2.0 or attempts.enter("10.0.0.1", "ada") > 0
    for number in range(20):
        attempts.enter(f"10.2.0.{number}", "flood")
    assert attempts.enter("10.0.0.1", "ada") == 0


def test_as_many_counts_are_kept_as_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMEMBERED", 9)
    attempts = Attempts(Clock())
    for number in range(5):  # two counts each; the oldest, of the first address and all its names, is displaced
        for _ in range(FREE):
            attempts.enter(f"10.0.0.{number}", "ada")
    assert [attempts.enter(f"10.0.0.{number}", "ada") for number in range(5)] == [2.0] * 5


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:0:ffff::1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::1", "::2", False),
        ("testclient", "otherclient", False),
    ],
)
def test_addresses_of_one_machine_count_together(one: str, other: str, same: bool) -> None:
    attempts = Attempts(Clock())
    for _ in range(FREE):
        attempts.enter(one, "ada")
    assert (attempts.enter(other, "ada") > 0) == same


def test_a_secret_is_stored_as_its_hash() -> None:
    assert passwords.digest("a") != passwords.digest("b")
    assert len(passwords.draw()) == 43
