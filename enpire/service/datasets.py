"""Files that leave or enter a home: policy versions, episodes as data sets, replays with camera images."""

from __future__ import annotations

from pathlib import Path

from enpire.datasets.dataset_export import export_episodes, wanted
from enpire.datasets.dataset_import import import_episodes
from enpire.datasets.episode_images import replay_images
from enpire.errors import FileProblem, UsageError
from enpire.store import versions

__all__ = ["copy_version", "export_episodes", "import_episodes", "replay_images", "wanted"]


def copy_version(home: Path, policy_id: str, target: Path) -> None:
    """Copy the files of a policy version to a new folder and check them against its hash.

    Raises:
        UsageError: the folder exists.
        FileProblem: the files in the home were changed.
    """
    if target.exists():
        raise UsageError(f"{target} exists already: name a new folder for the version.")
    versions.copy(home / "versions" / policy_id, target.absolute())
    if versions.identify(target) != policy_id:
        raise FileProblem(
            f"The files of {policy_id} in {home / 'versions'} were changed: {target} is not that version."
        )
