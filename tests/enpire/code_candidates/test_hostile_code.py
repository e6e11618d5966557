"""Hostile code of a candidate ends its own training run or episode, and nothing else."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.code_candidates.code_learner import CodeLearner
from enpire.code_candidates.code_policy import CodePolicy, RoomLink
from enpire.code_candidates.rooms import require_sandbox
from enpire.errors import LearningProblem, PolicyProblem, UsageError
from enpire.home import open_home
from enpire.interfaces import CodeSource, ImprovementJob
from enpire.processes.room_limits import RoomLimits, used_below
from enpire.processes.sandbox import bubblewrap
from enpire.store import versions
from enpire.types import Observation
from tests.enpire.processes.test_version_check import recorded
from tests.fakes.code_agent import FILES, POLICY
from tests.fakes.waiting import has_ended, until

pytestmark = pytest.mark.skipif(not bubblewrap(), reason="bubblewrap is not installed, or is not allowed here")


def job(tmp_path: Path, files: Mapping[str, str], limit_s: float = 60.0) -> ImprovementJob:
    work = tmp_path / "job"
    work.mkdir(exist_ok=True)
    return ImprovementJob(
        recipe={"name": "x", "learner": "code", "settings": {"ridge": 0.1}}, task="tests.fakes.point_task:PointTask",
        parent=None, episodes=tuple(recorded(tmp_path / "episodes", 2)), work=work, output=work / "version", round=1,
        seed=3, code=CodeSource(files=files, commit="a" * 40, tree="b" * 40, limit_s=limit_s),
    )  # fmt: skip


def learner(body: str) -> dict[str, str]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return {
        **FILES,
        "learner.py": f"import os, time\nimport numpy as np\n\ndef improve(job):\n{lines}    return {{}}\n",
    }


HOSTILE = {
    "a fork bomb": ("while True:\n    os.fork()", "BlockingIOError|processes and threads|ended with code"),
    "8 GiB of memory": ("x = np.ones(2**30)", "MemoryError|MiB of memory"),
    "an endless loop": ("while True: pass", "was not done within 3 s"),
    "a full disk": (
        "for number in range(99):\n    (job.output / f'x{number}.json').write_bytes(bytes(2**25))", "No space left",
    ),
    "an early exit": ("os._exit(0)", "ended with code 0"),
    "a system exit": ("raise SystemExit(0)", "SystemExit"),
    "a flood of progress": ("while True: job.report('x' * 100, 1, 1, a=1.0)", "was not done within 3 s"),
    "a pickle": ("np.savez(job.output / 'x.npz', x=np.array([{}], dtype=object))", "holds Python objects"),
    "a Python file": ("(job.output / 'x.py').write_text('')", "allowed are names"),
    "its own manifest": ("(job.output / 'policy.json').write_text('{}')", "allowed are names"),
    "a link": ("(job.output / 'x.json').symlink_to('/etc/passwd')", "No such file"),
    "a write to the episodes": ("job.episodes[0].path.write_bytes(b'')", "Read-only file system"),
    "a connection": ("import socket\nsocket.create_connection(('1.1.1.1', 53), 2)", "unreachable"),
    "metrics that are no numbers": ("return {'loss': 'great'}", "could not convert"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_learner_ends_its_own_run_alone(tmp_path: Path, name: str) -> None:
    body, why = HOSTILE[name]
    limit_s = 3.0 if "3 s" in why else 60.0
    before = {path: path.read_bytes() for path in recorded(tmp_path / "sample", 1)[0].iterdir()}
    with pytest.raises(LearningProblem, match=why):
        CodeLearner().improve(job(tmp_path, learner(body), limit_s), lambda progress: None)
    assert not (tmp_path / "job" / "version").exists()
    assert {path: path.read_bytes() for path in before} == before


def test_a_fork_bomb_is_ended_before_it_takes_the_machine(tmp_path: Path) -> None:
    most, done = 0, threading.Event()

    def count() -> None:
        nonlocal most
        while not done.wait(0.01):
            most = max(most, used_below(os.getpid())[0])

    counting = threading.Thread(target=count)
    counting.start()
    try:
        with pytest.raises(LearningProblem, match=HOSTILE["a fork bomb"][1]):
            CodeLearner().improve(job(tmp_path, learner(HOSTILE["a fork bomb"][0])), lambda progress: None)
    finally:
        done.set()
        counting.join()
    assert most < 4 * RoomLimits().processes


def test_a_room_is_the_first_to_end_when_memory_runs_out(tmp_path: Path) -> None:
    body = "assert open('/proc/self/oom_score_adj').read() == '1000\\n'\nnp.savez(job.output / 'gain.npz', gain=1.0)"
    CodeLearner().improve(job(tmp_path, learner(body)), lambda progress: None)


def test_no_secret_of_the_home_is_in_the_room(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    home.secret()
    body = f"found = [os.path.exists(p) for p in ({str(home.root)!r}, {str(tmp_path)!r}, '/home')]\n"
    body += "names = sorted(os.environ)\nassert not any(found), found\n"
    body += "assert not [n for n in names if 'KEY' in n or 'TOKEN' in n], names\n"
    body += "np.savez(job.output / 'gain.npz', gain=1.0)"
    CodeLearner().improve(job(tmp_path, learner(body)), lambda progress: None)
    manifest = versions.manifest(tmp_path / "job" / "version")
    assert (manifest["kind"], manifest["commit"]) == ("code", "a" * 40)


def policy(tmp_path: Path, body: str, deadline_s: float = 2.0) -> CodePolicy:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    text = POLICY.replace("        return self.gain", f"{lines}        return self.gain")
    done = learner("np.savez(job.output / 'gain.npz', gain=1.0)")
    CodeLearner().improve(job(tmp_path, {**done, "policy.py": f"import os, time\n{text}"}), lambda progress: None)
    return CodePolicy(RoomLink(tmp_path / "job" / "version", deadline_s=deadline_s))


def act(one: CodePolicy) -> float:
    observation = Observation(stamp_ns=0, state=np.full((1, 2), 0.5, np.float32))
    return float(one.act(observation, np.zeros(1, np.int64))[0, 0, 0])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("while True: pass", "did not answer act within 1.0 s"),
        ("x = np.ones(2**30)", "MemoryError|MiB of memory"),
        ("os._exit(0)", "ended with code 0"),
        ("raise SystemExit(0)", "SystemExit"),
        ("return np.zeros((3, 1))", "must be \\(1, action_dim\\)"),
        ("os.kill(os.getpid(), 9)", "was killed again"),
    ],
)
def test_a_hostile_policy_ends_its_episode_alone(tmp_path: Path, body: str, why: str) -> None:
    one = policy(tmp_path, body, deadline_s=1.0)
    one.begin(0, 7)
    with pytest.raises(PolicyProblem, match=why):
        act(one)
    assert one.lost


def test_a_policy_continues_its_episode_after_kill_9(tmp_path: Path) -> None:
    """The answer depends on the number of calls in the episode, which the new process must know."""
    one = policy(
        tmp_path, "self.calls = getattr(self, 'calls', 0) + 1\nreturn np.full((1, 1), float(self.calls))", 20.0
    )
    one.begin(0, 7)
    assert [act(one), act(one)] == [1.0, 2.0]
    before = one.link.pid
    os.kill(before, 9)
    until(lambda: has_ended(before), "the end of the killed process")
    assert act(one) == 3.0
    assert one.link.pid != before
    assert not one.lost


def test_without_a_sandbox_code_is_refused_unless_it_is_allowed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("enpire.code_candidates.rooms.bubblewrap", tuple)
    with pytest.raises(UsageError, match="say `code: {unsandboxed: true}`"):
        require_sandbox(unsandboxed=False)
    assert require_sandbox(unsandboxed=True) == "none"
    refused = replace(job(tmp_path, FILES))
    with pytest.raises(UsageError, match="need bubblewrap"):
        CodeLearner().improve(refused, lambda progress: None)
