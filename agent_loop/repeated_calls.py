"""Calls that change the lab, made again by an agent whose process was killed: each changes the lab once."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from agent_loop.lab_client import RequestRefused
from agent_loop.tools import BY_NAME
from enpire.errors import UsageError
from enpire.files import plain

Tools = Mapping[str, Callable[..., object]]


class RepeatableCalls:
    """Gives calls that change the lab ids that are the same when a process that was started again makes them again.

    The id names the turn, the tool, its arguments, and how many such calls of the turn this process has made before. A
    call without an answer of the lab is not counted, so it may be made again at once.
    """

    def __init__(self) -> None:
        self._answered = Counter[str]()

    def of(self, tools: Tools, turn: str) -> dict[str, Callable[..., object]]:
        """The tools for a turn.

        Args:
            tools: by name; those that change the lab take a `call_id`.
            turn: a name of the turn that a process which was started again knows.
        """
        changing = {name for name, tool in BY_NAME.items() if tool.writes}
        return {
            name: partial(self._call, turn, name, function) if name in changing else function
            for name, function in tools.items()
        }

    def _call(self, turn: str, tool_name: str, function: Callable[..., object], /, **arguments: object) -> object:
        if "call_id" in arguments:
            raise UsageError(f"The call of {tool_name} has the unknown key 'call_id'; leave it out.")
        made = json.dumps([turn, tool_name, plain(arguments)], sort_keys=True)
        call_id = hashlib.sha256(f"{self._answered[made]} {made}".encode()).hexdigest()
        try:
            answer = function(call_id=call_id, **arguments)
        except RequestRefused:
            self._answered[made] += 1
            raise
        self._answered[made] += 1
        return answer
