"""Structured edits of the code template: whole code, read back from its files, the same for the same seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent_loop import tools
from agent_loop.agent_context import AgentContext
from agent_loop.agents.code_edits import SLOTS, Candidate, Choices, CodeStep, choices_of, next_code, written
from agent_loop.agents.search import Search
from agent_loop.brief import make_brief
from agent_loop.lab_client import RequestRefused
from enpire.code_candidates.repository import CodeRepository
from enpire.code_candidates.sameness import form_of
from enpire.code_candidates.surface import check_files
from enpire.home import open_home
from enpire.processes.sandbox import bubblewrap
from enpire.service.code import template
from tests.agent_loop.pretend_lab import Running
from tests.agent_loop.test_regimes import REGIMES, entry
from tests.fakes.code_agent import CODED
from tests.fakes.code_agent import REGIMES as CODED_REGIMES

TEMPLATE = template()
ONE = [(slot, choice) for slot, (_, choices) in SLOTS.items() for choice in choices]


def candidate(number: int, choices: Choices, merit: float = 0.1) -> Candidate:
    return Candidate(experiment_id=f"E{number:06}", hypothesis_id=f"H{number}", choices=choices, merit=merit)


def steps_of(known: Sequence[Candidate]) -> list[CodeStep]:
    return [step for seed in range(80) if (step := next_code(known, Random(seed)))]


@pytest.mark.parametrize(("slot", "choice"), ONE)
def test_each_choice_is_other_code_that_may_be_submitted_and_is_read_back(slot: str, choice: str) -> None:
    assert all(TEMPLATE[path].count(text) == 1 for path, text in SLOTS[slot][0].items())
    files = written(TEMPLATE, {slot: choice})
    assert form_of(files, check_files(files, TEMPLATE)) != form_of(TEMPLATE, check_files(TEMPLATE, {}))
    assert choices_of({**files, "README.md": "why\n"}, TEMPLATE) == {slot: choice}


def test_all_slots_together_are_code_and_other_code_is_no_choice() -> None:
    whole = {slot: next(iter(choices)) for slot, (_, choices) in SLOTS.items()}
    check_files(written(TEMPLATE, whole), TEMPLATE)
    assert choices_of(written(TEMPLATE, whole), TEMPLATE) == whole
    assert choices_of({**TEMPLATE, "learner.py": f"{TEMPLATE['learner.py']}# more\n"}, TEMPLATE) is None
    assert choices_of({**TEMPLATE, "skills/fit.py": ""}, TEMPLATE) is None


def test_the_template_comes_first_then_steps_from_the_best_and_never_what_was_tried() -> None:
    first = next_code([], Random(0))
    assert first is not None
    assert (first.kind, first.choices) == ("draft", {})
    known = [candidate(0, {}, 0.0), candidate(1, {"pace": "1.25"}, 1.2), candidate(2, {"ridge": "10"}, 0.4)]
    steps = steps_of(known)
    assert steps == steps_of(known)
    assert {step.kind for step in steps} == {"improve", "merge"}, "to undo the only choice was tried"
    assert {"pace": "1.25", "ridge": "10"} in [step.choices for step in steps if step.kind == "merge"]
    assert all(step.sources[0].experiment_id == "E000001" for step in steps)
    assert not any(step.choices == one.choices for step in steps for one in known)
    wide = [candidate(0, {}, 0.0), candidate(1, {"pace": "1.25", "ridge": "10"}, 1.2)]
    ablated = [step for step in steps_of(wide) if step.kind == "ablate"]
    assert {tuple(step.choices) for step in ablated} == {("pace",), ("ridge",)}


class Lab:
    """Tools that note what they were given."""

    def __init__(self, codes: Mapping[str, Mapping[str, str]], why: str = "") -> None:
        self.codes, self.why = codes, why
        self.sent: list[dict[str, Any]] = []

    def submit(self, **arguments: Any) -> dict[str, object]:
        if self.why:
            raise RequestRefused(self.why)
        self.sent.append(arguments)
        return {"experiment_id": "E9"}

    @property
    def tools(self) -> dict[str, Any]:
        return {
            "get_code": lambda experiment_id, **_: {"files": dict(self.codes[experiment_id])},
            "propose_hypothesis": lambda **sent: {"hypothesis_id": f"H of {sent['kind']}"},
            "submit_code": self.submit, "submit_candidate": self.submit, "adopt": dict, "wait": dict,
            "post_finding": dict,
        }  # fmt: skip


def turn(work: Path, lab: Lab, seed: int, **more: object) -> str:
    entries = [entry(number, name, -0.1) for number, name in enumerate(REGIMES, 1)]
    coded = {"regime": "code", "commit": "c", "settings": {"ridge": 0.1}, "changes": {}, "hypothesis_id": "H4"}
    entries.append({**entry(4, "clone", 0.2), "experiment_id": "E4", **coded})
    brief = {
        "experiments": entries, "experiments_of_this_lane": 4, "wait_for": "", "findings": [{"about": "E4"}],
        "sharing": "adopt", "regimes": REGIMES, "left": {"rounds": 3}, "code": {}, **more,
    }  # fmt: skip
    context = AgentContext(seed=seed, lane="search-1", work=work, spent=lambda tokens: None)
    return Search(context, {}).turn(lab.tools, {key: value for key, value in brief.items() if value is not None})


def test_search_writes_code_where_the_campaign_allows_it(tmp_path: Path) -> None:
    lab = Lab({"E4": written(TEMPLATE, {"pace": "1.25"})})
    lines = [turn(tmp_path, lab, seed) for seed in range(40)]
    again = [turn(tmp_path, Lab(lab.codes), seed) for seed in range(40)]
    assert lines == again
    coded = [sent for sent in lab.sent if "files" in sent]
    assert 5 <= len(coded) <= 20, "about three of ten"
    assert len(lab.sent) == 40
    for sent in coded:
        assert choices_of(sent["files"], TEMPLATE) not in (None, {"pace": "1.25"})
    plain = Lab({})
    for seed in range(40):
        turn(tmp_path, plain, seed, code=None)
    assert not any("files" in sent for sent in plain.sent)


def test_a_refusal_of_code_is_the_report_of_the_turn(tmp_path: Path) -> None:
    lines = [turn(tmp_path, Lab({"E4": TEMPLATE}, "It was tried."), seed) for seed in range(40)]
    refused = [line for line in lines if line.startswith("code: ")]
    assert refused
    assert all(line.endswith(" was refused: It was tried.") for line in refused)


@pytest.mark.parametrize("may", [True, False])
def test_search_builds_on_no_code_that_the_lab_lets_no_session_adopt(tmp_path: Path, may: bool) -> None:
    lab = Lab({"E4": written(TEMPLATE, {"pace": "1.25"}), "E5": TEMPLATE})
    coded = {"regime": "code", "commit": "c", "settings": {"ridge": 0.1}, "changes": {}}
    entries = [entry(number, name, -0.1) for number, name in enumerate(REGIMES, 1)]
    entries += [{**entry(5, "clone", -0.2), **coded}, {**entry(4, "clone", 0.2), **coded, "may_be_built_on": may}]
    for seed in range(40):
        turn(tmp_path, lab, seed, experiments=entries)
    found = [choices_of(sent["files"], TEMPLATE) or {} for sent in lab.sent if "files" in sent]
    assert len(found) >= 5
    assert any(len(choices) > 1 for choices in found) is may, "a step from E4 has its choice and another one"


@pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or is not allowed here")
def test_the_lab_accepts_the_code_that_search_writes(tmp_path: Path) -> None:
    with Running(open_home(tmp_path / "home"), campaign=CODED, regimes=CODED_REGIMES, paused=True) as lab:
        client = lab.client("search-1")
        context = AgentContext(seed=3, lane="search-1", work=tmp_path, spent=lambda tokens: None)
        agent, experiments = Search(context, {}), lab.lab.state.proposals.experiments
        lab.until(lambda lab: lab.state.proposals.regimes)
        for _ in range(12):
            if any(one.commit for one in experiments.values()):
                break
            for one in experiments.values():
                if not one.over:
                    given_up = {"about": one.experiment_id, "reason": "The next one follows."}
                    lab.beside(partial(tools.call, client, "give_up", given_up))
            lab.beside(lambda: agent.turn(tools.in_process(client), make_brief(client)))
        newest = list(experiments.values())[-1]
        assert (newest.phase, newest.regime) == ("queued", "code")
        kept = CodeRepository(lab.home.root).files(newest.commit)
        assert choices_of(kept, TEMPLATE) == {}, "the template comes first"
