"""Episodes: keyset pages, one episode, its time axis, its pictures."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from enpire.queries.models import EpisodePage, EpisodeView
from enpire.service.auditing import Stake
from enpire.service.reading import Page
from enpire.service.recordings import media_type
from web_ui.archive import Archive
from web_ui.auth import Anybody
from web_ui.openapi import answers, refusals
from web_ui.series import Series

router = APIRouter(prefix="/episodes", tags=["episodes"], responses=refusals(503))
Id = Annotated[str, Path(max_length=80, pattern=r"^[\w.:-]+$", examples=["01JD3Y6Z8Q4M0C5T9V2K7B1XNA"])]


class Wanted(BaseModel):
    """Filters of a page; what is left out filters nothing."""

    model_config = ConfigDict(extra="forbid")
    campaign: str = Field(default="", max_length=80, description="Empty: the latest one.")
    outcome: str = Field(
        default="",
        max_length=20,
        examples=["failure"],
        description="An outcome, `open`, or `ended`: all but the open ones.",
    )
    purpose: str = Field(default="", max_length=20, examples=["collect"])
    round: int | None = Field(default=None, ge=0, le=2**31)
    station: str = Field(default="", max_length=100)
    policy: str = Field(default="", max_length=100)
    before: str = Field(default="", max_length=80, description="`next` of the page above.")
    limit: int = Field(default=50, ge=1, le=200)


@router.get("", responses=refusals(400))
def episodes(wanted: Annotated[Wanted, Query()], _caller: Anybody, request: Request) -> EpisodePage:
    """One page, newest first; go on with `before` = `next`."""
    page = Page(
        campaign_id=wanted.campaign, purpose=wanted.purpose, outcome=wanted.outcome, round=wanted.round,
        policy_id=wanted.policy, station=wanted.station, before=wanted.before, limit=wanted.limit,
    )  # fmt: skip
    return _archive(request).episodes(page)


@router.get("/{order_id}")
def episode(order_id: Id, _caller: Anybody, request: Request) -> EpisodeView:
    """One episode."""
    return _archive(request).episode(order_id)


@router.get("/{order_id}/series")
def series(
    order_id: Id, _caller: Anybody, request: Request, points: Annotated[int, Query(ge=10, le=5000)] = 1000
) -> Series:
    """What was sensed, sent and thought, on one time axis; 404 when nothing was recorded."""
    return _archive(request).series(order_id, points)


@router.get("/{order_id}/stake")
def stake(order_id: Id, _caller: Anybody, request: Request, outcome: Literal["success", "failure", "unsafe"]) -> Stake:
    """Which decision counted the episode, and what it would be if a person says `outcome`. Nothing is changed."""
    return _archive(request).stake(order_id, outcome)


@router.get("/{order_id}/pictures/{name}", response_class=Response, responses=answers("image/jpeg"))
def picture(order_id: Id, name: Annotated[str, Path(max_length=120)], _caller: Anybody, request: Request) -> Response:
    """One recorded picture, CAMERA_TICK.jpg; image/png where its name ends so."""
    data = _archive(request).picture(order_id, name)
    return Response(data, media_type=media_type(name), headers={"cache-control": "private, max-age=3600"})


def _archive(request: Request) -> Archive:
    return cast(Archive, request.app.state.archive)
