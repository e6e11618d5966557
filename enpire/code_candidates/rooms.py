"""Starting a room for a candidate's code: which files it sees, which limits hold, and how it ended."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from enpire.code_candidates.frames import Frames
from enpire.errors import UsageError
from enpire.processes.room import Room, RoomPlan, open_room
from enpire.processes.room_limits import RoomLimits
from enpire.processes.sandbox import bubblewrap
from enpire.wire.rpc import Message

LIMITS = RoomLimits(
    memory_bytes=3 * 2**30, address_bytes=6 * 2**30, processes=64, scratch_bytes=384 * 2**20, file_bytes=256 * 2**20
)
"""What the code of one candidate may use in one process of a learner or a station, with all its child processes."""
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Exit codes of a room that kill -9 ended; the second is bubblewrap's."""
_START = ThreadPoolExecutor(1, "code-rooms")
"""Starts all rooms: the kernel ends a sandbox with the thread that started it, so this thread stays."""
_PATIENCE_S = 5.0


def require_sandbox(*, unsandboxed: bool) -> str:
    """`bubblewrap` or `none`: where a candidate's code runs on this machine.

    Raises:
        UsageError: bubblewrap does not work here, and nothing allows to do without it.
    """
    if bubblewrap():
        return "bubblewrap"
    if unsandboxed:
        return "none"
    raise UsageError(
        "Code candidates need bubblewrap, which is not installed or not allowed here: apt install bubblewrap "
        "(`enpire doctor` checks it). To run the code of agents without a sandbox, with all rights of this user, say "
        "`code: {unsandboxed: true}` in the campaign file, or --unsandboxed."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRoom:
    """What a room runs and sees."""

    module: str
    """Of this package."""
    folders: Mapping[str, tuple[Path, Path]]
    """Name in the first message -> (folder on this machine, where it appears in a sandbox). Read-only in a sandbox."""
    first: Message
    """The first message, besides the folders and the limits."""
    show: Callable[[str], None]
    """Called with the lines that the code prints."""


class OpenRoom:
    """A running room; it ends with `close`, or when nothing refers to it any more."""

    def __init__(self, wanted: CodeRoom) -> None:
        self._stack = ExitStack()
        sandboxed = bool(bubblewrap())
        work = Path() if sandboxed else Path(self._stack.enter_context(TemporaryDirectory(prefix="enpire-code-")))
        plan = RoomPlan(
            module=f"enpire.code_candidates.{wanted.module}", work=work, limits=LIMITS, one_core=True,
            binds=tuple(wanted.folders.values()),
        )  # fmt: skip
        self._room: Room = _START.submit(self._stack.enter_context, open_room(plan, wanted.show)).result()
        self.frames = Frames(self._room.channel)
        places = {name: str(inside if sandboxed else outside) for name, (outside, inside) in wanted.folders.items()}
        first = {"limits": asdict(self._room.limits), "work": str(self._room.work), "folders": places}
        self.frames.send({**first, **wanted.first})
        self._end = weakref.finalize(self, _close, self._stack)

    @property
    def pid(self) -> int:
        """Of its first process."""
        return self._room.process.pid

    @property
    def excess(self) -> str:
        """Which limit it exceeded, as a sentence; empty if none."""
        return self._room.why

    def ended(self) -> int:
        """Exit code of a room whose channel is closed; one that still runs is ended."""
        process = self._room.process
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_PATIENCE_S)
        self.close()
        return process.returncode

    def was_killed(self) -> bool:
        """Whether kill -9 ended it, and no limit."""
        return self.ended() in KILLED and not self.excess

    def close(self) -> None:
        """End all its processes. Allowed twice."""
        self._end()


def _close(stack: ExitStack) -> None:
    stack.close()
