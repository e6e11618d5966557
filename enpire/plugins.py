"""Plug-ins: loads tasks, drivers, policies, learners and other parts by name.

A name is looked up in the table of built-in parts, then in the entry points of installed packages (group
`enpire.<group>`). A name of the form "module:attribute" is imported directly, also from the current folder. So
`enpire` imports none of the packages above it, and a laboratory adds its own parts without an edit here.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from enpire.errors import EnpireError, MissingExtra, UnknownName, UsageError

BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "tasks": {
        "pin_insertion": "sim.tasks.pin_insertion:PinInsertion",
        "pin_insertion_blind": "sim.tasks.pin_insertion_blind:PinInsertionBlind",
        "fragile_insertion": "sim.tasks.fragile_insertion:FragileInsertion",
        "push_t": "sim.tasks.push_t_home:PushTWithHome",
        "gpu_insertion": "sim.tasks.gpu_insertion:GpuInsertion",
        "ziptie_cutting": "sim.tasks.ziptie_cutting:ZiptieCutting",
        "fragile_ziptie": "sim.tasks.fragile_ziptie:FragileZiptie",
        "bag_packing": "sim.tasks.bag_packing:BagPacking",
        "marker_in_cup": "sim.tasks.marker_in_cup:MarkerInCup",
    },
    "drivers": {
        "mujoco": "robot_drivers.mujoco_robot:open_rig",
        "fake": "robot_drivers.fake_robot:open_rig",
        "lerobot": "robot_drivers.lerobot_robot:open_rig",
        "ros2": "robot_drivers.ros2_robot:open_rig",
        "remote": "robot_drivers.remote:open_rig",
    },
    "policies": {
        "flow": "policies.flow_policy:load",
        "foreseeing": "policies.viability_policy:load",
        "scripted": "policies.scripted:load",
        "best_of_n": "policies.best_of_n:load",
        "program": "policies.program:load",
        "lerobot": "policies.lerobot_policy:load",
        "residual": "policies.residual:load",
        "steered": "policies.steered:load",
        "refined": "policies.refined:load",
        "gaussian": "policies.gaussian_policy:load",
        "code": "enpire.code_candidates.code_policy:load",
        "openpi": "enpire.policy_server.openpi_policy:load",
        "onnx": "policies.onnx_policy:load",
    },
    "unsandboxed": {"code": "enpire.code_candidates.code_policy:load_unsandboxed"},
    "admissions": {"lerobot": "policies.checkpoint_admission:admit", "onnx": "policies.onnx_files:admit"},
    "checkpoints": {
        "lerobot_folder": "policies.checkpoint_import:find_checkpoint",
        "lerobot": "policies.checkpoint_import:manifest",
        "onnx_folder": "policies.onnx_files:find_model",
        "onnx": "policies.onnx_files:manifest",
    },
    "learners": {
        "clone": "policies.clone:Clone",
        "habc": "policies.habc.learner:Habc",
        "best_of_n": "policies.habc.selection:BestOfN",
        "recap": "policies.recap:Recap",
        "program_search": "policies.program_search:ProgramSearch",
        "sequence": "policies.sequence:Sequence",
        "lerobot": "policies.lerobot_learner:LerobotHabc",
        "residual_td3": "policies.residual_learner:ResidualTd3",
        "dsrl": "policies.steered_learner:Dsrl",
        "rlt": "policies.refining_learner:Rlt",
        "lerobot_sac": "policies.lerobot_sac:LerobotSac",
        "code": "enpire.code_candidates.code_learner:CodeLearner",
    },
    "agents": {
        "search": "agent_loop.agents.search:Search",
        "anthropic": "agent_loop.agents.anthropic:Anthropic",
        "cli": "agent_loop.agents.cli:Cli",
    },
    "verifiers": {
        "classifier": "sim.verifiers.classifier:open_verifier",
        "anthropic": "sim.verifiers.vision_judge:VisionJudge",
        "progress": "policies.progress_verifier:open_verifier",
    },
    "bridges": {"ros2": "robot_drivers.ros2_bridge:open_bridge"},
    "operators": {
        "simulated": "sim.operator:SimulatedOperator",
        "lerobot": "robot_drivers.teleoperators:open_lerobot",
        "keyboard": "robot_drivers.teleoperators:open_keyboard",
        "browser": "robot_drivers.browser_operator:open_browser",
    },
    "inspections": {
        "task": "sim.task_check.suite:check_task",
        "task_checks": "sim.task_check.suite:count_checks",
        "driver_file": "robot_drivers.conformance:check_file",
        "rig": "robot_drivers.conformance:check_rig",
        "robot_checks": "robot_drivers.conformance:count_checks",
        "verifier": "sim.verifiers.grading:report",
        "labelled_episodes": "sim.verifiers.examples:labelled_episodes",
        "judged": "sim.verifiers.grading:judged",
        "earlier_digest": "sim.verifiers.earlier_digests:earlier_digest",
        "thresholds": "sim.verifiers.fitting:fit",
        "classifier": "sim.verifiers.fitting:fit_classifier",
        "stop": "robot_drivers.stop_latency:measure",
    },
    "robots": {
        "serve": "robot_drivers.serving:serve",
        "guard": "robot_drivers.guard_client:GuardControl",
        "guard_settings": "robot_drivers.guard_settings:service_settings",
        "resume_code": "robot_drivers.resume_code:make",
        "cameras": "robot_drivers.camera_finder:find",
        "still": "robot_drivers.camera_finder:take_still",
    },
    "replays": {"mujoco": "sim.replay:replay"},
    "replay_images": {"mujoco": "sim.replay:frames"},
    "listeners": {"zmq": "enpire.wire.listening_address:listening_address"},
    "transports": {
        "zmq": "enpire.fleet.zmq_transport:ZmqFleet",
    },
    "hosts": {
        "local": "enpire.fleet.local:start_local",
        "ray": "enpire.fleet.on_ray:start_on_ray",
        "lossy": "enpire.fleet.local:start_lossy",
    },
    "sinks": {
        "trackio": "enpire.sinks.trackio_sink:TrackioSink",
        "tensorboard": "enpire.sinks.tensorboard_sink:TensorboardSink",
        "wandb": "enpire.sinks.wandb_sink:WandbSink",
        "mlflow": "enpire.sinks.mlflow_sink:MlflowSink",
        "otel": "enpire.sinks.otel_sink:OtelSink",
    },
    "networks": {"lossy": "sim.lost_network:LossyNetwork"},
}
"""group -> name -> "module:attribute"."""
OPENERS: Mapping[str, Mapping[str, str]] = {
    "tasks": {"gym": "sim.gym_task:open_task", "authored": "enpire.code_candidates.authored_tasks:open_authored"}
}
"""group -> prefix -> "module:attribute": called with the rest of a name "prefix:rest", it gives the part."""
RENAMED_GROUPS: Mapping[str, str] = {"bridges": "faces", "replay_images": "films", "listeners": "doors"}
"""group -> its former name; entry points of installed packages under that name are still found."""

EXTRAS: Mapping[str, str] = {
    "mujoco": "sim", "gymnasium": "sim", "PIL": "sim", "torch": "learn", "safetensors": "learn", "cma": "heuristics",
    "lerobot": "lerobot", "diffusers": "lerobot", "transformers": "vla", "cyclonedds": "ros2", "rclpy": "ros2",
    "ray": "ray", "anthropic": "agents", "mcp": "agents", "rerun": "rerun", "mcap": "mcap",
    "trackio": "trackio", "tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow",
    "onnxruntime": "onnx", "opentelemetry": "otel",
}  # fmt: skip
"""Package -> the extra of ENPIRE that installs it."""


def names(group: str) -> tuple[str, ...]:
    """All names of a group, built in and installed, sorted."""
    installed = {point.name for point in _installed_points(group)}
    return tuple(sorted(installed | set(BUILT_IN.get(group, {}))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a group, for lists."""

    name: str
    what: str
    """First line of its module's docstring."""
    where: str
    """module:attribute."""


