"""The choice among regimes: a pure function of the brief and the seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from agent_loop.agents.regimes import Entry, Known, RegimeStep, next_branch, promising

SPACE = {"rate": (0.001, 0.1, "log"), "colour": ("red", "green")}
REGIMES: Mapping[str, Entry] = {
    "clone": {"learner": "clone", "settings": {"rate": 0.01, "colour": "red"}, "space": SPACE},
    "clone_more": {"learner": "clone", "settings": {"rate": 0.02, "colour": "red"}, "space": SPACE},
    "program": {"learner": "program_search", "settings": {"size": 3}, "space": {}},
}


def entry(number: int, regime: str, gain: float | None = None, width: float = 0.05, **more: object) -> Entry:
    """A branch of session search-1 that ended with its budget, with a gain and its interval."""
    measured = {} if gain is None else {"gain": gain, "gain_low": gain - width, "gain_high": gain + width}
    written: dict[str, object] = {
        "experiment_id": f"E{number}", "hypothesis_id": f"H{number}", "lane": "search-1", "regime": regime,
        "changes": {}, "settings": REGIMES[regime]["settings"], "decision": "revert", "phase": "decided",
        "why": "worse half", "parent_experiment": "", "robot_min": 10.0, "is_over_champion": True,
    }  # fmt: skip
    return {**written, **measured, **more}


def known(*entries: Entry, sharing: str = "adopt", lane: str = "search-1", **more: object) -> Known:
    return Known(regimes=REGIMES, entries=entries, lane=lane, sharing=sharing, **more)  # pyright: ignore[reportArgumentType]


ALL = (entry(1, "clone", -0.1), entry(2, "clone_more", -0.1), entry(3, "program", -0.1))


def steps(history: Known, n: int = 200) -> list[RegimeStep]:
    found = [next_branch(history, Random(seed)) for seed in range(n)]
    return [step for step in found if step is not None]


def test_the_same_seed_and_history_give_the_same_step() -> None:
    history = known(*ALL, entry(4, "clone", 0.1, why="no gain"))
    assert [next_branch(history, Random(seed)) for seed in range(50)] == [
        next_branch(known(*history.entries), Random(seed)) for seed in range(50)
    ]
    assert len({step.key for step in steps(history)}) > 20


def test_regimes_that_no_session_tried_come_first_and_sessions_begin_with_different_ones() -> None:
    firsts = [next_branch(known(lane=f"search-{number}"), Random(1)) for number in (1, 2, 3, 4)]
    assert [step.regime for step in firsts if step] == ["clone", "clone_more", "program", "clone"]
    third = next_branch(known(*ALL[:2]), Random(1))
    assert third is not None
    assert (third.regime, third.changes, third.parent_experiment) == ("program", {}, "")


def test_the_best_gain_per_robot_minute_is_chosen_most() -> None:
    costly = entry(1, "clone", 0.3, robot_min=60.0)
    cheap = entry(2, "clone_more", 0.3, robot_min=10.0)
    chosen = Counter(step.regime for step in steps(known(costly, cheap, ALL[2])))
    assert chosen["clone_more"] > 3 * chosen["clone"] > 0, "the other is not given up"


def test_a_regime_that_was_promoted_does_not_keep_its_gain_over_the_former_champion() -> None:
    promoted = entry(1, "clone", 0.4, decision="keep", is_over_champion=False)
    other = entry(2, "clone_more", 0.1, gain_now=0.1, gain_now_low=0.05, gain_now_high=0.15)
    now = {"gain_now": 0.0, "gain_now_low": 0.0, "gain_now_high": 0.0}
    before, after = (
        Counter(step.regime for step in steps(known({**promoted, **more}, other, ALL[2]))) for more in ({}, now)
    )
    assert before["clone"] > before["clone_more"]
    assert after["clone_more"] > after["clone"] > 0


@pytest.mark.parametrize(
    ("more", "is_promising"),
    [
        ({"why": "no gain"}, True),
        ({"decision": "inconclusive", "why": "undecided"}, True),
        ({"why": "worse half"}, False),
        ({"why": "no gain", "is_over_champion": False}, False),
        ({"why": "no gain", "gain_high": -0.01}, False),
        ({"why": "given up"}, False),
    ],
)
def test_only_a_promising_branch_is_continued(more: dict[str, object], is_promising: bool) -> None:
    ended = {**entry(9, "clone", 0.02), **more}
    assert promising(ended) is is_promising
    parents = {step.parent_experiment for step in steps(known(*ALL, ended))}
    assert ("E9" in parents) is is_promising


def test_a_branch_of_another_session_is_continued_only_where_everything_is_shared() -> None:
    other = entry(9, "clone", 0.3, why="no gain", lane="search-2")
    shared = [step for step in steps(known(*ALL, other)) if step.parent_experiment]
    assert shared
    assert all(other in step.sources and "H9" in step.parents for step in shared)
    hidden = {**other, "settings": {}}
    assert not [step for step in steps(known(*ALL, hidden, sharing="leaderboard")) if step.parent_experiment]


def test_a_promising_branch_may_be_continued_by_another_regime_and_the_text_says_so() -> None:
    found = steps(known(*ALL, entry(9, "program", 0.3, why="no gain")))
    sequences = [step for step in found if step.parent_experiment == "E9" and step.regime == "clone"]
    assert sequences
    assert sequences[0].why == "clone, from the newest version of experiment E9 (program)"


def test_settings_of_the_best_branch_of_the_same_learner_are_taken_over() -> None:
    best = entry(9, "clone_more", 0.4, settings={"rate": 0.05, "colour": "green"}, decision="keep")
    merged = [step for step in steps(known(*ALL, best)) if step.regime == "clone" and step.kind == "merge"]
    assert merged
    assert all("with settings of experiment E9 (clone_more)" in step.why for step in merged)
    assert any(step.changes.get("rate") == 0.05 or step.changes.get("colour") == "green" for step in merged)
    assert all("H9" in step.parents for step in merged)


def test_no_branch_is_repeated_with_the_same_champion_and_all_may_be_after_a_promotion() -> None:
    history = known(*ALL)
    refused = next_branch(history, Random(7))
    assert refused is not None
    again = entry(8, refused.regime, phase="invalid", changes=refused.changes, settings={}, decision="")
    for seed in range(100):
        step = next_branch(known(*ALL, again), Random(seed))
        assert step is not None
        assert step.key != refused.key
    programs = [step for step in steps(history) if step.regime == "program"]
    assert not programs, "its recipe was tried as it is, and it has no space"
    promoted = [{**one, "is_over_champion": False} for one in ALL]
    assert [step for step in steps(known(*promoted)) if step.regime == "program"]


def test_hopeless_regimes_are_varied_further() -> None:
    many = [entry(number, "clone", -0.4, settings={"rate": 0.001 * number, "colour": "red"}) for number in range(5, 60)]
    assert len(steps(known(*ALL, *many))) == 200


def test_a_setting_without_effect_is_not_moved_again() -> None:
    twin = entry(
        9, "clone", settings={"rate": 0.01, "colour": "green"}, why="same actions: experiment E1", decision="revert"
    )
    for step in steps(known(*ALL, twin)):
        if step.regime == "clone":
            assert step.changes.get("colour", "red") == "red", step
            assert "colour" not in step.why
    for more in ({"is_over_champion": False}, {"parent_experiment": "E3"}):
        elsewhere = steps(known(*ALL, {**twin, **more}))
        assert any("colour" in step.why for step in elsewhere), "it may matter where a branch begins otherwise"


@pytest.mark.parametrize("lane", ["search-1", "search-2"])
def test_nothing_is_built_on_a_branch_that_the_lab_lets_no_session_adopt(lane: str) -> None:
    settings = {"rate": 0.05, "colour": "green"}
    best = entry(4, "clone_more", 0.5, settings=settings, changes=settings, lane=lane, why="no gain")
    found = [steps(known(*ALL, {**best, "may_be_built_on": may})) for may in (True, False)]
    built = [[step for step in some if "E4" in [one["experiment_id"] for one in step.sources]] for some in found]
    assert len(built[0]) > 50
    assert not built[1]
    assert not any(step.parent_experiment for step in found[1])
    assert not any((step.regime, step.changes) == ("clone_more", settings) for step in found[1]), "it was tried"
