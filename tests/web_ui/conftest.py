"""One recorded home for all tests of a worker; each test gets its own accounts beside a copy of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.web_ui.recorded import record
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui import passwords
from web_ui.accounts import Accounts, Role
from web_ui.app import create_app
from web_ui.auth import COOKIE

ADDRESS = "http://127.0.0.1:8421"
PASSWORD = "correct horse"


@dataclass(slots=True)
class Site:
    """A running application over a recorded home."""

    home: Path
    lab: ScriptedLab
    app: FastAPI
    client: TestClient
    campaign_id: str

    @property
    def accounts(self) -> Accounts:
        """The accounts of the application."""
        return self.app.state.accounts

    def enter(self, role: Role = "admin") -> TestClient:
        """A session of a fresh user of that role, `role-0` for the first."""
        name = f"{role}-{len(self.accounts.users())}"
        self.accounts.add_user(name, role, PASSWORD)
        self.client.cookies.clear()
        self.client.cookies.set(COOKIE, self.accounts.open_key("session", name, "test"), domain="127.0.0.1")
        return self.client


@pytest.fixture(scope="package", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Hashes of passwords at a small cost, of which test_sessions.py tests the real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "COST", 2**4)
        patch.setattr(passwords, "DUMMY", passwords.seal(passwords.draw()))
        yield


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A home with a small history, and the id of its campaign."""
    home = tmp_path_factory.mktemp("recorded")
    past = record(home)
    past.ledger.close()
    return home, past.campaign_id


@pytest.fixture
def site(recorded: tuple[Path, str], tmp_path: Path) -> Iterator[Site]:
    """The application with a scripted lab behind it."""
    home = tmp_path / "home"
    shutil.copytree(recorded[0], home)
    lab = ScriptedLab(campaign_id=recorded[1])
    app = create_app(home, lab)
    with TestClient(app, base_url=ADDRESS, headers={"origin": ADDRESS}) as client:
        yield Site(home=home, lab=lab, app=app, client=client, campaign_id=recorded[1])


@pytest.fixture
def records_only(tmp_path: Path) -> Iterator[TestClient]:
    """The application without a running lab, signed in as admin."""
    app = create_app(tmp_path, ScriptedLab(gone=True))
    app.state.accounts.add_user("root", "admin", PASSWORD)
    with TestClient(app, base_url=ADDRESS, headers={"origin": ADDRESS}) as client:
        client.post("/api/v1/session", json={"name": "root", "password": PASSWORD})
        yield client
