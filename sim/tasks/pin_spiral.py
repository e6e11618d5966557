"""A blind search program: press lightly, follow a spiral around the estimated hole until the pin drops in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from enpire.types import FloatArray, IntArray, Observation
from sim.tasks.pin_rig import FORCE, SPEED_MM_S, TIP
from sim.tasks.pin_states import pin_columns

_INSIDE_MM = -0.35
"""A tip that is seen deeper than this has found the hole: four standard deviations below the rim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiralProgram:
    """The seven parameters of the search; a parameter search may tune them."""

    pitch_mm: float = 0.5
    """Distance between two turns."""
    speed_mm_s: float = 6.5
    """Speed along the spiral. Over the hole friction ends and the pin jumps; a fast pin crosses it before it sinks."""
    reach_mm: float = 3.2
    """Radius at which the search starts again from the middle."""
    press_mm_s: float = 4.2
    """Commanded speed downwards on the rim; the servo turns it into a force."""
    descent_mm_s: float = 12.0
    """Speed downwards inside the hole."""
    gain_per_s: float = 9.0
    """Proportional gain of following the spiral."""
    yield_mm_s_n: float = 2.5
    """Lateral speed for every newton of the hole's wall."""


@dataclass(slots=True)
class _Search:
    """State of one lane's search."""

    program: SpiralProgram
    angle_rad: float = 0.0
    searching: bool = False


class SpiralExpert:
    """The program as a policy. `vary` draws speed, pitch and pressure anew for every episode."""

    horizon = 8
    execute = 2

    def __init__(self, program: SpiralProgram, period_s: float, vary: float = 0.0, seed: int = 0) -> None:
        """Run a program.

        Args:
            program: the parameters.
            period_s: seconds of one period.
            vary: relative spread of speed, pitch and pressure between episodes, 0 for none.
            seed: makes two experts differ that get the same episodes.
        """
        self._program, self._period_s, self._vary, self._seed = program, period_s, vary, seed
        self._lanes: dict[int, _Search] = {}

    def begin(self, lane: int, seed: int) -> None:
        """Forget the search of this lane and draw the parameters of the next one."""
        rng = np.random.Generator(np.random.PCG64([self._seed, seed, 5]))
        pace, pitch, press = (float(v) for v in 1.0 + self._vary * rng.uniform(-1.0, 1.0, 3))
        base = self._program
        self._lanes[lane] = _Search(
            program=SpiralProgram(
                pitch_mm=base.pitch_mm * pitch,
                speed_mm_s=base.speed_mm_s * pace,
                reach_mm=base.reach_mm,
                press_mm_s=base.press_mm_s * press,
                descent_mm_s=base.descent_mm_s * pace,
                gain_per_s=base.gain_per_s,
                yield_mm_s_n=base.yield_mm_s_n,
            )
        )

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        """Decide for the lanes named: (len(lanes), 8, 3) float32 in mm/s, for states (len(lanes), 12 or 13).

        Raises:
            PolicyProblem: the state has another width than the pin tasks have.
        """
        states = pin_columns(observation.state, len(lanes), "The spiral")
        chunk = np.empty((len(lanes), self.horizon, 3), dtype=np.float32)
        for row, lane in enumerate(lanes):
            if int(lane) not in self._lanes:
                self.begin(int(lane), 0)
            chunk[row] = self._decide(self._lanes[int(lane)], states[row])
        return np.clip(chunk, -SPEED_MM_S, SPEED_MM_S)

    def _decide(self, search: _Search, state: FloatArray) -> FloatArray:
        x, y, z = (float(v) for v in state[TIP])
        if z < _INSIDE_MM:
            return self._sink(search, state)
        if not search.searching:
            aside = math.hypot(x, y)
            search.searching = aside < 0.3 and z < 0.7
            return self._approach(search, (x, y, z))
        return self._follow(search, x, y)

    def _sink(self, search: _Search, state: FloatArray) -> FloatArray:
        program = search.program
        force_x, force_y, _ = (float(v) for v in state[FORCE])
        command = (program.yield_mm_s_n * force_x, program.yield_mm_s_n * force_y, -program.descent_mm_s)
        return np.tile(np.array(command, dtype=np.float32), (self.horizon, 1))

    def _approach(self, search: _Search, tip_mm: tuple[float, float, float]) -> FloatArray:
        chunk = np.empty((self.horizon, 3), dtype=np.float32)
        x, y, z = tip_mm
        for tick in range(self.horizon):
            rate = min(search.program.gain_per_s, 18.0 / max(math.hypot(x, y), 1e-9))
            down = min(max(8.0 * (0.3 - z), -SPEED_MM_S), 6.0)
            chunk[tick] = -rate * x, -rate * y, down
            x, y, z = (v + float(c) * self._period_s for v, c in zip((x, y, z), chunk[tick], strict=True))
        return chunk

    def _follow(self, search: _Search, x: float, y: float) -> FloatArray:
        """The next part of r = pitch * angle / 2 pi at constant speed along the arc."""
        program, angle = search.program, search.angle_rad
        chunk = np.empty((self.horizon, 3), dtype=np.float32)
        now_x, now_y, _ = _on_spiral(program, angle)
        late_x, late_y = now_x - x, now_y - y
        for tick in range(self.horizon):
            angle += program.speed_mm_s * self._period_s / max(program.pitch_mm * angle / math.tau, 0.25)
            next_x, next_y, radius = _on_spiral(program, angle)
            chunk[tick] = (
                (next_x - now_x) / self._period_s + program.gain_per_s * late_x,
                (next_y - now_y) / self._period_s + program.gain_per_s * late_y,
                -program.press_mm_s,
            )
            now_x, now_y = next_x, next_y
            fading = 1.0 - program.gain_per_s * self._period_s
            late_x, late_y = fading * late_x, fading * late_y
            if tick == self.execute - 1:
                search.angle_rad = angle if radius < program.reach_mm else 0.0
        return chunk


def _on_spiral(program: SpiralProgram, angle_rad: float) -> tuple[float, float, float]:
    """(x, y, radius) in mm at an angle along the spiral."""
    radius = program.pitch_mm * angle_rad / math.tau
    return radius * math.cos(angle_rad), radius * math.sin(angle_rad), radius
