"""What a running lab does now: its snapshot, its live images, the state of commands. From this process or another."""

from __future__ import annotations

from enpire.campaign.quarantine_events import APPROVALS
from enpire.monitor.lab_snapshot import LabSnapshot, Sensed, StationLine
from enpire.monitor.live_file import LiveFileReader, LiveFileWriter
from enpire.monitor.live_lab import COMMAND_KINDS, CommandState, LiveLab, state_after
from enpire.monitor.rerun_stream import RerunStream
from enpire.monitor.rerun_stream import watch as watch_station
from enpire.monitor.terminal import TerminalView, held_text
from enpire.types import PEOPLE
from enpire.wire.live_images import Preview

__all__ = [
    "APPROVALS", "COMMAND_KINDS", "PEOPLE", "CommandState", "LabSnapshot", "LiveFileReader", "LiveFileWriter",
    "LiveLab", "Preview", "RerunStream", "Sensed", "StationLine", "TerminalView", "held_text", "state_after",
    "watch_station",
]  # fmt: skip
