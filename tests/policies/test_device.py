"""Early stop, precision and device: what a recipe says about how its training runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from enpire.errors import LearningProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.store import versions
from policies.clone import Clone
from policies.device import Device
from policies.early_stop import evaluation_rows, held_out
from policies.flow_network import FlowNetwork, flow_losses
from policies.flow_policy import read
from policies.flow_training import FlowBatches, FlowSettings
from tests.policies.recorded import driven, write

SMALL = {"hidden": 16, "depth": 1, "batch": 32, "least_steps": 200, "most_steps": 200}


def job_in(root: Path, **settings: object) -> ImprovementJob:
    return ImprovementJob(
        recipe={"name": "test", "learner": "clone", "settings": SMALL | settings}, task="point", parent=None,
        episodes=[write(root / "e", driven(seed, expert=True)) for seed in range(20)],
        work=root / "work", output=root / "out", round=0, seed=3,
    )  # fmt: skip


def test_every_tenth_episode_is_held_out_and_only_what_is_drawn_is_looked_at() -> None:
    episode = np.repeat(np.arange(25), 4)
    sampling_weights = np.ones(100, np.float32)
    sampling_weights[episode == 3] = 0
    held = held_out(episode, sampling_weights)
    assert set(episode[held]) == {10, 20}
    rows = evaluation_rows(held, sampling_weights, seed=1)
    assert held[rows].all()
    assert np.array_equal(rows, evaluation_rows(held, sampling_weights, seed=1))
    assert not held_out(episode[:20], sampling_weights[:20]).any()
    assert not len(evaluation_rows(held & False, sampling_weights, seed=1))


def test_training_ends_when_the_held_out_loss_no_longer_falls(tmp_path: Path) -> None:
    never = Clone().improve(job_in(tmp_path / "never"), lambda _: None)
    assert never["steps"] == 200
    assert "held_out_loss" not in never
    # With so long steps the loss soon only wanders.
    wild = {"early_stop": 2, "learning_rate": 0.3, "most_steps": 4000, "least_steps": 4000, "average": 0.5}
    job = job_in(tmp_path / "wild", **wild)
    metrics = Clone().improve(job, lambda _: None)
    assert metrics["steps"] < 4000
    assert metrics["steps"] % 50 == 0
    assert metrics["held_out_lowest"] <= metrics["held_out_loss"]
    patient = job_in(tmp_path / "patient", early_stop=100)
    assert Clone().improve(patient, lambda _: None)["steps"] == 200
    few = replace(patient, episodes=patient.episodes[:9], work=tmp_path / "w", output=tmp_path / "few")
    assert Clone().improve(few, lambda _: None)["held_out_windows"] == 0


def test_a_cut_run_stops_early_at_the_same_step_with_the_same_bytes(tmp_path: Path) -> None:
    wild = {"early_stop": 6, "learning_rate": 0.1, "most_steps": 4000, "least_steps": 4000}
    job = job_in(tmp_path, **wild)
    metrics = Clone().improve(job, lambda _: None)
    assert 300 <= metrics["steps"] < 4000
    twin = replace(job, work=tmp_path / "w2", output=tmp_path / "o2")

    def cut(progress: Progress) -> None:
        if progress.done == 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Clone().improve(twin, cut)
    again = Clone().improve(twin, lambda _: None)
    assert versions.identify(twin.output) == versions.identify(job.output)
    assert again["steps"] == metrics["steps"]
    # Killed after the last checkpoint, before the version appeared.
    third = replace(twin, output=tmp_path / "o3")
    assert Clone().improve(third, lambda _: None)["held_out_lowest"] == metrics["held_out_lowest"]
    assert versions.identify(third.output) == versions.identify(job.output)


def test_bfloat16_comes_near_float32_and_keeps_weights_of_32_bits(tmp_path: Path) -> None:
    exact = Clone().improve(job_in(tmp_path / "a"), lambda _: None)
    half = job_in(tmp_path / "b", precision="bfloat16", device="cpu")
    near = Clone().improve(half, lambda _: None)
    assert near["bfloat16"] == 1
    assert near["loss"] != exact["loss"]
    assert near["loss"] == pytest.approx(exact["loss"], rel=0.1)
    assert {value.dtype for value in read(half.output).weights.values()} == {np.dtype(np.float32)}


def test_a_gpu_that_is_not_there_is_named_and_auto_takes_the_cpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(LearningProblem, match="torch sees no GPU"):
        Device.of("cuda", "auto", compiled=False)
    device = Device.of("auto", "auto", compiled=True)
    assert (device.torch_device.type, device.bfloat16, device.compiled) == ("cpu", False, False)
    assert device.compile(len) is len


def lesson_of(settings: FlowSettings) -> tuple[FlowNetwork, FlowBatches]:
    shape, random = settings.shape(5, 2), np.random.default_rng(0)
    network, count = FlowNetwork(shape, 0), 600
    return network, FlowBatches(
        features=random.random((count, shape.state_features), np.float32),
        chunk=random.random((count, shape.chunk_dim), np.float32), mask=np.ones((count, shape.chunk_dim), np.float32),
        demonstration=np.zeros(count, np.bool_), sampling_weights=np.ones(count, np.float32),
        episode=np.zeros(count, np.int64),
    )  # fmt: skip


def test_on_a_gpu_every_tensor_of_a_step_is_there() -> None:
    """Without a GPU: torch's fake tensors say where each one would be, and refuse to mix devices."""
    device = Device(torch_device=torch.device("cuda"), bfloat16=False, compiled=False)
    network, batches = lesson_of(FlowSettings(hidden=16, depth=1))
    with FakeTensorMode(allow_non_fake_inputs=True):
        for layer in network.layer.children():
            for name, value in list(layer.named_parameters()):
                setattr(layer, name, torch.nn.Parameter(value.detach().to(device.torch_device)))
        batch = batches.at(np.arange(8), np.random.default_rng(0), device)
        assert flow_losses(network, batch).device.type == "cuda"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of torch's own compiler, about itself
def test_a_compiled_loss_is_the_loss_and_is_compiled_once() -> None:
    device = Device(torch_device=torch.device("cpu"), bfloat16=False, compiled=True)
    network, batches = lesson_of(FlowSettings(hidden=16, depth=1))
    compiled = device.compile(flow_losses)
    torch._dynamo.utils.counters.clear()
    for step in range(3):
        batch = batches.at(np.arange(32) + step, np.random.default_rng(step), device)
        found, wanted = compiled(network, batch), flow_losses(network, batch)
        torch.testing.assert_close(found, wanted)
        slopes = [torch.autograd.grad(loss.mean(), list(network.parameters())) for loss in (found, wanted)]
        torch.testing.assert_close(*slopes)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.gpu
def test_training_on_a_gpu_comes_near_the_cpu(tmp_path: Path) -> None:
    there = Clone().improve(job_in(tmp_path / "a", device="cuda", compile=True), lambda _: None)
    here = Clone().improve(job_in(tmp_path / "b", device="cpu"), lambda _: None)
    assert (there["on_gpu"], there["bfloat16"]) == (1, 1)
    assert there["loss"] == pytest.approx(here["loss"], rel=0.15)
