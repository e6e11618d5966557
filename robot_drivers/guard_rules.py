"""Which actions a guard lets pass: arithmetic on numbers and times that are passed in; no clock, socket or robot."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

Refusal = Literal["", "latched", "tripped", "old lease", "repeated", "stale"]

NO_ACTION = "No new action came for"
"""Begins the cause when the watchdog trips."""
JITTER_S = 0.01
"""How late a process may be on a busy computer, besides the period by which a station may be late [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What every action carries."""

    sequence: int
    """Rises with every action of a runner."""
    lease: int
    """Fencing token of the runner; a higher lease ends the lower ones."""
    stamp_ns: int
    """Monotonic clock of this computer when the runner sent it [ns]."""


class ActionRate:
    """Limits actions to one per period on average, so that a limit per action is also a limit per second.

    After a late action the next may be early by up to a period and `JITTER_S`, as a station on a busy computer sends
    them. In any time W at most (W + JITTER_S) / period + 2 actions pass.
    """

    def __init__(self, period_s: float) -> None:
        """Start without an action; a `period_s` of 0 delays none (a simulation at its own pace)."""
        self._period_s = period_s
        self._slack_s = period_s + JITTER_S if period_s else 0.0
        self._due_s = -math.inf

    def wait_s(self, now_s: float) -> float:
        """How long an action that arrives now must wait [s]."""
        return max(0.0, self._due_s - self._slack_s - now_s)

    def passes(self, now_s: float) -> bool:
        """Note that an action passes now; True when the last was over two periods ago, so that the robot is at rest."""
        stands = now_s > self._due_s + self._slack_s > self._due_s
        self._due_s = max(self._due_s, now_s) + self._period_s
        return stands


class GuardRules:
    """The state of one guard.

    latched: the robot must not move until an operator resumes it; the latch file holds this too. tripped: it must not
    move until the runner begins a new rollout (`begin`). armed: actions arrive, and the next one has a deadline.

    Of several faults the gravest counts: latched before tripped before a dropped action.
    """

    def __init__(self, *, patience_ns: int, drops_allowed: int = 10) -> None:
        """Start latched.

        Args:
            patience_ns: an action older than this is stale, and an armed robot stops when none came for this time [ns].
            drops_allowed: dropped actions in a row after which the guard trips.
        """
        self.patience_ns = patience_ns
        self.drops_allowed = drops_allowed
        self.latched = "The guard has started; look at the robot, then resume it."
        """Why the robot is latched; empty when it is not."""
        self.tripped = ""
        """Why the guard tripped; empty when it did not."""
        self.lease = 0
        self.dropped: Counter[str] = Counter()
        """Refusal -> number of actions that were dropped for it."""
        self._sequence = -1
        self._due_ns: int | None = None
        self._in_a_row = 0

    @property
    def armed(self) -> bool:
        """Whether actions arrive, so that their absence is a fault."""
        return self._due_ns is not None

    @property
    def due_ns(self) -> int | None:
        """Deadline of the next action [ns]; None when there is none."""
        return self._due_ns

    def admit(self, ticket: Ticket, now_ns: int) -> Refusal:
        """Decide whether an action may pass. Refused actions are counted; too many in a row trip the guard."""
        if self._due_ns is not None and ticket.stamp_ns > self._due_ns:
            self.overdue(now_ns)  # the guard itself was delayed and has not noticed yet
        why = self._why_not(ticket, now_ns)
        if why:
            self.dropped[why] += 1
            self._in_a_row += 1
            if self._in_a_row >= self.drops_allowed and self.armed:
                self.trip(f"{self._in_a_row} actions in a row were dropped, the last because it was {why}.")
            return why
        self.lease = ticket.lease
        self._sequence = ticket.sequence
        self._in_a_row = 0
        self._due_ns = now_ns + self.patience_ns
        return ""

    def served(self, now_ns: int) -> None:
        """Restart the deadline when an action was carried out: the driver's time is no delay of the runner."""
        if self._due_ns is not None:
            self._due_ns = now_ns + self.patience_ns

    def overdue(self, now_ns: int, driver_at: str = "") -> bool:
        """Trip when an armed robot has waited too long for its next action; True when the guard tripped now.

        `driver_at` names the request of the runner that the driver still carries out; empty when there is none.
        """
        if self._due_ns is None or now_ns < self._due_ns:
            return False
        late_ms = (now_ns - self._due_ns + self.patience_ns) / 1e6
        hangs = f"The driver hangs in {driver_at}; check its bus and power. " if driver_at else ""
        self.trip(f"{hangs}{NO_ACTION} {late_ms:.0f} ms; {self.patience_ns / 1e6:.0f} ms are allowed.")
        return True

    def trip(self, cause: str) -> None:
        """Allow no motion until the runner begins a new rollout."""
        self.tripped = self.tripped or cause
        self._due_ns = None

    def latch(self, cause: str) -> None:
        """Allow no motion until an operator resumes the robot."""
        self.latched = self.latched or cause or "A stop was requested."
        self._due_ns = None

    def unlatch(self) -> None:
        """An operator resumed the robot. The runner must still begin a new rollout."""
        self.latched = ""
        self.trip("An operator resumed the robot; the runner must begin a new rollout.")

    def begin(self, ticket: Ticket) -> Refusal:
        """Begin a rollout: this ends a trip, and no action is due yet. A latch or an old lease refuses it."""
        if self.latched:
            return "latched"
        if ticket.lease < self.lease:
            self.dropped["old lease"] += 1
            return "old lease"
        self.lease = ticket.lease
        self.tripped = ""
        self._due_ns = None
        return ""

    def greet(self, lease: int) -> bool:
        """Decide whether a runner with this lease may take over; its sequence starts at 0."""
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
