from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from enpire.cli import app
from enpire.home import open_home
from enpire.requests import operator_commands
from enpire.station.station_file import read_station
from enpire.store.ledger import SqliteLedger
from enpire.wire.curve_keys import server_keys, station_keys
from tests.fakes.sample_campaign import BASE, CAMPAIGN, RULE, SECOND, begin, record_campaign

READING = (
    ["campaign", "list"], ["campaign", "show"], ["policy", "list"], ["policy", "show", "cccc"], ["episodes", "list"],
    ["episodes", "show", f"01J{7:023}"], ["ledger", "verify", "--ledger-only"], ["ledger", "head"],
    ["ledger", "tail"], ["ledger", "recompute"],
)  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    record_campaign(folder)
    return folder


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("verb", READING, ids=" ".join)
def test_reading_verbs_give_one_json_document_and_nothing_else(lab: Path, verb: list[str]) -> None:
    result = enpire(*verb, "--home", lab, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    json.loads(result.stdout)


@pytest.mark.parametrize("verb", READING, ids=" ".join)
def test_reading_verbs_give_text_to_people(lab: Path, verb: list[str]) -> None:
    result = enpire(*verb, "--home", lab)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip()
    assert not result.stdout.startswith(("{", "["))


def test_policies_of_a_task_whose_simulation_judges_say_so(lab: Path, tmp_path: Path) -> None:
    assert "success on hidden starts, simulator truth" not in enpire("policy", "list", "--home", lab).stdout
    record = begin(tmp_path)
    kind, body = record.entries[0]
    record.entries[0] = (kind, json.loads(json.dumps(body).replace('"pin_insertion"', '"gym:push.yaml"')))
    record.flush()
    assert "success on hidden starts, simulator truth" in enpire("policy", "list", "--home", tmp_path).stdout


def test_a_campaign_is_shown_with_its_figures(lab: Path) -> None:
    shown = json.loads(enpire("campaign", "show", "--home", lab, "--json").stdout)
    assert shown["id"] == CAMPAIGN
    assert shown["champion"]["id"] == SECOND
    assert shown["confirm"]["n"] == 60
    assert shown["episodes"]["total"] == 281


def test_a_gate_that_has_not_decided_is_shown_with_its_pairs(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.learn(1, BASE, SECOND)
    sides = {"gate_id": f"01J{1:023}", "champion": BASE, "candidate": SECOND, "round": 1}
    record.tell("gate opened", **sides, k=1, alpha=0.05, promoted=0, rule=asdict(RULE))
    record.flush()
    lines = enpire("campaign", "show", "--home", tmp_path).stdout.splitlines()
    [first_round] = [line for line in lines if line.startswith("    1  ") and "asked" not in line]
    assert first_round.endswith("  deciding: +0 -0 in 0 pairs")


def test_the_two_units_of_robot_time_are_named(lab: Path) -> None:
    text = enpire("campaign", "show", "--home", lab).stdout
    assert re.search(r"^stations +utilisation \d+%; their time: rollout", text, re.M)
    assert re.search(r"^robot-hours +\d+\.\d\d, every lane of a station is a robot;", text, re.M)


def test_lists_say_when_and_count_one_as_one(lab: Path) -> None:
    listed = enpire("episodes", "list", "--home", lab, "--limit", "1").stdout.splitlines()
    assert listed[0].split()[:3] == ["episode", "ended", "(UTC)"]
    assert re.search(r" 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d ", listed[1])
    tail = enpire("ledger", "tail", "--home", lab, "-n", "1000").stdout
    assert "orders ended        1 episode\n" in tail
    assert "1 episodes" not in tail


def test_the_home_may_come_from_the_environment(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENPIRE_HOME", str(lab))
    assert json.loads(enpire("campaign", "list", "--json").stdout)[0]["id"] == CAMPAIGN


def test_a_problem_is_one_sentence_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    result = enpire("campaign", "show", "--home", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "enpire demo" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("place", [0, 2, 4])
def test_debug_may_stand_anywhere_and_shows_the_traceback(tmp_path: Path, place: int) -> None:
    words = ["campaign", "show", "--home", str(tmp_path)]
    result = enpire(*words[:place], "--debug", *words[place:])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr


@pytest.mark.parametrize(
    "words", [["nonsense"], ["campaign", "nonsense"], ["episodes", "list", "--limit", "0"]], ids=" ".join
)
def test_wrong_usage_is_exit_code_2(words: list[str]) -> None:
    assert enpire(*words).exit_code == 2


def test_a_policy_that_is_not_there_is_named_with_those_that_are(lab: Path) -> None:
    result = enpire("policy", "show", "zz", "--home", lab)
    assert result.exit_code == 1
    assert SECOND[:12] in result.stderr


def test_pages_of_episodes_go_on(lab: Path) -> None:
    first = json.loads(enpire("episodes", "list", "--home", lab, "--limit", "3", "--json").stdout)
    second = json.loads(
        enpire("episodes", "list", "--home", lab, "--limit", "3", "--before", first["next"], "--json").stdout
    )
    assert first["rows"][-1]["order_id"] > second["rows"][0]["order_id"]


def test_a_command_waits_in_the_inbox_of_a_campaign_that_is_busy(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    begin(tmp_path).flush()
    driver = SqliteLedger(home.ledger)
    try:
        result = enpire("policy", "promote", "bbbb", "--home", tmp_path)
    finally:
        driver.close()
    assert result.exit_code == 0, result.stderr
    assert "policy promote bbbbbbbbbbbb: requested; no answer within 2 s" in result.stderr
    (found,) = [
        command
        for command in operator_commands.waiting(home.inbox)
        if isinstance(command, operator_commands.OperatorCommand)
    ]
    assert (found.kind, found.target) == ("promote", "b" * 64)
    assert found.operator


def test_a_command_without_a_running_campaign_is_refused_and_left_nowhere(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    begin(tmp_path).flush()
    result = enpire("campaign", "pause", "--home", tmp_path)
    assert result.exit_code == 1
    assert "No campaign runs" in result.stderr
    assert list(operator_commands.waiting(home.inbox)) == []


def test_an_interrupted_campaign_can_be_ended_although_nothing_runs(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.order("collect", "b" * 64, 1)
    record.flush()
    assert json.loads(enpire("campaign", "show", "--home", tmp_path, "--json").stdout)["state"] == "interrupted"
    result = enpire("campaign", "stop", "--home", tmp_path)
    assert result.exit_code == 0, result.stderr
    shown = json.loads(enpire("campaign", "show", "--home", tmp_path, "--json").stdout)
    assert (shown["state"], shown["episodes"]["open"], shown["episodes"]["unknown"]) == ("ended", 0, 1)
    assert enpire("ledger", "verify", "--ledger-only", "--home", tmp_path).exit_code == 0
    again = enpire("campaign", "stop", "--home", tmp_path)
    assert again.exit_code == 1
    assert "none to end" in again.stderr


def test_a_decision_that_does_not_come_out_again_is_exit_code_1(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.tell("confirm opened", policy_id="b" * 64, n=5, goal=0.9)
    for _ in range(5):
        record.run("confirm", "b" * 64, 0, 0.0)
    record.tell("confirmed", policy_id="b" * 64, successes=5, n=5, low=0.56, high=1.0, passed=True)
    record.flush()
    result = enpire("ledger", "recompute", "--home", tmp_path)
    assert result.exit_code == 1
    assert "DIFFERENT" in result.stdout


def test_a_flipped_byte_is_found_by_verify(tmp_path: Path) -> None:
    import sqlite3

    begin(tmp_path).flush()
    database = sqlite3.connect(tmp_path / "ledger.db")
    database.execute("UPDATE events SET kind = 'deployeD' WHERE kind = 'deployed'")
    database.commit()
    database.close()
    result = enpire("ledger", "verify", "--home", tmp_path)
    assert result.exit_code == 1
    assert "does not verify" in result.stderr


def test_the_report_lands_where_it_is_wanted(lab: Path, tmp_path: Path) -> None:
    target = tmp_path / "morning.html"
    result = enpire("report", "--home", lab, "-o", target)
    assert result.exit_code == 0
    assert result.stdout.strip() == str(target)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_resume_refuses_where_nothing_is_unfinished(lab: Path) -> None:
    result = enpire("run", "pin_insertion", "--resume", "--home", lab)
    assert result.exit_code == 1
    assert "no unfinished campaign" in result.stderr


def test_a_station_is_enrolled_once_with_a_key_that_only_its_owner_reads(tmp_path: Path) -> None:
    result = enpire("station", "enroll", "cell-7", "--connect", "tcp://lab:7000", "--home", tmp_path)
    assert result.exit_code == 0, result.output
    key_file = tmp_path / "keys" / "cell-7.secret"
    assert key_file.stat().st_mode & 0o077 == 0
    assert (tmp_path / "keys" / "allowed" / "cell-7.public").is_file()
    written = read_station(tmp_path / "keys" / "cell-7.yaml")
    assert (written.name, written.connect, written.key_file) == ("cell-7", "tcp://lab:7000", key_file)
    assert station_keys(key_file, written.server_key).server == server_keys(tmp_path / "keys").public
    again = enpire("station", "enroll", "cell-7", "--home", tmp_path)
    assert again.exit_code == 1
    assert "enrolled already" in again.stderr


def test_a_station_file_that_is_missing_is_a_sentence(tmp_path: Path) -> None:
    assert enpire("station", tmp_path / "none.yaml").exit_code == 1
    assert enpire("station", "enroll").exit_code == 1
    assert "did you mean" in enpire("station", "cell.yaml", "cell-7").stderr


def test_tasks_are_listed() -> None:
    listed = json.loads(enpire("task", "list", "--json").stdout)
    assert "pin_insertion" in [item["name"] for item in listed]


def test_the_doctor_answers_in_json() -> None:
    result = enpire("doctor", "--json")
    checks = json.loads(result.stdout)
    assert result.exit_code == int(any(item["level"] == "FAIL" for item in checks))
    assert {"level", "subject", "found", "fix"} == set(checks[0])


def test_help_names_every_verb_and_hides_the_learner() -> None:
    text = enpire("--help").stdout
    for verb in [
        "demo",
        "run",
        "serve",
        "station",
        "campaign",
        "task",
        "policy",
        "episodes",
        "improve",
        "gate",
        "ledger",
        "report",
        "doctor",
    ]:
        assert f"\n  {verb} " in text, verb
    assert "\n  learner " not in text
