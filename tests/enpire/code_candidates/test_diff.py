"""The changes of a code candidate: against the template, or against the candidate that it continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from enpire.code_candidates.repository import CodeRepository
from enpire.errors import EnpireError, UnknownName
from enpire.service.code import diff_of, template


def test_a_candidate_is_compared_with_the_template_and_then_with_its_parent(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no code candidates"):
        diff_of(tmp_path, "a" * 40)
    repository, files = CodeRepository(tmp_path), template()
    changed = {**files, "policy.py": files["policy.py"] + "FASTER = True\n", "README.md": "why\n"}
    first = repository.keep(changed, "refs/submitted/one", "one", "ada").commit
    found = diff_of(tmp_path, first)
    assert found.against == "the template"
    assert {file.path: (file.added, file.removed) for file in found.files} == {"README.md": (1, 0), "policy.py": (1, 0)}
    second = repository.keep({**changed, "README.md": "because\n"}, "refs/submitted/two", "two", "ada", first).commit
    found = diff_of(tmp_path, second)
    assert found.against == f"commit {first[:12]}"
    assert [(file.path, file.lines) for file in found.files] == [("README.md", ("@@ -1 +1 @@", "-why", "+because"))]
    with pytest.raises(EnpireError):
        diff_of(tmp_path, "b" * 40)
