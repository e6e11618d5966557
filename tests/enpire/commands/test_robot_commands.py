"""`enpire robot` and `enpire episodes export` through the real command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from enpire.datasets.lerobot_import import import_dataset
from enpire.queries.campaigns import open_records
from robot_drivers.guard_client import GuardControl, start_guard
from robot_drivers.guard_settings import GuardSettings
from tests.enpire.datasets.test_episode_images import recorded
from tests.fakes.sample_events import append


def enpire(*arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
    """A verb without a terminal: what it asks for is read from `said`."""
    command = [sys.executable, "-m", "enpire.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, input=said, start_new_session=True)


def test_drivers_are_listed_and_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    listed = enpire("robot", "list", "--json")
    assert {"fake", "mujoco", "lerobot", "ros2", "remote"} <= {item["name"] for item in json.loads(listed.stdout)}
    assert all(item["what"].endswith(".") and ":" in item["where"] for item in json.loads(listed.stdout))
    missing = enpire("robot", "check", str(tmp_path / "arm.py"))
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1
    assert "does not exist" in missing.stderr
    card = GuardSettings(driver="arm.py", folder=tmp_path).card
    assert f"`{card.name}`" in enpire("robot", "stop", "--help").stdout
    nobody = enpire("robot", "stop", str(card))
    assert nobody.returncode == 1
    assert "No guard answers" in nobody.stderr


def test_a_person_makes_a_code_and_resumes_the_robot_with_it(tmp_path: Path) -> None:
    driver = tmp_path / "arm.py"
    driver.write_text("from robot_drivers.fake_robot import robot\n")
    settings = GuardSettings(driver=str(driver), folder=tmp_path / "arm")
    made = enpire("robot", "code", str(settings.folder))
    guard = start_guard(settings)
    try:
        wrong = enpire("robot", "resume", str(settings.card), said="aaaa-aaaa\n")
        assert wrong.returncode == 1
        assert "not this robot's code" in wrong.stderr
        right = enpire("robot", "resume", str(settings.card), said=made.stdout)
        assert "The robot may move again." in right.stdout
        with GuardControl(settings.card) as control:
            assert not control.status()["latched"]
            control.quit()
    finally:
        guard.terminate()
        guard.communicate()


def test_a_stop_that_comes_while_the_operator_types_the_code_holds(tmp_path: Path) -> None:
    driver = tmp_path / "arm.py"
    driver.write_text("from robot_drivers.fake_robot import robot\n")
    settings = GuardSettings(driver=str(driver), folder=tmp_path / "arm")
    made = enpire("robot", "code", str(settings.folder))
    guard = start_guard(settings)
    command = [sys.executable, "-m", "enpire.cli", "robot", "resume", str(settings.card)]
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        ) as typing:
            assert typing.stdin is not None
            assert typing.stdout is not None
            said = b""
            while b"code" not in said:
                said += typing.stdout.read(1)
            with GuardControl(settings.card) as control:
                control.stop("a colleague at the cell")
                said += typing.communicate(made.stdout.encode(), timeout=600)[0]
                assert control.status()["latched"]
                control.quit()
        assert typing.returncode == 1
        assert b"was closed again after this permission was requested" in said
    finally:
        guard.terminate()
        guard.communicate()


def test_hidden_starts_never_leave_the_lab_and_the_rest_does(tmp_path: Path) -> None:
    from enpire.codec import order_fields, result_fields, result_of
    from enpire.datasets.dataset_export import export_episodes, wanted
    from enpire.home import open_home

    home = open_home(tmp_path / "home")
    ledger = recorded(home, "sim-1")
    from dataclasses import replace

    from enpire.store.episodes import FolderStore

    episode = FolderStore(home.episodes).get("E1")
    hidden = replace(episode.order, order_id="E2", start=replace(episode.order.start, split="holdout"), purpose="base")
    orders = [order_fields(episode.order), order_fields(hidden)]
    append(ledger, [("order issued", {"campaign_id": "C1", "orders": orders})])
    ended = [result_fields(result_of(episode)), result_fields(result_of(replace(episode, order=hidden)))]
    append(ledger, [("orders ended", {"campaign_id": "C1", "episodes": ended})])
    with open_records(home.root) as records:
        chosen = wanted(records, "C1", 10)
    assert chosen == ["E1"]
    assert export_episodes(home, chosen, tmp_path / "dataset").written == 1
    back = list(import_dataset(tmp_path / "dataset"))
    assert [item.uid for item in back] == ["E1"]
    assert back[0].outcome == "failure"
    ledger.close()
