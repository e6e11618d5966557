"""The latch file: whatever happens to it, the robot stays latched unless an operator opened it."""

from __future__ import annotations

import hashlib
import json
import random
import resource
from pathlib import Path

import pytest

from enpire.errors import EnpireError, RobotProblem
from robot_drivers.latch import Latch


@pytest.fixture
def latch(tmp_path) -> Latch:
    return Latch(tmp_path / "latch.json")


def test_missing_means_latched(latch):
    state = latch.read()
    assert state.latched
    assert "missing" in state.cause


def test_a_person_opens_it_with_the_nonce_of_the_last_closing(latch):
    first = latch.close("stop one")
    second = latch.close("stop two")
    assert first.nonce != second.nonce
    with pytest.raises(RobotProblem, match="closed again"):
        latch.open(first.nonce, "Ada")
    assert latch.read().latched
    latch.open(second.nonce, "Ada")
    state = latch.read()
    assert not state.latched
    assert "Ada" in state.cause


def test_an_old_permission_cannot_be_replayed(latch):
    nonce = latch.close("stop").nonce
    latch.open(nonce, "Ada")
    latch.close("stop again")
    for wrong in (nonce, "", "x"):
        with pytest.raises(RobotProblem):
            latch.open(wrong, "Mallory")
    assert latch.read().latched


def test_a_missing_latch_cannot_be_opened(latch):
    with pytest.raises(RobotProblem):
        latch.open("", "Ada")
    assert latch.read().latched


def test_no_damage_opens_it(latch):
    latch.close("stop")
    whole = latch.path.read_bytes()
    chance = random.Random(0)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        latch.path.write_bytes(bytes(damaged))
        assert latch.read().latched
    for length in range(len(whole)):
        latch.path.write_bytes(whole[:length])
        assert latch.read().latched
    latch.path.write_bytes(whole.replace(b'"latched": true', b'"latched": false'))
    assert latch.read().latched


def test_an_open_latch_that_is_damaged_is_latched(latch):
    latch.open(latch.close("stop").nonce, "Ada")
    whole = latch.path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        latch.path.write_bytes(bytes(damaged))
        assert latch.read().latched or latch.read().cause == "Ada allowed motion."


def test_where_the_disk_refuses_the_file_nothing_that_says_open_is_left(latch):
    latch.open(latch.close("stop").nonce, "Ada")
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most[1]))  # as on a full disk: nothing can be written, only removed
    try:
        assert latch.close("stop two").latched
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert "missing" in latch.read().cause


def test_what_a_dead_disk_left_open_nobody_resumes_by_guessing(latch):
    latch.open(latch.close("stop").nonce, "Ada")
    with latch.path.open() as file:
        # A name that can be read but neither replaced nor removed, even by root.
        dead = Latch(Path(f"/proc/self/fd/{file.fileno()}"))
        with pytest.raises(EnpireError):
            dead.close("stop two")
        assert not dead.read().latched
        with pytest.raises(EnpireError):
            dead.open("made up", "Mallory")
    with pytest.raises(RobotProblem, match="was open while the robot was latched"):
        latch.open("made up", "Mallory")
    assert latch.read().latched
    latch.open(latch.read().nonce, "Ada")
    assert not latch.read().latched


def test_it_sees_at_every_look_whether_the_file_is_open(latch):
    assert not latch.is_open
    nonce = latch.close("stop").nonce
    assert not latch.is_open
    latch.open(nonce, "Ada")
    assert latch.is_open
    Latch(latch.path).close("somebody else said stop")
    assert not latch.is_open
    latch.open(latch.read().nonce, "Ada")
    latch.path.unlink()
    assert not latch.is_open


def test_a_missing_latch_is_opened_at_the_second_asking(latch):
    with pytest.raises(RobotProblem, match="missing"):
        latch.open("", "Ada")
    latch.open(latch.read().nonce, "Ada")
    assert latch.is_open


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"body": 3}', "\x00\xff", '{"body": {"latched": false}}', "[" * 200_000, '{"body": ' * 200_000],
)
def test_what_is_no_latch_is_latched(latch, content):
    latch.path.write_bytes(content.encode("latin-1"))
    assert latch.read().latched
    assert not latch.is_open


@pytest.mark.parametrize("wrong", [{}, {"latched": 0}, {"cause": 3}, {"nonce": None}], ids=str)
def test_only_an_open_file_with_every_field_of_its_type_is_open(latch, wrong):
    body = {"nonce": "", "latched": False, "cause": "Ada allowed motion.", **wrong}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    latch.path.write_text(json.dumps({"body": body, "sha256": digest}))
    assert latch.read().latched is bool(wrong)
    assert latch.is_open is not bool(wrong)