def listed(group: str) -> list[Part]:
    """Every part of a group, sorted. Imports the packages of the parts, not the parts."""
    installed = {point.name: point.value for point in _installed_points(group)}
    found = sorted({**installed, **BUILT_IN.get(group, {})}.items())
    return [Part(name=name, what=_first_words(where), where=where) for name, where in found]


def _first_words(where: str) -> str:
    """The first line of a module's docstring, read as text; empty where there is none or the package is broken."""
    try:
        found = importlib.util.find_spec(where.partition(":")[0])
        if found is None or found.origin is None or not found.origin.endswith(".py"):
            return ""
        docstring = ast.get_docstring(ast.parse(Path(found.origin).read_text(encoding="utf-8")))
    except (Exception, SystemExit):  # noqa: BLE001 - code of others; `load` reports what is broken
        return ""
    return docstring.splitlines()[0] if docstring else ""


def is_installed(package: str) -> bool:
    """Whether a package is installed; imports nothing."""
    return importlib.util.find_spec(package) is not None


def load(group: str, name: str) -> object:
    """The part of a name.

    Raises:
        UnknownName: no part has that name; the sentence lists the names.
        MissingExtra: the part's module needs a package that is not installed; the sentence names the extra.
        UsageError: the part's module cannot be imported, or the part cannot be called.
    """
    if prefix := opener_of(group, name):
        return partial(cast("Callable[[str], object]", load("openers", OPENERS[group][prefix])), name.partition(":")[2])
    address = BUILT_IN.get(group, {}).get(name) or (name if ":" in name else _installed(group, name))
    if not address:
        raise _unknown(group, name)
    module, _, attribute = address.partition(":")
    if address == name:
        look_here()
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise _explained(missing, group, name, address) from missing
    except SyntaxError as wrong:
        raise UsageError(f"{name!r} of {group} is {address}, which is not Python: {wrong}.") from wrong
    except EnpireError:
        raise
    except (Exception, SystemExit) as problem:
        raise UsageError(
            f"{name!r} of {group} is in {module}, which fails on import: {_described(problem)}"
        ) from problem
    if not hasattr(found, attribute):
        raise UnknownName(f"{module} has no {attribute!r}, the address of {group} {name!r}; check the spelling.")
    part: object = getattr(found, attribute)
    if group in BUILT_IN and not callable(part):
        raise UsageError(
            f"{name!r} of {group} is {address}, which is {type(part).__name__}: name a class or a function."
        )
    return part


