"""A version that cannot act on recorded observations never reaches a gate."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.errors import LearningProblem
from enpire.files import plain
from enpire.interfaces import ImprovementJob, Rig
from enpire.policy_calls import policy_seed
from enpire.processes.learner_process import run_job
from enpire.processes.recorded_states import recorded_states
from enpire.processes.training_process import TrainingProcess
from enpire.processes.version_check import VersionCheck, check_version
from enpire.processes.version_check_process import CheckRequest, check_in_process
from enpire.store.arrays import pack
from enpire.store.episodes import FolderStore
from enpire.store.load_version import AllowedKinds
from enpire.types import Episode, EpisodeArrays, Order, Start
from tests.fakes import smoke_policies
from tests.fakes.point_task import PointRig, PointTask
from tests.fakes.smoke_policies import MADE, MODULE, write_version

KINDS = (f"{MODULE}:load",)
ALLOWED = AllowedKinds(kinds=KINDS)
TASK = PointTask()
"""50 Hz: two actions last 40 ms."""


def recorded(home: Path, count: int, ticks: int = 12) -> list[Path]:
    """Folders of recorded episodes; state k of episode e is (e, k)."""
    store, folders = FolderStore(home), list[Path]()
    for number in range(count):
        order = Order(
            order_id=f"E{number:03}", campaign_id="C1", station="s", task="point", policy_id="p", purpose="collect",
            start=Start(split="train", index=number, values=(0.1, 0.2), seed=100 + number), round=1,
        )  # fmt: skip
        state = np.stack([np.full(ticks + 1, number), np.arange(ticks + 1)], axis=1).astype(np.float32)
        data = pack(
            EpisodeArrays(
                state=state, action=np.zeros((ticks, 2), np.float32), source=np.zeros(ticks, np.uint8),
                chunk=np.zeros(ticks, np.int32),
            )
        )  # fmt: skip
        episode = Episode(
            order=order, outcome="success", cause="", confidence=1.0, ran_policy_id="p", ticks=ticks, began_s=0.0,
            ended_s=1.0, sha256=hashlib.sha256(data).hexdigest(),
        )  # fmt: skip
        folders.append(store.put(episode, data))
    return folders


def checked(tmp_path: Path, fault: str, count: int = 3, **more: object) -> VersionCheck:
    return check_version(write_version(tmp_path / "v", fault, **more), TASK, recorded(tmp_path / "e", count), ALLOWED)


def test_a_sound_version_passes_on_64_observations_of_16_episodes(tmp_path: Path) -> None:
    found = checked(tmp_path, "", count=40)
    assert found.why == ""
    assert (found.observations, found.clipped, found.images) == (64, 0.0, "none needed")
    assert 0 < found.slowest_s <= found.deadline_s == pytest.approx(0.04)
    assert "acts on 64 recorded observations" in found.sentence
    policy = MADE[-1]
    assert policy.calls[:4] == [(16, 2)] * 4, "all lanes in one call, as at a station"
    assert policy.begun[:2] == [(0, policy_seed(100)), (1, policy_seed(102))]
    assert policy.begun[15] == (15, policy_seed(139)), "from the first episode to the last"


def test_the_observations_are_those_at_which_the_policy_would_decide(tmp_path: Path) -> None:
    policy = smoke_policies.SmokePolicy("")
    states = recorded_states(policy, TASK, recorded(tmp_path, 2, ticks=5), 16)
    assert states is not None
    assert [one.state[0].tolist() for one in states.observations] == [[0, 0], [0, 2], [0, 4], [0, 4]]
    assert [one.state[1].tolist() for one in states.observations] == [[1, 0], [1, 2], [1, 4], [1, 4]]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("load", "it cannot be loaded: ValueError: the weights do not fit."),
        ("horizon", "it executes 5 of 4 actions"),
        ("begin", "failed to begin: RuntimeError: no memory of this lane"),
        ("raise", "policy failed: KeyError"),
        ("shape", "chunks of shape (3, 4, 3), not (3, 4, 2)"),
        ("nan", "not finite"),
        ("random", "other actions the second time"),
        ("slow", "one call for one robot takes 6"),
        ("alone", "with one lane, its policy failed: IndexError"),
    ],
)
def test_a_faulty_version_is_refused_with_one_sentence(tmp_path: Path, fault: str, why: str) -> None:
    found = checked(tmp_path, fault)
    assert why in found.why
    assert found.sentence == f"The version cannot be used: {found.why}"
    assert found.why.endswith(".")
    assert "\n" not in found.why


@pytest.mark.parametrize(
    ("collector", "why"),
    [
        ("", ""),
        ("raise", "as a collector of data: on recorded observations, its policy failed: KeyError"),
        ("slow", "as a collector of data: one call for one robot takes 6"),
        ("horizon", "its collector has horizon 4 and execute 5"),
    ],
)
def test_the_collector_of_a_version_acts_too(tmp_path: Path, collector: str, why: str) -> None:
    found = checked(tmp_path, "", collector=collector)
    assert why in found.why
    assert bool(found.why) == bool(why)
    assert found.clipped == 0.0


@pytest.mark.parametrize("fault", ["cold", "busy", "lanes"])
def test_a_slow_first_call_a_busy_machine_and_many_lanes_are_no_fault(tmp_path: Path, fault: str) -> None:
    assert checked(tmp_path, fault).why == ""


def test_commands_outside_the_bounds_are_clipped_as_at_a_station(tmp_path: Path) -> None:
    found = checked(tmp_path, "far")
    assert (found.why, found.clipped) == ("", 0.5)
    assert "50.0% of the commands clipped" in found.sentence


def test_a_kind_that_nothing_allows_is_refused(tmp_path: Path) -> None:
    found = check_version(write_version(tmp_path / "v"), TASK, recorded(tmp_path / "e", 1))
    assert "is not installed here" in found.why
    assert MODULE in found.why


def test_without_episodes_a_version_is_only_loaded(tmp_path: Path) -> None:
    found = checked(tmp_path, "", count=0)
    assert (found.why, found.observations) == ("", 0)
    assert "no recorded observations" in found.sentence
    assert "cannot be loaded" in check_version(write_version(tmp_path / "w", "load"), TASK, [], ALLOWED).why


def test_without_the_task_bounds_and_deadline_are_not_checked(tmp_path: Path) -> None:
    episodes = recorded(tmp_path / "e", 2)
    assert check_version(write_version(tmp_path / "v", "slow"), None, episodes, ALLOWED).why == ""
    assert "of shape" in check_version(write_version(tmp_path / "w", "shape"), None, episodes, ALLOWED).why


def test_a_policy_with_images_gets_those_of_the_start_and_is_skipped_without_any(tmp_path: Path) -> None:
    none = checked(tmp_path, "", images=True)
    assert (none.why, none.observations) == ("", 0)
    assert "images are missing" in none.sentence

    class Seeing(PointTask):
        spec = replace(PointTask.spec, cameras=("top",))

        def rig(self, lanes: int, seed: int) -> Rig:
            return PointRig(self.spec, lanes, {"picture_px": 8})

    found = check_version(tmp_path / "v", Seeing(), sorted((tmp_path / "e" / "C1").iterdir()), ALLOWED)
    assert found.images == "rendered at each start"
    assert found.observations == 12


def job_in(folder: Path, fault: str) -> ImprovementJob:
    return ImprovementJob(
        recipe={"name": "r", "learner": f"{MODULE}:Maker", "settings": {"fault": fault}},
        task="tests.fakes.point_task:PointTask", parent=None, episodes=recorded(folder / "e", 2), work=folder / "job",
        output=folder / "job" / "version", round=0, seed=0,
    )  # fmt: skip


def written(job: ImprovementJob) -> Path:
    job.work.mkdir()
    (job.work / "job.json").write_text(json.dumps(plain(job)))
    return job.work


def test_a_training_run_ends_with_a_checked_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_job(written(job_in(tmp_path, "")))
    assert json.loads((tmp_path / "job" / "result.json").read_text()) == {"metrics": {"loss": 0.5}}
    assert "acts on 8 recorded observations" in capsys.readouterr().out


def test_a_training_run_fails_when_its_version_cannot_act(tmp_path: Path) -> None:
    folder = written(job_in(tmp_path, "nan"))
    with pytest.raises(LearningProblem, match="made a version that cannot act: on recorded observations, its policy"):
        run_job(folder)
    assert not (folder / "result.json").exists()


def test_the_orchestrator_hears_why_a_version_was_refused(tmp_path: Path) -> None:
    run = TrainingProcess.begin(job_in(tmp_path, "shape"))
    try:
        run.process.wait(600)
        assert run.metrics() is None
        assert "chunks of shape (2, 4, 3), not (2, 4, 2)" in run.failure()
    finally:
        run.end()


def test_a_version_that_hangs_ends_its_training_run(tmp_path: Path) -> None:
    job = job_in(tmp_path, "hang")
    code = (
        "import sys; from enpire.processes import learner_process as p; p.LIMIT_S = 1.0; "
        f"sys.exit(p.main([{str(written(job))!r}]))"
    )
    began_s = time.monotonic()
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 1
    assert time.monotonic() - began_s < 500
    assert (job.work / "failure.txt").read_text() == "The version did not answer within 1 s."
    assert not (job.work / "result.json").exists()


@pytest.mark.parametrize(("fault", "why"), [("", ""), ("nan", "not finite"), ("hang", "did not answer within 5 s.")])
def test_a_process_of_its_own_gives_the_same_answer(tmp_path: Path, fault: str, why: str) -> None:
    request = CheckRequest(
        folder=write_version(tmp_path / "v", fault), task="tests.fakes.point_task:PointTask",
        episodes=tuple(recorded(tmp_path / "e", 3)), kinds=KINDS,
    )  # fmt: skip
    found = check_in_process(request, limit_s=5.0 if fault == "hang" else 120.0)
    assert why in found.why
    assert bool(found.why) == bool(why)
    assert why or found.observations == 12


def test_a_process_that_dies_is_a_reason_too(tmp_path: Path) -> None:
    request = CheckRequest(
        folder=write_version(tmp_path / "v", "die"), task="tests.fakes.point_task:PointTask",
        episodes=tuple(recorded(tmp_path / "e", 1)), kinds=KINDS,
    )  # fmt: skip
    assert check_in_process(request).why == "its process ended with code 7."


def test_the_packages_of_installed_policies_are_visible_in_the_sandbox(tmp_path: Path) -> None:
    """Asked from a process that has loaded none of them, as the command is."""
    folder = tmp_path / "v"
    folder.mkdir()
    (folder / "policy.json").write_text(json.dumps({"kind": "program", "program": "none", "values": {}}))
    code = f"from enpire.cli import app; app(['policy', 'check', {str(folder)!r}, '--task', 'pin_insertion'])"
    said = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=600, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "ENPIRE_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert said.returncode == 3, said.stderr
    assert "lacks the key 'period_s'" in said.stdout, "its package was found, and its file read"
    assert "cannot be found" not in said.stdout
