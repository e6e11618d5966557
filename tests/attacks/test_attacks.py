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


def marked(chosen: Attack) -> object:
    return pytest.param(
        chosen,
        id=chosen.name.replace(" ", "-"),
        marks=() if chosen.quick and chosen.name not in LONG else pytest.mark.slow,
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


@pytest.mark.parametrize(("tried", "held"), [(0, 0), (1, 2), (3, -1)])
def test_a_result_that_shows_nothing_is_refused(tried: int, held: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Result(tried=tried, held=held, evidence="")
