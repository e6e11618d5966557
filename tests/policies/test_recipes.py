"""Every shipped recipe names a learner that knows all of its settings."""

from __future__ import annotations

import pytest

from enpire.files import find, parse
from enpire.plugins import load
from enpire.recipe import read_recipe
from policies.clone import CloneSettings
from policies.habc.selection import SelectionSettings
from policies.habc.settings import HabcSettings
from policies.lerobot_learner import LerobotSettings
from policies.program_search import SearchSettings
from policies.recap import RecapSettings
from policies.sequence import SequenceSettings

SETTINGS: dict[str, type] = {
    "clone": CloneSettings,
    "habc": HabcSettings,
    "recap": RecapSettings,
    "best_of_n": SelectionSettings,
    "program_search": SearchSettings,
    "sequence": SequenceSettings,
    "lerobot": LerobotSettings,
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


def test_the_ablations_change_one_thing() -> None:
    plus = parse(HabcSettings, read_recipe("habc_plus").settings, "habc_plus")
    assert plus.gate == "soft"
    assert plus.partition
    chosen = {
        name: parse(HabcSettings, read_recipe(name).settings, name)
        for name in ("habc_v", "habc_ir", "habc_naive_labels", "habc_fixed_gate")
    }
    assert chosen["habc_v"].gate == "viability"
    assert chosen["habc_ir"].reweight_interventions == "always"
    assert not chosen["habc_naive_labels"].partition
    assert chosen["habc_fixed_gate"].gate == "fixed"
