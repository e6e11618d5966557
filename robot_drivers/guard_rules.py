"""Which commands a guard lets pass: arithmetic on numbers and times passed in, without clock, socket or robot."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

Refusal = Literal["", "latched", "tripped", "old lease", "repeated", "stale"]


JITTER_S = 0.01
"""Seconds by which a busy computer is late by itself, beside the period by which a station may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What every command carries."""

    sequence: int
    """Rises with every command of a runner."""
    lease: int
    """Fence token of the runner; a higher one shuts out the lower."""
    stamp_ns: int
    """Monotonic clock of this machine when the runner sent it."""


class CommandRate:
    """How fast commands follow each other: on average one in a period, so a limit on one command is one per second.

    A command that came late may be followed by one up to a period and `JITTER_S` early, as a station on a busy computer
    sends them: in any time W at most (W + JITTER_S) / period + 2 commands pass.
    """

    def __init__(self, period_s: float) -> None:
        """Nothing has passed yet; a `period_s` of 0 delays nothing (a simulation in its own time)."""
        self._period_s = period_s
        self._slack_s = period_s + JITTER_S if period_s else 0.0
        self._due_s = -math.inf

    def wait_s(self, now_s: float) -> float:
        """Seconds that a command which came now must wait."""
        return max(0.0, self._due_s - self._slack_s - now_s)

    def passes(self, now_s: float) -> bool:
        """A command passes now; True when the last is over two periods ago, so that the robot stands by itself."""
        stands = now_s > self._due_s + self._slack_s > self._due_s
        self._due_s = max(self._due_s, now_s) + self._period_s
        return stands


class GuardRules:
    """The state of one guard, and what follows from it.

    latched: nothing moves until a person resumes (the latch file says so too). tripped: nothing moves until the
    runner begins anew (`begin`). armed: commands flow, and the next one is due in time.

    When several faults come at once, the gravest holds: latched before tripped before a dropped command.
    """

    def __init__(self, *, patience_ns: int, drops_allowed: int = 10) -> None:
        """Start latched.

        Args:
            patience_ns: a command older than this is stale, and an armed robot is stopped when none came for so long.
            drops_allowed: dropped commands in a row after which the guard trips.
        """
        self.patience_ns = patience_ns
        self.drops_allowed = drops_allowed
        self.latched = "The guard has started; look at the robot, then resume it."
        """Why it is latched; empty when it is not."""
        self.tripped = ""
        """Why it tripped; empty when it did not."""
        self.lease = 0
        self.dropped: Counter[str] = Counter()
        """Refusal -> how many commands were dropped for it."""
        self._sequence = -1
        self._due_ns: int | None = None
        self._in_a_row = 0

    @property
    def armed(self) -> bool:
        """Whether commands flow, so that their absence is a fault."""
        return self._due_ns is not None

    @property
    def due_ns(self) -> int | None:
        """When the next command is due at the latest; None when none is."""
        return self._due_ns

    def admit(self, ticket: Ticket, now_ns: int) -> Refusal:
        """Whether a command may pass; what may not is counted, and too many in a row trip the guard."""
        if self._due_ns is not None and ticket.stamp_ns > self._due_ns:
            self.overdue(now_ns)  # a guard that was held up itself has not noticed yet
        why = self._why_not(ticket, now_ns)
        if why:
            self.dropped[why] += 1
            self._in_a_row += 1
            if self._in_a_row >= self.drops_allowed and self.armed:
                self.trip(f"{self._in_a_row} commands in a row were dropped, the last because it was {why}.")
            return why
        self.lease = ticket.lease
        self._sequence = ticket.sequence
        self._in_a_row = 0
        self._due_ns = now_ns + self.patience_ns
        return ""

    def served(self, now_ns: int) -> None:
        """A command has been carried out: the time that the robot itself took is not the runner's delay."""
        if self._due_ns is not None:
            self._due_ns = now_ns + self.patience_ns

    def overdue(self, now_ns: int, driver_at: str = "") -> bool:
        """Trip when an armed robot waits too long for its next command; True when it just did.

        `driver_at` is what the driver is at for the runner, which cannot send its next command before; empty: nothing.
        """
        if self._due_ns is None or now_ns < self._due_ns:
            return False
        late_ms = (now_ns - self._due_ns + self.patience_ns) / 1e6
        hangs = f"The driver hangs in {driver_at}, look at its bus and power: no" if driver_at else "No"
        self.trip(f"{hangs} fresh command came for {late_ms:.0f} ms; {self.patience_ns / 1e6:.0f} ms are allowed.")
        return True

    def trip(self, cause: str) -> None:
        """Nothing moves until the runner begins anew."""
        self.tripped = self.tripped or cause
        self._due_ns = None

    def latch(self, cause: str) -> None:
        """Nothing moves until a person resumes."""
        self.latched = self.latched or cause or "Somebody said stop."
        self._due_ns = None

    def unlatch(self) -> None:
        """A person resumed. The runner must begin anew all the same."""
        self.latched = ""
        self.trip("A person resumed the robot; the next rollout begins anew.")

    def begin(self, ticket: Ticket) -> Refusal:
        """A rollout begins: a trip is over, no command is due yet. A latch or an old lease refuses it."""
        if self.latched:
            return "latched"
        if ticket.lease < self.lease:
            self.dropped["old lease"] += 1
            return "old lease"
        self.lease = ticket.lease
        self.tripped = ""
        self._in_a_row = 0
        self._due_ns = None
        return ""

    def greet(self, lease: int) -> bool:
        """Whether a runner with this lease may take over; its sequence begins anew."""
        if lease < self.lease:
            self.dropped["old lease"] += 1
            return False
        self.lease = lease
        self._sequence = -1
        return True

    def _why_not(self, ticket: Ticket, now_ns: int) -> Refusal:
        if self.latched:
            return "latched"
        if self.tripped:
            return "tripped"
        if ticket.lease < self.lease:
            return "old lease"
        if ticket.sequence <= self._sequence:
            return "repeated"
        if not 0 <= now_ns - ticket.stamp_ns <= self.patience_ns:
            return "stale"
        return ""
