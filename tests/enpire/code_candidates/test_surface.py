"""What a code candidate may hold: everything else is refused with one sentence, and nothing of it is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from enpire.code_candidates.recipe import read_code_recipe
from enpire.code_candidates.repository import CodeRepository, experiment_ref, submitted_ref
from enpire.code_candidates.submission import keep_submission
from enpire.code_candidates.surface import SurfaceProblem, check_files, read_folder
from enpire.errors import UsageError
from enpire.service.code import template, write_template

GOOD = template()


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("verifier.py", "", "outside the edit surface"),
        ("conftest.py", "", "outside the edit surface"),
        ("sitecustomize.py", "", "outside the edit surface"),
        ("../learner.py", "", "outside the edit surface"),
        ("skills/../x.py", "", "outside the edit surface"),
        ("skills/deep/x.py", "", "outside the edit surface"),
        (".git/hooks/post-checkout", "", "outside the edit surface"),
        (".claude/settings.json", "{}", "outside the edit surface"),
        ("skills/blob.py", "x = '" + "a" * 400 + "'", "line 1 has 406 characters"),
        ("skills/blob.py", "x = 1  # \u202e", "holds the character U\\+202E"),
        ("skills/blob.py", "x = '\0'", "holds the character U\\+0000"),
        ("skills/blob.py", "x = ", "line 1 is not Python"),
        ("skills/blob.py", "x = (1\n" + "+ 1\n" * 300 + ")", "nested deeper than 200 levels"),
        ("skills/blob.py", "x = (1\n" + "+ 1\n" * 20_000 + ")", "nested deeper than 200 levels"),
        ("skills/blob.py", "x = 1\n" * 2001, "The change has"),
        ("skills/blob.py", "x = 1\n" * 30000, "at most 32 files with 131072 bytes"),
        ("learner.py", "def improves(job): pass\n", "defines no function `improve`"),
        ("policy.py", "def Policy(): pass\n", "defines no class `Policy`"),
        ("recipe.yaml", "settings: {tree: 1}", "must not name 'tree'"),
        ("recipe.yaml", "learner: habc", "unknown key 'learner'"),
        ("recipe.yaml", "turn_rollouts: -1", "allowed are 0 to 100000"),
    ],
)
def test_a_candidate_that_breaks_a_rule_is_refused(path: str, text: str, why: str) -> None:
    files = {**GOOD, path: text}
    with pytest.raises(SurfaceProblem, match=why):
        _check(files)


def _check(files: Mapping[str, str]) -> None:
    check_files(files, {})
    read_code_recipe(files)


def test_the_template_and_a_module_of_skills_are_allowed() -> None:
    check_files({**GOOD, "skills/grasp.py": "def reach():\n    return 1\n", "README.md": "An idea.\n"}, {})
    assert read_code_recipe(GOOD).settings == {"ridge": 0.1}


def test_code_that_is_a_table_is_refused() -> None:
    """The loop reads each node between two looks at the robots, and 100 KiB of a table hold 100,000 of them."""
    table = "\n".join(f"x{number} = [{'1,' * 190}]" for number in range(250))
    with pytest.raises(SurfaceProblem, match="more than 40000 names, constants and operations"):
        check_files({**GOOD, "skills/table.py": table}, {})
    half = table[: len(table) // 3].rpartition("\n")[0]
    check_files({**GOOD, "skills/table.py": half}, {})
    with pytest.raises(SurfaceProblem, match=r"the limit; skills/two.py goes beyond it"):
        check_files({**GOOD, "skills/one.py": half, "skills/three.py": half, "skills/two.py": half}, {})


def test_only_what_differs_from_the_parent_counts_as_a_change() -> None:
    long = {**GOOD, "skills/table.py": "".join(f"x{number} = {number}\n" for number in range(1990))}
    with pytest.raises(SurfaceProblem, match="The change has"):
        check_files(long, {})
    check_files(long, {**long, "README.md": "before\n"})


def _link(folder: Path) -> None:
    (folder / "README.md").symlink_to("/etc/passwd")


def _folder_link(folder: Path) -> None:
    (folder / "skills").symlink_to("/etc")


def _hard_link(folder: Path) -> None:
    (folder.parent / "secret").write_text("x")
    os.link(folder.parent / "secret", folder / "README.md")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "README.md")


def _submodule(folder: Path) -> None:
    (folder / ".git").write_text("gitdir: /elsewhere")


def _binary(folder: Path) -> None:
    (folder / "README.md").write_bytes(b"\x80\x04\x95")


def _large(folder: Path) -> None:
    (folder / "README.md").write_text("x\n" * 70000)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_link, "is a link"), (_folder_link, "is a link"), (_hard_link, "not a file of this folder alone"),
        (_pipe, "not a file of this folder alone"), (_submodule, "git repository or submodule"),
        (_binary, "is no text in UTF-8"), (_large, "more than 32 files or 131072 bytes"),
    ],
)  # fmt: skip
def test_a_folder_with_other_things_than_text_files_is_refused(
    tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    folder = tmp_path / "idea"
    write_template(folder)
    assert read_folder(folder) == GOOD
    spoil(folder)
    with pytest.raises(SurfaceProblem, match=why):
        read_folder(folder)


def test_each_submission_is_a_commit_with_its_parent_and_only_its_own_refs_are_removed(tmp_path: Path) -> None:
    repository = CodeRepository(tmp_path)
    first = keep_submission(tmp_path, GOOD, "", "An idea\nwith two lines", "search search-1")
    repository.name("E1", first.commit)
    changed = {**GOOD, "README.md": "ä\n"}
    second = keep_submission(tmp_path, changed, first.commit, "A better idea", "Jo <jo@lab>\n")
    repository.drop(first.ref)
    repository.drop(second.ref)
    assert repository.commit_of("E1") == first.commit
    assert repository.files(first.commit) == GOOD
    assert repository.files(second.commit) == changed
    with pytest.raises(UsageError, match="Only refs below refs/submitted"):
        repository.drop(experiment_ref("E1"))
    with pytest.raises(UsageError, match="cannot be the name of an experiment"):
        repository.name("../heads/main", first.commit)
    with pytest.raises(UsageError, match="is not the id of a commit"):
        repository.files("--upload-pack=x")
    with pytest.raises(UsageError, match="git rev-parse failed"):
        repository.resolve(submitted_ref("unknown"))


def test_refused_files_leave_no_repository(tmp_path: Path) -> None:
    with pytest.raises(SurfaceProblem):
        keep_submission(tmp_path, {**GOOD, "gate.py": ""}, "", "x", "y")
    assert not (tmp_path / "code.git").exists()
