"""The benchmark's statistics: claims pass and fail as they should, and the plot is one picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

from benchmarks.improvement_table import Evaluation, curve, table
from benchmarks.intervals import LEAST_SEEDS


def evaluation(arm: str, round_: int, success: Sequence[bool], ticks: int = 50) -> Evaluation:
    return Evaluation(
        seed=0, arm=arm, round=round_, success=list(success), ticks=[ticks] * len(success), version="v", episodes=[],
        learning_cpu_s=1.0,
    )  # fmt: skip


def on_seeds(one: Evaluation) -> list[Evaluation]:
    return [replace(one, seed=seed) for seed in range(LEAST_SEEDS)]


def verdicts(text: str) -> dict[str, str]:
    lines = text.split("claims\n")[1].splitlines()
    return {line[10:].strip(): line[:10].strip() for line in lines}


def test_a_clear_gain_passes_and_none_fails() -> None:
    good, poor = [True] * 90 + [False] * 10, [True] * 40 + [False] * 60
    found = {
        "base": on_seeds(evaluation("base", 0, poor)),
        "habc_plus": on_seeds(evaluation("habc_plus", 1, good, ticks=40)),
        "filtered_bc": on_seeds(evaluation("filtered_bc", 1, poor)),
        "habc_v": on_seeds(evaluation("habc_v", 1, good)),
    }
    said = verdicts(table(found, 1))
    assert said["habc_plus beats filtered_bc by 5% or more"] == "pass"
    assert said["habc_plus is shorter than filtered_bc where both succeed"] == "pass"
    assert said["habc_plus beats habc_v"] == "FAIL"
    assert said["habc_plus beats sft by 10% or more"] == "not run"
    ElementTree.fromstring(curve(found, "a < b"))


def test_a_handful_of_pairs_decides_nothing() -> None:
    found = {name: on_seeds(evaluation(name, 1, [name == "habc_plus"] * 5)) for name in ("habc_plus", "filtered_bc")}
    found["base"] = on_seeds(evaluation("base", 0, [False] * 5))
    assert set(verdicts(table(found, 1)).values()) == {"too few", "not run"}


def test_arms_that_do_not_begin_from_the_base_are_marked() -> None:
    found = {name: [evaluation(name, int(name != "base"), [True, False])] for name in ("base", "habc_plus", "iql")}
    lines = table(found, 1).splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == ["base", "habc_plus", "iql *"]
    assert lines[4] == "* starts from networks or a program of its own, not from the base"
    del found["iql"]
    assert "*" not in table(found, 1)


def test_an_arm_that_gave_up_says_so() -> None:
    poor = evaluation("base", 0, [True, False])
    found = {
        "base": [poor],
        "habc_paper": [replace(poor, arm="habc_paper", round=1, gave_up=True)],
    }
    assert "gave up in 1 round(s)" in table(found, 1)


def test_every_round_of_every_arm_is_in_the_table() -> None:
    half, good = [True] * 50 + [False] * 50, [True] * 80 + [False] * 20
    found = {
        "base": on_seeds(evaluation("base", 0, half)),
        "habc_plus": on_seeds(evaluation("habc_plus", 1, half)) + on_seeds(evaluation("habc_plus", 2, good)),
        "recap": on_seeds(evaluation("recap", 1, good)) + on_seeds(evaluation("recap", 2, half)),
    }
    lines = table(found, 2).splitlines()
    assert "minus habc_plus" in lines[0]
    assert "-30.0% [-30.0%, -30.0%]" in lines[3]
    rounds = lines[lines.index(next(line for line in lines if "round 1" in line)) :][:3]
    assert [line.split()[0] for line in rounds] == ["arm", "habc_plus", "recap"]
    assert [part for part in rounds[1].split() if part.endswith("%")] == ["50.0%", "80.0%"]
    assert [part for part in rounds[2].split() if part.endswith("%")] == ["80.0%", "50.0%"]
