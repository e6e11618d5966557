"""What an agent session keeps of its conversation."""

from __future__ import annotations

from pathlib import Path

from enpire.service.conversations import MOST_BYTES, KeptConversation


def test_lines_are_kept_in_order_and_a_new_conversation_replaces_them(tmp_path: Path) -> None:
    kept = KeptConversation(tmp_path / "kept.jsonl")
    assert kept.lines() == []
    assert kept.add("brief", anew=True)
    assert kept.add("two\nlines", anew=False)
    assert KeptConversation(tmp_path / "kept.jsonl").lines() == ["brief", "two lines"]
    assert kept.add("next brief", anew=True)
    assert kept.lines() == ["next brief"]


def test_a_line_that_a_killed_process_did_not_end_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text('brief\n{"message": ')
    kept = KeptConversation(path)
    assert kept.lines() == ["brief"]
    assert kept.add("answer", anew=False)
    assert path.read_text() == "brief\nanswer\n"


def test_a_conversation_has_a_limit(tmp_path: Path) -> None:
    kept = KeptConversation(tmp_path / "kept.jsonl")
    assert kept.add("x" * (MOST_BYTES - 1), anew=True)
    assert not kept.add("more", anew=False)
    assert len(kept.lines()) == 1
    assert kept.add("anew", anew=True)
