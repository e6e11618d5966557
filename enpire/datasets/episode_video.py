"""The camera images of an episode as WebM videos, one for each camera, with one image per control period."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enpire.campaign.ledger import Ledger
from enpire.datasets.episode_images import camera_images
from enpire.errors import MissingExtra, UsageError
from enpire.home import Home
from enpire.parts import TASKS
from enpire.store import durable, removal
from enpire.store.episodes import FolderStore

if TYPE_CHECKING:
    from enpire.types import ImageArray

BIT_RATE = 2_000_000
"""Bits per second of a video."""
KEY_FRAMES = 15
"""Images from one key frame to the next, so that a jump in time is fast."""


def write_videos(home: Home, ledger: Ledger, order_id: str, target: Path) -> tuple[str, ...]:
    """Write `CAMERA.webm` for each camera of an episode into a new folder; returns the cameras.

    A simulated episode is replayed for its images. The folder appears when all videos are complete.

    Raises:
        UsageError: the folder exists, or there are no images and no replay gives them.
        MissingExtra: PyAV is not installed.
    """
    if target.exists():
        raise UsageError(f"{target} exists already: name a new folder for the videos.")
    episode = FolderStore(home.episodes).get(order_id)
    rate = Fraction(TASKS.make(episode.order.task).spec.rate_hz).limit_denominator(1000)
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = durable.stage_folder(target)
    open_videos: dict[str, _Video] = {}
    try:
        (staged / "videos").mkdir()
        for seen in camera_images(home, ledger, episode):
            for camera, image in seen.items():
                if camera not in open_videos:
                    open_videos[camera] = _Video(staged / "videos" / f"{camera}.webm", rate, image)
                open_videos[camera].add(image)
        if not open_videos:
            raise UsageError(f"Episode {order_id} has no camera images.")
        for video in open_videos.values():
            video.finish()
        durable.reveal([(staged / "videos", target)])
    finally:
        removal.remove(staged, target.parent)
    return tuple(sorted(open_videos))


def keep_newest_videos(folder: Path, most: int) -> None:
    """Remove all but the `most` newest folders of videos in a folder; they can be made again."""
    known = sorted(folder.glob("*"), key=lambda one: one.stat().st_mtime) if folder.is_dir() else []
    for old in known[:-most]:
        removal.remove(old, folder)


class _Video:
    """One WebM file that is being written, VP8."""

    def __init__(self, path: Path, rate: Fraction, first: ImageArray) -> None:
        try:
            import av
        except ModuleNotFoundError as missing:
            raise MissingExtra(f"Videos need PyAV ({missing}): pip install 'enpire[sim]'.") from missing
        self._av: Any = av
        self._file: Any = av.open(str(path), "w", format="webm")
        self._stream: Any = self._file.add_stream("libvpx", rate=rate)
        self._stream.height, self._stream.width = (size - size % 2 for size in first.shape[:2])
        self._stream.pix_fmt, self._stream.bit_rate = "yuv420p", BIT_RATE
        self._stream.options = {"deadline": "realtime", "cpu-used": "4", "g": str(KEY_FRAMES)}

    def add(self, image: ImageArray) -> None:
        """Append one image (height, width, 3), uint8, RGB."""
        cut = image[: self._stream.height, : self._stream.width]
        self._file.mux(self._stream.encode(self._av.VideoFrame.from_ndarray(cut.copy(), format="rgb24")))

    def finish(self) -> None:
        """Write what is left and close the file."""
        self._file.mux(self._stream.encode())
        self._file.close()
