"""Policy versions and datasets that are copied to other places and back; only the command line asks for it."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from pathlib import Path

from enpire.datasets import model_hub, remote_files
from enpire.datasets.cards import version_card
from enpire.datasets.remote_files import Kind, Say
from enpire.errors import FileProblem, UsageError
from enpire.home import Home, open_home
from enpire.queries.campaigns import campaign_view, campaigns, open_records, versions
from enpire.queries.models import CampaignView, VersionView
from enpire.service.datasets import import_version
from enpire.store import durable, origins, removal
from enpire.store import versions as stored

__all__ = ["Pushed", "pull_dataset", "pull_version", "push_dataset", "push_version"]

VERSION: Kind = "policy version"
DATASET: Kind = "dataset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The result of a push."""

    id: str
    url: str
    """From which a pull gives exactly this content; of a hub, at its commit."""
    sent: int | None
    """Bytes; None for a hub, whose client does not tell."""


def push_version(home: Home, folder: Path, url: str, *, public: bool, say: Say) -> Pushed:
    """Copy a policy version with its card to another place.

    Raises:
        EnpireError: as `remote_files.push` and `model_hub.push_commit`.
    """
    policy_id = stored.identify(folder)
    card = version_card(policy_id, str(stored.manifest(folder).get("kind")), _used(home, policy_id))
    return _push(folder, remote_files.manifest_of(folder, VERSION, policy_id), url, card, public=public, say=say)


def pull_version(root: Path, url: str, say: Say) -> tuple[str, str]:
    """Copy a policy version from another place into a home; its id, and the URL with the commit of a hub.

    Args:
        root: of the home, which is made if it is missing, once there is something to copy.
        url: of the version.
        say: called with (bytes done, bytes in all).

    Raises:
        FileProblem: it is damaged, or no policy version; the home does not get it.
        PolicyProblem: its files may hold more than data; the home does not get it.
    """
    exact = model_hub.pinned(url, VERSION) if url.startswith(model_hub.SCHEME) else url
    manifest = remote_files.read_manifest(exact, VERSION)
    if any("/" in file.path for file in manifest.files):
        raise FileProblem(f"{url} has folders, and a policy version has none: it is damaged there.")
    home = open_home(root)
    incoming = home.root / f".pull-{_hex(manifest.id, url)}"
    remote_files.pull(exact, manifest, incoming, say)
    try:
        found = stored.identify(incoming)
        if found != manifest.id:
            raise FileProblem(f"{url} holds the version {found[:12]} under the name {manifest.id[:12]}: do not use it.")
        policy_id = import_version(home, incoming)
        origins.record(home.root, policy_id, exact, getpass.getuser())
    finally:
        removal.try_remove(incoming, home.root)
    return policy_id, exact


def push_dataset(folder: Path, url: str, *, public: bool, say: Say) -> Pushed:
    """Copy an exported dataset to another place.

    Raises:
        FileProblem: the folder is no LeRobotDataset.
        EnpireError: as `remote_files.push` and `model_hub.push_commit`.
    """
    if not (folder / "meta" / "info.json").is_file():
        raise FileProblem(
            f"{folder} has no meta/info.json, so it is no dataset: make one with `enpire episodes export`."
        )
    return _push(folder, remote_files.manifest_of(folder, DATASET), url, "", public=public, say=say)


def pull_dataset(url: str, target: Path, say: Say) -> str:
    """Copy a dataset from another place to a new folder; returns the URL with the commit of a hub.

    Raises:
        UsageError: the folder exists.
        FileProblem: it is damaged; the part that arrived is kept beside `target` and continued.
    """
    if target.exists():
        raise UsageError(f"{target} exists already: name a new folder for the dataset.")
    exact = model_hub.pinned(url, DATASET) if url.startswith(model_hub.SCHEME) else url
    manifest = remote_files.read_manifest(exact, DATASET)
    incoming = target.absolute().parent / f".pull-{_hex(manifest.id, url)}"
    remote_files.pull(exact, manifest, incoming, say)
    durable.reveal([(incoming, target.absolute())])
    return exact


def _push(  # noqa: PLR0913 - what is copied, where to, and how
    folder: Path, manifest: remote_files.Manifest, url: str, card: str, *, public: bool, say: Say
) -> Pushed:
    if url.startswith(model_hub.SCHEME):
        commit = model_hub.push_commit(folder, manifest, url, card, public=public)
        return Pushed(id=manifest.id, url=commit, sent=None)
    if public:
        raise UsageError("--public is for a hub (hf://USER/NAME); who may read another place is decided there.")
    return Pushed(id=manifest.id, url=url, sent=remote_files.push(folder, manifest, url, card, say))


def _hex(text: str, url: str) -> str:
    """The id of a foreign manifest as part of a file's name."""
    if len(text) != 64 or any(sign not in "0123456789abcdef" for sign in text):
        raise FileProblem(f"{url} has an id that is no sha256: it was not made by `push`.")
    return text[:16]


def _used(home: Home, policy_id: str) -> tuple[CampaignView, VersionView] | None:
    """The latest campaign that used a version, and the version's line there."""
    if not home.ledger.is_file():
        return None
    with open_records(home.root) as records:
        for line in campaigns(records):
            for version in versions(records, line.id):
                if version.id == policy_id:
                    return campaign_view(records, line.id), version
    return None
