"""What people leave for the loop: what is carried out, what is refused with a reason, what is set aside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from enpire import inbox
from enpire.home import open_home
from enpire.lab import Lab
from enpire.steps.ending import wind_up
from enpire.steps.heed import heed
from enpire.store.ledger import SqliteLedger
from tests.enpire.test_loop import lab_of


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger)
    yield lab
    wind_up(lab)
    ledger.close()


def heeded(lab: Lab) -> None:
    lab.timer_s["inbox"] = -1e9
    heed(lab)


def refusals(lab: Lab) -> list[str]:
    return [str(event.body["why"]) for event in lab.ledger.events(kinds=("command refused",))]


@pytest.mark.parametrize("content", [
    b"", b"half a {", b"[" * 9000, b"x" * 40_000, b"\xff\xfe", b"[]", b'{"command_id": "other", "verb": "stop"}',
    b'{"command_id": "A1", "verb": "stop", "by": "\\ud83d"}',
])  # fmt: skip
def test_a_file_that_is_no_command_is_set_aside_in_a_sentence_and_the_next_is_carried_out(
    lab: Lab, content: bytes
) -> None:
    (lab.home.inbox / "A1.json").write_bytes(content)
    (lab.home.inbox / "nowhere.json").symlink_to(lab.home.inbox / "nothing")
    (lab.home.inbox / os.fsdecode(b"half \xff.json")).write_bytes(b"{}")
    inbox.leave(lab.home.inbox, "pause campaign", by="anna")
    heeded(lab)
    assert (lab.home.inbox / "bad" / "A1.json").read_bytes() == content
    assert not list(lab.home.inbox.glob("*.json"))
    (why,) = (why for why in refusals(lab) if "A1" in why)
    assert len(refusals(lab)) == 3
    assert "The command A1.json" in why
    assert "set aside" in why
    assert lab.state.paused
    assert len(list(lab.ledger.events(kinds=("command requested",)))) == 1
