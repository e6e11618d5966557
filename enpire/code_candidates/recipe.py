"""The recipe of a code candidate: the settings of its recipe.yaml, with the commit and the content of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enpire.campaign.branch import CODE as REGIME
from enpire.campaign.campaign import Campaign
from enpire.campaign.recipe import Recipe
from enpire.code_candidates.repository import CodeRepository, Commit, git_program
from enpire.code_candidates.rooms import require_sandbox
from enpire.code_candidates.surface import RECIPE, SurfaceProblem
from enpire.errors import FileProblem, UsageError
from enpire.files import parse, read_yaml_text
from enpire.interfaces import CodeSource

__all__ = ["LEARNER", "REGIME", "code_source", "commit_of", "read_code_recipe", "recipe_of", "require_code", "tree_of"]
LEARNER = "code"
"""Plug-in name of the learner of code candidates."""
COMMIT, TREE = "commit", "tree"
"""Settings of the recipe that name the code: the commit, and its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRecipe:
    """What recipe.yaml may say."""

    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict[str, bool | int | float | str])
    """Given to learner.py as they are."""
    turn_rollouts: int = 0
    """Rollouts of the newest version after which it trains again; 0: as many as a round has."""

    def __post_init__(self) -> None:
        """Refuse a negative number of rollouts, and settings that the harness writes."""
        if not 0 <= self.turn_rollouts <= 100_000:
            raise ValueError(f"turn_rollouts is {self.turn_rollouts}; allowed are 0 to 100000.")
        if taken := {COMMIT, TREE} & self.settings.keys():
            raise ValueError(f"settings must not name {taken.pop()!r}, which the lab writes; rename it.")


def read_code_recipe(files: Mapping[str, str]) -> CodeRecipe:
    """The recipe of a candidate's files.

    Raises:
        SurfaceProblem: recipe.yaml holds what is not allowed.
    """
    try:
        return parse(CodeRecipe, read_yaml_text(files[RECIPE], RECIPE), RECIPE)
    except FileProblem as problem:
        raise SurfaceProblem(str(problem)) from problem


def recipe_of(kept: Commit, written: CodeRecipe, name: str) -> Recipe:
    """The recipe that trains a candidate."""
    settings = {**written.settings, COMMIT: kept.commit, TREE: kept.tree}
    return Recipe(name=name, learner=LEARNER, settings=settings, turn_rollouts=written.turn_rollouts)


def commit_of(recipe: Recipe) -> str:
    """The commit of a code candidate's recipe; empty for any other recipe."""
    return str(recipe.settings[COMMIT]) if recipe.learner == LEARNER else ""


def tree_of(recipe: Recipe) -> str:
    """The content of a code candidate's files; empty for any other recipe."""
    return str(recipe.settings[TREE]) if recipe.learner == LEARNER else ""


def code_source(recipe: Recipe, home: Path, campaign: Campaign) -> CodeSource | None:
    """The code of a candidate for its training run; None for any other recipe.

    Raises:
        UsageError: the repository does not hold the commit.
    """
    if recipe.learner != LEARNER:
        return None
    commit = commit_of(recipe)
    return CodeSource(
        files=CodeRepository(home).files(commit), commit=commit, tree=tree_of(recipe),
        limit_s=campaign.branches.learner_s, unsandboxed=campaign.code.unsandboxed,
    )  # fmt: skip


def require_code(campaign: Campaign, host: str) -> None:
    """Check that code candidates can run here, before a campaign that allows them begins.

    Raises:
        UsageError: git or the sandbox is missing, or training runs on another machine.
    """
    git_program()
    require_sandbox(unsandboxed=campaign.code.unsandboxed)
    if host == "ray":
        raise UsageError("Code candidates are trained on this machine; use --on local, or code: {allowed: false}.")
