"""Begin a campaign, or resume it from its last event."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, replace

from enpire import __version__
from enpire.campaign.apply_events import rebuilt
from enpire.campaign.campaign import Campaign
from enpire.campaign.command_events import CommandAccepted
from enpire.campaign.events import kinds_of
from enpire.campaign.ledger import Ledger
from enpire.campaign.recipe import read_recipe, require_learner
from enpire.campaign.session_events import CampaignEnded, CampaignResumed, CampaignStarted
from enpire.campaign.state import CampaignState
from enpire.campaign.training_events import VersionImported
from enpire.code_candidates.authored_tasks import approval_of
from enpire.errors import FileProblem, UsageError
from enpire.files import canonical, document, parse
from enpire.gate.rule import GateRule
from enpire.home import Home
from enpire.ids import mint, version_id
from enpire.interfaces import Verifier
from enpire.parts import LEARNERS, TASKS
from enpire.requests.operator_commands import BEFORE_BEGIN, URGENT, CommandInbox, OperatorCommand
from enpire.steps.handle_commands import refuse_earlier
from enpire.store import origins, versions
from enpire.store.ledger import open_to_read
from enpire.verifiers import earlier_digests, open_verifier


def begin_or_resume(
    ledger: Ledger, campaign: Campaign, home: Home, inbox: CommandInbox | None = None, after: str = ""
) -> CampaignState:
    """Begin a new campaign, or resume the unfinished campaign of the same name.

    Args:
        ledger: opened for writing.
        campaign: the content of the campaign file.
        home: the home of the ledger.
        inbox: commands that wait in this home; opened if None.
        after: why the last session ended, if it did not shut down: a cause of `enpire.gate.trials`.

    Returns:
        The campaign's state.

    Raises:
        UsageError: the unfinished campaign began with another file, another verifier or other files of an agent's task,
            or such a task is not approved in this home.
    """
    commands = inbox or CommandInbox(home.inbox)
    found = find_unfinished(ledger, campaign)
    approval = approval_of(campaign.task, home.root)  # before any code of an agent's task is loaded
    require_newest_approval(ledger, campaign.task, approval)
    if found is None:
        campaign_id = mint()
        started = CampaignStarted(
            name=campaign.name, task=campaign.task, campaign=document(campaign), goal=asdict(campaign.goal),
            seed=campaign.seed, home=str(home.root), code=__version__, verifier=_verifier(campaign).digest,
            limit_ticks=_limit_ticks(campaign), task_approval=approval,
        )  # fmt: skip
        ledger.append([started, *refuse_earlier(commands)], campaign_id)
        return rebuilt(ledger, campaign_id)
    require_same_task(campaign, unended(ledger)[found], approval)
    state = rebuilt(ledger, found)
    verifier = require_same_verifier(campaign, state.verifier)
    ledger.append([CampaignResumed(code=__version__, after=after, verifier=verifier)], found)
    _remove_recorded(ledger, commands)
    return rebuilt(ledger, found)


def require_recipes(campaign: Campaign, home: Home) -> None:
    """Let the learners check the recipes of a new campaign, and find its base. A resumed campaign keeps its recipes.

    Raises:
        EnpireError: a learner is missing or refuses its recipe, the base is not in the home, or the task has no reset
            by the robot that the campaign asks for.
    """
    resumes = False
    if home.ledger.exists():
        with closing(open_to_read(home.ledger)) as ledger:
            resumes = find_unfinished(ledger, campaign) is not None
    for recipe in map(read_recipe, campaign.recipes):
        if resumes:
            LEARNERS.load(recipe.learner)
        else:
            require_learner(recipe)
    if not resumes:
        require_base(campaign, home)
        require_reset(campaign)


def require_reset(campaign: Campaign) -> None:
    """Check that the task has a reset by the robot, if the campaign's own stations need one.

    Raises:
        UsageError: it has none.
    """
    if campaign.stations.count and campaign.stations.reset == "robot":
        TASKS.make(campaign.task).reset_skill()


def require_base(campaign: Campaign, home: Home) -> None:
    """Check that the version that the campaign file names as its base, if it names one, is in the home.

    Raises:
        FileProblem: it is not.
    """
    policy_id = campaign.base.policy
    if policy_id and not versions.is_version(home.versions / version_id(policy_id)):
        raise FileProblem(
            f"The base policy {policy_id[:12]} of the campaign {campaign.name!r} is not in {home.versions}: copy its "
            "files into the home with `enpire policy import FOLDER`."
        )


def imported(home: Home, policy_id: str) -> VersionImported:
    """The event that says which version of the home is the base, and where it came from."""
    kind = str(versions.manifest(home.versions / version_id(policy_id))["kind"])
    origin = origins.find(home.root, policy_id)
    if origin is None:
        return VersionImported(policy_id=policy_id, policy_kind=kind)
    return VersionImported(
        policy_id=policy_id, policy_kind=kind, source=origin.source, revision=origin.revision, by=origin.by,
        at_ns=origin.stamp_ns,
    )  # fmt: skip


def require_same_verifier(campaign: Campaign, recorded: str) -> str:
    """Check that the campaign still has the recorded verifier.

    Returns:
        The digest of the current verifier; empty if the ledger has none.

    Raises:
        UsageError: the verifier differs.
    """
    if not recorded:
        return ""
    verifier = _verifier(campaign)
    if recorded != verifier.digest and recorded not in earlier_digests(verifier):
        raise UsageError(
            f"The campaign {campaign.name!r} began with the verifier {recorded[:12]}; the verifier is now "
            f"{verifier.digest[:12]}. Verdicts of two verifiers cannot be compared. Restore the earlier verifier, "
            "or end the campaign (enpire campaign stop) and start a new one."
        )
    return verifier.digest


def require_same_task(campaign: Campaign, started: CampaignStarted, approval: Mapping[str, str]) -> None:
    """Check that the files of an agent's task are still those that were approved when the campaign began.

    Raises:
        UsageError: others were approved since.
    """
    now, begun = approval.get("digest", ""), started.task_approval.get("digest", "")
    if begun and now != begun:
        raise UsageError(
            f"The campaign {campaign.name!r} began with the files {begun[:12]} of its task; the approved files are now "
            f"{now[:12]}. Results of two tasks cannot be compared. Restore the earlier files and approve them again, "
            "or end the campaign (enpire campaign stop) and start a new one."
        )


def require_newest_approval(ledger: Ledger, task: str, approval: Mapping[str, str]) -> None:
    """Check that no campaign began with a newer approval of an agent's task than the one that is there now.

    Raises:
        UsageError: one did.
    """
    newest = int(approval.get("number", "0"))
    for entry in ledger.events(kinds=kinds_of(CampaignStarted)) if approval else ():
        begun = entry.event
        assert isinstance(begun, CampaignStarted)
        if begun.task == task and int(begun.task_approval.get("number", "0")) > newest:
            raise UsageError(
                f"The approval of the task {task} is line {newest} of its record, and the campaign {begun.name!r} "
                f"began with line {begun.task_approval['number']}: newer lines were cut off. Restore approvals.jsonl "
                "and tasks/.approvals of the home from a backup."
            )


def find_unfinished(ledger: Ledger, campaign: Campaign) -> str | None:
    """The id of the unfinished campaign of this name; None if there is none.

    Raises:
        UsageError: the campaign began with another file. The message names each field that differs.
    """
    for campaign_id, started in unended(ledger).items():
        if started.name == campaign.name:
            now, then = (document(_as_compared(file)) for file in (campaign, _as_begun(started)))
            differing = [key for key in now if canonical(now[key]) != canonical(then[key])]
            if differing:
                changes = "; ".join(f"{key} was {then[key]!r} and is {now[key]!r}" for key in sorted(differing))
                raise UsageError(
                    f"The unfinished campaign {campaign.name!r} in this home differs from the file: {changes}. "
                    "Restore the file to resume the campaign, end it (enpire campaign stop), or choose another --home."
                )
            return campaign_id
    return None


def _as_compared(campaign: Campaign) -> Campaign:
    """The campaign without what may change while it is unfinished.

    That is what its stations may load and run, and the version of the gate's rule, which a newer ENPIRE raises: each
    gate records its own.
    """
    return replace(
        campaign, stations=replace(campaign.stations, policy_kinds=()), code=replace(campaign.code, unsandboxed=False),
        gate=replace(campaign.gate, version=GateRule().version),
    )  # fmt: skip


def unended(ledger: Ledger) -> dict[str, CampaignStarted]:
    """Campaigns that have not ended: campaign id -> first event, oldest first."""
    started: dict[str, CampaignStarted] = {}
    for entry in ledger.events(kinds=kinds_of(CampaignStarted, CampaignEnded)):
        if isinstance(entry.event, CampaignStarted):
            started[entry.campaign_id] = entry.event
        else:
            started.pop(entry.campaign_id, None)
    return started


def _remove_recorded(ledger: Ledger, inbox: CommandInbox) -> None:
    """Remove the files of stops and pauses that the ledger has: the process ended before it removed them.

    The ledger's holds keep these stations stopped or paused. Other commands are carried out again, because their effect
    may be missing.
    """
    waiting = [
        item for item in inbox.waiting(BEFORE_BEGIN) if isinstance(item, OperatorCommand) and item.kind in URGENT
    ]
    if not waiting:
        return
    accepted = (entry.event for entry in ledger.events(kinds=kinds_of(CommandAccepted)))
    recorded = {event.command_id for event in accepted if isinstance(event, CommandAccepted)}
    for command in waiting:
        if command.command_id in recorded:
            inbox.remove(command)


def _as_begun(started: CampaignStarted) -> Campaign:
    """The campaign file in a campaign's first event. Fields that are newer than the event get their defaults."""
    where = f"The campaign {started.name!r}, begun by ENPIRE {started.code}"
    return parse(Campaign, started.campaign, where)


def _limit_ticks(campaign: Campaign) -> int:
    return TASKS.make(campaign.task).spec.limit_ticks


def _verifier(campaign: Campaign) -> Verifier:
    task = TASKS.make(campaign.task)
    return open_verifier(task, campaign.verifiers)
