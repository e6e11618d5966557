"""The seeded search: always inside the space, the same way for the same history, better recipes found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from agent_loop.agent_context import AgentContext
from agent_loop.agents.operators import OPERATORS, Known, Step, Tried, ablate, moved, recombine
from agent_loop.agents.search import Search, known_of, propose, struggling
from agent_loop.session import AgentSession, run_session
from enpire.campaign.campaign import AgentPlan
from enpire.campaign.proposed import Experiment
from enpire.campaign.search_space import axes, axis_of
from enpire.cli import app
from enpire.errors import FileProblem
from enpire.files import canonical
from enpire.home import open_home
from enpire.queries.decision_audit import recompute
from tests.agent_loop.pretend_lab import CAMPAIGN, POOR, Running, with_skill
from tests.fakes.sample_events import append

SPACE = axes(POOR.space)
BAD = with_skill(0.4)


def known(*tried: Tried, **settings: object) -> Known:
    return Known(space=SPACE, settings={**POOR.settings, **settings}, original=POOR.settings, tried=tried)


def tried(name: str, delta: float, **changes: object) -> Tried:
    return Tried(hypothesis_id=f"H{name}", experiment_id=f"E{name}", lane="a", changes=changes,  # pyright: ignore[reportArgumentType]
                 decision="inconclusive", delta=delta)  # fmt: skip


def test_no_operator_combines_an_experiment_that_the_lab_lets_no_session_adopt() -> None:
    one = {"phase": "decided", "hypothesis_id": "H", "lane": "a", "decision": "inconclusive", "may_be_built_on": True}
    entries = [
        {**one, "experiment_id": "E1", "changes": {"skill": 0.7}, "delta": 0.1},
        {**one, "experiment_id": "E2", "changes": {"skill": 0.9}, "delta": 0.3},
        {**one, "experiment_id": "E3", "changes": {"steps": 2}, "delta": 0.2},
    ]
    brief = {"recipe": POOR.mapping(), "space": POOR.space, "campaign_settings": POOR.settings, "experiments": entries}
    step = recombine(known_of(brief), Random(1))
    assert step is not None
    assert (step.adopted, step.changes) == ("E2", {"skill": 0.9, "steps": 2})
    entries[1]["may_be_built_on"] = False
    step = recombine(known_of(brief), Random(1))
    assert step is not None
    assert (step.adopted, step.changes) == ("E3", {"skill": 0.7, "steps": 2})


@given(st.integers(0, 10_000), st.sampled_from(OPERATORS))
def test_every_operator_stays_in_the_space(seed: int, operator: Callable[[Known, Random], Step | None]) -> None:
    history = known(tried("1", 0.1, skill=0.7), tried("2", 0.2, steps=2), skill=0.5, colour="green")
    step = operator(history, Random(seed))
    assert step is not None
    assert step.changes
    assert all(SPACE[name].holds(value) for name, value in step.changes.items())


@given(st.integers(0, 10_000))
def test_a_step_always_moves(seed: int) -> None:
    draw = Random(seed)
    assert moved(axis_of("steps", (1, 2, "log")), 1, draw) == 2
    assert moved(axis_of("colour", ("red", "green")), "red", draw) == "green"
    assert moved(axis_of("rate", (0.001, 0.1, "log")), 5.0, draw) != 5.0


def test_ablate_puts_back_and_recombine_joins() -> None:
    assert ablate(known(), Random(1)) is None
    back = ablate(known(skill=0.9), Random(1))
    assert back is not None
    assert back.changes == {"skill": 0.3}
    assert recombine(known(tried("1", 0.1, skill=0.7)), Random(1)) is None
    joined = recombine(known(tried("1", 0.1, skill=0.7, steps=2), tried("2", 0.2, skill=0.8)), Random(1))
    assert joined is not None
    assert joined.changes == {"skill": 0.8, "steps": 2}
    assert joined.parents == ("H2", "H1")


def test_the_same_seed_proposes_the_same_and_never_what_was_tried() -> None:
    first = propose(known(), Random("a"), set(), stuck=False)
    assert first is not None
    assert propose(known(), Random("a"), set(), stuck=False) == first
    after = canonical({**POOR.settings, **first.changes})
    second = propose(known(), Random("a"), {after}, stuck=False)
    assert second is not None
    assert second.changes != first.changes


def test_three_reverts_in_a_row_are_a_struggle() -> None:
    revert: Mapping[str, object] = {"phase": "decided", "decision": "revert"}
    assert struggling([revert] * 3)
    assert not struggling([revert, revert, {"phase": "decided", "decision": "keep"}])
    assert not struggling([revert] * 2)


def test_options_that_search_does_not_know_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="unknown key 'depth'"):
        Search(AgentContext(seed=0, lane="a", work=tmp_path, spent=lambda said: None), {"depth": 3})


def search_from_a_bad_recipe(folder: Path) -> list[Experiment]:
    """A lane of `search` beside a campaign whose recipe succeeds in 4 of 10; its experiments up to the first kept."""
    home = open_home(folder / "home")
    with Running(home, recipe=BAD) as lab:
        proposals = lab.lab.state.proposals
        session = AgentSession(home=home.root, campaign_id="C1", lane="search-1", agent="search", work=folder, seed=156)
        thread = threading.Thread(target=run_session, args=(session, lambda said: None), daemon=True)
        thread.start()
        lab.until(lambda _: any(one.decision == "keep" for one in proposals.experiments.values()), turns=4000)
        append(lab.ledger, [("campaign ended", {"campaign_id": "C1", "reached": False, "reason": "the test"})])
        lab.until(lambda _: not thread.is_alive())
        assert [check for check in recompute(lab.ledger) if not check.equal] == []
        briefs = [int(str(event.body["size"])) for event in lab.ledger.events(kinds=("brief read",))]
        assert briefs
        assert all(0 < size <= 64 * 1024 for size in briefs)
        deployed = {str(event.body["policy_id"]) for event in lab.ledger.events(kinds=("deployed",))}
        over = [one for one in proposals.experiments.values() if one.over]
        assert [one.policy_id in deployed for one in over] == [one.decision == "keep" for one in over]
        assert proposals.recipe_in_force(BAD).settings == {**BAD.settings, **over[-1].changes}
        return over


@pytest.mark.slow
def test_search_leaves_a_bad_recipe_by_what_the_gate_says(tmp_path: Path) -> None:
    found = search_from_a_bad_recipe(tmp_path)
    worse, *_, better = found
    assert set_skill(worse) < 0.1
    assert worse.decision in {"revert", "inconclusive"}
    assert worse.delta < -0.1
    assert set_skill(better) > 0.9
    assert better.decision == "keep"
    assert better.delta > 0.1
    assert {one.author for one in found} == {"search"}


@pytest.mark.slow
def test_search_does_the_same_for_the_same_seed(tmp_path: Path) -> None:
    """In lockstep a faster test shows it (tests/enpire/scheduling/test_lockstep.py)."""
    with ThreadPoolExecutor(2) as beside:
        first, again = beside.map(search_from_a_bad_recipe, (tmp_path / "first", tmp_path / "again"))
    assert [one.changes for one in again] == [one.changes for one in first]


def test_a_person_runs_one_lane_beside_the_campaign(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    words = ["agent", "run", "search", "--lane", "mine", "--seed", "7", "--home", str(home.root)]
    with Running(home, paused=True) as lab, ThreadPoolExecutor(1) as beside:
        verb = beside.submit(CliRunner().invoke, app, words)
        lab.until(lambda lab: lab.state.proposals.experiments or verb.done())
        append(lab.ledger, [("campaign ended", {"campaign_id": "C1", "reached": False, "reason": "the test"})])
        lab.until(lambda _: verb.done())
        result = verb.result()
        assert result.exit_code == 0, result.output
        assert {(one.author, one.lane) for one in lab.lab.state.proposals.experiments.values()} == {("search", "mine")}


def set_skill(experiment: Experiment) -> float:
    assert experiment.recipe is not None
    return float(str(experiment.recipe.settings["skill"]))


@pytest.mark.slow
def test_a_lane_in_its_own_process_is_started_by_the_loop_and_ends_with_it(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    plans = (AgentPlan(name="search", lanes=1), AgentPlan(name="tests.agent_loop.test_search:Crashing"))
    with Running(home, campaign=replace(CAMPAIGN, agents=plans)) as lab:
        lab.until(
            lambda lab: any(one.phase == "decided" for one in lab.state.proposals.experiments.values()), turns=4000
        )
        lab.until(lambda lab: any(event.kind == "agent ended" for event in lab.ledger.events()), turns=4000)
        ended = next(iter(lab.ledger.events(kinds=("agent ended",)))).body
        assert "Crashing" in str(ended["lane"])
        assert ended["again"] is True
        process = next(one.process for one in lab.lab.agent_sessions if one.lane == "search-1")  # pyright: ignore[reportAttributeAccessIssue]
        assert process is not None
        assert process.poll() is None
    assert process.poll() is not None


class Crashing:
    """An agent that takes its process with it."""

    def __init__(self, place: AgentContext, options: Mapping[str, object]) -> None:
        raise SystemExit(7)
