"""The benchmark's results say which commit they are of, and do not mix commits unasked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.improvement import check_commit, read_results
from benchmarks.improvement_table import Evaluation
from benchmarks.machine import commit, describe
from enpire.errors import UsageError

ONE = Evaluation(
    seed=0, arm="base", round=0, success=[True], ticks=[9], version="v", episodes=[], learning_cpu_s=1.0, commit="aaa",
)  # fmt: skip


def test_results_of_several_commits_are_refused(tmp_path: Path) -> None:
    for seed in (0, 1):
        (tmp_path / f"seed{seed}").mkdir()
    first, second = (tmp_path / f"seed{seed}" / "results.jsonl" for seed in (0, 1))
    first.write_text(json.dumps(ONE.mapping()) + '\n{"seed": 0, "cut')
    check_commit(tmp_path, "aaa")
    with pytest.raises(UsageError, match=r"results of commit aaa, and this is aaa\+; .* --mix"):
        check_commit(tmp_path, "aaa+")
    second.write_text(json.dumps(replace(ONE, seed=1, commit="bbb").mapping()) + "\n")
    with pytest.raises(UsageError, match="results of commit bbb"):
        check_commit(tmp_path, "aaa")
    assert [item.commit for path in (first, second) for item in read_results(path)] == ["aaa", "bbb"]
    old = {name: value for name, value in ONE.mapping().items() if name != "commit"}
    first.write_text(json.dumps(old) + "\n")
    with pytest.raises(UsageError, match="not written down"):
        check_commit(tmp_path, "aaa")


def test_the_table_names_all_commits() -> None:
    assert "commit    aaa, bbb" in describe((0,), ("aaa", "bbb"))
    assert f"commit    {commit()}" in describe((0,))
