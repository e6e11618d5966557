"""Gymnasium environments that nobody here wrote as tasks: files, spaces, success rules, and a campaign on one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium import spaces

from enpire.campaign.campaign import Campaign, Stations
from enpire.errors import EnpireError, FileProblem, RobotProblem, UsageError
from enpire.parts import TASKS
from enpire.queries import campaigns
from enpire.steps.begin import require_reset
from sim.gym_file import GymFile, SuccessRule
from sim.gym_task import ENDED, SUCCESS, GymTask, open_task
from sim.task_check.suite import check_task
from tests.architecture.sources import ROOT

CAR = """
    gym: MountainCarContinuous-v0
    instruction: Drive the car onto the hill.
    success: {terminated: true}
    limit: 130
    expert: pump:Pump
"""
PUMP = """
    import numpy as np

    class Pump:
        horizon = execute = 4

        def __init__(self, seed):
            self.seed, self.drawn = seed, {}

        def begin(self, lane, seed):
            self.drawn[lane] = np.random.default_rng([self.seed, seed])

        def act(self, observation, lanes):
            force = np.array([self.drawn[int(lane)].uniform(0.5, 1.0) for lane in lanes])
            push = np.where(observation.state[:, 1] >= 0, force, -force)
            return np.repeat(push[:, None, None], self.horizon, axis=1).astype(np.float32)
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A laboratory's folder with a task file and its expert."""
    (tmp_path / "car.yaml").write_text(textwrap.dedent(CAR))
    (tmp_path / "pump.py").write_text(textwrap.dedent(PUMP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_an_environment_of_others_passes_the_task_checks(lab: Path) -> None:
    report = check_task("gym:car.yaml")
    assert report.conforms, [failure.line for failure in report.failures]
    spec = TASKS.make("gym:car.yaml").spec
    assert [item.name for item in spec.state] == ["obs_0", "obs_1", SUCCESS, ENDED]
    assert (spec.name, spec.limit_ticks, spec.rate_hz) == ("car", 130, 30.0)


def test_hidden_starts_are_other_seeds_in_another_lab(lab: Path) -> None:
    task = TASKS.make("gym:car.yaml")
    secrets = b"a" * 16, b"b" * 16
    train = [task.start("train", index, b"").values for index in range(20)]
    one, two = ([task.start("holdout", index, secret).values for index in range(20)] for secret in secrets)
    assert not set(train) & set(one)
    assert not set(one) & set(two)


class Lamp(gymnasium.Env[Any, Any]):
    """Lights up when the third choice was made twice; the observation is a dictionary without limits."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012
    observation_space = spaces.Dict({
        "pose": spaces.Box(-np.inf, np.inf, (2,)), "mode": spaces.Discrete(4), "name": spaces.Text(5),
    })  # fmt: skip
    action_space = spaces.Discrete(3, start=2)

    def __init__(self, **given: Any) -> None:
        self.render_mode = given.get("render_mode")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.hits = 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.hits += int(action == 4)
        info = {"is_success": self.hits == 2, "coverage": self.hits / 4}
        return self.seen(), float(self.hits), self.hits == 3, False, info

    def seen(self) -> dict[str, Any]:
        return {"pose": np.array([self.hits, 5e7], np.float32), "mode": self.hits, "name": "lamp"}

    def render(self) -> Any:
        return np.full((4, 6, 3), 10 * self.hits, np.uint8)


gymnasium.register("tests/Lamp-v0", Lamp, max_episode_steps=30)


def lamp(**changes: Any) -> GymTask:
    return GymTask("lamp", GymFile(gym="tests/Lamp-v0", state=("mode", "pose"), **changes))


def pressed(task: GymTask, times: int) -> list[tuple[bool, np.ndarray[Any, Any]]]:
    """(success, state) after each of some presses of the third choice, in lane 1 of 2."""
    rig = task.rig(2, 0)
    choose, found = np.array([[1.0, 0.0, 0.0], [-1.0, 0.2, 0.9]], np.float32), []
    for _ in range(times):
        rig.act(choose, np.array([True, True]))
        found.append((rig.truth(1).success, rig.observe().state[1].copy()))
    assert not rig.truth(0).success
    rig.close()
    return found


def test_dictionary_observations_choices_and_cameras(lab: Path) -> None:
    task = lamp(camera=True)
    assert [item.name for item in task.spec.state] == ["mode", "pose_0", "pose_1", SUCCESS, ENDED]
    assert [item.name for item in task.spec.action] == ["choose_2", "choose_3", "choose_4"]
    assert (task.spec.rate_hz, task.spec.limit_ticks, task.spec.cameras) == (5.0, 30, ("render",))
    seen = pressed(task, 4)
    assert [good for good, _ in seen] == [False, True, True, True]  # a success stays one
    assert seen[1][1].tolist() == [2, 2, 1000, 1, 0]  # clipped to state_limit
    assert seen[3][1].tolist() == [3, 3, 1000, 1, 1]  # ended: the fourth press changes nothing
    rig = task.rig(1, 0)
    assert rig.look(0)["render"].shape == (4, 6, 3)


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        (SuccessRule(info="is_success"), 2), (SuccessRule(info="coverage", at_least=0.75), 3),
        (SuccessRule(reward=2.0), 2), (SuccessRule(total=6.0), 3), (SuccessRule(terminated=True), 3),
    ],
)  # fmt: skip
def test_each_rule_of_success(lab: Path, rule: SuccessRule, first: int) -> None:
    assert [good for good, _ in pressed(lamp(success=rule), 3)] == [press >= first for press in (1, 2, 3)]


def test_the_verdict_says_that_it_is_simulator_truth(lab: Path) -> None:
    report = check_task("gym:car.yaml")
    assert report.conforms
    one, two = (lamp(limit=limit).verifier() for limit in (20, 21))
    assert one.digest != two.digest  # another file is another judge
    assert one.digest == lamp(limit=20).verifier().digest


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("gym: Nope-v0", "Gymnasium cannot make 'Nope-v0'"),
        ("gym: Pendulum-v1", "reports neither is_success nor success in its info"),
        ("gym: Pendulum-v1\nsuccess: {reward: 1, total: 2}", "exactly one of info, reward, total and terminated"),
        ("gym: Pendulum-v1\nsuccess: {reward: -0.1}\nlimt: 20", "unknown key 'limt'"),
        ("gym: tests/Lamp-v0", "observes name as"),
        ("gym: tests/Lamp-v0\nstate: [poses]", "observes no 'poses'; `state` may name: mode, name, pose"),
        ("gym: tests/Lamp-v0\nstate: [mode]\nlimit: -1", "limit and rate_hz must be at least 0"),
        ("gym: ''", "gym must be the id of an environment"),
    ],
)
def test_a_wrong_file_gets_one_sentence(lab: Path, file: str, said: str) -> None:
    (lab / "wrong.yaml").write_text(file)
    with pytest.raises(EnpireError) as problem:
        TASKS.make("gym:wrong.yaml")
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


def test_what_is_missing_is_named(lab: Path) -> None:
    with pytest.raises(FileProblem, match="does not exist"):
        open_task("nowhere.yaml")
    with pytest.raises(UsageError, match="has no expert"):
        lamp().expert(0)
    with pytest.raises(RobotProblem, match="no key 'won'; it has: is_success, coverage"):
        pressed(lamp(success=SuccessRule(info="won")), 1)
    with pytest.raises(UsageError, match="registered without a time limit"):
        GymTask("car", GymFile(gym="tests/Endless-v0", state=("mode",)))


gymnasium.register("tests/Endless-v0", Lamp)


def test_a_campaign_whose_robots_should_reset_it_is_refused(lab: Path) -> None:
    robots = Campaign(name="car", task="gym:car.yaml", recipe="habc_plus", stations=Stations(count=1, reset="robot"))
    with pytest.raises(UsageError, match="set `reset: teleport` under `stations`"):
        require_reset(robots)
    require_reset(
        Campaign(name="car", task="gym:car.yaml", recipe="habc_plus", stations=Stations(count=1, reset="teleport"))
    )


SMALL = {"most_steps": 40, "least_steps": 40, "batch": 16, "critic_steps": 40, "critic_batch": 32, "critic_hidden": 16}


@pytest.mark.slow
def test_a_whole_campaign_of_an_environment_of_others(lab: Path) -> None:
    """Demonstrations of its expert, a base, a round, a gate: by the same command as every other task."""
    for name, like in (("base", "clone_demonstrations"), ("small", "habc_plus")):
        known = SMALL if name == "small" else {"most_steps": 40, "least_steps": 40, "batch": 16}
        (lab / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, "like": like, "settings": known}))
    campaign = {
        "name": "car", "task": "gym:car.yaml", "recipe": "small.yaml",
        "stations": {"count": 1, "lanes": 4, "reset": "teleport"},
        "base": {"recipe": "base.yaml", "demonstrations": 8, "evaluate_starts": 8},
        "rounds": {"episodes": 8, "train_starts": 16}, "gate": {"pairs": 40}, "budget": {"wall_s": 900, "rounds": 1},
    }  # fmt: skip
    (lab / "campaign.yaml").write_text(yaml.safe_dump(campaign))
    done = subprocess.run(
        [sys.executable, "-m", "enpire.cli", "run", "campaign.yaml", "--home", str(lab / "home"), "--headless"],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=lab, timeout=850,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "the budget of 1 rounds is used up" in said, said
    with campaigns.open_records(lab / "home") as records:
        view = campaigns.campaign_view(records, campaigns.find_campaign(records, ""))
    assert view.base is not None
    assert view.base.n == 8
    assert len(view.gates) == 1
    assert view.gates[0].pairs > 0
