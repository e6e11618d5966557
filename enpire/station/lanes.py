"""The lanes of a station, moved in step: free → resetting → rolling (→ verify) → free, each lane on its own.

`Lanes` holds one rig. A period is `sense`, `reset`, `verify`, `decide`, `act`, in this order; `take_ended` returns the
episodes that ended. No lane's episode depends on the other lanes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from enpire.interfaces import Evidence, MarksSubtasks, Rig, Skill, Task
from enpire.interventions import Intervener
from enpire.policy_calls import PLUGIN_ERRORS, LoadedPolicy
from enpire.station.camera_recorder import CameraRecorder
from enpire.station.chunks import Chunks
from enpire.station.command_blending import CommandBlender
from enpire.station.early_stopping import ViabilityMonitor
from enpire.station.lane import Guarded, Lane, MonitorsSensors, Simulated
from enpire.station.recording import FrameRecorder, retry_ticks
from enpire.station.robot_time import RobotTime
from enpire.station.sending import send
from enpire.store import arrays as arrays_file
from enpire.types import (
    OPERATOR,
    PEOPLE,
    SOURCE_HUMAN,
    Episode,
    ImageArray,
    IntArray,
    MaskArray,
    Observation,
    Order,
    OutcomeKind,
    Verdict,
)
from enpire.verifiers import is_slow, require_verdict
from enpire.wire.messages import Parcel

TRIES = 3
"""Resets that may fail in a row in one lane before the station calls an operator."""
_SAME = 1e-6
"""A sent command that differs by less than this from the requested one was rounded, not clipped."""


class Lanes:
    """One rig, its lanes, and the steps of one period.

    Args:
        task: gives the reset, the reset check and the verifier.
        rig: the robots, at rest.
        reset_limit_ticks: a reset by the robot that takes more periods has failed; 0: `place` sets the start at once.
        operator: may take over in supervised episodes.
        chunks: (lanes, action_dim) -> the object that runs inference, while the robots wait or while they move.
        clock: monotonic seconds.
        camera_recorder: records the camera images.
    """

    def __init__(  # noqa: PLR0913 - rig, task, operator, inference, clock and recorder are independent
        self,
        task: Task,
        rig: Rig,
        reset_limit_ticks: int = 0,
        operator: Intervener | None = None,
        chunks: Callable[[int, int], Chunks] = Chunks,
        clock: Callable[[], float] = time.monotonic,
        camera_recorder: CameraRecorder | None = None,
    ) -> None:
        spec, count = rig.spec, rig.lanes
        self._clock, self.time = clock, RobotTime(count, clock)
        self._task, self._rig, self._operator = task, rig, operator
        self._held: MaskArray = np.zeros(count, np.bool_)
        self._blender = CommandBlender(count, spec)
        self._guarded = rig if isinstance(rig, Guarded) else None
        self._sensors = rig if isinstance(rig, MonitorsSensors) else None
        self._lanes = [Lane(index) for index in range(count)]
        self._skill: Skill | None = task.reset_skill() if reset_limit_ticks else None
        self._reset_limit_ticks = reset_limit_ticks
        self._verifier = task.verifier()
        self._verifier_thread = ThreadPoolExecutor(1, "verifier") if is_slow(self._verifier) else None
        self._new_chunks, self._chunks = chunks, chunks(count, spec.action_dim)
        self._camera_recorder = camera_recorder or CameraRecorder()
        self._camera_recorder.look_with(rig.look)
        self._chunks.look = self._camera_recorder.look
        self._viability = ViabilityMonitor(count)
        self._recording = FrameRecorder(count, spec)
        self._observation = Observation(stamp_ns=0, state=np.zeros((count, spec.state_dim), np.float32))
        self._command = np.zeros((count, spec.action_dim), np.float32)
        self._moving: MaskArray = np.zeros(count, np.bool_)
        self._sensed = False
        """Whether the newest observation is newer than the last command."""
        self._ever_sensed = False
        self._ended: list[Parcel] = []

    def on(self, rig: Rig, operator: Intervener | None = None) -> Lanes:
        """The same lanes on a reopened rig; robot time, ended episodes and running inference are kept."""
        limit, chunks = self._reset_limit_ticks, self._new_chunks
        fresh = Lanes(self._task, rig, limit, operator, chunks, self._clock, self._camera_recorder)
        fresh.time, fresh._ended, fresh._chunks = self.time, self._ended, self._chunks
        return fresh

    @property
    def busy(self) -> bool:
        """Whether any lane moves or waits for its verdict."""
        return any(lane.stage in ("resetting", "rolling", "judging") for lane in self._lanes)

    @property
    def alarm(self) -> str:
        """Why an operator is needed; empty if none is."""
        stuck = [str(lane.index) for lane in self._lanes if lane.stage == "stuck"]
        return f"The reset of lane {', '.join(stuck)} failed {TRIES} times; look at it and resume." if stuck else ""

    def running(self) -> Sequence[Order]:
        """The orders that lanes work on."""
        return [lane.order for lane in self._lanes if lane.order is not None]

    def overdue(self, longest_s: float) -> Sequence[str]:
        """Ids of the orders that lanes have worked on for longer than this."""
        latest_s = self._clock() - longest_s
        return [lane.order.order_id for lane in self._lanes if lane.order is not None and lane.began_s < latest_s]

    def ended(self) -> Sequence[Order]:
        """Orders of ended episodes that `take_ended` has not returned yet."""
        return [parcel.episode.order for parcel in self._ended]

    def free(self) -> Sequence[int]:
        """Lanes that can take an order."""
        return [lane.index for lane in self._lanes if lane.stage == "free"]

    def take_ended(self) -> Sequence[Parcel]:
        """The episodes that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def begin(self, index: int, order: Order, policy: LoadedPolicy) -> None:
        """Start an order in a free lane. From now on it ends in exactly one episode."""
        acting = policy.acting(order)
        lane = self._lanes[index] = Lane(
            index, "resetting", order, policy.policy_id, policy.source, self._clock(), explores=acting is not policy,
            failed_resets=self._lanes[index].failed_resets,
        )  # fmt: skip
        self.time.switch([index], "reset")
        self._recording.begin(index)
        if why := self._chunks.begin(index, acting, order.start.seed):
            self._end(lane, "aborted", why)
            return
        self._camera_recorder.begin(index, order.order_id, acting.policy)
        self._viability.begin(index, order, acting)
        if self._operator is not None and order.supervised:
            self._operator.begin(index, order, acting)
        self._blender.begin(index)
        self._try_reset(lane, order)

    def reading(self) -> tuple[float, ...]:
        """The newest state of the first lane, in the units of the spec; empty before the first, or if not finite."""
        state = self._observation.state[0]
        return tuple(state.astype(float).tolist()) if self._ever_sensed and np.isfinite(state).all() else ()

    def moved_by(self) -> str:
        """What commands the first robot now: a policy version, `operator`, `reset`; empty: nothing."""
        lane = self._lanes[0]
        if lane.stage == "resetting":
            return "reset"
        return "" if lane.stage != "rolling" else OPERATOR if self._held[0] else lane.policy_id

    @property
    def viability(self) -> float | None:
        """p_v of the supervised rollout of the first robot, in [0, 1]; None where there is none."""
        return self._viability.newest if self._lanes[0].stage == "rolling" else None

    def sense(self) -> Observation:
        """Read the sensors of all lanes, once in a period."""
        self._observation = self._rig.observe()
        self._sensed = self._ever_sensed = True
        return self._observation

    def reset(self) -> None:
        """One period of the resets by the robot, and the start check of every reset that is done."""
        self._moving[:] = False
        resetting = [lane for lane in self._lanes if lane.stage == "resetting"]
        if not resetting:
            return
        rows = _indices(resetting)
        finished: MaskArray = np.ones(len(rows), np.bool_)
        if self._skill is not None:
            actions, finished = self._skill.step(self._observation.state[rows], rows)
            self._command[rows] = actions
            self._moving[rows] = True
        for lane, done in zip(resetting, finished, strict=True):
            lane.reset_ticks += 1
            if done or lane.reset_ticks > self._reset_limit_ticks > 0:
                self._moving[lane.index] = False
                self._check_reset(lane, in_time=bool(done))

    def verify(self) -> None:
        """Record the sensors of rolling lanes; judge those that are finished, out of time or outside the envelope."""
        self._take_verdicts()
        rolling = self._rolling()
        if not rolling:
            return
        rows = _indices(rolling)
        self._recording.sensed(rows, self._observation.state[rows])
        ticks = np.zeros(len(self._lanes), np.int64)
        ticks[rows] = self._recording.ticks[rows]
        for index, (outcome, why) in self._camera_recorder.record(self._observation, rows, ticks[rows]).items():
            self._end(self._lanes[index], outcome, why)
        finished = self._verifier.finished(self._observation.state, ticks) | (ticks >= self._rig.spec.limit_ticks)
        stale = self._sensors.stale if self._sensors is not None else ""
        for lane in self._rolling():
            if self._guarded is not None and self._guarded.violated[lane.index]:
                self._end(lane, "unsafe", self._guarded.offences[lane.index], confidence=1.0)
            elif stale:
                self._end(lane, "invalid", stale)
            elif finished[lane.index] and ticks[lane.index]:
                self._judge(lane)

    def decide(self) -> None:
        """Give every rolling lane its next command. A lane without a usable action ends, and its robot holds."""
        rolling = self._rolling()
        if not rolling:
            return
        rows = _indices(rolling)
        for index, why in self._viability.look(self._observation, rows, self._recording.ticks[rows]).items():
            self._end(self._lanes[index], "aborted", why)
        asked_s = self._clock()
        rows = self._left_to_policies(self._rolling())
        for index, why in self._chunks.decide(self._observation, rows).items():
            self._end(self._lanes[index], "aborted", why)
        rows = _indices(self._rolling())
        self._moving[rows] = self._held[rows] | self._chunks.ready(rows)
        self.time.decided(rows.tolist(), asked_s, self._moving[rows].tolist())
        self.time.switch(waiting := self._waiting(), "wait-person")
        for index in waiting:
            self._lanes[index].began_s = self._clock()

    def act(self) -> None:
        """Send the commands of this period to all moving lanes at once, and record the sent ones."""
        rolling = [lane for lane in self._rolling() if self._moving[lane.index]]
        rows = _indices(rolling)
        chunk = np.full(len(rows), -1, np.int32)
        if rolling:
            held = self._held[rows]
            self._command[rows[~held]], chunk[~held] = self._chunks.next(rows[~held])
            if self._operator is not None and held.any():
                self._command[rows[held]] = self._operator.act(self._observation, rows[held])
            self._command[rows] = self._blender.blend(rows, held, self._command[rows], self._observation.state[rows])
        if not self._moving.any():
            return
        sent, violations = send(self._rig, self._command, self._moving)
        for index, why in violations.items():
            self._end(self._lanes[index], "unsafe", why, confidence=1.0)
        self.time.commanded(rows.tolist())
        self._sensed = False
        waiting = self._waiting()  # they were sent where they stand, so that their guard hears of them
        kept = np.asarray([lane.stage == "rolling" and lane.index not in waiting for lane in rolling], np.bool_)
        rows, chunk = rows[kept], chunk[kept]
        changed: MaskArray = np.any(np.abs(sent[rows] - self._command[rows]) > _SAME, axis=1)
        clipped: list[int] = rows[changed].tolist()
        for index in clipped:
            self._lanes[index].clipped += 1
        self._blender.sent(rows, sent[rows])
        left = [lane for lane, is_kept in zip(rolling, kept, strict=True) if is_kept]
        corrected = [self._held[lane.index] and lane.policy_id != PEOPLE for lane in left]
        source = np.where(corrected, SOURCE_HUMAN, [lane.source for lane in left]).astype(np.int64)
        self._recording.sent(rows, sent[rows], source, chunk)

    def abort(self, cause: str) -> None:
        """End every running order. A command sent after the last sensing is left out of the recording."""
        for lane in self._lanes:
            if lane.order is not None:
                self._end(lane, "aborted", cause)
        self._moving[:] = False

    def end_waits(self, order_ids: Collection[str], cause: str) -> None:
        """End those of these orders that are demonstrations and wait for a person, who has not begun."""
        for index in self._waiting():
            lane = self._lanes[index]
            if lane.order is not None and lane.order.order_id in order_ids:
                self._end(lane, "aborted", cause)

    def by_people(self, *, begun: bool) -> Sequence[str]:
        """Ids of the demonstrations by people that a person has begun, or of those that wait for one."""
        waiting = set(self._waiting())
        people = (lane for lane in self._rolling() if lane.policy_id == PEOPLE and lane.order is not None)
        return [lane.order.order_id for lane in people if lane.order and (lane.index not in waiting) == begun]

    def unstick(self) -> None:
        """Free the stuck lanes: an operator has prepared their scenes for a reset."""
        for lane in self._lanes:
            if lane.stage == "stuck":
                if isinstance(self._rig, Simulated):
                    self._rig.lay_out(lane.index)
                lane.stage, lane.failed_resets = "free", 0
                self.time.switch([lane.index], "wait-order")

    def _rolling(self) -> list[Lane]:
        return [lane for lane in self._lanes if lane.stage == "rolling"]

    def _left_to_policies(self, rolling: Sequence[Lane]) -> IntArray:
        """Ask the operator which supervised lanes to move; returns the others (n,)."""
        rows = _indices(rolling)
        self._held[:] = False
        if self._operator is not None:
            supervised = _indices(lane for lane in rolling if lane.order is not None and lane.order.supervised)
            if len(supervised):
                ticks = self._recording.ticks[supervised]
                self._held[supervised] = self._operator.watch(self._observation, supervised, ticks)
                self._chunks.drop(np.flatnonzero(self._held))
        return rows[~self._held[rows]]

    def _waiting(self) -> list[int]:
        """Lanes whose demonstration has not begun, because no person has moved the robot yet."""
        people = (lane.index for lane in self._rolling() if lane.policy_id == PEOPLE)
        return [index for index in people if not (self._held[index] or self._recording.ticks[index])]

    def _try_reset(self, lane: Lane, order: Order) -> None:
        lane.reset_attempts += 1
        lane.reset_ticks = 0
        self._rig.place(lane.index, order.start)
        if self._skill is not None:
            self._skill.begin(lane.index, order.start)

    def _check_reset(self, lane: Lane, *, in_time: bool) -> None:
        order = lane.order
        if order is None:
            return
        lane.achieved, near = self._task.start_error(self._observation.state[lane.index], order.start)
        if near and in_time:
            lane.failed_resets, lane.checked, lane.stage = 0, True, "rolling"
            self.time.switch([lane.index], "rollout")
            return
        lane.failed_resets += 1
        if lane.failed_resets < TRIES and self._skill is not None:
            self._try_reset(lane, order)
            return
        stuck = lane.failed_resets >= TRIES
        self._end(lane, "aborted", "reset failed")
        if stuck:
            lane.stage = "stuck"
            self.time.switch([lane.index], "wait-person")

    def _judge(self, lane: Lane) -> None:
        self.time.switch([lane.index], "verify")
        images: Mapping[str, ImageArray] = self._camera_recorder.look(lane.index) if self._verifier.needs_images else {}
        evidence = Evidence(arrays=self._recording.arrays(lane.index, last_state=True), images=images)
        if self._verifier_thread is not None:
            self.time.switch([lane.index], "wait-verdict")
            lane.stage, lane.verdict = "judging", self._verifier_thread.submit(self._verifier.judge, evidence)
            self._moving[lane.index] = False
        else:
            self._settle(lane, lambda: self._verifier.judge(evidence))

    def _take_verdicts(self) -> None:
        """End the lanes whose slow verifier has returned its verdict."""
        for lane in self._lanes:
            if lane.stage == "judging" and lane.verdict is not None and lane.verdict.done():
                self._settle(lane, lane.verdict.result)

    def _settle(self, lane: Lane, judge: Callable[[], Verdict]) -> None:
        try:
            verdict = require_verdict(judge())
        except PLUGIN_ERRORS as problem:
            self._end(lane, "invalid", f"verifier failed: {' '.join(str(problem).split())[:500]}")
            return
        self._end(lane, verdict.kind, verdict.reason, confidence=verdict.confidence)

    def _end(self, lane: Lane, outcome: OutcomeKind, cause: str, confidence: float = 0.0) -> None:
        order = lane.order
        if order is None:
            return
        data, ticks, attempts = b"", 0, ()
        frames = int(self._recording.ticks[lane.index]) - (0 if self._sensed else 1)
        if lane.checked and frames > 0:
            arrays = self._recording.arrays(lane.index, last_state=self._sensed)
            data, ticks = arrays_file.pack(arrays), len(arrays.action)
            if isinstance(self._task, MarksSubtasks):
                attempts = retry_ticks(self._task.subtask_marks(arrays.state))
        self._camera_recorder.end(lane.index, ticks)
        episode = Episode(
            order=order, outcome=outcome, cause=cause, confidence=float(confidence), ran_policy_id=lane.policy_id,
            ticks=ticks, began_s=lane.began_s, ended_s=self._clock(), achieved_start=lane.achieved,
            reset_attempts=lane.reset_attempts, clipped=lane.clipped, attempts=attempts,
            predicted_failure_at=int(self._viability.predicted_failure_at[lane.index]),
            sha256=hashlib.sha256(data).hexdigest() if data else "", explored=lane.explores,
        )  # fmt: skip
        self._ended.append(Parcel(episode=episode, arrays_file=data))
        lane.stage, lane.order = "free", None
        self._moving[lane.index] = False
        self.time.switch([lane.index], "wait-order")


def _indices(lanes: Iterable[Lane]) -> IntArray:
    return np.asarray([lane.index for lane in lanes], np.int64)
