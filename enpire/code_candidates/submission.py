"""The harness's half of a submission: check the files of a candidate, and commit them for the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from enpire.code_candidates.recipe import read_code_recipe
from enpire.code_candidates.repository import CodeRepository, submitted_ref
from enpire.code_candidates.surface import check_files
from enpire.ids import mint


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """Files that were committed for the loop."""

    commit: str
    ref: str


def keep_submission(home: Path, files: Mapping[str, str], parent_commit: str, message: str, author: str) -> Submitted:
    """Check the files and commit them under a ref of their own.

    Args:
        home: of the lab.
        files: path -> text.
        parent_commit: of the candidate that they continue; empty for none.
        message: what the candidate tests.
        author: the agent session or the operator.

    Raises:
        SurfaceProblem: the files break a rule; nothing of them was kept.
        UsageError: the repository cannot take them.
    """
    repository = CodeRepository(home)
    check_files(files, repository.files(parent_commit) if parent_commit else {})
    read_code_recipe(files)
    ref = submitted_ref(mint())
    return Submitted(commit=repository.keep(files, ref, message, author, parent_commit).commit, ref=ref)
