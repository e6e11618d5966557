"""An ONNX model becomes a version by one command and acts as onnxruntime says, or is refused with what does not fit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner, Result

from enpire import plugins
from enpire.cli import app
from enpire.errors import MissingExtra, PolicyProblem
from enpire.files import parse
from enpire.home import Home, open_home
from enpire.interfaces import ImportChoices
from enpire.processes.version_check import check_version
from enpire.service.datasets import import_checkpoint, import_version
from enpire.store.load_version import load_version
from enpire.types import Observation
from policies.onnx_files import OnnxVersion, admit, check_task
from policies.onnx_policy import OnnxPolicy
from sim.tasks.push_t import PushT
from tests.architecture.sources import ROOT

SPEC = PushT.spec
CAMERA = SPEC.cameras[0]
HORIZON = 3
ACTIONS = HORIZON * SPEC.action_dim


def inputs() -> dict[str, dict[str, Any]]:
    return {
        "robot": {"state": [0, SPEC.state_dim], "shape": [SPEC.state_dim], "units": [one.unit for one in SPEC.state]},
        "view": {"camera": CAMERA, "shape": [3, 8, 8]},
        "noise": {"noise": True, "shape": [HORIZON, SPEC.action_dim]},
    }


def described(folder: Path, **changes: Any) -> Path:
    """onnx.json of `model`, with changes."""
    units = [one.unit for one in SPEC.action]
    output = {"name": "actions", "shape": [HORIZON, SPEC.action_dim], "units": units}
    about = {"inputs": inputs(), "output": output, "execute": 2, **changes}
    (folder / "onnx.json").write_text(json.dumps(about))
    return folder


def model(folder: Path, *, scale: float = 1.0, random: bool = False) -> Path:
    """A folder with a model: a linear map of the state, plus the mean of the image, plus noise."""
    folder.mkdir()
    weights = scale * np.random.default_rng(3).standard_normal((SPEC.state_dim, ACTIONS)).astype(np.float32)
    kept = [
        numpy_helper.from_array(weights, "weights"),
        numpy_helper.from_array(np.array([1, HORIZON, SPEC.action_dim], np.int64), "shape"),
    ]
    nodes = [
        helper.make_node("MatMul", ["robot", "weights"], ["flat"]),
        helper.make_node("Reshape", ["flat", "shape"], ["linear"]),
        helper.make_node("ReduceMean", ["view"], ["mean"], keepdims=0),
        helper.make_node("Add", ["linear", "mean"], ["seen"]),
        helper.make_node("Add", ["seen", "noise"], ["sum"]),
        helper.make_node("RandomNormalLike" if random else "Identity", ["sum"], ["actions"]),
    ]
    given = [
        helper.make_tensor_value_info("robot", TensorProto.FLOAT, ["batch", SPEC.state_dim]),
        helper.make_tensor_value_info("view", TensorProto.FLOAT, [1, 3, 8, 8]),
        helper.make_tensor_value_info("noise", TensorProto.FLOAT, [1, HORIZON, SPEC.action_dim]),
    ]
    found = [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [1, HORIZON, SPEC.action_dim])]
    made = helper.make_model(
        helper.make_graph(nodes, "policy", given, found, kept),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(made)
    onnx.save(made, str(folder / "model.onnx"))
    return described(folder)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


def enpire(home: Home, *words: str | Path) -> Result:
    return CliRunner().invoke(app, ["policy", "import", *map(str, words), "--home", str(home.root)])


def seen(lanes: int, size: int = 8) -> Observation:
    draw = np.random.default_rng(5)
    low, high = ([getattr(one, end) for one in SPEC.state] for end in ("low", "high"))
    return Observation(
        stamp_ns=0, state=draw.uniform(low, high, (lanes, SPEC.state_dim)).astype(np.float32),
        images={CAMERA: draw.integers(0, 256, (lanes, size, size, 3), np.uint8)},
    )  # fmt: skip


def imported(home: Home, folder: Path) -> OnnxPolicy:
    policy_id = import_checkpoint(home, folder, "push_t", ImportChoices())
    policy = load_version(home.versions / policy_id, policy_id)
    assert isinstance(policy, OnnxPolicy)
    return policy


def test_a_version_acts_as_onnxruntime_says_and_each_lane_has_its_own_noise(home: Home, tmp_path: Path) -> None:
    folder = model(tmp_path / "model")
    result = enpire(home, folder, "--task", "push_t")
    assert result.exit_code == 0, result.output
    version = home.versions / result.stdout.split()[0]
    assert sorted(path.name for path in version.iterdir()) == ["model.onnx", "policy.json"]
    policy = load_version(version, version.name)
    assert isinstance(policy, OnnxPolicy)
    assert (policy.horizon, policy.execute, policy.needs_images) == (HORIZON, 2, True)
    observation = seen(3)
    for lane in range(3):
        policy.begin(lane, lane + 10)
    chunks = policy.act(observation, np.arange(3))
    plain = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    for lane in range(3):
        noise = np.random.default_rng(lane + 10).standard_normal((1, HORIZON, SPEC.action_dim)).astype(np.float32)
        view = observation.images[CAMERA][lane : lane + 1].transpose(0, 3, 1, 2).astype(np.float32) / 255
        answer: Any = plain.run(
            ["actions"], {"robot": observation.state[lane : lane + 1], "view": view, "noise": noise}
        )
        np.testing.assert_allclose(chunks[lane], answer[0][0], rtol=1e-5, atol=1e-4)
    policy.begin(7, 11)
    alone = policy.act(
        Observation(stamp_ns=0, state=observation.state[1:2], images={CAMERA: observation.images[CAMERA][1:2]}),
        np.array([7]),
    )
    np.testing.assert_array_equal(alone[0], chunks[1])
    assert check_version(version, PushT(), ()).why == ""
    assert enpire(home, version).stdout.strip() == version.name, "a version is imported as it is"


def test_the_number_of_actions_sent_is_an_option(home: Home, tmp_path: Path) -> None:
    folder = model(tmp_path / "model")
    policy_id = import_checkpoint(home, folder, "push_t", ImportChoices(execute=3))
    assert json.loads((home.versions / policy_id / "policy.json").read_text())["execute"] == 3
    assert "gives 3 actions" in enpire(home, folder, "--task", "push_t", "--execute", "4").output
    assert "leave out --state" in enpire(home, folder, "--task", "push_t", "--state", "robot=0:2").output


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"extra": 1}, "unknown key 'extra'"),
        ({"inputs": {**inputs(), "view": {"camera": "moon", "shape": [3, 8, 8]}}}, "needs the camera 'moon'"),
        ({"inputs": {**inputs(), "view": {"camera": CAMERA, "shape": [3, 9, 8]}}}, "has the shape (1, 3, 8, 8)"),
        ({"inputs": {**inputs(), "view": {"shape": [3, 8, 8]}}}, "give `state`, `camera` or `noise`"),
        ({"inputs": {**inputs(), "ghost": inputs()["noise"]}}, "has no input 'ghost'"),
        ({"inputs": {"robot": inputs()["robot"]}}, "which the description does not name"),
        ({"inputs": {**inputs(), "robot": inputs()["robot"] | {"units": ["furlong"]}}}, "`units`: give one for each"),
        (
            {"inputs": {**inputs(), "robot": inputs()["robot"] | {"units": ["furlong"] * SPEC.state_dim}}},
            "in 'furlong', and the task has it in",
        ),
        ({"output": {"name": "torques", "shape": [HORIZON, SPEC.action_dim], "units": []}}, "`units`: give one for"),
        ({"output": {"name": "actions", "shape": [HORIZON, 9], "units": []}}, "gives 9 numbers an action"),
        ({"execute": 9}, "the model gives 3 actions at a time"),
        (
            {"output": {"name": "torques", "shape": [3, SPEC.action_dim], "units": [one.unit for one in SPEC.action]}},
            "has no output 'torques'",
        ),
        (
            {"output": {"name": "actions", "shape": [2, SPEC.action_dim], "units": [one.unit for one in SPEC.action]}},
            "has the shape (1, 3, 2)",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence(home: Home, tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    result = enpire(home, described(model(tmp_path / "model"), **changes), "--task", "push_t")
    assert result.exit_code == 1
    assert sentence in " ".join(result.output.split())
    assert not list(home.versions.iterdir())


def test_numbers_that_are_not_finite_and_noise_of_the_model_are_refused(home: Home, tmp_path: Path) -> None:
    assert "not finite" in enpire(home, model(tmp_path / "huge", scale=1e38), "--task", "push_t").output
    assert "draws its own noise" in " ".join(
        enpire(home, model(tmp_path / "random", random=True), "--task", "push_t").output.split()
    )
    broken = model(tmp_path / "broken")
    (broken / "model.onnx").write_bytes(b"no model")
    assert "is no ONNX model" in " ".join(enpire(home, broken, "--task", "push_t").output.split())


def test_a_model_with_weights_in_another_file_is_refused_also_as_a_version(home: Home, tmp_path: Path) -> None:
    folder = model(tmp_path / "model")
    made = onnx.load(str(folder / "model.onnx"))
    onnx.save(
        made, str(folder / "model.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=0,
        convert_attribute=False,
    )  # fmt: skip
    (folder / "policy.json").write_text('{"kind":"onnx"}')
    with pytest.raises(PolicyProblem, match="keeps its weights in another file"):
        import_version(home, folder)


def test_a_constant_within_the_graph_that_lies_elsewhere_is_found(tmp_path: Path) -> None:
    folder = model(tmp_path / "model")
    made = onnx.load(str(folder / "model.onnx"))
    node = made.graph.node.add(op_type="Constant", output=["unused"])
    hidden = onnx.TensorProto(name="hidden", data_location=onnx.TensorProto.EXTERNAL)
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(hidden)
    onnx.save(made, str(folder / "model.onnx"))
    with pytest.raises(PolicyProblem, match=r"in another file \(tensor 'hidden'\)"):
        admit(folder)


def test_an_image_of_another_size_is_refused(home: Home, tmp_path: Path) -> None:
    policy = imported(home, model(tmp_path / "model"))
    policy.begin(0, 1)
    with pytest.raises(PolicyProblem, match=r"gives \(3, 16, 16\): export the model with the scaling inside"):
        policy.act(seen(1, 16), np.array([0]))


def test_a_missing_onnxruntime_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "policies.onnx_policy", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'enpire\[onnx\]'"):
        plugins.load("policies", "onnx")


def test_the_description_in_the_documents_fits_its_task() -> None:
    text = (ROOT / "docs" / "other-tools.md").read_text(encoding="utf-8")
    about = json.loads(text.split("## An ONNX policy")[1].split("```json\n")[1].split("```")[0])
    check_task(parse(OnnxVersion, about, "onnx.json"), SPEC, Path("DIR"))
