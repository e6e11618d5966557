"""kill -9 of the orchestrator in each phase of a coding agent's experiment, while a call of its model is in flight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from enpire.campaign.agent_events import (
    AgentTurned,
    ExperimentDecided,
    ExperimentSubmitted,
    HypothesisProposed,
    ModelCalled,
)
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.events import Event, kinds_of
from enpire.campaign.gate_events import GateOpened
from enpire.campaign.training_events import LearnerStarted, VersionMade
from enpire.code_candidates.repository import CodeRepository
from enpire.errors import EnpireError
from enpire.home import Home, open_home
from enpire.processes.sandbox import bubblewrap
from enpire.queries.decision_audit import recompute
from enpire.store.ledger import SqliteLedger, open_to_read
from tests.agent_loop.recorded_model import Block, events, tool_use, words
from tests.fakes.code_agent import CLAIM, FILES
from tests.fakes.loopback_server import answering
from tests.fakes.waiting import until


@dataclass
class Researcher:
    """A model that writes code by a script. Answers that it holds back are on their way when the lab is killed."""

    given: list[int] = field(default_factory=list[int])
    """Number of each answer that was sent."""
    lost: int = 0
    """Calls that ended without an answer."""
    held: int = -1
    waits: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _sends: bool = True

    def hold(self, number: int) -> None:
        """Hold the answer of this number back from now on."""
        self.waits.clear()
        self._released, self.held = threading.Event(), number

    def release(self, *, sends: bool) -> None:
        """Send the answer that is held back, or end its call without one."""
        self._sends, self.held = sends, -1
        self._released.set()

    def answer(self, messages: list[Block]) -> list[Block] | None:
        """The next answer; None for a call that ends without one."""
        number = sum(message["role"] == "assistant" for message in messages)
        if number == self.held:
            released = self._released
            self.waits.set()
            released.wait(900)
            if not self._sends:
                self.lost += 1
                return None
        self.given.append(number)
        return self._script(number, messages)

    def _script(self, number: int, messages: list[Block]) -> list[Block]:
        files = [tool_use("write_file", path=path, text=text) for path, text in FILES.items()]
        verifier = tool_use("write_file", path="verifier.py", text="def judge(): return True\n")
        if number == 0:
            return [tool_use("propose_hypothesis", **CLAIM), *files, verifier]
        results = [block for message in messages for block in message["content"] if block["type"] == "tool_result"]
        proposed = json.loads(results[0]["content"][0]["text"])["hypothesis_id"]
        submit = tool_use("submit_code", hypothesis_id=proposed)
        mended = [tool_use("delete_file", path="verifier.py"), submit]
        return {1: [submit], 2: mended}.get(number, [words("It is decided.")])


@contextmanager
def played(researcher: Researcher) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.startswith("/v1/messages/count_tokens"):
                self._send("application/json", json.dumps({"input_tokens": 500}))
            elif (answer := researcher.answer(body["messages"])) is not None:
                self._send("text/event-stream", "".join(events(answer, body["model"])))

        def _send(self, kind: str, text: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with answering(Handler) as address:
        yield address


def recorded(home: Home, *kinds: type[Any]) -> list[Event]:
    """The events of some kinds so far."""
    try:
        ledger = open_to_read(home.ledger)
    except EnpireError:  # it is being made
        return []
    try:
        return [entry.event for entry in ledger.events(kinds=kinds_of(*kinds))]
    finally:
        ledger.close()


def has_come(home: Home, kind: type[Any]) -> bool:
    """Whether the experiment with the code has got to an event of this kind."""
    found = recorded(home, ExperimentSubmitted, LearnerStarted, VersionMade, GateOpened, ExperimentDecided)
    made = {one.policy_id for one in found if isinstance(one, VersionMade) and one.commit}
    of_code = {
        ExperimentSubmitted: lambda one: one.commit, LearnerStarted: lambda one: one.experiment_id,
        VersionMade: lambda one: one.commit, GateOpened: lambda one: one.candidate in made,
        ExperimentDecided: lambda one: True,
    }  # fmt: skip
    return any(isinstance(one, kind) and of_code[kind](one) for one in found)


PHASES = (None, None, ExperimentSubmitted, LearnerStarted, VersionMade, GateOpened)
"""What has come when the lab is killed; None: the first and the second answer of the model are on their way."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or is not allowed here")
def test_kill_9_of_the_orchestrator_in_every_phase_loses_nothing_and_repeats_no_paid_call(tmp_path: Path) -> None:
    home, researcher = open_home(tmp_path / "home"), Researcher()

    def wait_for(condition: Callable[[], object], what: str) -> None:
        until(condition, what, patience_s=1500, turn=lambda: time.sleep(0.2))

    @contextmanager
    def killed_lab(address: str) -> Iterator[None]:
        environment = {**os.environ, "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "a key"}
        command = [sys.executable, "-m", "tests.fakes.code_campaign", str(home.root)]
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    with played(researcher) as address:
        for number, phase in enumerate(PHASES):
            researcher.hold(min(number, 3) if phase is None else 3)
            with killed_lab(address):
                wait_for(researcher.waits.is_set, f"the call {number} of the model")
                wait_for(lambda phase=phase: phase is None or has_come(home, phase), f"{phase}")
            researcher.release(sends=False)
            wait_for(lambda number=number: researcher.lost == number + 1, "the end of the call")
        researcher.hold(3)
        with killed_lab(address):
            wait_for(lambda: has_come(home, ExperimentDecided), "the decision")
            wait_for(researcher.waits.is_set, "the last call of the model")
            researcher.release(sends=True)
            researcher.hold(0)  # of the next turn
            wait_for(lambda: recorded(home, AgentTurned), "the end of the turn")
    assert researcher.given == [0, 1, 2, 3], "each answer was paid for once"
    calls = [one.outcome for one in recorded(home, ModelCalled) if isinstance(one, ModelCalled)]
    assert (calls.count("answered"), calls.count("lost")) == (4, len(PHASES))
    [refused, accepted] = [one for one in recorded(home, ExperimentSubmitted) if isinstance(one, ExperimentSubmitted)]
    [decided] = [one for one in recorded(home, ExperimentDecided) if isinstance(one, ExperimentDecided)]
    assert (decided.experiment_id, decided.decision, refused.commit) == (accepted.experiment_id, "keep", "")
    assert len(recorded(home, HypothesisProposed)) == 1
    assert CodeRepository(home.root).files(accepted.commit) == FILES
    ledger = SqliteLedger(home.ledger)
    assert [check for check in recompute(ledger) if not check.equal] == []
    assert rebuilt(ledger, "C1").champion == decided.policy_id
    ledger.close()
