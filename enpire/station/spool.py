"""The station's outbox on its own disk: an episode is durable here before it is announced.

One file per episode holds a line with the sha256 of the rest, then the message that delivers the episode. Where cameras
were recorded, a second file holds their images, which are sent in parts. Both are deleted only after the orchestrator
has acknowledged the episode. An episode that it refuses waits in `refused` for the station's next start; a damaged one
is kept in `damaged` for the operator, and never delivered.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from pathlib import Path

from enpire.errors import RobotProblem, StorageFull, TransportProblem
from enpire.ids import file_name
from enpire.store import durable, removal
from enpire.wire.messages import LARGEST_PICTURES, Parcel, PicturesPart, WantPictures, decode, encode

_SUFFIX, _PICTURES = ".episode", ".pictures"
_LINE = 65
"""Bytes of the first line: 64 hexadecimal digits and a newline."""


class Spool:
    """The episodes of one station that the orchestrator has not acknowledged, oldest first.

    Args:
        folder: of the spool; made when missing. One process at a time may use it.
        free_bytes: with less free space on its disk, `room` is false.
    """

    def __init__(self, folder: Path, free_bytes: int = 256 * 2**20) -> None:
        self._folder = folder
        self._free_bytes = free_bytes
        durable.make_folder(folder)
        try:
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as problem:
            raise durable.refusal(problem, folder / "lock") from problem
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(self._lock)
            raise RobotProblem(
                f"Another process uses the spool {folder}; end that process, or give this station another name."
            ) from problem
        durable.sweep(folder)
        self.refused, self._damaged = folder / "refused", folder / "damaged"
        try:
            for path in self.refused.glob("*"):
                removal.replace(path, folder / path.name, folder)  # another orchestrator may accept it
            # Ids are time-sortable, so the order of names is the order of minting.
            self._ids = dict.fromkeys(sorted(path.stem for path in folder.glob(f"*{_SUFFIX}")))
            pictures = list(folder.glob(f"*{_PICTURES}"))
            self._pictured = {path.stem for path in pictures if path.stem in self._ids}
            for path in pictures:
                if path.stem not in self._ids:
                    removal.remove(path, folder)  # its episode was never announced
        except OSError as problem:
            raise durable.refusal(problem, folder) from problem

    def ids(self) -> tuple[str, ...]:
        """Ids of all episodes in the spool, oldest first."""
        return tuple(self._ids)

    def __contains__(self, order_id: str) -> bool:
        return order_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def pictures(self, order_id: str) -> Path:
        """Path at which the image file of an episode must be complete and synced before its `put`."""
        return self._folder / f"{file_name(order_id, 'an episode')}{_PICTURES}"

    def has_pictures(self, order_id: str) -> bool:
        """Whether an episode in the spool has images."""
        return order_id in self._pictured

    def put(self, *parcels: Parcel) -> None:
        """Make episodes durable with one sync; returns when that is done. After an error none is durable.

        Raises:
            StorageFull: the disk refused the write.
            TransportProblem: an episode cannot be encoded, or its image file is missing or too large.
        """
        self.write(*parcels)
        self.announce(*parcels)

    def write(self, *parcels: Parcel) -> None:
        """The part of `put` that takes time; allowed from any thread. The spool has the episodes after `announce`.

        Raises:
            StorageFull: the disk refused the write.
            TransportProblem: an episode cannot be encoded, or its image file is missing or too large.
        """
        files: dict[Path, bytes] = {}
        for parcel in parcels:
            self._check_pictures(parcel)
            body = encode(parcel)
            decode(body)
            files[self._path(parcel.episode.order.order_id)] = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        durable.write_many(files)

    def announce(self, *parcels: Parcel) -> None:
        """Add written episodes to those that wait for the orchestrator."""
        self._ids.update(dict.fromkeys(item.episode.order.order_id for item in parcels))
        self._pictured |= {item.episode.order.order_id for item in parcels if item.episode.pictures_sha256}

    def get(self, order_id: str) -> Parcel | None:
        """An episode; None when its file is damaged, which is then set aside for the operator."""
        path = self._path(order_id)
        content = path.read_bytes() if path.is_file() else b""
        body = content[_LINE:]
        if hashlib.sha256(body).hexdigest().encode() == content[: _LINE - 1]:
            try:
                message = decode(body).message
            except TransportProblem:
                message = None
            if isinstance(message, Parcel):
                return message
        self.set_aside(order_id)
        return None

    def part(self, want: WantPictures) -> PicturesPart:
        """Some bytes of the image file of an episode. Allowed from any thread.

        Raises:
            OSError: the file cannot be read.
        """
        with self.pictures(want.order_id).open("rb") as file:
            total = file.seek(0, os.SEEK_END)
            file.seek(want.offset)
            data = file.read(want.size)
        return PicturesPart(order_id=want.order_id, offset=want.offset, total=total, data=data)

    def set_aside(self, order_id: str) -> None:
        """Keep a damaged episode for the operator; it is not delivered."""
        self._move(order_id, self._damaged)

    def refuse(self, order_id: str) -> None:
        """Keep an episode that the orchestrator refused; the station's next process delivers it again."""
        self._move(order_id, self.refused)

    def delete(self, order_id: str) -> None:
        """Delete an episode that is durable elsewhere. After a power cut it may be back: delivering twice is safe."""
        if self._ids.pop(order_id, "absent") is None:
            removal.remove(self._path(order_id), self._folder)
            removal.remove(self.pictures(order_id), self._folder)
            self._pictured.discard(order_id)

    def room(self, pictures: int = 0) -> bool:
        """Whether the disk has space for the episodes of new orders, whose images take `pictures` bytes.

        Raises:
            StorageFull: the free space cannot be read.
        """
        try:
            return shutil.disk_usage(self._folder).free >= self._free_bytes + pictures
        except OSError as problem:
            raise StorageFull(
                f"The free space of the spool {self._folder} cannot be read: {problem}. Check the disk."
            ) from problem

    def close(self) -> None:
        """Release the folder. Allowed twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _move(self, order_id: str, folder: Path) -> None:
        """Move an episode out of the spool. Its images go first: they are useless without it."""
        if self._ids.pop(order_id, "absent") is None:
            durable.make_folder(folder)
            for path in (self.pictures(order_id), self._path(order_id)):
                if path.is_file():
                    removal.replace(path, folder / path.name, self._folder)
            self._pictured.discard(order_id)

    def _check_pictures(self, parcel: Parcel) -> None:
        path = self.pictures(parcel.episode.order.order_id)
        if not parcel.episode.pictures_sha256:
            removal.remove(path, self._folder)
            return
        size = path.stat().st_size if path.is_file() else 0
        if not 0 < size <= LARGEST_PICTURES:
            raise TransportProblem(
                f"The images of the episode {path.stem} have {size} bytes at {path}; from 1 to {LARGEST_PICTURES} "
                "can be sent."
            )

    def _path(self, order_id: str) -> Path:
        return self._folder / f"{file_name(order_id, 'an episode')}{_SUFFIX}"
