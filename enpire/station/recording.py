"""Records the frames of running episodes, exactly as sensed and sent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from enpire.types import EpisodeArrays, FloatArray, IntArray, MaskArray, TaskSpec


class FrameRecorder:
    """Buffers for one episode per lane, filled for all lanes at once in every period."""

    def __init__(self, lanes: int, spec: TaskSpec) -> None:
        limit = spec.limit_ticks
        self._state = np.zeros((lanes, limit + 1, spec.state_dim), np.float32)
        self._action = np.zeros((lanes, limit, spec.action_dim), np.float32)
        self._source = np.zeros((lanes, limit), np.uint8)
        self._chunk = np.zeros((lanes, limit), np.int32)
        self.ticks = np.zeros(lanes, np.int64)
        """int64 (lanes,): commands recorded so far."""

    def begin(self, lane: int) -> None:
        """Forget the lane's last episode."""
        self.ticks[lane] = 0

    def sensed(self, lanes: IntArray, state: FloatArray) -> None:
        """Record the state before the next command: float32 (n, state_dim), in the task's units, for `lanes` (n,)."""
        self._state[lanes, self.ticks[lanes]] = state

    def sent(self, lanes: IntArray, action: FloatArray, source: IntArray, chunk: npt.NDArray[np.int32]) -> None:
        """Record the commands sent to these lanes.

        Args:
            lanes: int64 (n,).
            action: float32 (n, action_dim), after limits, in the units of the task.
            source: int64 (n,), SOURCE_ code of each command.
            chunk: int32 (n,), number of the decision that each belongs to; -1 for none.
        """
        now = self.ticks[lanes]
        self._action[lanes, now] = action
        self._source[lanes, now] = source
        self._chunk[lanes, now] = chunk
        self.ticks[lanes] += 1

    def arrays(self, lane: int, *, last_state: bool) -> EpisodeArrays:
        """A copy of the lane's episode. If no state was sensed after the last command, that command is left out."""
        ticks = int(self.ticks[lane]) - (0 if last_state else 1)
        return EpisodeArrays(
            state=self._state[lane, : ticks + 1].copy(),
            action=self._action[lane, :ticks].copy(),
            source=self._source[lane, :ticks].copy(),
            chunk=self._chunk[lane, :ticks].copy(),
        )


def retry_ticks(marks: MaskArray, lost_ticks: int = 10) -> tuple[int, ...]:
    """Ticks at which retries within an episode began: the furthest subtask was done, then lost for `lost_ticks` ticks.

    Args:
        marks: bool (T, subtasks), which subtasks are done at each tick; a later subtask implies the earlier ones.
        lost_ticks: shorter losses are sensor noise.
    """
    began: list[int] = []
    furthest, away = 0, 0
    for frame, row in enumerate(marks.tolist()):
        level = max((number for number, done in enumerate(row, start=1) if done), default=0)
        if level >= furthest:
            furthest, away = level, 0
            continue
        away += 1
        if away == lost_ticks:
            began.append(frame)
    return tuple(began)
