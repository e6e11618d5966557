"""The server in its thread: real sockets on loopback."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from enpire.errors import TransportProblem, UsageError
from tests.web_ui.conftest import PASSWORD
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.accounts import Accounts
from web_ui.attempts import FREE
from web_ui.server import Server


def test_it_starts_on_a_free_port_and_stops_twice(tmp_path: Path) -> None:
    server = Server(tmp_path, ScriptedLab())
    address = server.start()
    try:
        assert httpx.get(f"{address}/healthz", timeout=600).json()["status"] == "ok"
        assert server.setup_link.startswith(f"{address}/setup#")
    finally:
        server.stop()
        server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/healthz", timeout=300)


def test_the_set_up_link_is_given_until_there_is_an_admin(tmp_path: Path) -> None:
    first = Server(tmp_path, ScriptedLab(gone=True))
    first.start()
    old = first.setup_link
    first.stop()
    second = Server(tmp_path, ScriptedLab(gone=True))
    address = second.start()
    body = {"name": "ada", "password": PASSWORD}
    with httpx.Client(base_url=address, timeout=600) as client:
        assert client.post("/api/v1/setup", json={**body, "secret": old.partition("#")[2]}).status_code == 400
        made = client.post("/api/v1/setup", json={**body, "secret": second.setup_link.partition("#")[2]})
        assert made.status_code == 201
    second.stop()
    third = Server(tmp_path, ScriptedLab(gone=True))
    third.start()
    assert third.setup_link == ""
    third.stop()


def test_it_listens_on_loopback_only_until_an_admin_exists(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no admin yet"):
        Server(tmp_path, ScriptedLab(gone=True), host="0.0.0.0").start()
    accounts = Accounts(tmp_path / "web.db")
    accounts.add_user("root", "admin", PASSWORD)
    accounts.close()
    server = Server(tmp_path, ScriptedLab(gone=True), host="0.0.0.0", names=("Lab.example",))
    try:
        port = server.start().rpartition(":")[2]
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=600).status_code == 200
        here = socket.gethostname().lower()
        assert server.address == f"http://{here}:{port}"
        asked = {
            host: httpx.get(f"http://127.0.0.1:{port}/healthz", headers={"host": host}, timeout=600).status_code
            for host in (
                f"{here}:{port}",
                "192.168.7.9:80",
                "[fd00::9]:80",
                "lab.example",
                "rebound.example",
                "1.2.3.4.nip.example",
            )
        }
        assert [host for host, status in asked.items() if status == 421] == ["rebound.example", "1.2.3.4.nip.example"]
    finally:
        server.stop()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TransportProblem, match=str(port)):
            Server(tmp_path, ScriptedLab(gone=True), port=port).start()


@pytest.mark.parametrize(("proxies", "held"), [((), True), (("127.0.0.1",), False), (("192.0.2.1",), True)])
def test_only_a_configured_proxy_says_whose_sign_ins_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: tuple[str, ...], held: bool
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # uvicorn's own setting; it must open nothing
    accounts = Accounts(tmp_path / "web.db")
    accounts.add_user("ada", "admin", PASSWORD)
    accounts.close()
    server = Server(tmp_path, ScriptedLab(gone=True), proxies=proxies)
    try:
        with httpx.Client(base_url=server.start(), timeout=600) as client:
            tries = [
                client.post(
                    "/api/v1/session", json={"name": "ada", "password": "wrong"},
                    headers={"x-forwarded-for": f"203.0.113.{number}", "x-forwarded-proto": "https"},
                ).status_code for number in range(FREE + 3)
            ]  # fmt: skip
    finally:
        server.stop()
    assert tries == ([401] * FREE + [429] * 3 if held else [401] * (FREE + 3))


def test_a_proxy_is_named_by_its_address(tmp_path: Path) -> None:
    for wrong in ("*", "proxy.example", "10.0.0.0/8", ""):
        with pytest.raises(UsageError, match="--proxy"):
            Server(tmp_path, ScriptedLab(gone=True), proxies=(wrong,))
