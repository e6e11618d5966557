"""The quick form of every attack of benchmarks/attacks: the product withstands every attempt.

Those that are marked slow run with the slow tests; for those of `HELD_BY`, fast tests keep the same promise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.attacks import Attack, Result, Run, attacks
from enpire.errors import UsageError

ALL = attacks()
LONG = {"take everything", "find hidden starts", "flood during stops"}
"""Attacks whose quick form takes longer than ten seconds where other tests run beside it."""
ELSEWHERE = {"kills on a ray cluster"}
"""Made by tests/chaos/test_ray_learners.py, on the cluster of the other tests."""
HELD_BY: dict[str, tuple[str, ...]] = {
    "a lerobot checkpoint that starts a program": (
        "tests/policies/test_checkpoint_admission.py"
        "::test_a_version_that_is_more_than_data_is_refused_before_lerobot_is_imported",
    ),
    "a kind that names code": (
        "tests/enpire/station/test_policy_cache.py"
        "::test_a_kind_that_could_be_any_code_is_loaded_only_if_the_stations_own_file_names_it",
    ),
    "a reward model that brings code": (
        "tests/policies/test_reward_admission.py"
        "::test_no_verifier_is_made_of_a_hostile_model_and_lerobot_is_not_imported",
        "tests/policies/test_reward_admission.py"
        "::test_a_model_that_turns_hostile_before_its_first_verdict_is_refused_before_lerobot_is_imported",
    ),
    "a dataset that is more than data": (
        "tests/enpire/datasets/test_hostile_datasets.py"
        "::test_a_hostile_dataset_is_refused_in_one_sentence_and_leaves_nothing",
    ),
    "servers whose gateway is aborted": (
        "tests/robot_drivers/test_remote.py"
        "::test_a_robot_server_whose_gateway_is_aborted_takes_stops_and_clients_again",
        "tests/enpire/policy_server/test_gateway_and_floods.py"
        "::test_a_call_whose_gateway_ends_is_answered_and_runs_once",
    ),
    "abort libzmq": (
        "tests/enpire/wire/test_gateway.py::test_a_station_keeps_its_lease_when_the_gateway_is_aborted",
        "tests/enpire/wire/test_gateway.py::test_orders_and_episodes_pass_a_gateway_that_is_killed_again_and_again",
    ),
    **dict.fromkeys(
        ("camera gone", "camera stale", "wheel in motion"),
        ("tests/robot_drivers/test_lerobot_stop.py::test_a_stop_ends_the_motion_whatever_the_sensors_do",),
    ),
    "guard killed": ("tests/robot_drivers/test_guard_stops.py::test_a_killed_guard_comes_back_latched",),
    "a flood during a stop": (
        "tests/enpire/requests/test_lanes.py"
        "::test_a_stop_reaches_every_station_within_two_turns_of_a_loop_whose_agents_flood_it",
        "tests/enpire/fleet/test_floods.py::test_a_flood_blocks_no_poll_for_long",
        "tests/web_ui/test_robustness.py::test_a_stop_gets_through_a_flood",
    ),
}
"""Attacks of 3 to 20 s of CPU, and the fast tests that keep the same promise; the attacks run with the slow tests."""


def marked(chosen: Attack) -> object:
    return pytest.param(
        chosen,
        id=chosen.name.replace(" ", "-"),
        marks=pytest.mark.slow if not chosen.quick or chosen.name in {*LONG, *HELD_BY} else (),
    )


@pytest.mark.parametrize("chosen", [marked(one) for name, one in ALL.items() if name not in ELSEWHERE])
def test_the_product_withstands(chosen: Attack, tmp_path: Path) -> None:
    missing = [program for program in chosen.programs if shutil.which(program) is None]
    if missing and not os.environ.get("CI"):
        pytest.skip(f"{', '.join(missing)} is not installed")
    result = chosen.make(Run(folder=tmp_path, quick=True))
    assert result.held == result.tried, result.evidence
    assert any(letter.isdigit() for letter in result.evidence), "evidence names numbers"


def test_every_module_of_the_package_has_an_attack() -> None:
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "attacks"
    modules = {path.stem for path in folder.glob("*.py") if not path.name.startswith("_")}
    assert {chosen.make.__module__.rpartition(".")[2] for chosen in ALL.values()} == modules


def test_the_tests_that_keep_the_promise_of_a_slow_attack_run_among_the_fast_ones() -> None:
    assert set(HELD_BY) <= set(ALL)
    named = {test for tests in HELD_BY.values() for test in tests}
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "not slow", *sorted(named)],
        cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stdout[-2000:] + listed.stderr[-2000:]
    collected = {line.partition("[")[0] for line in listed.stdout.splitlines() if "::" in line}
    assert collected == named
    assert "deselected" not in listed.stdout, "one of them is marked slow"


@pytest.mark.parametrize(("tried", "held"), [(0, 0), (1, 2), (3, -1)])
def test_a_result_that_shows_nothing_is_refused(tried: int, held: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Result(tried=tried, held=held, evidence="")