def is_part(group: str, name: str) -> bool:
    """Whether a name is built in or of an installed package. "module:attribute" is neither: it can be any code."""
    return name in BUILT_IN.get(group, {}) or bool(_installed(group, name))


def opener_of(group: str, name: str) -> str:
    """The prefix of a name that a function opens, such as `gym` of the task gym:FILE.yaml; empty for others."""
    prefix, _, rest = name.partition(":")
    return prefix if rest and prefix in OPENERS.get(group, {}) else ""


def is_simulator_truth(task: str) -> bool:
    """Whether the simulation itself says what succeeded (tasks `gym:...`), and no verifier of sensors."""
    return opener_of("tasks", task) == "gym"


def require_name(group: str, name: str) -> None:
    """Check that a name can be one of a part, without importing the part.

    Raises:
        UnknownName: it is neither built in nor installed, nor "module:attribute".
    """
    if ":" not in name and not is_part(group, name):
        raise _unknown(group, name)


def _unknown(group: str, name: str) -> UnknownName:
    listed = ", ".join(names(group)) or "none is installed"
    return UnknownName(f"There is no {group.rstrip('s')} called {name[:80]!r}; there are: {listed}.")


def require_addresses(kinds: Sequence[str]) -> None:
    """Refuse a list of allowed kinds that holds anything but "module:name".

    Raises:
        ValueError: names the first other one.
    """
    for kind in kinds:
        if not all(part.isidentifier() for part in [*kind.partition(":")[0].split("."), kind.partition(":")[2]]):
            raise ValueError(f"policy_kinds holds {kind!r}; write module:name, such as my_lab.policy:load.")


def bring_in(module: str) -> None:
    """Import a module that registers itself; MissingExtra when it needs a package that is not installed."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise _explained(missing, "drivers", module, module) from missing


def make(group: str, name: str, /, *arguments: object, **named: object) -> object:
    """Load a part and call it with these arguments.

    Raises:
        EnpireError: as `load` and the part raise it; UsageError when the part fails in another way.
    """
    part = cast("Callable[..., object]", load(group, name))
    try:
        return part(*arguments, **named)
    except EnpireError:
        raise
    except (Exception, SystemExit) as problem:
        raise UsageError(f"{name!r} of {group} cannot be made: {_described(problem)}") from problem


def look_here() -> None:
    """Let imports find modules in the current folder, after all others; installed commands do not by default."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def _described(problem: BaseException) -> str:
    """The text and the place of an exception, as the end of a sentence."""
    place = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__}: {problem} ({place.filename}, line {place.lineno}; --debug shows the rest)."


def _installed(group: str, name: str) -> str:
    return next((point.value for point in _installed_points(group) if point.name == name), "")


def _installed_points(group: str) -> list[EntryPoint]:
    """The entry points of installed packages for a group, under its present and its former name."""
    groups = (group, RENAMED_GROUPS[group]) if group in RENAMED_GROUPS else (group,)
    return [point for each in groups for point in entry_points(group=f"enpire.{each}")]


def _explained(missing: ModuleNotFoundError, group: str, name: str, address: str) -> MissingExtra | UnknownName:
    package = (missing.name or "").partition(".")[0]
    if package in EXTRAS:
        extra = EXTRAS[package]
        return MissingExtra(
            f"{group} {name!r} needs the package {package}, which is not installed: pip install 'enpire[{extra}]'."
        )
    return UnknownName(f"{name!r} of {group} is {address}, but the module {missing.name} cannot be found.")
