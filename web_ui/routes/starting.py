"""Start campaigns: what may be named, what earlier ones cost, and the queue of this home."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, cast

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from enpire.campaign.campaign import ANY_PORT, Campaign
from enpire.errors import EnpireError, FileProblem
from enpire.files import document, parse
from enpire.home import Home
from enpire.service.starting import (
    CampaignQueue,
    Cost,
    Descriptions,
    Queued,
    choices,
    costs,
    descriptions,
    enrolled,
    require_startable,
)
from web_ui.auth import Operator, Viewer, accounts_of
from web_ui.openapi import refusals
from web_ui.problems import Problem

router = APIRouter(tags=["starting campaigns"])
Short = Annotated[str, Field(min_length=1, max_length=80)]


class AgentChoice(BaseModel):
    """An agent and its number of sessions."""

    model_config = ConfigDict(extra="forbid")
    name: Short
    lanes: int = Field(default=1, ge=1, le=16)


class NewCampaign(BaseModel):
    """A campaign to start: a shipped campaign file, and what differs from it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "template": "pin_insertion", "name": "night-1", "recipe": "habc_warm", "success": 0.95,
                    "stations": 4, "lanes": 16, "wall_s": 28800, "rounds": 14, "robot_s": 0, "agents": [], "seed": 0,
                }
            ]
        },
    )  # fmt: skip
    template: Short
    name: str = Field(min_length=1, max_length=80, pattern=r"^[0-9A-Za-z_:-][0-9A-Za-z_.:-]*$")
    task: Short | None = None
    recipe: Short | None = None
    regimes: list[Short] | None = Field(default=None, max_length=20, description="Recipes of branches.")
    success: float | None = Field(default=None, gt=0, le=1)
    stations: int | None = Field(default=None, ge=0, le=1000)
    lanes: int | None = Field(default=None, ge=1, le=1000)
    bind: str | None = Field(
        default=None, max_length=200, description="Where stations with a key connect, tcp://ADDRESS:PORT; empty: none."
    )
    wall_s: float | None = Field(default=None, ge=0, le=1e8)
    rounds: int | None = Field(default=None, ge=0, le=100_000)
    robot_s: float | None = Field(default=None, ge=0, le=1e10)
    tokens: int | None = Field(default=None, ge=0, le=2**53, description="Of all agent sessions together.")
    money: float | None = Field(default=None, ge=0, le=1e9, description="In the currency of the price file.")
    agents: list[AgentChoice] | None = Field(
        default=None,
        max_length=8,
        description="An agent of the shipped file keeps the options and limits that it has there.",
    )
    seed: int | None = Field(default=None, ge=0, le=2**53)


class Template(BaseModel):
    """A shipped campaign file, as the form of a new campaign begins."""

    template: str
    task: str
    recipe: str
    regimes: list[str]
    success: float
    by: str
    """Figure of a confirmation that must reach `success`: rate or bound."""
    confirm_starts: int
    """Fresh starts of a confirmation."""
    commands: int
    """Largest median number of commands of its successes; 0: no limit."""
    stations: int
    lanes: int
    bind: str
    """Where stations with a key connect, tcp://ADDRESS:PORT; empty: none."""
    wall_s: float
    rounds: int
    robot_s: float
    tokens: int
    """Of all agent sessions together; 0: no limit."""
    money: float
    """Cost of all agent sessions together, in the currency of the price file; 0: no limit."""
    agents: list[AgentChoice]


class StartChoices(BaseModel):
    """What a new campaign may name."""

    templates: list[Template]
    tasks: list[str]
    recipes: list[str]
    agents: list[str]
    enrolled: list[str]
    """Stations whose keys this home allows."""
    about: Descriptions


class QueueLine(BaseModel):
    """A campaign that waits, or could not start."""

    id: str
    name: str
    task: str
    by: str
    asked_ms: int
    why: str
    """Why it could not start; empty while it waits."""


@router.get("/start")
def start_choices(_caller: Viewer, request: Request) -> StartChoices:
    """Shipped campaign files, tasks, recipes and agents, and the enrolled stations of this home."""
    found = choices()
    return StartChoices(
        templates=[_template(one) for one in found.templates], tasks=list(found.tasks), recipes=list(found.recipes),
        agents=list(found.agents), enrolled=list(enrolled(_home(request))),
        about=descriptions(),
    )  # fmt: skip


@router.get("/start/costs")
def start_costs(_caller: Viewer, request: Request, task: Annotated[str, Query(max_length=200)]) -> tuple[Cost, ...]:
    """What the newest ended campaigns of a task used in this home."""
    return costs(_home(request), task)


