"""The skills of a code candidate: the modules that it imports, and what their authors say about them."""

from __future__ import annotations

import pytest

from enpire.code_candidates.skills import skills_of
from enpire.code_candidates.surface import check_files

LEARNER = "def improve(job):\n    return {}\n"
POLICY = "class Policy:\n    pass\n"


def found(skill: str, policy: str) -> list[tuple[str, str]]:
    files = {"learner.py": LEARNER, "policy.py": policy, "recipe.yaml": "name: one\n", "skills/grasp.py": skill}
    return [(one.name, one.about) for one in skills_of(files, check_files(files, {}))]


@pytest.mark.parametrize("line", ["from skills import grasp", "import skills.grasp", "from skills.grasp import close"])
def test_a_skill_that_is_imported_counts(line: str) -> None:
    assert found('"""Closes the jaws."""\n', f"{line}\n\n{POLICY}") == [("grasp", "Closes the jaws.")]


def test_a_file_that_nothing_imports_is_no_skill() -> None:
    assert found('"""Closes the jaws."""\n', f"from skills import lift\nimport skillset.grasp\n{POLICY}") == []


@pytest.mark.parametrize("escape", ["\\ud800", "\\x1b[2J", "\\u202e"])
def test_what_a_skill_says_has_no_character_that_a_terminal_or_the_ledger_would_obey(escape: str) -> None:
    """The text of the file is plain; Python makes the character from its escape."""
    [(_, about)] = found(f'"""Closes {escape}it."""\n', f"import skills.grasp\n{POLICY}")
    assert about in {"Closes it.", "Closes [2Jit."}
