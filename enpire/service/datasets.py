"""Files that leave or enter a home: policy versions, episodes as data sets, replays with camera images."""

from __future__ import annotations

import getpass
import shutil
import tempfile
from pathlib import Path

from enpire import plugins
from enpire.campaign.campaign import read_campaign
from enpire.datasets.dataset_export import export_episodes, wanted
from enpire.datasets.dataset_import import ImportResult, Selection, check_dataset, import_episodes
from enpire.datasets.dataset_repair import repair_dataset
from enpire.datasets.episode_images import replay_images
from enpire.datasets.episode_video import keep_newest_videos, write_videos
from enpire.datasets.recording_export import WRITERS, ViewerFiles, export_recordings, viewable
from enpire.errors import FileProblem, UsageError
from enpire.home import Home, open_home
from enpire.ids import version_id
from enpire.interfaces import ImportChoices
from enpire.parts import ADMISSIONS, TASKS, PartGroup
from enpire.session import require_parts
from enpire.steps.begin import begin_or_resume, find_unfinished
from enpire.store import origins, versions
from enpire.store.ledger import SqliteLedger
from enpire.types import TaskSpec

__all__ = [
    "WRITERS",
    "Selection",
    "ViewerFiles",
    "begin_with_episodes",
    "copy_version",
    "export_episodes",
    "export_recordings",
    "import_checkpoint",
    "import_episodes",
    "import_version",
    "keep_newest_videos",
    "repair_dataset",
    "replay_images",
    "viewable",
    "wanted",
    "write_videos",
]


FORMATS = ("lerobot", "onnx")
"""Kinds of checkpoints, in the order in which a folder is tried."""
LEFT_OUT = {"train_config.json", "onnx.json"}
"""Files of a checkpoint that a version does not need: how `lerobot-train` was started, with folders of another machine,
and what policy.json says."""


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


def import_checkpoint(home: Home, named: Path, task: str, choices: ImportChoices) -> str:
    """Make a checkpoint of LeRobot's tools, or an ONNX model, a policy version of the home; returns its id.

    Args:
        home: that gets it.
        named: the checkpoint's folder, a folder above it as `lerobot-train` makes them, or one of its files. Also the
            folder of an ONNX model or of a policy version.
        task: that it is for; empty for a policy version, which needs none.
        choices: of the person who imports it.

    Raises:
        FileProblem: the folder is neither; nothing was copied.
        UsageError: the task is missing, or an input that a choice names.
        PolicyProblem: it does not fit the task, or its files may hold more than data; nothing was copied.
    """
    if versions.is_version(named):
        if task or choices != ImportChoices():
            raise UsageError(f"{named} has a {versions.MANIFEST}, which says how it is used: leave out the options.")
        return _recorded(home, named, import_version(home, named))
    find: PartGroup[[Path], Path | None] = PartGroup("checkpoints")
    places = {one: folder for one in FORMATS if (folder := find.load(f"{one}_folder")(named)) is not None}
    if not places:
        raise FileProblem(
            f"{named} is no checkpoint: a LeRobot checkpoint has config.json and model.safetensors, an ONNX policy "
            f"has model.onnx and onnx.json, a policy version has {versions.MANIFEST}."
        )
    kind, folder = next(iter(places.items()))
    if not task:
        raise UsageError(f"{folder} does not say what it is for: name its task with --task (`enpire task list`).")
    write: PartGroup[[Path, TaskSpec, ImportChoices], str] = PartGroup("checkpoints")
    text = write.load(kind)(folder, TASKS.make(task).spec, choices)
    with tempfile.TemporaryDirectory(prefix="enpire-import-") as made:
        for path in folder.iterdir():
            if path.name not in LEFT_OUT and path.is_file() and not path.is_symlink():
                shutil.copyfile(path, Path(made) / path.name)
        (Path(made) / versions.MANIFEST).write_text(text, encoding="utf-8")
        return _recorded(home, folder, import_version(home, Path(made)))


def _recorded(home: Home, folder: Path, policy_id: str) -> str:
    """Record the folder that a version was imported from, unless it is the home's own; returns the id."""
    if folder.absolute().parent != home.versions.absolute():
        origins.record(home.root, policy_id, str(folder.absolute()), getpass.getuser())
    return policy_id


def begin_with_episodes(home_root: Path, root: Path, campaign_file: str, selection: Selection) -> ImportResult:
    """Begin a campaign with the episodes of a dataset; `enpire run` with the same file continues it.

    Args:
        home_root: of the home, which is made if it is missing, once the dataset fits.
        root: LeRobotDataset v3.
        campaign_file: name or path.
        selection: which episodes.

    Raises:
        UsageError: the home has an unfinished campaign of this name.
        EnpireError: as `import_episodes`, or the campaign names what there is not.
    """
    campaign = read_campaign(campaign_file)
    check_dataset(root, TASKS.make(campaign.task).spec, selection)
    require_parts(campaign, Home(home_root), "local")
    home = open_home(home_root)
    ledger = SqliteLedger(home.ledger)
    try:
        if find_unfinished(ledger, campaign) is not None:
            raise UsageError(
                f"{home.root} has an unfinished campaign {campaign.name!r} already: import into it with "
                f"`--campaign {campaign.name}`."
            )
        begin_or_resume(ledger, campaign, home)
    finally:
        ledger.close()
    return import_episodes(home, root, campaign.name, selection)


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
