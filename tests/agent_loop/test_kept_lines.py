"""A line that an agent keeps travels in pieces from its room to the session's folder."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_loop.channel import LARGEST_ANSWER, LARGEST_CALL, Channel
from agent_loop.lab_client import LabClient
from agent_loop.room import PIECE, Outside, ToolProblem
from agent_loop.session import KEPT, LOG, AgentSession, Host
from enpire.service.asking import Sender
from enpire.service.conversations import MOST_BYTES


def keep(work: Path, *lines: str) -> list[bool]:
    """What the room learns when its agent keeps lines."""
    return asked(work, lambda outside: [outside.keep(line, number == 0) for number, line in enumerate(lines)])


def asked[T](work: Path, ask: Callable[[Outside], T]) -> T:
    """What the room learns when its agent asks the session outside."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)
    session = AgentSession(home=work, campaign_id="C1", lane="one", agent="anthropic", work=work)
    sender = Sender(campaign_id="C1", author="anthropic", lane="one")
    host = Host(session, LabClient(work, sender), Channel(ours, LARGEST_CALL))
    with ours, theirs:
        answering = threading.Thread(target=host.answer_calls, daemon=True)
        answering.start()
        outside = Outside(Channel(theirs, LARGEST_ANSWER))
        answers = ask(outside)
        theirs.shutdown(socket.SHUT_RDWR)
        answering.join(60)
    return answers


@pytest.mark.parametrize("letter", ["a", "\U0001f916"])
def test_a_long_line_arrives_whole(tmp_path: Path, letter: str) -> None:
    line = json.dumps({"message": letter * (3 * PIECE)}, ensure_ascii=False)
    assert keep(tmp_path, "brief", line) == [True, True]
    assert (tmp_path / KEPT).read_text() == f"brief\n{line}\n"


def test_long_lines_of_two_threads_do_not_mix(tmp_path: Path) -> None:
    lines = [letter * (3 * PIECE) for letter in "abcd"]

    def log_all(outside: Outside) -> None:
        threads = [threading.Thread(target=outside.log, args=(line,)) for line in lines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    asked(tmp_path, log_all)
    assert sorted((tmp_path / LOG).read_text().splitlines()) == lines


def test_nothing_of_a_refused_line_is_kept(tmp_path: Path) -> None:
    assert keep(tmp_path, "brief", "x" * (MOST_BYTES + 3 * PIECE), "answer") == [True, False, True]
    assert (tmp_path / KEPT).read_text() == "brief\nanswer\n"


def test_a_log_line_larger_than_a_message_arrives_whole_and_the_session_goes_on(tmp_path: Path) -> None:
    line = json.dumps({"text": "\U0001f916" * (LARGEST_CALL // 4)}, ensure_ascii=False)
    answers = asked(tmp_path, lambda outside: [outside.log(line), outside.log("next"), outside.keep("kept", True)])
    assert answers == [True, True, True]
    assert (tmp_path / LOG).read_text() == f"{line}\nnext\n"


def test_a_call_larger_than_a_message_is_refused_and_the_session_goes_on(tmp_path: Path) -> None:
    def ask(outside: Outside) -> bool:
        with pytest.raises(ToolProblem, match="The call of post_finding has .* bytes; at most 262144 are allowed"):
            outside.tools(["post_finding"])["post_finding"](text="x" * LARGEST_CALL)
        return outside.log("next")

    assert asked(tmp_path, ask)
