"""Files that leave or enter a home: policy versions, episodes as data sets, replays with camera images."""

from __future__ import annotations

from pathlib import Path

from enpire import plugins
from enpire.datasets.dataset_export import export_episodes, wanted
from enpire.datasets.dataset_import import import_episodes
from enpire.datasets.dataset_repair import repair_dataset
from enpire.datasets.episode_images import replay_images
from enpire.datasets.episode_video import keep_newest_videos, write_videos
from enpire.datasets.recording_export import WRITERS, ViewerFiles, export_recordings, viewable
from enpire.errors import FileProblem, UsageError
from enpire.home import Home
from enpire.ids import version_id
from enpire.parts import ADMISSIONS
from enpire.store import versions

__all__ = [
    "WRITERS",
    "ViewerFiles",
    "copy_version",
    "export_episodes",
    "export_recordings",
    "import_episodes",
    "import_version",
    "keep_newest_videos",
    "repair_dataset",
    "replay_images",
    "viewable",
    "wanted",
    "write_videos",
]


def copy_version(home: Path, policy_id: str, target: Path) -> None:
    """Copy the files of a policy version to a new folder and check them against its hash.

    Raises:
        UsageError: the folder exists.
        FileProblem: the files in the home were changed.
    """
    if target.exists():
        raise UsageError(f"{target} exists already: name a new folder for the version.")
    versions.copy(home / "versions" / version_id(policy_id), target.absolute())
    if versions.identify(target) != policy_id:
        raise FileProblem(
            f"The files of {policy_id} in {home / 'versions'} were changed: {target} is not that version."
        )


def import_version(home: Home, folder: Path) -> str:
    """Copy a checkpoint into the home as a policy version; returns its id, which is the hash of its files.

    Raises:
        FileProblem: the folder is no policy version; nothing was copied.
        PolicyProblem: its files may hold more than data; nothing was copied.
    """
    if not versions.is_version(folder):
        raise FileProblem(
            f"{folder} has no {versions.MANIFEST}, so it is no policy version: write one that names the policy's kind "
            "(docs/habc.md shows one for a LeRobot checkpoint)."
        )
    kind = versions.manifest(folder)["kind"]
    if isinstance(kind, str) and plugins.is_part(ADMISSIONS.name, kind):
        ADMISSIONS.make(kind, folder)
    return versions.publish(folder, home.versions)
