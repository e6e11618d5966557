"""Attacks with policy versions: code where a station, a policy server or a command expects data."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.attacks import Result, Run, attack
from enpire.errors import EnpireError
from enpire.station.remote_policy import PolicyServerLink
from enpire.store import versions
from enpire.store.durable import make_folder
from enpire.wire.private_socket import private_address
from tests.fakes.fleet_harness import FleetHarness
from tests.fakes.point_task import environment, point_order, point_station, write_policy
from tests.policies import checkpoints
from tests.policies.tiny_act import write_act

Loader = Callable[[Path], str]
"""Has the product load a version's folder; returns what it said."""


@contextlib.contextmanager
def policy_server(home: Path) -> Iterator[Loader]:
    """`enpire policy serve` with default settings, which gets each version from a station."""
    address = private_address(home, "policy-server")
    command = [sys.executable, "-m", "enpire.cli", "policy", "serve", "--bind", address, "--home", str(home)]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as server:
        link = PolicyServerLink(address)

        def load(folder: Path) -> str:
            try:
                link.make(folder, versions.identify(folder))
            except EnpireError as refusal:
                return str(refusal)
            return "loaded"

        try:
            yield load
        finally:
            link.close()
            server.send_signal(signal.SIGINT)


@contextlib.contextmanager
def station(home: Path) -> Iterator[Loader]:
    """A station's process with default settings, which fetches each version for an order."""
    harness = FleetHarness(home)
    try:
        harness.start(point_station(home, policy_kinds=()))
        lease = harness.join()

        def load(folder: Path) -> str:
            order = point_order(versions.publish(folder, harness.versions), 1, lease=lease)
            harness.fleet.send("alpha", [order])
            return harness.until_all([order])[order.order_id].episode.cause

        yield load
    finally:
        harness.close()


@contextlib.contextmanager
def command(home: Path) -> Iterator[Loader]:
    """`enpire gate FOLDER scripted:expert`."""

    def load(folder: Path) -> str:
        words = [sys.executable, "-m", "enpire.cli", "gate", str(folder), "scripted:expert", "--home", str(home)]
        done = subprocess.run([*words, "--pairs", "1"], env=environment(), capture_output=True, text=True, check=False)
        return done.stderr if done.returncode == 1 else f"exit code {done.returncode}: {done.stderr}"

    yield load


def _tried(run: Run, folders: dict[Path, str], marker: Path, *, gate: bool) -> Result:
    """Load each folder in every place; a load holds when it is refused with these words and nothing ran."""
    answers: dict[str, bool] = {}
    for place in (policy_server, station, command) if gate else (policy_server, station):
        with place(run.folder / place.__name__) as load:
            for folder, words in folders.items():
                answer = load(folder)
                answers[f"{place.__name__}, {folder.name}: {answer[:200]}"] = words in answer and not marker.exists()
                marker.unlink(missing_ok=True)
    lost = [answer for answer, held in answers.items() if not held]
    evidence = f"{len(answers) - len(lost)} of {len(answers)} loads were refused before anything ran"
    return Result(
        tried=len(answers), held=len(answers) - len(lost), evidence=f"{evidence}. {lost[0]}" if lost else evidence
    )


@attack("a version from another machine", "runs its own code where the version is loaded")
def a_kind_that_names_code(run: Run) -> Result:
    """Load versions whose kind is `module:name`: one reads a .pth file, which Python executes."""
    marker = run.folder / "ran"
    folders: dict[Path, str] = {}
    for kind in ("site:addsitedir", "runpy:run_path", "subprocess:check_output"):
        folder = write_policy(run.folder / kind.replace(":", "-"), kind=kind)
        (folder / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n")
        (folder / "__main__.py").write_text(f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n")
        folders[folder] = "is not installed here"
    return _tried(run, folders, marker, gate=True)


@attack("a LeRobot checkpoint from another machine", "runs a program where the checkpoint is loaded")
def a_lerobot_checkpoint_that_starts_a_program(run: Run) -> Result:
    """Load a real ACT whose processors name `subprocess.Popen` as the class of a step."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    marker, honest = run.folder / "ran", write_act(run.folder / "honest", "top", (32, 32), 2, 0.1)
    folders: dict[Path, str] = {}
    for name in (checkpoints.BEFORE, checkpoints.AFTER):
        versions.copy(honest, folder := run.folder / name.removesuffix(".json"))
        step = checkpoints.command(marker)
        checkpoints.edit(folder / name, lambda document, step=step: document["steps"].append(step))
        folders[folder] = "must hold registry_name, config and state_file alone"
    if not run.quick:
        for index, (change, words) in enumerate(checkpoints.ATTACKS.values()):
            changed = checkpoints.write(run.folder / f"changed-{index}")
            change(changed)
            with contextlib.suppress(EnpireError):  # some are no versions at all and are never sent
                versions.identify(changed)
                folders[changed] = words
    return _tried(run, folders, marker, gate=not run.quick)


REWARD_MODELS: Mapping[str, tuple[dict[str, object], str]] = {
    "auto_map": (
        {"type": "robometer", "base_model_id": "base", "vlm_config": {"auto_map": {"AutoModel": "evil.Model"}}},
        "'auto_map'",
    ),
    "a base on a hub": ({"type": "topreward", "vlm_name": "evil/model"}, "'evil/model'"),
    "trust": ({"type": "topreward", "vlm_name": "base", "trust_remote_code": True}, "'trust_remote_code'"),
    "a file of code": ({"type": "robometer", "base_model_id": "base"}, "evil.py does not belong"),
}
"""Name -> its configuration, and words of the sentence that refuses it. The last one has a file of code itself."""


@attack("a reward model from a download", "runs its own code where it judges")
def a_reward_model_that_brings_code(run: Run) -> Result:
    """Start campaigns whose verifier is a reward model with code, or one that is built from a model elsewhere."""
    marker, lost, names = run.folder / "ran", list[str](), list(REWARD_MODELS)[: 1 if run.quick else None]
    for name in names:
        config, words = REWARD_MODELS[name]
        folder = run.folder / name.replace(" ", "-")
        make_folder(folder / "base")
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "base" / "config.json").write_text(json.dumps({"model_type": "qwen3_vl"}))
        if name == "a file of code":
            (folder / "evil.py").write_text(f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n")
        options = {"model": str(folder), "camera": "top", "threshold": 0.9}
        verifiers = [{"name": "task"}, {"name": "progress", "options": options}]
        campaign = folder.with_suffix(".yaml")
        campaign.write_text(
            json.dumps({"name": "a", "task": "push_t", "recipe": "filtered_bc", "verifiers": verifiers})
        )
        typed = ["run", str(campaign), "--headless", "--home", str(run.folder / "home")]
        command = [sys.executable, "-m", "enpire.cli", *typed]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode != 1 or words not in done.stderr or "Traceback" in done.stderr or marker.exists():
            lost.append(f"{name}: exit code {done.returncode}, {done.stderr[-300:]}")
    evidence = f"{len(names) - len(lost)} of {len(names)} campaigns were refused before anything ran"
    return Result(tried=len(names), held=len(names) - len(lost), evidence=". ".join([evidence, *lost[:1]]))
