"""What people meet when something is wrong: one sentence on stderr and the exit code that cli.md promises."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
import yaml
from typer.testing import CliRunner

from enpire.campaign.events import LedgerEntry
from enpire.cli import app
from enpire.gate.trials import DISK_FULL
from enpire.station.station_file import write_station
from enpire.store.ledger import SqliteLedger
from enpire.wire.curve_keys import enroll, server_keys
from tests.chaos.harness import Orchestrator, until
from tests.chaos.point_lab import write_campaign
from tests.fakes.point_task import environment, point_station
from tests.fakes.sample_events import append

PATIENCE_S = 300.0


def enpire(*words: object) -> subprocess.CompletedProcess[str]:
    """In this process, which is many times quicker: for commands that end before they start anything."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return subprocess.CompletedProcess([*map(str, words)], done.exit_code, done.stdout, done.stderr)


def in_a_process(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enpire.cli", *map(str, words)]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def is_a_sentence(done: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> None:
    """The last line says it; nothing on stdout, no traceback."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    said = done.stderr.strip().splitlines()[-1]
    assert all(word in said for word in words), said


def changed(path: Path, **more: object) -> Path:
    content = yaml.safe_load(path.read_text())
    for key, value in more.items():
        content[key] = {**content[key], **value} if isinstance(value, Mapping) else value
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_missing_file_an_unknown_task_and_a_wrong_key_word(tmp_path: Path) -> None:
    missing = in_a_process("run", tmp_path / "none.yaml", "--home", tmp_path / "home")
    is_a_sentence(missing, "none.yaml", "does not exist")
    campaign = changed(write_campaign(tmp_path), task="sewing")
    is_a_sentence(enpire("run", campaign, "--home", tmp_path / "home", "--headless"), "'sewing'", "pin_insertion")
    campaign = changed(campaign, colour="red")
    is_a_sentence(enpire("run", campaign, "--home", tmp_path / "home"), "unknown key 'colour'", "allowed are")


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("stations", {"lanes": -2}), ("stations", {"count": -1}), ("budget", {"wall_s": -900}),
        ("base", {"demonstrations": 0}), ("rounds", {"episodes": 0}), ("goal", {"confirm_starts": 0}),
    ],
    ids=str,
)  # fmt: skip
def test_a_number_that_cannot_be_is_said_before_anything_is_written(
    tmp_path: Path, section: str, value: dict[str, int]
) -> None:
    campaign = changed(write_campaign(tmp_path), **{section: value})
    done = enpire("run", campaign, "--home", tmp_path / "home", "--headless")
    is_a_sentence(done, f"{section} {next(iter(value))} must be at least", f"not {next(iter(value.values()))}")
    assert not (tmp_path / "home" / "ledger.db").exists()


def test_an_unknown_recipe_or_host_leaves_no_campaign_behind(tmp_path: Path) -> None:
    home = tmp_path / "home"
    campaign = write_campaign(tmp_path)
    is_a_sentence(enpire("run", campaign, "--home", home, "--headless", "--on", "mars"), "'mars'", "local, lossy, ray")
    unknown = enpire("run", changed(campaign, recipe="soup"), "--home", home, "--headless")
    is_a_sentence(unknown, "'soup'", "habc")
    assert "files go to" not in unknown.stderr
    is_a_sentence(
        enpire("run", changed(campaign, stations={"driver": "mujocco"}), "--home", home, "--headless"),
        "driver called 'mujocco'", "mujoco",
    )  # fmt: skip
    campaign = write_campaign(tmp_path)
    late = tmp_path / "late.yaml"
    late.write_text("name: late\nlearner: sequence\nsettings: {stages: 'filtered_bc 2, habc_pluss'}\n")
    is_a_sentence(enpire("run", changed(campaign, recipe=str(late)), "--home", home, "--headless"), "'habc_pluss'")
    assert not home.exists()


def test_pages_of_a_home_that_does_not_exist_are_refused_and_nothing_is_made(tmp_path: Path) -> None:
    home = tmp_path / "typo"
    for made in (False, True):
        if made:
            home.mkdir()
        is_a_sentence(enpire("serve", "--home", home), "is no home of a lab", f"enpire run CAMPAIGN --home {home}")
        assert not list(home.glob("*"))


def test_a_task_file_that_is_not_python(tmp_path: Path) -> None:
    (tmp_path / "halfway.py").write_text("class Reach(:\n")
    command = [sys.executable, "-m", "enpire.cli", "task", "show", "halfway:Reach"]
    surroundings = {**environment(), "PYTHONPATH": f"{environment().get('PYTHONPATH', '')}:{tmp_path}"}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    is_a_sentence(done, "halfway:Reach", "not Python", "line 1")


def with_file(folder: Path, name: str, text: str, *words: object) -> subprocess.CompletedProcess[str]:
    """A verb where Python also finds one more file."""
    (folder / f"{name}.py").write_text(text)
    surroundings = {**environment(), "PYTHONPATH": f"{environment().get('PYTHONPATH', '')}:{folder}"}
    command = [sys.executable, "-m", "enpire.cli", *map(str, words)]
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0\n", ("fails on import", "division by zero", "line 1")),
        ("def Task():\n    raise KeyError('gripper')\n", ("cannot be made", "KeyError", "gripper", "line 2")),
        ("Task = 3\n", ("is int", "class or a function")),
    ],
    ids=["import", "construction", "no callable"],
)
def test_a_task_file_that_raises(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    is_a_sentence(with_file(tmp_path, "mine", text, "task", "show", "mine:Task"), "'mine:Task'", *words)


def test_a_learner_that_raises_on_import_is_said_before_anything_is_written(tmp_path: Path) -> None:
    recipe = tmp_path / "own.yaml"
    recipe.write_text(yaml.safe_dump({"name": "own", "learner": "own:Learner"}))
    campaign = changed(write_campaign(tmp_path / "files"), recipe=str(recipe))
    done = with_file(tmp_path, "own", "1 / 0\n", "run", campaign, "--home", tmp_path / "home", "--headless")
    is_a_sentence(done, "'own:Learner'", "fails on import", "division by zero")
    assert not (tmp_path / "home" / "ledger.db").exists()


def test_a_driver_file_that_raises(tmp_path: Path) -> None:
    driver = tmp_path / "arm.py"
    driver.write_text("1 / 0\n")
    is_a_sentence(enpire("robot", "check", driver), "arm.py", "division by zero")


def test_a_database_that_is_no_ledger(tmp_path: Path) -> None:
    for name, statement, said in (("foreign", "CREATE TABLE a (b)", "not an ENPIRE"), ("empty", "VACUUM", "is empty")):
        (tmp_path / name).mkdir()
        database = sqlite3.connect(tmp_path / name / "ledger.db")
        database.execute(statement)
        database.close()
        before = (tmp_path / name / "ledger.db").read_bytes()
        is_a_sentence(enpire("campaign", "list", "--home", tmp_path / name), *said.split()[-1:], "ledger.db")
        assert (tmp_path / name / "ledger.db").read_bytes() == before


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one campaign that has a hundred events and one version."""
    home = tmp_path_factory.mktemp("recorded")
    ledger = SqliteLedger(home / "ledger.db")
    started = {"campaign_id": "c1", "name": "reach", "task": "reach", "goal": {"success": 0.9, "confirm_starts": 5}}
    append(ledger, [("campaign started", started), *[("note", {"campaign_id": "c1", "number": n}) for n in range(100)]])
    ledger.close()
    return home


def test_a_reader_that_has_enough(recorded: Path) -> None:
    tail = f"{sys.executable} -m enpire.cli ledger tail -n 100 --home {recorded}"
    command = ["bash", "-c", f"{tail} | head -1 > /dev/null; echo ${{PIPESTATUS[0]}}"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_tool_server_on_a_port_that_is_in_use(recorded: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = in_a_process("mcp", "--http", f"127.0.0.1:{taken.getsockname()[1]}", "--home", recorded)
    is_a_sentence(done, "Cannot listen", "choose another port")


def test_places_that_cannot_be_written(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "below.html"):
        is_a_sentence(enpire("report", "--home", recorded, "-o", place), str(tmp_path))
    is_a_sentence(enpire("policy", "export", "abc", tmp_path, "--home", recorded), "no version begins with 'abc'")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_home_that_can_only_be_read(recorded: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(["mount", "--bind", recorded, home], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", home], check=True)
        assert in_a_process("campaign", "list", "--home", home).returncode == 0
        is_a_sentence(in_a_process("report", "--home", home), str(home))
        done = in_a_process("run", write_campaign(tmp_path / "files"), "--home", home, "--headless")
        is_a_sentence(done, str(home), "--home")
    finally:
        subprocess.run(["umount", "-l", home], check=True)


@pytest.mark.parametrize(
    "words", [["run", "pin_insertion", "--seed", "-1"], ["gate", "a", "b", "--seed", "-1"]], ids=" ".join
)
def test_a_negative_seed_is_wrong_usage(words: list[str]) -> None:
    is_a_sentence(enpire(*words), "--seed", "-1", code=2)


def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        campaign = write_campaign(tmp_path, bind=f"tcp://127.0.0.1:{taken.getsockname()[1]}")
        done = in_a_process("run", campaign, "--home", tmp_path / "home", "--headless")
    is_a_sentence(done, "Cannot listen", "another address or port")


def test_a_second_orchestrator_of_one_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ledger = SqliteLedger(home / "ledger.db")
    try:
        done = in_a_process("run", write_campaign(tmp_path), "--home", home, "--headless")
    finally:
        ledger.close()
    is_a_sentence(done, "one orchestrator at a time", str(os.getpid()))


def test_a_station_with_a_key_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "alpha.yaml"
    bad = tmp_path / "alpha.secret"
    bad.write_text("nothing")
    bad.chmod(0o600)
    server_key = server_keys(tmp_path / "keys").public.decode()
    write_station(point_station(tmp_path, key_file=bad, server_key=server_key), path)
    is_a_sentence(enpire("station", path, "--connect", "tcp://127.0.0.2:9"), "alpha.secret", "two lines")
    key_file = enroll(tmp_path / "keys", "alpha")
    key_file.chmod(0o644)
    write_station(point_station(tmp_path, key_file=key_file, server_key=server_key), path)
    is_a_sentence(enpire("station", path, "--connect", "tcp://127.0.0.2:9"), "chmod 600")


def test_a_station_that_would_speak_plainly_over_a_network(tmp_path: Path) -> None:
    path = tmp_path / "alpha.yaml"
    write_station(point_station(tmp_path), path)
    for host in ("10.0.0.1", "127.0.0.1"):
        is_a_sentence(enpire("station", path, "--connect", f"tcp://{host}:7000"), "needs keys")


@pytest.mark.realtime
def test_ctrl_c_stops_in_good_order_and_the_same_command_goes_on(tmp_path: Path) -> None:
    lab = Orchestrator(write_campaign(tmp_path / "files"), tmp_path / "home")
    lab.start()
    try:
        until(lambda: lab.said().count("joined") == 2, "both stations")
        began = time.monotonic()
        assert lab.end(signal.SIGINT) == 130
        # Two seconds are promised on a machine of one's own; the margin is for one that is busy with other tests.
        assert time.monotonic() - began < 20.0
        assert "the same command resumes" in lab.said()
        assert "Traceback" not in lab.said()
    finally:
        lab.kill_all()


def test_a_policy_that_answers_with_nan_moves_no_robot_and_ends_no_campaign(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path / "files")
    recipe = tmp_path / "files" / "nan.yaml"
    recipe.write_text(yaml.safe_dump({"name": "nan", "learner": "tests.chaos.point_lab:NotANumber"}))
    lab = Orchestrator(changed(campaign, base={"recipe": str(recipe)}), tmp_path / "home")
    lab.start()
    try:
        until(lambda: "joined" in lab.said(), "a station, so that the ledger has been made")
        until(
            lambda: ("aborted", "policy returned a value that is not finite") in ends(lab.home), "the policy's trials"
        )
        assert lab.end(signal.SIGINT) == 130, lab.said()
    finally:
        lab.kill_all()
    assert "Traceback" not in lab.said()
    assert {outcome for outcome, _ in ends(lab.home)} == {"aborted"}


def ends(home: Path, without: str = "demonstrate") -> set[tuple[str, str]]:
    """(outcome, cause) of the orders that ended, without those of one purpose."""
    if not (home / "ledger.db").is_file():
        return set()
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        asked = "SELECT outcome, cause FROM orders WHERE purpose <> ? AND outcome IS NOT NULL"
        return {(str(outcome), str(cause)) for outcome, cause in ledger.database.execute(asked, (without,)).fetchall()}
    finally:
        ledger.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.slow
def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", small], check=True)
    lab = Orchestrator(write_campaign(tmp_path / "files"), small / "home")
    lab.log = tmp_path / "log"
    try:
        lab.start()
        until(lambda: "joined" in lab.said(), "a station")
        until(lambda: ends(small / "home", without=""), "an episode")
        while subprocess.run(["mount", "-o", f"remount,size={_used(small)}", small], check=False).returncode:
            pass
        until(lambda: "Until then stations get no new orders" in lab.said(), "the sentence")
        subprocess.run(["mount", "-o", "remount,size=1g", small], check=True)
        until(lambda: order_ids(small / "home", after="campaign resumed"), "new orders")
        before = order_ids(small / "home", before="campaign resumed")
        until(lambda: not before & still_open(small / "home"), "the end of each order from before")
        assert lab.end() == 130
        logs = "".join(path.read_text() for path in (small / "home" / "stations" / "logs").glob("*.log"))
        assert "Traceback" not in lab.said() + logs
        assert events(small / "home", "campaign resumed")[0].body["after"] == DISK_FULL
    finally:
        lab.kill_all()
        subprocess.run(["umount", "-l", small], check=False)


def events(home: Path, kind: str) -> list[LedgerEntry]:
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        return list(ledger.events(kinds=(kind,)))
    finally:
        ledger.close()


def order_ids(home: Path, *, before: str = "", after: str = "") -> set[str]:
    """Ids of the orders that were issued before or after the first event of a kind."""
    marks = events(home, before or after)
    if not marks:
        return set()
    issued = [event for event in events(home, "order issued") if (event.seq < marks[0].seq) == bool(before)]
    return {order["order_id"] for event in issued for order in cast("list[dict[str, str]]", event.body["orders"])}


def still_open(home: Path) -> set[str]:
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        return {
            order_id for (order_id,) in ledger.database.execute("SELECT order_id FROM orders WHERE outcome IS NULL")
        }
    finally:
        ledger.close()


def _used(folder: Path) -> int:
    now = os.statvfs(folder)
    return (now.f_blocks - now.f_bfree) * now.f_frsize
