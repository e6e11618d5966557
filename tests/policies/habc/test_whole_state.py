"""The critics see the whole state, also what is hidden from the actor."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from enpire.errors import PolicyProblem
from enpire.interfaces import ImprovementJob
from enpire.types import FloatArray, Observation
from policies import flow_policy, viability_policy
from policies.habc.critic_outputs import NAME
from policies.habc.learner import Habc
from policies.normalise import Scale
from tests.policies.habc.first_round import first_round


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> ImprovementJob:
    """A round of HABC, done, whose parent does not see the first number of the state."""
    job = first_round(tmp_path_factory.mktemp("round"))
    assert job.parent is not None
    parent, blind = flow_policy.read(job.parent), job.work.with_name("blind")
    blind.mkdir()
    flow_policy.save(replace(parent, state=parent.state.without([0])), blind)
    job = replace(job, parent=blind)
    Habc().improve(job, lambda _: None)
    return job


def at(first: float) -> Observation:
    return Observation(stamp_ns=0, state=np.array([[first, 0.0, 0.0]], np.float32))


def test_p_v_depends_on_what_the_actor_does_not_see(trained: ImprovementJob) -> None:
    policy, lane, commands = viability_policy.load(trained.output), np.arange(1), list[FloatArray]()
    for first in (-1.0, 1.0):
        policy.begin(0, 3)
        commands.append(policy.act(at(first), lane))
    np.testing.assert_array_equal(commands[0], commands[1])
    assert abs(policy.viability(at(-1.0), lane) - policy.viability(at(1.0), lane)) > 1e-3


def test_what_is_stored_of_each_decision_comes_from_the_same_critic(trained: ImprovementJob) -> None:
    policy, newest = viability_policy.load(trained.output), trained.episodes[-1]
    written = json.loads((newest / NAME).read_text())["p_v"]
    state = np.load(newest / "arrays.npz")["state"]
    assert policy.viability(Observation(stamp_ns=0, state=state[:1]), np.arange(1))[0] == pytest.approx(
        written[0], abs=1e-3
    )


def test_the_head_of_an_earlier_version_sees_what_its_actor_sees(trained: ImprovementJob, tmp_path: Path) -> None:
    tensors, earlier = load_file(trained.output / "weights.safetensors"), tmp_path / "earlier"
    earlier.mkdir()
    (earlier / "policy.json").write_bytes((trained.output / "policy.json").read_bytes())
    kept = {name: value for name, value in tensors.items() if not name.startswith("viability.state.")}
    assert len(kept) == len(tensors) - 2
    save_file(kept, earlier / "weights.safetensors")
    policy, lane = viability_policy.load(earlier), np.arange(1)
    assert policy.viability(at(-1.0), lane) == policy.viability(at(1.0), lane)
    narrow = {**tensors, **Scale.of(np.zeros((2, 2), np.float32)).as_tensors("viability.state")}
    save_file(narrow, earlier / "weights.safetensors")
    with pytest.raises(PolicyProblem, match="the viability head is for another state"):
        viability_policy.load(earlier)


def test_a_scale_that_hides_nothing_is_the_same_for_the_critics() -> None:
    rows = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
    scale = Scale.of(rows)
    assert scale.seeing_all(10 * rows) is scale
    seen = scale.without([1]).seeing_all(10 * rows)
    np.testing.assert_array_equal(seen.spread[[0, 2]], scale.spread[[0, 2]])
    np.testing.assert_allclose(seen.spread[1], 10 * scale.spread[1], rtol=1e-5)
