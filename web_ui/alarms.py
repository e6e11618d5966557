"""Alarms of the running campaign: grouped by cause, with the allowed responses, and who acknowledged them."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from enpire.service.watching import APPROVALS, PEOPLE, LabSnapshot, StationLine
from web_ui.documents import Alarm, CommandDocument
from web_ui.live import ACKNOWLEDGE, UNACKNOWLEDGE, CommandKind

QUARANTINE = "quarantine-"
"""Beginning of the key of an experiment or version that waits for an approval."""
ANSWERS = (ACKNOWLEDGE, UNACKNOWLEDGE)
NO_ORDERS = "the station gets no new orders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why an operator is needed."""

    key: str
    """Names the cause in acknowledgements; the same for all stations that it concerns."""
    text: str
    tone: str
    """bad or warn."""
    responses: tuple[CommandKind, ...] = ()
    """Commands that an operator may answer with."""
    default: str = ""
    """What holds until an operator answers."""


_FAULT = Cause(
    key="fault", text="Stopped by a fault", tone="bad", responses=("stop", "resume"),
    default="the robot holds, and the station gets no new orders",
)  # fmt: skip
_OFFLINE = Cause(
    key="offline", text="Offline", tone="bad",
    default="its orders end as unknown and other stations get the work; it resumes when it connects again",
)  # fmt: skip
_STOPPED = Cause(
    key="stopped", text="Stopped until resumed", tone="bad", responses=("resume",), default="the robot holds"
)
_PAUSED = Cause(
    key="paused", text="Paused: no new orders", tone="warn", responses=("resume", "stop"), default=NO_ORDERS
)
_PERSON = Cause(
    key="person", text="Waiting for an operator", tone="warn", responses=("pause", "stop"),
    default="the robot waits, and the station gets no new orders",
)  # fmt: skip
_DEMONSTRATE = Cause(
    key="demonstrate", text="Waiting for a person to demonstrate the task", tone="warn", responses=("pause", "stop"),
    default="the robot holds, and other stations continue",
)  # fmt: skip


class Alarms:
    """Since when each cause holds at each station. Call it from one thread."""

    def __init__(self) -> None:
        self._since_ms: dict[tuple[str, str], tuple[int, bool]] = {}
        """(cause, station) -> when this server saw it first, and whether it was there before this server."""
        self._campaign_id: str | None = None

    def update(
        self, snapshot: LabSnapshot | None, commands: Iterable[CommandDocument], now_ms: int | None = None
    ) -> Mapping[str, Alarm]:
        """The alarms now, by cause. A cause that ends and comes again needs a new acknowledgement.

        Args:
            snapshot: of the lab; None while no campaign runs.
            commands: of the campaign; those that acknowledge a cause count.
            now_ms: wall-clock time in milliseconds; default: now.
        """
        at_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        found: dict[str, tuple[Cause, list[str]]] = {}
        for name, cause in _causes(snapshot):
            found.setdefault(cause.key, (cause, []))[1].append(name)
        campaign_id = snapshot.campaign_id if snapshot is not None else ""
        before = campaign_id != self._campaign_id  # the first look at a campaign: its alarms may be older
        self._campaign_id = campaign_id
        known = {} if before else self._since_ms
        self._since_ms = {
            (key, name): known.get((key, name), (at_ms, before)) for key, (_, names) in found.items() for name in names
        }
        given = [one for one in commands if one.verb in ANSWERS and one.state in ("accepted", "effective")]
        return {key: self._alarm(cause, names, given) for key, (cause, names) in found.items()}

    def _alarm(self, cause: Cause, names: list[str], given: list[CommandDocument]) -> Alarm:
        begun = [self._since_ms[cause.key, name] for name in names]
        # an acknowledgement covers the stations that the alarm had when it was given
        newest = max((at_ms for at_ms, before in begun if not before), default=0)
        answers = [one for one in given if one.target == cause.key and one.requested_ms >= newest]
        valid = answers[-1:] if answers and answers[-1].verb == ACKNOWLEDGE else []
        return Alarm(
            key=cause.key, text=cause.text, tone=cause.tone, names=tuple(names), since_ms=min(at for at, _ in begun),
            newest_ms=max(at for at, _ in begun), responses=cause.responses, default=cause.default,
            acknowledged_by=valid[-1].by if valid else "",
            acknowledged_ms=valid[-1].requested_ms if valid else None,
        )  # fmt: skip


def _causes(snapshot: LabSnapshot | None) -> Iterable[tuple[str, Cause]]:
    """(name, cause) of everything that needs an operator: the campaign, then its stations."""
    if snapshot is None:
        return
    if snapshot.paused:
        text = f"Paused: {snapshot.paused_why or 'no station receives new orders'}"
        yield (
            snapshot.campaign_name,
            Cause(
                key="campaign", text=text, tone="warn", responses=("continue campaign",),
                default="no station gets orders, and the wall-clock budget is used up",
            ),
        )  # fmt: skip
    for subject, why in snapshot.quarantined.items():
        asked = next((why.removeprefix(f"{one}: ") for one in APPROVALS if why.startswith(f"{one}: ")), "")
        yield (
            subject,
            Cause(
                # Keys differ, so that who has seen what waits has not seen what is suspected later.
                key=f"{QUARANTINE}{subject}" if asked else f"{QUARANTINE}held-{subject}", tone="warn",
                text=f"Waits for an approval: {asked}" if asked else f"In quarantine ({why})",
                responses=("experiment clear", "experiment quarantine") if asked else ("experiment clear",),
                default="it waits until the campaign ends; other work continues" if asked
                else "it gets no robot time and is not promoted; other work continues",
            ),
        )  # fmt: skip
    for station in snapshot.stations:
        cause = _cause(station)
        if cause is not None:
            yield station.name, cause


def _cause(station: StationLine) -> Cause | None:
    """Why a station needs an operator; None if it does not."""
    if station.alarm:
        like = re.sub(r"\d+", "#", station.alarm)  # the same alarm with other numbers is one cause
        return Cause(
            key=f"alarm-{hashlib.sha256(like.encode()).hexdigest()[:12]}", text=station.alarm, tone="warn",
            responses=("resume", "stop") if station.stopped else ("pause", "stop"), default=NO_ORDERS,
        )  # fmt: skip
    if station.phase == "fault":
        return _FAULT
    if station.phase == "offline":
        return _OFFLINE
    if station.stopped or station.phase == "stopped":
        return _STOPPED
    if station.service_by:
        text = f"Needs service: {station.service_why} ({station.service_by})"
        return Cause(
            key=f"service-{hashlib.sha256(text.encode()).hexdigest()[:12]}", text=text, tone="warn",
            responses=("service done",), default="the robot holds, and the station gets no new orders",
        )  # fmt: skip
    if station.paused:
        return _PAUSED
    if station.moved_by == PEOPLE:
        return _DEMONSTRATE
    return _PERSON if station.phase == "wait-person" else None
