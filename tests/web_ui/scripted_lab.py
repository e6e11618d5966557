"""A LiveLab that plays a small fleet: phases change with time, commands take effect after a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from enpire.errors import UnknownName
from enpire.ids import mint
from enpire.monitor.lab_snapshot import GateLine, LabSnapshot, LearnerLine, RobotUse, RoundLine, Sensed, StationLine
from enpire.types import Interval, Phase
from enpire.wire.live_images import Preview
from web_ui.live import STATION_COMMANDS, CommandKind, CommandState

BEGUN = time.monotonic()
HELD_BY: frozenset[CommandKind] = STATION_COMMANDS - {"reset", "home"}
"""Commands that change what holds a station."""


@dataclass(slots=True)
class ScriptedLab:
    """Every call is answered from the clock and the commands given so far."""

    campaign_id: str = "01JD3Y6Z8Q4M0C5T9V2K7B1XNA"
    effective_s: float = 0.15
    champion: str = "b" * 64
    gate: str = "G3"
    """The open gate."""
    names: tuple[str, ...] = ("sim-1", "sim-2", "sim-3", "sim-4")
    alarms: dict[str, str] = field(default_factory=dict)
    seen: list[int | None] = field(default_factory=list[int | None])
    """What the users of the commands had seen."""
    given: dict[str, tuple[CommandKind, str, float]] = field(default_factory=dict)
    """command id -> verb, station, when it takes effect."""
    service: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Station that was marked as needing service -> by whom, why."""
    keys: dict[str, str] = field(default_factory=dict)
    refusals: dict[CommandKind, str] = field(default_factory=dict[CommandKind, str])
    """Verbs that are refused, and why."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    gone: bool = False
    """Whether no lab runs."""
    frozen: LabSnapshot | None = None
    """Set it, and the lab hangs: the same snapshot for ever."""
    more_pairs: int = 31
    """Pairs that the open gate still expects to need."""
    paused_why: str = ""
    """Why the campaign paused itself; while it says something, the campaign is paused."""
    quarantined: dict[str, str] = field(default_factory=dict[str, str])
    """Experiment -> why it is in quarantine, until it is cleared."""
    newest_event: int = 0
    more_rounds: tuple[RoundLine, ...] = ()
    """After those that every campaign has."""
    motions: tuple[str, ...] = ("reset", "home")
    """What the stations offer."""
    pictures: dict[tuple[str, str], Preview] = field(default_factory=dict)

    def snapshot(self) -> LabSnapshot | None:
        """A fresh snapshot; the figures move with the clock."""
        if self.gone:
            return None
        if self.frozen is not None:
            return self.frozen
        elapsed_s = time.monotonic() - BEGUN
        pairs = int(elapsed_s * 3) % 120
        return LabSnapshot(
            campaign_id=self.campaign_id, campaign_name="pin_insertion", task="pin_insertion", elapsed_s=elapsed_s,
            wall_budget_s=240.0, round=3, phase_text="gate 3: champion against candidate on hidden starts",
            stations=self._stations(elapsed_s),
            rounds=(
                RoundLine(
                    round=0, purpose="hidden", id="a" * 64,
                    interval=Interval(successes=152, n=400, low=0.334, high=0.428),
                ),
                RoundLine(round=1, purpose="collect", interval=Interval(successes=41, n=100, low=0.319, high=0.508)),
                RoundLine(round=2, purpose="collect", interval=Interval(successes=78, n=100, low=0.689, high=0.85)),
                RoundLine(round=3, purpose="collect", interval=Interval(successes=91, n=100, low=0.838, high=0.952)),
                *self.more_rounds,
            ),
            learner=LearnerLine(stage="actor", done=int(elapsed_s * 40) % 1400, total=1400),
            gates=(
                GateLine(
                    id=self.gate, k=3, candidate=self.champion, pairs=pairs, max_pairs=400, wins=pairs // 5,
                    losses=pairs // 18, log_e=pairs / 40, need=4.1, more=self.more_pairs,
                ),
            ),
            champion=self.champion,
            champion_interval=Interval(successes=171, n=200, low=0.799, high=0.897), goal=0.97,
            goal_by="bound",
            use=RobotUse(mru=0.962, motion=0.913, real_time_factor=41.26),
            episodes={"success": 412, "failure": 231, "aborted": 3, "open": 88}, home="/tmp/home",
            paused=self._campaign_paused() or bool(self.paused_why), paused_why=self.paused_why,
            quarantined=dict(self.quarantined), newest_event=self.newest_event,
        )  # fmt: skip

    def command(
        self, kind: CommandKind, target: str, operator: str, key: str, reason: str = "", seen: int | None = None
    ) -> str:
        """Take a command; it is effective `effective_s` later."""
        if kind in STATION_COMMANDS and target and target not in self.names:
            raise UnknownName(f"There is no station {target!r} here; there are: {', '.join(self.names)}.")
        with self.lock:
            if key not in self.keys:
                self.keys[key] = mint()
                self.seen.append(seen)
                self.given[self.keys[key]] = (kind, target, time.monotonic() + self.effective_s)
                if kind == "service":
                    self.service[target] = (operator, reason)
                if kind == "experiment clear" and seen == self.newest_event:
                    self.quarantined.pop(target, None)
                self.paused_why = "" if kind == "continue campaign" else self.paused_why
            return self.keys[key]

    def command_state(self, command_id: str) -> CommandState:
        """requested, then accepted, then effective."""
        with self.lock:
            if command_id not in self.given:
                raise UnknownName(f"There is no command {command_id!r}.")
            verb, _, effective_s = self.given[command_id]
        if verb in self.refusals:
            return "refused"
        left_s = effective_s - time.monotonic()
        return "effective" if left_s <= 0 else "accepted" if left_s < self.effective_s / 2 else "requested"

    def why(self, command_id: str) -> str:
        """What `refusals` says of the command's verb."""
        with self.lock:
            return self.refusals.get(self.given[command_id][0], "")

    def picture(self, station: str, camera: str) -> Preview:
        """What a test put there; an image without a time comes now."""
        found = self.pictures.get((station, camera), Preview())
        return replace(found, came_ns=time.time_ns()) if found.jpeg and not found.came_ns else found

    def _stations(self, elapsed_s: float) -> tuple[StationLine, ...]:
        """Every station. The commands are read once, so that a lab of 1,000 stations costs less than its server."""
        now_s = time.monotonic()
        with self.lock:
            given = sorted(self.given.values(), key=lambda item: item[2])
        done: list[tuple[CommandKind, str]] = [
            (verb, target) for verb, target, at_s in given if verb in HELD_BY and at_s <= now_s
        ]
        return tuple(self._station(index, name, elapsed_s, done) for index, name in enumerate(self.names))

    def _station(self, index: int, name: str, elapsed_s: float, done: Sequence[tuple[CommandKind, str]]) -> StationLine:
        cycle: tuple[Phase, ...] = ("rollout", "rollout", "rollout", "reset", "verify")
        line = StationLine(
            name=name, phase=cycle[int(elapsed_s / 2 + index) % len(cycle)], lanes=16,
            episodes=160 + index * 7 + int(elapsed_s * 2), episodes_per_min=118.0 + index,
            verdicts="ssfsssfssssafsssssss"[index:] + "s" * index, deployed=self.champion,
            alarm=self.alarms.get(name, ""), rate_hz=29.94, jitter_ms=0.83,
            sensed=(Sensed(name="tip_x_mm", unit="mm", value=-1.524), Sensed(name="force_z_n", unit="N", value=0.25)),
            motions=self.motions, moved_by=self.champion, viability=0.21,
            cameras=tuple(camera for station, camera in tuple(self.pictures) if station == name),
        )  # fmt: skip
        for verb, target in done:
            if target in ("", name):
                line = self._after(verb, line)
        if line.stopped:
            return replace(line, phase="stopped", moved_by="", viability=None)
        return replace(line, phase="wait-person", moved_by="", viability=None) if line.paused else line

    def _campaign_paused(self) -> bool:
        with self.lock:
            given = [verb for verb, _, at_s in self.given.values() if at_s <= time.monotonic() and "e campaign" in verb]
        return bool(given) and given[-1] == "pause campaign"

    def _after(self, verb: CommandKind, line: StationLine) -> StationLine:
        if verb == "stop":
            return replace(line, stopped=True)
        if verb == "service":
            by, why = self.service[line.name]
            return replace(line, paused=True, service_by=by, service_why=why)
        if verb == "service done":
            return replace(line, paused=False, service_by="", service_why="")
        return replace(line, stopped=False, paused=verb == "pause" or line.service_by != "")
