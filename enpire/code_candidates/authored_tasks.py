"""Tasks that agents wrote: scene, reset and verifier in a folder of the home, with a score and a person's approval.

An agent proposes the files. The lab measures them in sandboxes (`enpire.code_candidates.task_scoring`). A person reads
the files and the score, and approves these files. Only then can the task be opened, as `authored:FOLDER`; files that
changed since are refused. Its author's agents submit nothing in its campaigns.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from enpire.code_candidates.rooms import require_sandbox
from enpire.code_candidates.surface import SurfaceProblem, read_folder
from enpire.code_candidates.task_approvals import (
    LONGEST_NAME,
    LONGEST_REASON,
    Approval,
    ApprovalLine,
    add_approval,
    read_approvals,
)
from enpire.code_candidates.task_files import CLASS, MODULE, check_task_files, digest_of
from enpire.code_candidates.task_scoring import TaskScore, measure, one_line
from enpire.errors import FileProblem, UnknownName, UsageError
from enpire.files import canonical, document, parse, read_json
from enpire.ids import file_name, is_file_name, mint
from enpire.requests.agent_requests import Sender
from enpire.store import durable

FOLDER, FILES = "tasks", "files"
"""Folder of the home, and the folder of the files in that of one task."""
PROPOSAL, SCORE = "proposal.json", "score.json"
PREFIX = "authored"
SHORTEST_ID = 6
"""Fewest last digits of an id that name a task."""
MOST_TASKS = 20
"""Tasks that one agent session may propose in a campaign."""


class FilesChanged(UsageError):
    """The files of a task are others than those that a person saw; nothing was approved or withdrawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProposal:
    """A task as an agent proposed it."""

    task_id: str
    digest: str
    """sha256 of its files."""
    about: str
    """What the agent says about it, on one line."""
    author: str
    """Plug-in name of the agent."""
    lane: str
    campaign_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoredTask:
    """One task in its folder."""

    folder: Path
    proposal: TaskProposal
    score: TaskScore | None
    approvals: tuple[ApprovalLine, ...]
    """Of its present and its earlier files, with withdrawals, oldest first."""
    problem: str = ""
    """Why a file of its record cannot be read or trusted; empty for a record in order."""

    @property
    def state(self) -> str:
        """damaged, proposed, scored, approved, or withdrawn."""
        if self.problem:
            return "damaged"
        if self.approvals:
            return self.approvals[-1].approval.kind
        return "scored" if self.score else "proposed"

    @property
    def name(self) -> str:
        """Its name in campaign and station files."""
        return f"{PREFIX}:{self.folder}"


def propose(home: Path, files: Mapping[str, str], about: str, sender: Sender) -> TaskProposal:
    """Keep the files of a task that an agent wrote; the same files of the same session are one proposal.

    Raises:
        SurfaceProblem: they break a rule; nothing of them was kept.
        UsageError: the session has proposed MOST_TASKS tasks.
    """
    check_task_files(files)
    known = [one.proposal for one in authored_tasks(home)]
    mine = [one for one in known if (one.campaign_id, one.lane) == (sender.campaign_id, sender.lane)]
    if same := next((one for one in mine if one.digest == digest_of(files)), None):
        return same
    if len(mine) >= MOST_TASKS:
        raise UsageError(
            f"The agent session {sender.lane!r} has proposed {MOST_TASKS} tasks, the limit in one campaign."
        )
    proposal = TaskProposal(
        task_id=mint(), digest=digest_of(files), about=one_line(about), author=sender.author, lane=sender.lane,
        campaign_id=sender.campaign_id,
    )  # fmt: skip
    folder = home / FOLDER / file_name(proposal.task_id, "a task")
    for name, text in files.items():
        durable.make_folder(folder / FILES)
        durable.write(folder / FILES / file_name(name, "a file of a task"), text.encode())
    _write(folder / PROPOSAL, proposal)
    return proposal


def authored_tasks(home: Path) -> list[AuthoredTask]:
    """The tasks of a home, oldest first; one with a damaged file is among them."""
    folder = home / FOLDER
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [_read(path) for path in paths if is_file_name(path.name) and (path / PROPOSAL).is_file()]


def find_task(home: Path, wanted: str) -> AuthoredTask:
    """The task whose id ends with a text of at least SHORTEST_ID characters.

    Raises:
        UnknownName: there is none, or more than one.
    """
    known = authored_tasks(home)
    found = [one for one in known if len(wanted) >= SHORTEST_ID and one.proposal.task_id.endswith(wanted)]
    if len(found) != 1:
        listed = ", ".join(one.proposal.task_id for one in known[-8:]) or "none yet"
        raise UnknownName(f"{wanted[:80]!r} names {len(found)} tasks of agents; the newest are: {listed}.")
    return found[0]


