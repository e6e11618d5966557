"""Calls that came before over a connection that was lost: they are answered, and run only once.

The noise of a policy depends on how often it was called: a call that ran twice would change the rest of its episode.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from enpire.policy_server.inference_batcher import InferenceCall
from enpire.wire.rpc import Message

MOST_ANSWERS = 256
"""Most clients whose last answer is kept."""


class RepeatedCalls:
    """Remembers the last call of each client. Use it from one thread."""

    def __init__(self) -> None:
        self._running: dict[str, InferenceCall] = {}
        self._answers: OrderedDict[str, tuple[int, Message]] = OrderedDict()
        """Client -> number and answer of its last call that has run."""

    def begin(self, calls: Iterable[InferenceCall]) -> None:
        """Note calls that run now."""
        self._running.update((call.client, call) for call in calls)

    def end(self, call: InferenceCall, answer: Message) -> None:
        """Keep the answer of a call that has run."""
        if self._running.get(call.client) is call:
            del self._running[call.client]
        self._answers[call.client] = call.sequence, answer
        self._answers.move_to_end(call.client)
        while len(self._answers) > MOST_ANSWERS:
            self._answers.popitem(last=False)

    def is_running(self, call: InferenceCall) -> bool:
        """Whether the call runs already; its answer then goes to the connection over which it came last."""
        running = self._running.get(call.client)
        if running is None or running.sequence != call.sequence:
            return False
        running.peer = call.peer
        return True

    def answer(self, call: InferenceCall) -> Message | None:
        """The answer of a call that has run before; None if it has not."""
        sequence, answer = self._answers.get(call.client, (0, None))
        return answer if sequence == call.sequence else None
