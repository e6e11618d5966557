"""The flow policy: numpy and torch agree, rows do not influence each other, files round trip."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from enpire.errors import PolicyProblem
from enpire.types import Observation
from policies import flow_policy
from policies.flow_network import FlowNetwork, fourier
from policies.flow_policy import FlowPolicy, FlowVersion
from policies.flow_shape import FlowShape
from policies.lerobot_files import load_parts
from policies.normalise import Scale
from policies.normalise import fourier as numpy_fourier

SHAPE = FlowShape(state_dim=5, action_dim=3, hidden=64)


def version(seed: int = 0, temperature: float = 0.9) -> FlowVersion:
    random = np.random.default_rng(seed)
    return FlowVersion(
        shape=SHAPE,
        state=Scale.of(random.normal(2, 3, (50, 5)).astype(np.float32)),
        action=Scale.of(random.normal(-1, 0.2, (50, 3)).astype(np.float32)),
        temperature=temperature,
        weights=FlowNetwork(SHAPE, seed).weights(),
    )


def observation(rows: np.ndarray) -> Observation:
    return Observation(stamp_ns=0, state=rows.astype(np.float32))


def test_numpy_forward_equals_torch() -> None:
    made = version()
    random = np.random.default_rng(1)
    state = random.normal(2, 3, (13, 5)).astype(np.float32)
    noise = random.normal(size=(13, SHAPE.chunk_dim)).astype(np.float32)
    network = FlowNetwork(SHAPE, 0)
    chunk = torch.from_numpy(noise)
    features = fourier(torch.from_numpy(made.state.forward(state)), SHAPE.frequencies)
    with torch.no_grad():
        for step in range(SHAPE.euler_steps):
            time = torch.full((13,), step / SHAPE.euler_steps)
            chunk = chunk + network(chunk, time, features) / SHAPE.euler_steps
    np.testing.assert_allclose(FlowPolicy(made).integrate(state, noise), chunk.numpy(), atol=1e-5)


def test_fourier_features_agree() -> None:
    rows = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_allclose(numpy_fourier(rows, 4), fourier(torch.from_numpy(rows), 4).numpy(), atol=1e-5)


def test_a_lane_decides_the_same_alone_and_beside_others() -> None:
    rows = np.random.default_rng(2).normal(size=(21, 5))
    together, alone = FlowPolicy(version()), FlowPolicy(version())
    for lane in range(21):
        together.begin(lane, seed=100 + lane)
    chunks = together.act(observation(rows), np.arange(21))
    for lane in (0, 7, 8, 20):
        alone.begin(3, seed=100 + lane)
        np.testing.assert_array_equal(alone.act(observation(rows[lane : lane + 1]), np.array([3]))[0], chunks[lane])


def test_begin_restarts_the_noise_of_a_lane() -> None:
    policy = FlowPolicy(version())
    row = observation(np.zeros((1, 5)))
    policy.begin(0, seed=5)
    first, second = policy.act(row, np.array([0])), policy.act(row, np.array([0]))
    policy.begin(0, seed=5)
    np.testing.assert_array_equal(policy.act(row, np.array([0])), first)
    assert not np.array_equal(first, second)
    assert first.shape == (1, 8, 3)
    assert first.dtype == np.float32


def test_temperature_zero_makes_the_policy_deterministic() -> None:
    policy = FlowPolicy(version(temperature=0.0))
    policy.begin(0, seed=1)
    policy.begin(1, seed=2)
    chunks = policy.act(observation(np.ones((2, 5))), np.array([0, 1]))
    np.testing.assert_array_equal(chunks[0], chunks[1])


def test_a_version_round_trips_to_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    flow_policy.save(replace(version(), collect_temperature=1.5), first)
    flow_policy.save(flow_policy.read(first), second)
    for name in ("policy.json", "weights.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_version_collects_data_with_its_own_temperature(tmp_path: Path) -> None:
    flow_policy.save(replace(version(temperature=0.2), collect_temperature=0.8), tmp_path)
    policy, rows, lanes = flow_policy.load(tmp_path), observation(np.ones((40, 5))), np.arange(40)
    still, deployed, collecting = FlowPolicy(version(temperature=0.0)), policy, policy.collector
    for lane in lanes.tolist():
        for each in (still, deployed, collecting):
            each.begin(lane, seed=lane)
    spread = [float(np.std(each.act(rows, lanes) - still.act(rows, lanes))) for each in (deployed, collecting)]
    assert spread[1] > 2 * spread[0] > 0
    expected = FlowPolicy(version(temperature=0.8))
    expected.begin(3, seed=7)
    collecting.begin(3, seed=7)
    row = observation(np.ones((1, 5)))
    np.testing.assert_array_equal(collecting.act(row, np.array([3])), expected.act(row, np.array([3])))


def test_a_version_without_a_temperature_for_collecting_collects_as_it_is_deployed(tmp_path: Path) -> None:
    flow_policy.save(version(), tmp_path)
    assert "collect_temperature" not in json.loads((tmp_path / "policy.json").read_text())
    policy = flow_policy.load(tmp_path)
    assert policy.collector is policy


def test_problems_are_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyProblem, match="not a readable flow policy"):
        flow_policy.load(tmp_path)
    flow_policy.save(version(), tmp_path)
    weights = tmp_path / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PolicyProblem, match="not a readable flow policy"):
        flow_policy.load(tmp_path)
    weights.write_bytes(whole)
    document = json.loads((tmp_path / "policy.json").read_text())
    document["shape"]["hidden"] = 32
    (tmp_path / "policy.json").write_text(json.dumps(document))
    with pytest.raises(PolicyProblem, match="layer 0 of the flow policy must be"):
        flow_policy.load(tmp_path)
    policy = FlowPolicy(version())
    with pytest.raises(PolicyProblem, match="call begin"):
        policy.act(observation(np.zeros((1, 5))), np.array([0]))
    with pytest.raises(PolicyProblem, match="got a state of shape"):
        policy.act(observation(np.zeros((2, 5))), np.array([0]))


def test_a_version_of_another_kind_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"kind": "lerobot"}')
    with pytest.raises(
        PolicyProblem, match="is of kind 'lerobot'; a flow policy is of kind .*flow.*recipe for its kind"
    ):
        flow_policy.read(tmp_path)
    flow_policy.save(version(), tmp_path)
    with pytest.raises(PolicyProblem, match="is of kind 'flow'; a LeRobot policy is of kind 'lerobot'.*for its kind"):
        load_parts(tmp_path)


def test_execute_must_fit_the_horizon() -> None:
    with pytest.raises(PolicyProblem, match="execute is 9"):
        FlowShape(state_dim=1, action_dim=1, execute=9)


def test_a_station_loads_the_policy_without_torch() -> None:
    code = "import sys, policies.flow_policy; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0


def test_a_chunk_that_goes_along_begins_with_what_is_being_carried_out() -> None:
    made = version()
    one, other = FlowPolicy(made), FlowPolicy(made)
    lanes = np.arange(3)
    state = np.random.default_rng(4).normal(size=(3, made.shape.state_dim)).astype(np.float32)
    for policy in (one, other):
        for lane in lanes:
            policy.begin(int(lane), 11)
    seen = Observation(stamp_ns=0, state=state)
    nothing = np.full((3, made.shape.horizon, made.shape.action_dim), np.nan, np.float32)
    free = one.act(seen, lanes)
    np.testing.assert_array_equal(other.act_along(seen, lanes, nothing, 2), free)
    left = made.action.inverse(np.full_like(nothing, 0.25))
    left[0, 1:] = np.nan
    along = other.act_along(seen, lanes, left, 2)
    np.testing.assert_allclose(along[1:, :2], left[1:, :2], atol=1e-5)
    np.testing.assert_allclose(along[0, :1], left[0, :1], atol=1e-5)
    assert np.isfinite(along).all()
    assert not np.allclose(along[1:, 2:], left[1:, 2:])