def score_task(task: AuthoredTask, show: Callable[[str], None]) -> TaskScore:
    """Measure a task in sandboxes, and keep the score; a task that gives none has failed.

    Raises:
        UsageError: bubblewrap does not work here.
    """
    require_sandbox(unsandboxed=False)
    files = read_folder(task.folder / FILES)
    score = measure(files, digest_of(files), show)
    _write(task.folder / SCORE, score)
    return score


def files_of(task: AuthoredTask) -> dict[str, str]:
    """The present files of a task: path -> text.

    Raises:
        SurfaceProblem: its folder holds a link, a binary file, or too much.
    """
    return read_folder(task.folder / FILES)


def why_not(task: AuthoredTask, files: Mapping[str, str]) -> str:
    """Why these files of a task cannot be approved, in one sentence; empty if they can be."""
    if task.problem:
        return task.problem
    if task.score is None or task.score.digest != digest_of(files):
        return f"These files have no score; enpire task score {task.proposal.task_id} measures them."
    if task.score.failed:
        return f"The task breaks a rule that stations and gates rely on: {task.score.failed[0]}"
    try:
        check_task_files(files)  # they may have changed since the proposal, and readers must see every character
    except SurfaceProblem as problem:
        return str(problem)
    return ""


def approve(task: AuthoredTask, by: str, reason: str = "", seen: str = "") -> ApprovalLine:
    """Approve the present files of a task; `seen` is the digest of those that the person saw, if known.

    Raises:
        UsageError: they have no score, or break a rule that stations and gates rely on.
        FilesChanged: they are not the files that the person saw.
        FileProblem: its record is damaged, such as an earlier approval that was changed.
    """
    _require_sound(task)
    files = files_of(task)
    if seen and digest_of(files) != seen:
        raise FilesChanged(f"The files of the task {task.folder.name} changed after you saw them; read them again.")
    if why := why_not(task, files):
        raise UsageError(why)
    return _add(task, Approval(digest=digest_of(files), by=by, reason=reason))


def withdraw(task: AuthoredTask, by: str, reason: str = "", seen: str = "") -> ApprovalLine:
    """Withdraw the approval of a task: nothing loads it from then on. What has loaded it already keeps it.

    `seen` is the digest of the files whose approval the person saw, if known.

    Raises:
        UsageError: it has no approval.
        FilesChanged: its approval is of other files than the person saw.
        FileProblem: its record is damaged.
    """
    _require_sound(task)
    if task.state != "approved":
        raise UsageError(
            f"The task {task.proposal.task_id} has no approval that could be withdrawn: it is {task.state}."
        )
    digest = task.approvals[-1].approval.digest
    if seen and digest != seen:
        raise FilesChanged(f"Other files of the task {task.folder.name} were approved after you saw it; read it again.")
    return _add(task, Approval(kind="withdrawn", digest=digest, by=by, reason=reason))


def _add(task: AuthoredTask, approval: Approval) -> ApprovalLine:
    by, reason = one_line(approval.by)[:LONGEST_NAME], one_line(approval.reason)[:LONGEST_REASON]
    return add_approval(task.folder, home_of(task.folder), replace(approval, by=by, reason=reason))


def home_of(folder: Path) -> Path:
    """The home of a task's folder."""
    return folder.absolute().parent.parent


def open_authored(folder: str) -> object:
    """An approved task: `authored:FOLDER` of campaign and station files.

    Raises:
        UsageError: no person approved these files, or an earlier approval was of them.
    """
    task, files, line = _approved(Path(folder))
    return _made(task.folder / FILES, files, line.approval.digest)


def approved_files(task: str) -> tuple[Path, str] | None:
    """(folder, digest) of the approved files of a task, for a process that may not read the home's secret.

    None for a task that no agent wrote.

    Raises:
        UsageError: no person approved them.
    """
    prefix, _, folder = task.partition(":")
    if prefix != PREFIX:
        return None
    found, _, line = _approved(Path(folder))
    return (found.folder / FILES).resolve(), line.approval.digest


def open_approved_files(folder: str, digest: str) -> object:
    """A task from files whose digest another process knows to be approved (`approved_files`).

    Raises:
        UsageError: they are other files.
    """
    files = read_folder(Path(folder))
    if digest_of(files) != digest:
        raise UsageError(f"The files in {folder} changed after their approval was read.")
    return _made(Path(folder), files, digest)


def author_of(task: str) -> str:
    """The agent that wrote a task; empty for other tasks."""
    prefix, _, folder = task.partition(":")
    return _proposal(Path(folder)).author if prefix == PREFIX else ""


