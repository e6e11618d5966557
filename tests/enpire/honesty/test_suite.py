"""The quick form of `enpire cheat-suite`: every attack is caught and every honest twin passes, also in the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.errors import UsageError
from enpire.honesty.cheats import CHEATS
from enpire.honesty.suite import Caught, Cheat, SuiteResult, run


def test_every_attack_is_caught_and_its_honest_twin_passes() -> None:
    done = CliRunner().invoke(app, ["cheat-suite", "--twins", "1", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["caught"], found["twins"], found["false_alarms"]) == (33, 33, 0)
    assert [row["number"] for row in found["rows"]] == list(range(1, 34))


def test_a_cheat_that_nothing_finds_and_an_accused_twin_fail_the_suite(tmp_path: Path) -> None:
    missed = Cheat(number=1, name="unseen", cheat=lambda scene: None, honest=lambda scene: None)
    accused = Cheat(
        number=2, name="strict", cheat=lambda scene: Caught(by="gate", evidence="7 of 9"),
        honest=lambda scene: Caught(by="gate", evidence="1 of 9"),
    )  # fmt: skip
    rows = tuple(run((missed, accused), tmp_path, 3))
    assert [(row.caught_by, row.false_alarms) for row in rows] == [("", 0), ("gate", 3)]
    assert not SuiteResult(rows=rows).passed
    assert not SuiteResult(rows=rows[1:]).passed
    with pytest.raises(UsageError, match="at least 1"):
        list(run(CHEATS, tmp_path / "none", 0))
