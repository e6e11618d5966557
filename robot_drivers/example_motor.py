"""A simulated motor with its own controller: the hardware of the tutorial in docs/robots.md."""

from __future__ import annotations

import threading
import time


class Motor:
    """One axis with a position controller of at most 2 rad/s, which runs in a thread as in firmware."""

    SPEED_RAD_S = 2.0

    def __init__(self, port: str) -> None:
        self.port = port
        self._lock = threading.Lock()
        self._angle_rad = 0.0
        self._target_rad: float | None = None
        self._power = threading.Event()

    def open(self) -> bool:
        """Switch it on; True when it is on."""
        if not self._power.is_set():
            self._power.set()
            threading.Thread(target=self._firmware, daemon=True).start()
        return True

    def read(self) -> float:
        """The present angle [rad]."""
        with self._lock:
            return self._angle_rad

    def go_to(self, angle_rad: float) -> float:
        """Move to an angle [rad]; returns the target, rounded to the motor's 4096 steps per turn [rad]."""
        step_rad = 6.283185307179586 / 4096
        with self._lock:
            self._target_rad = round(angle_rad / step_rad) * step_rad
            return self._target_rad

    def brake(self) -> None:
        """Hold the present angle."""
        with self._lock:
            self._target_rad = None

    def shut(self) -> None:
        """Switch it off."""
        self._power.clear()

    def _firmware(self) -> None:
        last_s = time.monotonic()
        while self._power.is_set():
            time.sleep(0.002)
            now_s = time.monotonic()
            reach = self.SPEED_RAD_S * (now_s - last_s)
            last_s = now_s
            with self._lock:
                if self._target_rad is not None:
                    away = self._target_rad - self._angle_rad
                    self._angle_rad += max(-reach, min(reach, away))