def approval_of(task: str, home: Path) -> Mapping[str, str]:
    """Who wrote a task and who approved its files, for the campaign's first event; empty for other tasks.

    Raises:
        UsageError: the task lies in another home than the campaign's, or no person approved its files.
    """
    prefix, _, folder = task.partition(":")
    if prefix != PREFIX:
        return {}
    if home_of(Path(folder)).resolve() != home.resolve():
        raise UsageError(
            f"The task {folder} lies outside {home / FOLDER}, so no approval of this home covers it: copy its folder "
            "there, read its code, and approve it with `enpire task approve`."
        )
    found, _, line = _approved(Path(folder))
    approval = {key: str(getattr(line.approval, key)) for key in ("digest", "by", "reason")}
    return {"author": found.proposal.author, "at": line.at, "number": str(line.number), **approval}


def _approved(folder: Path) -> tuple[AuthoredTask, Mapping[str, str], ApprovalLine]:
    """A task, its files, and their approval, which must be the newest.

    Raises:
        UsageError: the newest approval is of other files, there is none, or it cannot be trusted.
    """
    _require_own_home(folder)
    task = _read(folder)
    _require_sound(task)
    files = read_folder(task.folder / FILES)
    line, task_id = task.approvals[-1] if task.approvals else None, task.proposal.task_id
    if line is not None and line.approval.kind == "withdrawn":
        why = f": {line.approval.reason}" if line.approval.reason else ""
        raise UsageError(
            f"The approval of the task {folder} was withdrawn by {line.approval.by}{why}; "
            f"enpire task approve {task_id}."
        )
    if line is None or line.approval.digest != digest_of(files):
        changed = "changed since a person approved it" if task.approvals else "is not approved by a person"
        earlier = (
            " (its approval.json is of an earlier version of ENPIRE, unsigned, and counts no longer)"
            if not task.approvals and (task.folder / "approval.json").exists()
            else ""
        )
        raise UsageError(f"The task {folder} {changed}{earlier}; enpire task approve {task_id}.")
    return task, files, line


def _require_own_home(folder: Path) -> None:
    """Refuse a folder inside the home of a lab that is not one of its tasks: agents write files there.

    Raises:
        UsageError: it is one.
    """
    real = folder.resolve()
    homes = (above for above in real.parents if (above / "ledger.db").is_file())
    if any(real.parent != home / FOLDER for home in homes):
        raise UsageError(f"The folder {folder} lies in the home of a lab, but is none of the tasks in its {FOLDER}/.")


def _made(folder: Path, files: Mapping[str, str], digest: str) -> object:
    return getattr(_module(folder / f"{MODULE}.py", files[f"{MODULE}.py"], digest), CLASS)()


@functools.cache
def _module(path: Path, text: str, digest: str) -> ModuleType:
    """The module of a text that was approved; neither the file nor a .pyc of it is read."""
    module = ModuleType(f"authored_task_{digest[:12]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)  # a person approved this text
    return module


def _read(folder: Path) -> AuthoredTask:
    """A task as its folder has it; `problem` tells what cannot be read."""
    proposal = TaskProposal(task_id=folder.name, digest="", about="", author="", lane="", campaign_id="")
    score, approvals, problem = None, tuple[ApprovalLine, ...](), ""
    try:
        proposal = _proposal(folder)
        if (folder / SCORE).is_file():
            score = parse(TaskScore, read_json(folder / SCORE), f"The score in {folder}")
        approvals = tuple(read_approvals(folder, home_of(folder)))
    except FileProblem as found:
        problem = one_line(str(found))
    return AuthoredTask(
        folder=folder.absolute(), proposal=proposal, score=score, approvals=approvals, problem=problem
    )  # fmt: skip


def _proposal(folder: Path) -> TaskProposal:
    """What was proposed in a folder.

    Raises:
        UnknownName: nothing was.
        FileProblem: the file is damaged.
    """
    file_name(folder.name, "a task")
    if not (folder / PROPOSAL).is_file():
        raise UnknownName(f"There is no task of an agent in {folder}; `enpire task authored` lists them.")
    return parse(TaskProposal, read_json(folder / PROPOSAL), f"The proposal in {folder}")


def _require_sound(task: AuthoredTask) -> None:
    """Refuse a task whose record is damaged.

    Raises:
        FileProblem: it is; the sentence names the file.
    """
    if task.problem:
        raise FileProblem(task.problem)


def _write(path: Path, value: TaskProposal | TaskScore) -> None:
    durable.write(path, canonical(document(value)).encode())
