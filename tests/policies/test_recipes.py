"""Every shipped recipe names a learner that knows all of its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

import pytest

from benchmarks.improvement_plans import ARMS, Plan
from enpire.campaign.recipe import Recipe, read_recipe, require_learner, settings_of
from enpire.errors import FileProblem, UsageError
from enpire.files import find, parse
from enpire.interfaces import ImprovementJob, Progress
from enpire.plugins import make
from policies.habc.selection import SelectionSettings
from policies.habc.settings import HabcSettings
from policies.lerobot_learner import LerobotSettings

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in find("recipes", "habc_plus").parent.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_fits_its_learner(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.name == name
    declared = getattr(make("learners", recipe.learner), "settings", None)
    assert isinstance(declared, type)
    settings_of(declared, recipe.mapping())
    require_learner(recipe)


ABLATIONS: dict[str, dict[str, object]] = {
    "habc_v": {"gate": "viability"},
    "habc_soft_gate": {"gate": "soft"},
    "habc_fixed_gate": {"gate": "fixed"},
    "habc_hard_gate": {"gate": "hard"},
    "habc_ir": {"reweight_interventions": "always"},
    "habc_naive_labels": {"partition": False, "bootstrap": 0.0},
    "habc_outcomes": {"bootstrap": 0.0, "label_decay": 0.2},
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_is_habc_plus_with_one_thing_changed(name: str) -> None:
    plus, other = read_recipe("habc_plus"), read_recipe(name)
    assert other.learner == plus.learner
    assert dict(other.settings) == {**plus.settings, **ABLATIONS[name]}
    whole, changed = (parse(HabcSettings, item.settings, name) for item in (plus, other))
    assert changed == replace(whole, **ABLATIONS[name])  # pyright: ignore[reportArgumentType]
    assert changed != whole


def test_the_document_says_where_habc_plus_differs_from_the_paper() -> None:
    page = (ROOT / "docs/habc.md").read_text(encoding="utf-8")
    table = page.split("### Where `habc_plus` differs")[1].split("###")[0]
    paper, plus = (settings_of(HabcSettings, read_recipe(name).mapping()) for name in ("habc_paper", "habc_plus"))
    differing = [item.name for item in fields(paper) if getattr(paper, item.name) != getattr(plus, item.name)]
    assert [name for name in differing if f"`{name}`" not in table] == []


def test_a_recipe_is_like_another_but_for_what_it_says(tmp_path: Path) -> None:
    one = tmp_path / "one.yaml"
    one.write_text("name: one\nlike: habc_plus\nsettings: {critic_steps: 7}\nspace: {critic_steps: [1, 9, linear]}\n")
    made = read_recipe(one)
    assert (made.learner, made.settings["critic_steps"], made.settings["multi_step"]) == ("habc", 7, 4)
    assert list(made.space) == ["critic_steps"]
    other = tmp_path / "other.yaml"
    other.write_text(f"name: other\nlike: {other}\n")
    with pytest.raises(FileProblem, match="must name another recipe"):
        read_recipe(other)
    other.write_text("name: other\nlike: nothing_there\n")
    with pytest.raises(FileProblem, match="nothing_there"):
        read_recipe(other)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [(SelectionSettings, {"gate": "viability"}), (SelectionSettings, {"learning_rate": 0.01}),
     (SelectionSettings, {"most_steps": 7}), (LerobotSettings, {"cooling": 0.9}), (LerobotSettings, {"hidden": 7}),
     (LerobotSettings, {"depth": 7}), (LerobotSettings, {"euler_steps": 7}), (SelectionSettings, {"execute": 2}),
     (SelectionSettings, {"horizon": 16})],
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
    require_learner(replace(Plan(), most_steps=20).recipe(arm))


def test_what_a_lerobot_policy_sees_is_not_said_by_its_recipe() -> None:
    with pytest.raises(FileProblem, match=r"inputs.*policy\.json"):
        parse(LerobotSettings, {"unseen": "time_left"}, "lerobot_act")


@pytest.mark.parametrize(
    ("learner", "setting", "value"),
    [("habc", "critic_hidden", 0), ("habc", "critic_frequencies", -1), ("habc", "shrink", -30.0),
     ("habc", "critic_learning_rate", 0.0), ("habc", "window_rounds", 0), ("habc", "demonstration_weight", -1.0),
     ("habc", "cooling", -1.0), ("habc", "last_learning_rate", -1.0), ("clone", "most_steps", 0),
     ("clone", "execute", 9), ("recap", "value_hidden", 0), ("recap", "value_steps", -1),
     ("best_of_n", "score_learning_rate", -1.0), ("residual_td3", "most_steps", -1), ("dsrl", "most_steps", -1),
     ("rlt", "critics", 0), ("rlt", "spread", 2.0),
     ("lerobot_sac", "most_steps", 0),
     ("lerobot", "width", 3)],
)  # fmt: skip
def test_a_value_that_cannot_be_is_named_before_anything_runs(learner: str, setting: str, value: float) -> None:
    recipe = Recipe(name="odd", learner=learner, settings={setting: value})
    with pytest.raises(FileProblem, match=f"The recipe odd, settings: {setting} is {value}"):
        require_learner(recipe)


class Checking:
    """A learner whose `check` is about something else."""

    def check(self) -> bool:
        return True

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        return {}


def test_another_check_of_a_learner_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="`check` of the learner .* fails on the recipe odd, .* takes 1 positional"):
        require_learner(Recipe(name="odd", learner=f"{__name__}:Checking"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSettings:
    """The settings of a lab's own learner."""

    speed: float = 1.0

    def __post_init__(self) -> None:
        if self.speed <= 0:
            raise ValueError(f"speed is {self.speed}; it must be above 0.")


