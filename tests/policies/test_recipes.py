"""Every shipped recipe names a learner that knows all of its settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.improvement_plans import ARMS, Plan
from benchmarks.offline_rl import OfflineSettings
from enpire.errors import FileProblem
from enpire.files import find, parse
from enpire.plugins import load
from enpire.recipe import read_recipe
from policies.clone import CloneSettings
from policies.habc.selection import SelectionSettings
from policies.habc.settings import HabcSettings
from policies.lerobot_learner import LerobotSettings
from policies.lerobot_sac import SacSettings
from policies.program_search import SearchSettings
from policies.recap import RecapSettings
from policies.residual_learner import ResidualSettings
from policies.sequence import SequenceSettings

SETTINGS: dict[str, type] = {
    "clone": CloneSettings,
    "habc": HabcSettings,
    "recap": RecapSettings,
    "best_of_n": SelectionSettings,
    "program_search": SearchSettings,
    "sequence": SequenceSettings,
    "lerobot": LerobotSettings,
    "residual_td3": ResidualSettings,
    "lerobot_sac": SacSettings,
    "benchmarks.offline_rl:OfflineRl": OfflineSettings,
}
NAMES = sorted(path.stem for path in find("recipes", "habc_plus").parent.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_fits_its_learner(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.name == name
    settings = parse(SETTINGS[recipe.learner], recipe.settings, name)
    assert isinstance(load("learners", recipe.learner), type)
    if isinstance(settings, SequenceSettings):
        for stage, _ in settings.parsed():
            assert read_recipe(stage).learner != "sequence"


ABLATIONS: dict[str, dict[str, object]] = {
    "habc_v": {"gate": "viability"},
    "habc_fixed_gate": {"gate": "fixed"},
    "habc_hard_gate": {"gate": "hard"},
    "habc_ir": {"reweight_interventions": "always"},
    "habc_naive_labels": {"partition": False},
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_is_habc_plus_with_one_thing_changed(name: str) -> None:
    plus, other = read_recipe("habc_plus"), read_recipe(name)
    assert other.learner == plus.learner
    assert dict(other.settings) == {**plus.settings, **ABLATIONS[name]}
    whole, changed = (parse(HabcSettings, item.settings, name) for item in (plus, other))
    assert changed == replace(whole, **ABLATIONS[name])  # pyright: ignore[reportArgumentType]
    assert changed != whole


def test_a_recipe_is_like_another_but_for_what_it_says(tmp_path: Path) -> None:
    one = tmp_path / "one.yaml"
    one.write_text("name: one\nlike: habc_plus\nsettings: {critic_steps: 7}\nspace: {critic_steps: [1, 9, linear]}\n")
    made = read_recipe(one)
    assert (made.learner, made.settings["critic_steps"], made.settings["multi_step"]) == ("habc", 7, 4)
    assert list(made.space) == ["critic_steps"]
    other = tmp_path / "other.yaml"
    other.write_text(f"name: other\nlike: {other}\n")
    with pytest.raises(FileProblem, match="names another recipe"):
        read_recipe(other)
    other.write_text("name: other\nlike: nothing_there\n")
    with pytest.raises(FileProblem, match="nothing_there"):
        read_recipe(other)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [(SelectionSettings, {"gate": "viability"}), (SelectionSettings, {"learning_rate": 0.01}),
     (SelectionSettings, {"most_steps": 7}), (LerobotSettings, {"cooling": 0.9}), (LerobotSettings, {"hidden": 7}),
     (LerobotSettings, {"depth": 7}), (LerobotSettings, {"euler_steps": 7})],
)  # fmt: skip
def test_settings_that_a_learner_would_not_read_are_refused(kind: type, setting: dict[str, object]) -> None:
    with pytest.raises(FileProblem, match=f"{next(iter(setting))} changes nothing here"):
        parse(kind, setting, "a recipe")


def test_critics_do_not_learn_beside_a_lerobot_policy() -> None:
    beside = {"critic_beside": True, "label_ends": False, "on_divergence": "report"}
    with pytest.raises(FileProblem, match="leave critic_beside out"):
        parse(LerobotSettings, beside, "a recipe")
    with pytest.raises(FileProblem, match="critic_beside changes nothing here"):
        parse(SelectionSettings, beside, "a recipe")


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_of_a_smoke_run_fits_its_learner(arm: str) -> None:
    recipe = replace(Plan(), most_steps=20).recipe(arm)
    parse(SETTINGS[recipe.learner], recipe.settings, arm)


def test_what_a_lerobot_policy_sees_is_not_said_by_its_recipe() -> None:
    with pytest.raises(FileProblem, match=r"inputs.*policy\.json"):
        parse(LerobotSettings, {"unseen": "time_left"}, "lerobot_act")
