"""Any command undoes the write of a process that was killed inside a commit; no hand is needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from enpire.campaign.campaign import read_campaign
from enpire.home import open_home
from enpire.steps.begin import begin_or_resume
from enpire.store.ledger import SqliteLedger, open_to_read
from tests.chaos.harness import Orchestrator, until
from tests.chaos.point_lab import write_campaign
from tests.enpire.commands.test_typed_commands import enpire
from tests.fakes.point_task import environment
from tests.fakes.sample_campaign import CAMPAIGN, THIRD, record_campaign
from tests.faults.cut_commit import INSIDE, cut_a_commit, is_cut
from tests.faults.system_calls import STRACE, WHY_NOT

pytestmark = pytest.mark.skipif(STRACE is None, reason=WHY_NOT)
READING = (
    "report", "campaign list", "campaign show", "campaign stop", "ledger verify", "ledger verify --ledger-only",
    "ledger recompute", "ledger tail",
    "episodes list", "episodes audit", "policy list", "doctor", f"policy show {THIRD[:12]}",
)  # fmt: skip
"""Subcommands that only read, or that end before they write."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("recorded")
    record_campaign(home)
    with closing(SqliteLedger(home / "ledger.db")) as ledger:
        if ledger.database.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            pytest.skip("a write-ahead log leaves no hot journal")
    return home


@pytest.fixture(scope="module")
def cut_once(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the home, whose last commit was cut. No test touches it: whoever reads it may undo the write."""
    home = tmp_path_factory.mktemp("cut") / "home"
    shutil.copytree(recorded, home)
    cut_a_commit(home, CAMPAIGN)
    return home


@pytest.fixture
def cut(cut_once: Path, tmp_path: Path) -> Path:
    """A copy of the home whose last commit was cut."""
    home = tmp_path / "home"
    shutil.copytree(cut_once, home)
    assert is_cut(home)
    return home


def count(home: Path) -> int:
    with closing(open_to_read(home / "ledger.db")) as ledger:
        return ledger.verify()


@pytest.mark.parametrize("words", READING)
def test_a_subcommand_undoes_the_write_and_answers(cut: Path, recorded: Path, words: str) -> None:
    whole = enpire(*words.split(), "--home", recorded)
    result = enpire(*words.split(), "--home", cut)
    assert result.exit_code == whole.exit_code, result.output
    assert "Traceback" not in result.output
    assert "the middle of a write" not in result.output
    if words != "doctor":  # it looks at the machine
        assert not is_cut(cut)
    assert count(cut) == count(recorded)


@pytest.mark.parametrize("sync", INSIDE)
def test_the_write_is_undone_wherever_the_commit_was_cut(recorded: Path, tmp_path: Path, sync: int) -> None:
    shutil.copytree(recorded, tmp_path / "home")
    cut_a_commit(tmp_path / "home", CAMPAIGN, sync)
    whole = enpire("ledger", "verify", "--ledger-only", "--home", recorded)
    result = enpire("ledger", "verify", "--ledger-only", "--home", tmp_path / "home")
    assert (result.exit_code, is_cut(tmp_path / "home")) == (0, False), result.output
    assert result.stdout == whole.stdout, "the head is another one"
    assert count(tmp_path / "home") == count(recorded)


def test_a_label_is_written_after_the_write_is_undone(cut: Path, recorded: Path) -> None:
    labelled = enpire("episodes", "judge", f"01J{77:023}", "success", "--home", cut)
    assert labelled.exit_code == 0, labelled.output
    assert count(cut) == count(recorded) + 1


def test_the_tools_of_agents_answer(cut: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }}  # fmt: skip
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_brief", "arguments": {}}}
    said = "".join(f"{json.dumps(message)}\n" for message in (hello, {
        "jsonrpc": "2.0", "method": "notifications/initialized"}, asked))  # fmt: skip
    command = [sys.executable, "-m", "enpire.cli", "mcp", "--home", str(cut)]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tools:
        assert tools.stdin is not None
        assert tools.stdout is not None
        tools.stdin.write(said)
        tools.stdin.flush()
        answers = [json.loads(tools.stdout.readline()) for _ in range(2)]
        tools.stdin.close()
        tools.wait(600)
    assert "the middle of a write" not in json.dumps(answers)
    assert answers[1]["id"] == 2
    assert not is_cut(cut)


def test_the_pages_are_served(cut: Path, tmp_path: Path) -> None:
    with served(cut, tmp_path / "serve.log") as address:
        assert urllib.request.urlopen(address, timeout=600).status == 200
        until(lambda: not is_cut(cut), "the pages to undo the write")


class served:  # noqa: N801 - a context manager
    """`enpire serve` of a home."""

    def __init__(self, home: Path, log: Path) -> None:
        self.home, self.log = home, log

    def __enter__(self) -> str:
        command = [sys.executable, "-m", "enpire.cli", "serve", "--home", str(self.home), "--port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)
        until(lambda: "Page: " in self.log.read_text(), "the address of the pages")
        found = re.search(r"Page: (http://[^/\s]+)", self.log.read_text())
        assert found is not None
        return found[1]

    def __exit__(self, *problem: object) -> None:
        self.process.terminate()
        self.process.wait(600)


@pytest.fixture
def unfinished(tmp_path: Path) -> Iterator[Orchestrator]:
    """A campaign without stations, whose orchestrator was killed inside its second commit."""
    file, home = write_campaign(tmp_path / "files", stations=0), open_home(tmp_path / "home")
    with closing(SqliteLedger(home.ledger)) as ledger:
        campaign_id = begin_or_resume(ledger, read_campaign(file), home).campaign_id
    cut_a_commit(home.root, campaign_id)
    lab = Orchestrator(file, home.root)
    yield lab
    lab.kill_all()


def kinds(home: Path) -> list[str]:
    with closing(SqliteLedger(home / "ledger.db", read_only=True)) as ledger:
        return [entry.kind for entry in ledger.events()]


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_run_and_run_resume_continue_the_campaign(unfinished: Orchestrator, resume: tuple[str, ...]) -> None:
    unfinished.options = resume
    unfinished.start()
    until(lambda: not unfinished.alive or not is_cut(unfinished.home), "the write to be undone")
    assert unfinished.alive, unfinished.said()
    until(lambda: "campaign resumed" in kinds(unfinished.home), "the campaign")
    assert "person needed" not in kinds(unfinished.home)
    assert unfinished.end() == 130


def test_an_interrupted_campaign_can_be_ended(unfinished: Orchestrator) -> None:
    result = enpire("campaign", "stop", "--home", unfinished.home)
    assert result.exit_code == 0, result.output
    assert kinds(unfinished.home)[-1] == "campaign ended"


def test_a_reader_waits_for_the_orchestrator_that_undoes_the_write(cut: Path) -> None:
    code = (
        f"import time; from pathlib import Path; from enpire.store import ledger\n"
        f"ledger._lock_file(Path({str(cut)!r}) / 'ledger.lock', Path({str(cut)!r}) / 'ledger.db')\n"
        f"print('locked', flush=True); time.sleep(0.4)\n"
        f"from enpire.store.connection import open_writer; open_writer(Path({str(cut)!r}) / 'ledger.db')\n"
        f"time.sleep(30)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as starting:
        try:
            assert starting.stdout is not None
            assert starting.stdout.readline() == "locked\n"
            assert count(cut) > 100
            assert starting.poll() is None
        finally:
            starting.kill()