class Declaring:
    """A lab's own learner: a settings dataclass, and one rule that it cannot hold."""

    settings: ClassVar = OwnSettings

    def check(self, recipe: Mapping[str, object]) -> None:
        if recipe["name"] == "taken":
            raise FileProblem("The recipe is called taken; call it otherwise.")

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        return {}


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [("odd", {"speed": 0.0}, "The recipe odd, settings: speed is 0.0"), ("odd", {"sped": 1.0}, "unknown key 'sped'"),
     ("taken", {"speed": 2.0}, "call it otherwise"), ("taken", {"speed": 0.0}, "speed is 0.0")],
)  # fmt: skip
def test_a_learner_of_a_lab_declares_its_settings(name: str, settings: dict[str, float], said: str) -> None:
    require_learner(Recipe(name="odd", learner=f"{__name__}:Declaring", settings={"speed": 2.0}))
    with pytest.raises(FileProblem, match=said):
        require_learner(Recipe(name=name, learner=f"{__name__}:Declaring", settings=settings))


class Undeclared(Checking):
    """A learner whose `settings` is a class, but no dataclass."""

    settings: ClassVar = dict


def test_settings_that_are_no_dataclass_are_one_sentence() -> None:
    with pytest.raises(UsageError, match="`settings` of the learner .* is the class dict, which is no dataclass"):
        require_learner(Recipe(name="odd", learner=f"{__name__}:Undeclared"))


def test_a_sequence_is_read_to_its_last_stage(tmp_path: Path) -> None:
    def sequence(stages: str) -> Recipe:
        path = tmp_path / "stages.yaml"
        path.write_text(f"name: stages\nlearner: sequence\nsettings: {{stages: '{stages}'}}\n")
        return read_recipe(path)

    require_learner(sequence("filtered_bc 2, habc_plus"))
    typing_error = tmp_path / "typing_error.yaml"
    typing_error.write_text("name: typing_error\nlike: habc_plus\nsettings: {critic_stepz: 5}\n")
    for stage, said in (
        ("habc_pluss", "no file of recipes called 'habc_pluss'"),
        (str(typing_error), "unknown key 'critic_stepz'"),
        (str(tmp_path / "stages.yaml"), "is a sequence itself"),
        ("filtered_then_habc", "is a sequence itself"),
    ):
        with pytest.raises(FileProblem, match=said):
            require_learner(sequence(f"filtered_bc 2, {stage}"))
