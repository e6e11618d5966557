"""Which code candidates are the same code."""

from __future__ import annotations

import pytest

from enpire.code_candidates.sameness import form_of
from enpire.code_candidates.surface import check_files
from enpire.service.code import template

FILES = template()
CODE = """
import numpy as np

def mean(values, weights):
    total = 0.0
    for value in values:
        total += value
    def scaled(factor):
        nonlocal total
        result = total * factor
        return result
    return scaled(1 / max(len(values), 1))
"""


def form_of_files(files: dict[str, str]) -> str:
    return form_of(files, check_files(files, files))


def form(code: str, recipe: str = "") -> str:
    return form_of_files({**FILES, "skills/mean.py": code, "recipe.yaml": recipe or FILES["recipe.yaml"]})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    total = 0.0", "    # a comment\n\n    total = (0.00)  # and another"),
        ("    total = 0.0", '    """A docstring."""\n    total = 0.0\n    "a text"'),
        ("import numpy as np\n", '"""Another docstring."""\nimport numpy as np\n'),
        ("value in values:\n        total += value", "one in values:\n        total += one"),
        ("result", "product"),
    ],
)
def test_comments_layout_and_names_of_locals_make_no_new_code(old: str, new: str) -> None:
    assert old in CODE
    assert form(CODE.replace(old, new)) == form(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.0", "0.1"),
        ("0.0", "0"),
        ("weights", "of"),  # a caller may name it
        ("def mean", "def average"),
        ("total += value", "value += total"),
        ("max", "min"),
        ("result = total * factor\n        return result", "return total * factor"),
        ("total = 0.0", "total = 0.0; len(locals())"),
    ],
)
def test_a_change_of_meaning_is_new_code(old: str, new: str) -> None:
    assert old in CODE
    assert form(CODE.replace(old, new)) != form(CODE)


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    def g():\n        {0} = 1\n        return {0}\n    return {0}(g)\n",  # min, max: built in
        "{0} = 2\nmin = 3\nmax = 4\ndef f():\n    def g():\n        {0} = 1\n    return {0}\n",
        "from skills.all import *\ndef f():\n    def g():\n        {1} = 1\n    return {1}\n",
        "def h():\n    global x, y\n    x, y = 1, 2\ndef f():\n    def g():\n        {1} = 1\n    return {1}\n",
        "def f():\n    class A:\n        {1} = 1\n    return A.__name__\n",
        "def f():\n    {1} = 1\n    return locals()\n",
        'def f():\n    "{0}"\n    return f.__doc__\n',
        "def f():\n    import {0} as m\n    return m\n",
    ],
)
def test_a_name_that_others_see_counts(code: str) -> None:
    assert form(code.format("min", "x")) != form(code.format("max", "y"))


def test_settings_count_and_how_they_are_written_does_not() -> None:
    plain = form(CODE, "settings: {ridge: 0.5}")
    assert form(CODE, "# why\nturn_rollouts: 0\nsettings:\n  ridge: 5.0e-1\n") == plain
    assert form(CODE, "settings: {ridge: 0.6}") != plain
    assert form(CODE, "settings: {ridge: 0.5}\nturn_rollouts: 9") != plain


def test_readme_does_not_count_and_the_name_of_a_file_does() -> None:
    assert form_of_files({**FILES, "README.md": "Another idea."}) == form_of_files({**FILES, "README.md": "An idea."})
    assert form_of_files({**FILES, "skills/a.py": CODE}) != form_of_files({**FILES, "skills/b.py": CODE})
