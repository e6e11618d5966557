"""Ids: unique, rising, readable; also across threads and forks."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from enpire.ids import ALPHABET, LENGTH, Mint, is_id, mint


def test_ids_rise_and_never_repeat() -> None:
    made = [mint() for _ in range(20_000)]
    assert made == sorted(set(made))
    assert all(is_id(one) for one in made)


def test_ids_are_unique_across_threads() -> None:
    made: list[list[str]] = [[] for _ in range(4)]

    def make(own: list[str]) -> None:
        own.extend(mint() for _ in range(2000))

    threads = [threading.Thread(target=make, args=(own,)) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert len({one for own in made for one in own}) == 8000
    assert all(own == sorted(own) for own in made)


_FORK = """
import os
from enpire.ids import mint
before = mint()
child = os.fork()
made = [mint() for _ in range(500)]
if child:
    os.waitpid(child, 0)  # one after the other, so that their lines do not mix
print("\\n".join(made), flush=True)
"""


def test_a_forked_child_does_not_repeat_its_parent() -> None:
    made = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, check=True).stdout.split()
    assert len(made) == len(set(made)) == 1000


def test_two_mints_differ_in_the_random_part() -> None:
    assert Mint()()[10:] != Mint()()[10:]


@pytest.mark.parametrize("text", ["", "0" * 25, "0" * 27, "I" * 26, "z" * 26, "8" + "0" * 25, "0" * 25 + "/"])
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_id(text)
    assert is_id("0" * LENGTH)
    assert len(set(ALPHABET)) == 32
