"""What a process of its own makes for the page: the report of a campaign, and the camera images of an episode."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from enpire.ids import file_name
from web_ui.problems import Problem

LONGEST_S = 900.0
"""Longest time to write a report, in seconds."""
ExportForm = Literal["lerobot", "rrd", "mcap"]
"""One LeRobotDataset of all episodes; or a file for each, for Rerun's viewer (rrd) or Foxglove (mcap)."""
MOST_EXPORTED = 200
"""Most episodes of one export from the page; the command line exports any number."""
MOST_VIDEOS = 100
"""Most episodes whose videos are kept."""


def read_report(home: Path, campaign_id: str, newest_s: float) -> bytes:
    """The report as HTML.

    Args:
        home: of the lab.
        campaign_id: of a campaign that exists.
        newest_s: when its newest event was recorded, in seconds since 1970; an older report is written again.

    Raises:
        Problem: it cannot be written.
    """
    path = home / "reports" / f"{file_name(campaign_id, 'a campaign')}.html"
    if path.is_file() and path.stat().st_mtime >= newest_s:
        return path.read_bytes()
    command = [sys.executable, "-m", "enpire.cli", "report", campaign_id, "--home", str(home)]
    try:
        # a process of its own: the report checks every record, which would slow a campaign of this process
        done = subprocess.run(command, capture_output=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        raise Problem(503, f"The report was not ready within {LONGEST_S:.0f} s; run `enpire report`.") from None
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Problem(503, f"The report cannot be written: {why[-1][:300] if why else 'its process failed'}")
    return path.read_bytes()


def replay_in_process(home: Path, order_id: str) -> str:
    """Replay an episode of a simulated station for its camera images; returns why there are none, or an empty text."""
    return _in_process(home, "replay", order_id)


def videos_of(home: Path, order_id: str) -> Path:
    """The folder with the videos of an episode; they can be made again at any time."""
    return home / "videos" / file_name(order_id, "an episode")


def videos_in_process(home: Path, order_id: str) -> str:
    """Make the videos of an episode; returns why there are none, or an empty text. Only the newest are kept."""
    folder = videos_of(home, order_id)
    if folder.is_dir():
        return ""
    why = _in_process(home, "video", order_id, str(folder))
    from enpire.service.datasets import keep_newest_videos

    keep_newest_videos(folder.parent, MOST_VIDEOS)
    return why


def exported_name(form: ExportForm) -> str:
    """Name of the zip file of an export."""
    return f"episodes-{form}.zip"


def export_in_process(
    home: Path, campaign_id: str, order_ids: Sequence[str], form: ExportForm
) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder with the file `exported_name(form)`, which holds some episodes.

    Raises:
        Problem: they cannot be exported.
    """
    scratch = tempfile.TemporaryDirectory(prefix="enpire-export-")
    folder = Path(scratch.name)
    chosen = [word for order_id in order_ids for word in ("--episode", order_id)]
    if why := _in_process(
        home, "export", str(folder / "episodes"), "--campaign", campaign_id, "--format", form, *chosen
    ):
        scratch.cleanup()
        raise Problem(409, f"The episodes cannot be exported: {why}")
    shutil.make_archive(str(folder / exported_name(form).removesuffix(".zip")), "zip", folder, "episodes")
    return scratch


def _in_process(home: Path, subcommand: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "enpire.cli", "episodes", subcommand, *arguments, "--home", str(home)]
    try:
        # a process of its own: rendering takes a core, which a campaign of this process needs
        done = subprocess.run(command, capture_output=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired:
        return f"It was not ready within {LONGEST_S:.0f} s."
    reply = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (reply[-1][:300] if reply else "its process failed") if done.returncode else ""
