"""The documents for people in a hurry have sentences of at most 25 words."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.test_blocks import ROOT

MOST_WORDS = 25


def sentences(text: str) -> Iterator[str]:
    """The sentences of a document in Markdown, without blocks of code and headings.

    A cell of a table, an item of a list and a paragraph each begin a sentence; ` · ` separates the links of a list.
    A piece of code counts as one word, a link as its text.
    """
    text = re.sub(r"^```.*?^```", "\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^#.*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*\|.*\|\s*$", lambda row: row[0].replace("|", "\n\n"), text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n| · ", text):
        yield from re.split(r"(?<=[.!?])\s+", " ".join(paragraph.split()))


def words(sentence: str) -> int:
    """Number of words; marks alone are none."""
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def test_words_are_counted_by_sentence() -> None:
    text = "# A heading\nOne two, three - `four five`. Six\n[seven](x.md) 9.5 %!\n\n- a b\n- c\n\n"
    text += "| d e | f |\n|---|---|\n```sh\nno\n```\n"
    counts = [n for sentence in sentences(text) if (n := words(sentence))]
    assert counts == [4, 3, 2, 1, 2, 1]


@pytest.mark.parametrize("name", ["README.md", "docs/first-hour.md", "docs/campaign-file.md", "docs/walk.md"])
def test_no_sentence_is_long(name: str) -> None:
    found = [one for one in sentences((ROOT / name).read_text(encoding="utf-8")) if words(one) > MOST_WORDS]
    assert not found, f"write sentences of at most {MOST_WORDS} words: {found}"
