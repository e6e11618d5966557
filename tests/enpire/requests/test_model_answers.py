"""Answers of language models on disk: who may read them, how many stay, and what a damaged one does."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.campaign.agent_events import ModelCalled
from enpire.requests import model_answers
from enpire.requests.model_answers import OLDEST_S, KeptAnswer, ModelAnswers
from enpire.requests.model_calls import CallRecords, pass_on

REQUEST = "a" * 64
CALL = ModelCalled(
    call_id="01M84VD39ZA2TX5QSEHYX9C331", author="anthropic", lane="one", provider="anthropic", endpoint="messages",
    model="a-model", outcome="answered", status=200, fresh=1, cache_read=2, cache_write=3, output=4, bound=100,
    money=0.5, currency="USD",
)  # fmt: skip
ANSWER = KeptAnswer(call=CALL, request=REQUEST, status=200, headers={"content-type": "text"}, data=b"line\nline\n\xff")


def answer(number: int, data: bytes = b"x") -> KeptAnswer:
    return replace(ANSWER, call=replace(CALL, call_id=f"{CALL.call_id[:-2]}{number:02}"), data=data)


@pytest.fixture
def answers(tmp_path: Path) -> ModelAnswers:
    return ModelAnswers.of(tmp_path, "C1")


def test_an_answer_is_read_as_it_was_kept_and_only_its_owner_reads_it(answers: ModelAnswers) -> None:
    answers.keep(ANSWER)
    assert answers.calls("one", REQUEST) == [(CALL.call_id, "")]
    assert answers.read("one", REQUEST, CALL.call_id) == ANSWER
    assert answers.calls("other", REQUEST) == answers.calls("one", "b" * 64) == []
    kept = [answers.folder, *answers.folder.rglob("*")]
    assert len(kept) == 3
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


def test_a_damaged_answer_is_none(answers: ModelAnswers) -> None:
    answers.keep(ANSWER)
    [path] = (answers.folder / "one").iterdir()
    path.write_bytes(path.read_bytes()[:20])
    assert answers.read("one", REQUEST, CALL.call_id) is None
    assert answers.record_of(CALL) is None


@pytest.mark.parametrize(("most", "most_bytes"), [(3, 10**6), (99, 1800)])
def test_the_oldest_answers_make_room(
    answers: ModelAnswers, monkeypatch: pytest.MonkeyPatch, most: int, most_bytes: int
) -> None:
    monkeypatch.setattr(model_answers, "MOST", most)
    monkeypatch.setattr(model_answers, "MOST_BYTES", most_bytes)
    for number in range(5):
        answers.keep(answer(number, b"x" * 100))
    assert [call[-1] for call, _ in answers.calls("one", REQUEST)] == ["4", "3", "2"]


def test_old_answers_are_not_given_and_removed(answers: ModelAnswers, tmp_path: Path) -> None:
    for number in range(2):
        answers.keep(answer(number))
    old, _ = sorted((answers.folder / "one").iterdir())
    before = time.time() - OLDEST_S - 60
    os.utime(old, (before, before))
    assert [call[-1] for call, _ in answers.calls("one", REQUEST)] == ["1"]
    (answers.folder / "one" / ".staged-x").write_text("a write that a kill ended")
    pass_on(tmp_path)
    assert [path.name[-1] for path in (answers.folder / "one").iterdir()] == ["1"]


def test_a_call_whose_answer_is_kept_is_not_lost_with_the_gateway(tmp_path: Path, answers: ModelAnswers) -> None:
    records = CallRecords.of(tmp_path, "C1")
    for number in range(2):
        records.begin(replace(answer(number).call, outcome="lost", money=None, currency=""))
    answers.keep(answer(1))
    records.close()
    ended = sorted(records.ended(), key=lambda call: call.call_id)
    assert [(call.outcome, call.money) for call in ended] == [("lost", None), ("answered", 0.5)]


def test_an_answered_call_is_passed_on_with_its_count_after_a_long_pause(tmp_path: Path, answers: ModelAnswers) -> None:
    CallRecords.of(tmp_path, "C1").begin(replace(CALL, outcome="lost", money=None, currency=""))
    answers.keep(ANSWER)
    [path] = (answers.folder / "one").iterdir()
    before = time.time() - OLDEST_S - 60
    os.utime(path, (before, before))
    pass_on(tmp_path)
    assert [call.outcome for call in CallRecords.of(tmp_path, "C1").ended()] == ["answered"]
    assert not path.exists()


def test_who_received_an_answer_is_kept_with_it(answers: ModelAnswers) -> None:
    answers.keep(ANSWER)
    answers.receive("one", REQUEST, CALL.call_id, "f" * 32)
    assert answers.calls("one", REQUEST) == [(CALL.call_id, "f" * 32)]
    assert answers.read("one", REQUEST, CALL.call_id) == ANSWER
    assert answers.record_of(CALL) == CALL
    answers.receive("one", REQUEST, CALL.call_id, "e" * 32)
    assert answers.calls("one", REQUEST) == [(CALL.call_id, "e" * 32)]
