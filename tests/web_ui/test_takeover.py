"""The socket of a take-over: inputs reach the station, one holder at a time, operators only."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from tests.web_ui.conftest import Site
from tests.web_ui.hand_station import HandStation

SOCKET = "ws://127.0.0.1:8421/api/v1/takeover/sim-1"


@contextmanager
def sending(socket: WebSocketTestSession, *axes: float) -> Generator[None]:
    """Send an input again and again, as a page does while keys are held."""
    over = threading.Event()

    def send() -> None:
        while not over.wait(0.02):
            socket.send_json({"axes": axes})

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def until(socket: WebSocketTestSession, state: str) -> dict[str, Any]:
    """The next message of this state."""
    while True:
        message = json.loads(socket.receive_text())
        if message["state"] == state:
            return message


def closed(socket: WebSocketTestSession) -> int:
    """The code with which the server closes."""
    while True:
        message = socket.receive()
        if message["type"] == "websocket.close":
            return int(message["code"])


def test_inputs_reach_the_station_until_the_operator_gives_back(site: Site) -> None:
    client = site.enter("operator")
    with HandStation(site.home) as station, client.websocket_connect(SOCKET) as socket:
        assert until(socket, "waiting")["state"] == "waiting"
        with sending(socket, 0.5, -1):
            assert station.until(lambda one: one.axes == (0.5, -1.0)).gives_back is False
            assert until(socket, "moving")["actions"] == ["vx_mm_s", "vy_mm_s"]
        socket.send_json({"gives_back": True})
        station.until(lambda one: one.gives_back)
        assert closed(socket) == 1000
    lines = [action for _, _, action in site.accounts.audit_log()]
    assert "took over 'sim-1'" in lines
    assert "gave back 'sim-1'" in lines


def test_a_tab_that_ends_without_giving_back_leaves_the_robot_without_inputs(site: Site) -> None:
    client = site.enter("operator")
    with HandStation(site.home) as station:
        with client.websocket_connect(SOCKET) as socket:
            socket.send_json({"axes": [1]})
            station.until(lambda one: one.axes == (1.0,))
        station.until_alone()
        assert not any(one.gives_back for one in station.inputs), "so the robot holds before the policy moves it again"


def test_a_second_operator_takes_the_robot_from_the_first(site: Site) -> None:
    client = site.enter("operator")
    with HandStation(site.home) as station, client.websocket_connect(SOCKET) as first:
        first.send_json({"axes": [1]})
        mine = station.until(lambda one: one.axes == (1.0,))
        with client.websocket_connect(SOCKET) as second:
            assert "took over this station" in until(first, "lost")["detail"]
            assert closed(first) == 4409
            second.send_json({"axes": [-1]})
            assert station.until(lambda one: one.axes == (-1.0,)).holder > mine.holder


@pytest.mark.parametrize("wrong", ['{"axes": [2]}', '{"axes": "x"}', '{"axes": [true]}', "[]", "x", '{"more": 1}'])
def test_what_is_no_input_ends_the_take_over(site: Site, wrong: str) -> None:
    client = site.enter("operator")
    with HandStation(site.home), client.websocket_connect(SOCKET) as socket:
        socket.send_text(wrong)
        assert closed(socket) == 4400


def test_only_operators_take_over_and_only_stations_that_take_inputs(site: Site) -> None:
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        HandStation(site.home),
        site.enter("viewer").websocket_connect(SOCKET),
    ):
        pass
    assert refused.value.code == 4403
    with site.enter("operator").websocket_connect(SOCKET) as socket:
        assert "operator: browser" in until(socket, "lost")["detail"]
        assert closed(socket) == 4404
    site.client.cookies.clear()
    with pytest.raises(WebSocketDisconnect) as refused, site.client.websocket_connect(SOCKET):
        pass
    assert refused.value.code == 4401
