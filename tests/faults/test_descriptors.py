"""No file descriptor is left: no data is lost or set aside, and work resumes when one is free."""

from __future__ import annotations

import gc
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.errors import FileProblem, NothingOpens
from enpire.gate.trials import NOTHING_OPENS
from enpire.requests import agent_requests, operator_commands
from enpire.store import arrays, durable
from enpire.store.episodes import FolderStore, Recording
from enpire.store.ledger import SqliteLedger
from tests.chaos.harness import Orchestrator, Witness, audit, children, free_port, until
from tests.chaos.point_lab import write_campaign
from tests.enpire.store.store_samples import a_recording, an_order
from tests.fakes.sample_events import append

FEW = 10
"""Descriptors that the orchestrator has left."""


@contextmanager
def nothing_left() -> Iterator[None]:
    """Use every descriptor that this process may have; what an earlier test left to the collector gives none back."""
    gc.collect()
    gc.disable()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    held: list[int] = []
    try:
        while True:
            try:
                held.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        gc.enable()


def test_files_that_cannot_be_opened_now_are_neither_lost_nor_set_aside(tmp_path: Path) -> None:
    ledger, store = SqliteLedger(tmp_path / "ledger.db"), FolderStore(tmp_path / "episodes")
    episode, data = a_recording(an_order())
    recording = Recording(episode=episode, arrays_file=data)
    append(ledger, [("noted", {})])
    with nothing_left(), pytest.raises((FileProblem, NothingOpens)) as raised:  # FileProblem: a module to import first
        store.put_many([recording])
    assert isinstance(durable.shortage(raised.value), NothingOpens)
    arrays.unpack(data)
    for do in (lambda: append(ledger, [("noted", {})]), lambda: store.put_many([recording])):
        with nothing_left(), pytest.raises(NothingOpens, match="Writing resumes when some are closed"):
            do()
    append(ledger, [("noted", {})])
    assert ledger.verify() == 2
    ledger.close()
    store.put_many([recording])
    assert store.get(episode.order.order_id).sha256 == episode.sha256


def test_commands_and_requests_wait_for_free_descriptors(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    sender = agent_requests.Sender(campaign_id="C", author="search", lane="a")
    asked = [operator_commands.leave(folder, "stop", operator="anna") for _ in range(2)]
    wished = [agent_requests.leave(folder, sender, "finding", {}) for _ in range(2)]
    for waiting in (operator_commands.waiting(folder), agent_requests.AgentInbox(folder).waiting()):
        next(waiting)
        with nothing_left(), pytest.raises(NothingOpens):
            next(waiting)
    commands = [
        item for item in operator_commands.waiting(folder) if isinstance(item, operator_commands.OperatorCommand)
    ]
    assert {item.command_id for item in commands} == set(asked)
    requests = agent_requests.AgentInbox(folder).waiting()
    assert {item.request_id for item in requests if isinstance(item, agent_requests.AgentRequest)} == set(wished)


def leave(pid: int, few: int) -> None:
    """Let a process open only so many more files; the limit is on their numbers, the lowest free number comes next."""
    lowest: list[int] = []
    for _ in range(50):
        used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
        lowest.append(min(set(range(len(used) + 1)) - used))
        time.sleep(0.01)
    highest = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(lowest) + few, highest))


@pytest.mark.slow
def test_an_orchestrator_without_descriptors_holds_the_robots_and_ends_no_campaign(tmp_path: Path) -> None:
    lab = Orchestrator(write_campaign(tmp_path / "files"), tmp_path / "home")
    witness = Witness.of(lab.home)
    witness.start()
    try:
        lab.start()
        until(lambda: "base policy" in lab.said(), "the campaign")
        leave(lab.pid, 0)
        until(lambda: "Writing resumes when some are closed" in lab.said(), "the sentence")
        before = lab.said().count("joined")
        leave(lab.pid, 100)
        until(lambda: lab.said().count("joined") >= before + 2, "both stations again")
        seen = len(witness.seen)
        until(lambda: len(witness.seen) > seen + 20, "twenty more episodes")
        assert lab.end() == 130
    finally:
        lab.kill_all()
        witness.stop()
    assert "Traceback" not in lab.said()
    found = audit(lab.home, witness, may_be_open=True)  # a busy machine ends it before every order is back
    assert replace(found, open=0).problems() == []
    assert found.outcomes["aborted"] > 0
    ledger = SqliteLedger(lab.home / "ledger.db", read_only=True)
    assert NOTHING_OPENS in {str(event.body["after"]) for event in ledger.events(kinds=("campaign resumed",))}
    ledger.close()


@pytest.mark.slow
def test_a_flood_of_connections_at_the_port_reaches_no_robot(tmp_path: Path) -> None:
    port = free_port()
    lab = Orchestrator(write_campaign(tmp_path / "files", bind=f"tcp://127.0.0.1:{port}"), tmp_path / "home")
    witness = Witness.of(lab.home)
    witness.start()
    flood: list[socket.socket] = []
    try:
        lab.start()
        until(lambda: len(witness.seen) > 10, "episodes")
        [gateway] = children(lab.pid, "enpire.wire.gateway_process")
        leave(gateway, FEW)
        flood = [socket.create_connection(("127.0.0.1", port)) for _ in range(4 * FEW)]
        before = len(witness.seen)
        until(lambda: len(witness.seen) > before + 50, "fifty more episodes")
        assert lab.end() == 130
    finally:
        lab.kill_all()
        witness.stop()
        for connection in flood:
            connection.close()
    assert "Writing resumes" not in lab.said()
    assert lab.said().count("joined") == 2
    found = audit(lab.home, witness, may_be_open=True)  # a busy machine ends it before every order is back
    assert replace(found, open=0).problems() == []
