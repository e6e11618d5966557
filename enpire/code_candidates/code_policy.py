"""The policy of a code candidate: its code runs in a room, behind the wire of a policy server, with a deadline.

Kind of these versions: `code`. A version holds the candidate's files (code.json), the files that its learner wrote,
and the id of the commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Never

import numpy as np

from enpire.code_candidates.frames import RoomSilent
from enpire.code_candidates.rooms import CodeRoom, OpenRoom, require_sandbox
from enpire.errors import EnpireError, PolicyProblem, ProcessKilled, TransportProblem
from enpire.field_reader import Fields
from enpire.log_lines import print_line
from enpire.policy_calls import rows_of
from enpire.types import FloatArray, IntArray, Observation
from enpire.wire.rpc import Message, check_reply, floats_in, observation_out

LOADING_S, DEADLINE_S = 60.0, 2.0
"""Longest time until the code is loaded, and of one call."""
MOST_RESTARTS = 3
"""How often the room of a loaded version is started again after kill -9."""
JOURNAL_BYTES = 64 * 2**20
"""Bytes of observations that are kept to start running episodes again; with more, they end with a killed room."""
INSIDE = Path("/version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of `act`."""

    lanes: tuple[int, ...]
    begins: Mapping[int, int]
    """Lane -> seed of episodes that begin with this call."""
    observation: Observation
    """One row for each lane."""

    def message(self) -> Message:
        """The content of the call on the wire."""
        begins = [[lane, seed] for lane, seed in self.begins.items()]
        return {"lanes": list(self.lanes), "begins": begins, "observation": observation_out(self.observation)}

    def of_lane(self, row: int) -> Call:
        """The same call for one of its lanes alone."""
        lane = self.lanes[row]
        begins = {lane: self.begins[lane]} if lane in self.begins else {}
        return Call(lanes=(lane,), begins=begins, observation=rows_of(self.observation, np.asarray([row], np.int64)))

    @property
    def size(self) -> int:
        """Bytes of its observation."""
        return self.observation.state.nbytes + sum(image.nbytes for image in self.observation.images.values())


class RoomLink:
    """The connection to a room with a candidate's policy. Any thread, one call at a time.

    If kill -9 ends the room, another one gets the observations of the running episodes again. A policy depends on its
    seed and its observations alone, so it continues as if nothing had happened.

    Args:
        version: folder of the version, whose hash was checked.
        unsandboxed: whether it may run without a sandbox where bubblewrap does not work.
        deadline_s: longest time of one call.

    Raises:
        PolicyProblem: the code cannot be loaded.
        UsageError: there is no sandbox here.
    """

    def __init__(self, version: Path, *, unsandboxed: bool = False, deadline_s: float = DEADLINE_S) -> None:
        require_sandbox(unsandboxed=unsandboxed)
        self._version, self._deadline_s = version.resolve(), deadline_s
        self._lock, self._sequence, self._restarts = threading.Lock(), 0, 0
        self._journal: dict[int, list[Call]] = {}
        """Lane -> the calls of its episode."""
        self._bytes = 0
        self._room = self._start()
        self.about = self._exchange("open", {}, LOADING_S)
        """The reply to `open`."""

    @property
    def pid(self) -> int:
        """Of the room."""
        return self._room.pid

    def act(self, call: Call) -> FloatArray:
        """Action chunks, float32 (lanes, horizon, action_dim).

        Raises:
            PolicyProblem: the code raised an error, did not answer in time, or its process ended.
            TransportProblem: it sent what is no reply.
        """
        with self._lock:
            try:
                reply = self._exchange("act", call.message(), self._deadline_s)
            except ProcessKilled:
                reply = self._again(call)
            chunks = floats_in(reply, "answer")
            self._note(call)
            return chunks

    def close(self) -> None:
        """End the room."""
        self._room.close()

    def _start(self) -> OpenRoom:
        name = self._version.name[:12]  # `show` must not refer to this link: it ends its room when it is collected
        wanted = CodeRoom(
            module="policy_room", folders={"version": (self._version, INSIDE)}, first={},
            show=lambda line: print_line(f"policy {name}: {line}"),
        )  # fmt: skip
        return OpenRoom(wanted)

    def _exchange(self, method: str, content: Message, limit_s: float) -> Fields:
        self._sequence += 1
        until_s = time.monotonic() + limit_s
        self._room.frames.send({"verb": method, "sequence": self._sequence, **content}, limit_s)
        try:
            reply = self._room.frames.receive(until_s)
        except RoomSilent as problem:
            self._room.close()
            raise PolicyProblem(f"its code did not answer {method} within {limit_s:.1f} s") from problem
        except TransportProblem:
            self._room.close()
            raise
        return check_reply(reply) if reply is not None else self._raise_ended()

    def _raise_ended(self) -> Never:
        if self._room.was_killed():
            raise ProcessKilled("its process was killed")
        why = self._room.excess or f"its process ended with code {self._room.ended()}"
        self._room.close()
        raise PolicyProblem(why)

    def _again(self, call: Call) -> Fields:
        """Repeat a call in a new room, after the calls of the running episodes."""
        self._room.close()
        if self._bytes > JOURNAL_BYTES or self._restarts >= MOST_RESTARTS:
            raise PolicyProblem("its process was killed")
        self._restarts += 1
        self._room = self._start()
        try:
            self._exchange("open", {}, LOADING_S)
            for lane, earlier in self._journal.items():
                for one in earlier if lane not in call.begins else ():
                    self._exchange("act", one.message(), LOADING_S)
            return self._exchange("act", call.message(), self._deadline_s)
        except ProcessKilled as problem:
            raise PolicyProblem("its process was killed again") from problem

    def _note(self, call: Call) -> None:
        """Keep a call of running episodes, lane by lane; the earlier episode of a lane that begins is dropped."""
        for lane in call.begins:
            self._bytes -= sum(one.size for one in self._journal.pop(lane, []))
        for row, lane in enumerate(call.lanes if self._bytes <= JOURNAL_BYTES else ()):
            one = call.of_lane(row)
            self._journal.setdefault(lane, []).append(one)
            self._bytes += one.size


class CodePolicy:
    """A version whose policy an agent wrote. A failure between two episodes ends none: see `lost`."""

    def __init__(self, link: RoomLink) -> None:
        self.link = link
        self.horizon, self.execute = link.about.whole("horizon", 1), link.about.whole("execute", 1)
        self.needs_images = link.about.flag("needs_images")
        self.lost = False
        """Whether its process has ended or failed: it must be made again."""
        self._begins: dict[int, int] = {}
        """Lane -> seed of episodes that begin with the next call."""

    def begin(self, lane: int, seed: int) -> None:
        """Begin an episode; the room begins it with the first call."""
        self._begins[lane] = seed

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Action chunks, float32 (len(lanes), horizon, action_dim)."""
        named = tuple(int(lane) for lane in lanes)
        begins = {lane: self._begins[lane] for lane in named if lane in self._begins}
        try:
            chunks = self.link.act(Call(lanes=named, begins=begins, observation=observation))
        except EnpireError as problem:
            self.lost = True
            raise PolicyProblem(str(problem)) from problem
        for lane in begins:
            del self._begins[lane]
        return chunks


def load(folder: Path) -> CodePolicy:
    """Load a version in a sandbox. Raises as `RoomLink`."""
    return CodePolicy(RoomLink(folder))


def load_unsandboxed(folder: Path) -> CodePolicy:
    """Load a version, without a sandbox where bubblewrap does not work. Raises as `RoomLink`."""
    return CodePolicy(RoomLink(folder, unsandboxed=True))