@router.post("/start", status_code=202, responses=refusals(400, 404))
def start(body: NewCampaign, caller: Operator, request: Request) -> QueueLine:
    """Add a campaign to the queue; it starts when no campaign runs in this home. 400 names a wrong part or value."""
    home, campaign = _home(request), asked_campaign(body)
    try:
        require_startable(campaign, home)
    except EnpireError as problem:
        raise Problem(400, str(problem)) from problem
    queued = CampaignQueue(home).add(campaign, caller.user.name)
    accounts_of(request).record(caller.user.name, f"queued the campaign {campaign.name!r}")
    return _line(queued)


@router.get("/queue")
def queue(_caller: Viewer, request: Request) -> list[QueueLine]:
    """The campaigns that wait, oldest first, and those that could not start."""
    waiting = CampaignQueue(_home(request))
    return [_line(one) for one in (*waiting.waiting(), *waiting.failed())]


@router.delete("/queue/{queued_id}", status_code=204)
def remove(
    queued_id: Annotated[str, Path(max_length=80, pattern=r"^[0-9A-Z]+$")], caller: Operator, request: Request
) -> None:
    """Remove a campaign that waits or could not start."""
    CampaignQueue(_home(request)).remove(queued_id)
    accounts_of(request).record(caller.user.name, f"removed the queued campaign {queued_id}")


def asked_campaign(body: NewCampaign) -> Campaign:
    """The shipped campaign with the changes."""
    offered = choices()
    known = {one.name: one for one in offered.templates}
    given = body.model_dump(exclude_none=True)
    _require_offered("shipped campaign", [body.template], known)
    _require_offered("task", [body.task or known[body.template].task], offered.tasks)
    _require_offered("recipe", [body.recipe or known[body.template].recipe, *(body.regimes or ())], offered.recipes)
    _require_offered("agent", [one.name for one in body.agents or ()], offered.agents)
    made = document(known[body.template])
    bind = None if body.bind is None else body.bind or ANY_PORT
    changes: dict[str, dict[str, object]] = {
        "goal": {"success": given.get("success")},
        "stations": {"count": given.get("stations"), "lanes": given.get("lanes"), "bind": bind},
        "budget": {name: given.get(name) for name in ("wall_s", "rounds", "robot_s", "tokens", "money")},
        "branches": {"recipes": given.get("regimes")},
    }
    for section, values in changes.items():
        own = {key: value for key, value in values.items() if value is not None}
        made[section] = {**cast("dict[str, object]", made[section]), **own}  # pyright: ignore[reportArgumentType]
    whole = {key: given[key] for key in ("name", "task", "recipe", "seed") if key in given}
    if body.agents is not None:
        whole["agents"] = _agents(body.agents, cast("list[Mapping[str, object]]", made["agents"]))
    try:
        return parse(Campaign, {**made, **whole}, "The new campaign")
    except FileProblem as problem:
        raise Problem(400, str(problem)) from problem


def _agents(chosen: Sequence[AgentChoice], shipped: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The agents of a new campaign: as in the shipped file where it names them, with the chosen number of sessions.

    Options and the limits of one session are no part of the request: an option may name a program of this machine.
    """
    plans = {plan["name"]: plan for plan in shipped}
    return [{**plans.get(one.name, {"name": one.name}), "lanes": one.lanes} for one in chosen]


def _require_offered(noun: str, wanted: Iterable[str], offered: Collection[str]) -> None:
    """Refuse other names, which could be paths or code of this machine."""
    for name in wanted:
        if name not in offered:
            raise Problem(400, f"There is no {noun} {name!r} to choose; there are: {', '.join(sorted(offered))}.")


def _template(campaign: Campaign) -> Template:
    return Template(
        template=campaign.name, task=campaign.task, recipe=campaign.recipe, regimes=list(campaign.branches.recipes),
        success=campaign.goal.success, by=campaign.goal.by, confirm_starts=campaign.goal.confirm_starts,
        commands=campaign.goal.commands, stations=campaign.stations.count, lanes=campaign.stations.lanes,
        bind="" if campaign.stations.bind == ANY_PORT else campaign.stations.bind,
        wall_s=campaign.budget.wall_s, rounds=campaign.budget.rounds, robot_s=campaign.budget.robot_s,
        tokens=campaign.budget.tokens, money=campaign.budget.money,
        agents=[AgentChoice(name=plan.name, lanes=plan.lanes) for plan in campaign.agents],
    )  # fmt: skip


def _line(queued: Queued) -> QueueLine:
    return QueueLine(
        id=queued.id, name=queued.campaign.name, task=queued.campaign.task, by=queued.by,
        asked_ms=queued.asked_ns // 1_000_000, why=queued.why,
    )  # fmt: skip


def _home(request: Request) -> Home:
    return cast(Home, request.app.state.home)
