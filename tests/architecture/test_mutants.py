"""The lists of mutants name lines and tests that exist; `make mutate` shows that the tests kill them."""

from __future__ import annotations

import pytest

from benchmarks.mutants import ROOT, hand_made, modules, survivors


def test_every_mutant_that_people_made_changes_one_line_that_is_there() -> None:
    mutants = hand_made()
    assert len(mutants) >= 40
    for mutant in mutants:
        compile(mutant.source, mutant.file, "exec")
        assert mutant.source != (ROOT / mutant.file).read_text(encoding="utf-8")
    assert len({mutant.name for mutant in mutants}) == len(mutants)


@pytest.mark.parametrize("test", sorted({test for mutant in hand_made() for test in mutant.tests}))
def test_the_tests_that_must_kill_a_mutant_exist(test: str) -> None:
    file, _, name = test.partition("::")
    assert (ROOT / file).is_file()
    assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_modules_and_survivors_name_files_that_exist() -> None:
    for name, module in modules().items():
        assert [path for path in (*module.files, *module.tests) if not (ROOT / path).exists()] == [], name
    for (file, line, _), why in survivors().items():
        assert line in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no longer the line {line}"
        assert len(why) > 20
