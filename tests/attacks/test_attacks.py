"""The quick form of every attack of benchmarks/attacks: the product withstands every attempt."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from benchmarks.attacks import Attack, Result, Run, attacks
from enpire.errors import UsageError

ALL = attacks()
LONG = {"take everything", "find hidden starts", "flood during stops"}
"""Attacks whose quick form takes longer than ten seconds where other tests run beside it."""
ELSEWHERE = {"kills on a ray cluster"}
"""Made by tests/chaos/test_ray_learners.py, on the cluster of the other tests."""
HELD_BY = {
    "a lerobot checkpoint that starts a program": "tests/policies/test_checkpoint_admission.py",
    "a kind that names code": "tests/enpire/station/test_policy_cache.py",
    "a reward model that brings code": "tests/policies/test_reward_admission.py",
    "a dataset that is more than data": "tests/enpire/datasets/test_hostile_datasets.py",
    "servers whose gateway is aborted": "tests/robot_drivers/test_remote.py",
    "abort libzmq": "tests/enpire/wire/test_gateway.py",
    "camera gone": "tests/robot_drivers/test_lerobot_stop.py",
    "camera stale": "tests/robot_drivers/test_lerobot_stop.py",
    "wheel in motion": "tests/robot_drivers/test_lerobot_stop.py",
    "guard killed": "tests/robot_drivers/test_guard_stops.py",
    "a flood during a stop": "tests/web_ui/test_robustness.py",
}
"""Attacks of 3 to 20 s of CPU whose promise a cheaper test among the fast ones keeps; they run with the slow tests."""


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


def test_what_keeps_the_promise_of_a_slow_attack_is_there() -> None:
    root = Path(__file__).resolve().parents[2]
    assert set(HELD_BY) <= set(ALL)
    assert [path for path in HELD_BY.values() if not (root / path).is_file()] == []


@pytest.mark.parametrize(("tried", "held"), [(0, 0), (1, 2), (3, -1)])
def test_a_result_that_shows_nothing_is_refused(tried: int, held: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Result(tried=tried, held=held, evidence="")
