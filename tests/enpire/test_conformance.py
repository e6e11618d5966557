"""Check results and their report: what a check may raise, which line of the checked file is named, how it reads."""

from __future__ import annotations

import json

import pytest
import typer

from enpire.commands.conformance import finish, run_checks
from enpire.conformance import (
    CheckFailed,
    CheckResult,
    ConformanceReport,
    DoesNotApply,
    require,
    require_refusal,
    run_check,
)
from enpire.errors import EnpireError, RobotProblem, UsageError


def check_speed(bench: list[float]) -> None:
    """The speed is
    at most 1 m/s."""
    if not bench:
        raise DoesNotApply("it does not move")
    require(bench[0] <= 1.0, f"It moves at {bench[0]} m/s.")
    if bench[0] < 0.0:
        raise ValueError("negative")
    if bench[0] == 0.5:
        raise SystemExit(3)


def result_of(*speeds: float) -> CheckResult:
    return run_check(check_speed, list(speeds), lambda: __file__)


def test_a_check_passes_fails_or_does_not_apply() -> None:
    assert result_of(0.4).line == "ok   speed: The speed is at most 1 m/s."
    assert result_of(2.0).line == "FAIL speed: The speed is at most 1 m/s. -> It moves at 2.0 m/s."
    assert result_of().line == "  -  speed: The speed is at most 1 m/s. (it does not move)"


def test_another_exception_is_a_failure_with_the_line_that_raised_it() -> None:
    assert result_of(-1.0).result == "failed"
    assert result_of(-1.0).detail.startswith(f"-> ValueError: negative ({__file__}, line ")
    assert result_of(0.5).detail.startswith("-> SystemExit: 3 (")


def test_a_refusal_must_be_of_the_right_kind() -> None:
    def refuse() -> None:
        raise UsageError("no")

    require_refusal(refuse, EnpireError, "The call")
    with pytest.raises(CheckFailed, match="The call must raise RobotProblem, not UsageError: no"):
        require_refusal(refuse, RobotProblem, "The call")
    with pytest.raises(CheckFailed, match="it was accepted"):
        require_refusal(list, RobotProblem, "The call")


def test_one_function_prints_every_report(capsys: pytest.CaptureFixture[str]) -> None:
    def report(on_result: object = lambda result: None) -> ConformanceReport:
        results = (result_of(0.4), result_of(2.0), result_of())
        for result in results:
            on_result(result)  # type: ignore[operator]
        return ConformanceReport(subject="arm", results=results, notes=("observe p50 1 ms",), took_s=0.25)

    run_checks("checks", 3, report, verbose=False, as_json=False)
    printed = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in printed[:2]] == ["FAIL", "  - "]
    assert printed[2] == "arm passes 1 of 2 checks (1 do not apply) in 0.2 s. Measured: observe p50 1 ms."
    run_checks("checks", 3, report, verbose=True, as_json=False)
    assert capsys.readouterr().out.startswith("ok   speed")
    silent = run_checks("checks", 3, report, verbose=True, as_json=True)
    assert capsys.readouterr().out == ""
    with pytest.raises(typer.Exit):
        finish([silent], as_json=True)
    [document] = json.loads(capsys.readouterr().out)
    assert document["results"][1]["detail"] == "-> It moves at 2.0 m/s."
