"""Policy versions and datasets on a model hub (Hugging Face): private by default, one commit for each push.

The account is that of `hf auth login` or the variable HF_TOKEN. Reading goes over fsspec (`remote_files`), always at
the commit that was resolved first.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from enpire.datasets.remote_files import CARD, MANIFEST, Manifest
from enpire.errors import EnpireError, FileProblem, MissingExtra, TransportProblem, UsageError

SCHEME = "hf://"
_FORM = re.compile(r"hf://(datasets/)?([\w.-]+/[\w.-]+)(?:@([\w.-]+))?/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository of the hub."""

    name: str
    """USER/NAME."""
    kind: str
    """model or dataset."""
    revision: str = ""
    """Commit, branch or tag; empty for the newest commit."""

    def at(self, commit: str) -> str:
        """The URL at one commit."""
        return f"{SCHEME}{'datasets/' if self.kind == 'dataset' else ''}{self.name}@{commit}"


def repository_of(url: str, kind: str) -> Repository:
    """The repository that a URL names.

    Args:
        url: hf://USER/NAME or hf://datasets/USER/NAME, with @REVISION at the end if it has one.
        kind: what is copied: a policy version or a dataset.

    Raises:
        UsageError: it is no such URL.
    """
    found = _FORM.fullmatch(url)
    wanted = "hf://datasets/USER/NAME" if kind == "dataset" else "hf://USER/NAME"
    if found is None or (found[1] is not None) != (kind == "dataset"):
        raise UsageError(
            f"{url[:120]!r} is no repository for a {kind}: write {wanted}, with @REVISION for an older one."
        )
    return Repository(name=found[2], kind="dataset" if kind == "dataset" else "model", revision=found[3] or "")


def pinned(url: str, kind: str) -> str:
    """The URL at the commit that its revision is now.

    Raises:
        UsageError: it is no repository.
        TransportProblem: the hub does not answer, or there is no such repository or revision for this account.
    """
    repository = repository_of(url, kind)
    with _refusals(url):
        found = _api().repo_info(repository.name, repo_type=repository.kind, revision=repository.revision or None)
    return repository.at(str(found.sha))


def push_commit(folder: Path, manifest: Manifest, url: str, card: str, *, public: bool) -> str:
    """Commit the files of `folder` to a repository, which is made if it is missing; returns the URL of the commit.

    Large files that the hub has are not sent again, so a killed push continues. Files of an older push that are not
    among the new ones are removed in the same commit; older commits keep them.

    Raises:
        UsageError: the repository is public and `public` is not set, or the URL names a revision.
        TransportProblem: the hub refused.
    """
    repository = repository_of(url, manifest.kind)
    if repository.revision:
        raise UsageError(f"{url} names a revision: a push makes a new commit, so leave @{repository.revision} out.")
    api, hub = _api(), _hub()
    with _refusals(url):
        made = api.create_repo(repository.name, repo_type=repository.kind, private=not public, exist_ok=True)
        found = api.repo_info(made.repo_id, repo_type=repository.kind)
        if not public and not found.private:
            raise UsageError(f"{url} is public: repeat the command with --public, or choose another name.")
        old = {str(file.rfilename) for file in found.siblings or ()}
        new = {file.path: folder / file.path for file in manifest.files}
        add = [hub.CommitOperationAdd(name, str(path)) for name, path in new.items()]
        if card and CARD not in new:
            add.append(hub.CommitOperationAdd(CARD, card.encode()))
        add.append(hub.CommitOperationAdd(MANIFEST, manifest.encoded()))
        earlier = _files_of(api, repository, old)
        delete = [hub.CommitOperationDelete(name) for name in sorted(earlier - set(new) - {CARD})]
        commit = api.create_commit(
            repository.name, [*add, *delete], commit_message=f"{manifest.kind} {manifest.id[:12]}",
            repo_type=repository.kind,
        )  # fmt: skip
        _tag(api, repository, folder, str(commit.oid))
    return repository.at(str(commit.oid))


def _files_of(api: Any, repository: Repository, present: set[str]) -> set[str]:
    """The files of the last push, as its manifest in the repository names them; only those that are present."""
    if MANIFEST not in present:
        return set()
    path = api.hf_hub_download(repository.name, MANIFEST, repo_type=repository.kind)
    try:
        listed = json.loads(Path(path).read_text(encoding="utf-8"))["files"]
        return {str(file["path"]) for file in listed} & present
    except (ValueError, KeyError, TypeError) as error:
        raise FileProblem(f"{MANIFEST} in {repository.name} cannot be read: remove it there and push again.") from error


def _tag(api: Any, repository: Repository, folder: Path, commit: str) -> None:
    """LeRobot asks for a dataset at a tag with the version of its format."""
    info = folder / "meta" / "info.json"
    if repository.kind != "dataset" or not info.is_file():
        return
    version = json.loads(info.read_text(encoding="utf-8")).get("codebase_version")
    if isinstance(version, str):
        with contextlib.suppress(_hub().errors.HfHubHTTPError):  # there is none yet
            api.delete_tag(repository.name, tag=version, repo_type="dataset")
        api.create_tag(repository.name, tag=version, revision=commit, repo_type="dataset")


def _hub() -> Any:
    try:
        import huggingface_hub
        from huggingface_hub.utils import disable_progress_bars
    except ModuleNotFoundError as error:
        raise MissingExtra(f"hf:// needs the hub's client ({error}): pip install 'enpire[hub]'.") from error
    disable_progress_bars()  # the command has a bar of its own
    return huggingface_hub


def _api() -> Any:
    return _hub().HfApi()


@contextlib.contextmanager
def _refusals(url: str) -> Generator[None]:
    try:
        yield
    except (EnpireError, KeyboardInterrupt):
        raise
    except Exception as error:  # the client raises errors of its own, of httpx and of the system
        why = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise TransportProblem(
            f"The hub refused {url} ({type(error).__name__}: {why}). Sign in with `hf auth login`, check the name, and "
            "repeat the command."
        ) from error
