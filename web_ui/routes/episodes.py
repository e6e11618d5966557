"""Episodes: lists by keyset pagination, one episode, its series and its camera images."""

from __future__ import annotations

import threading
from pathlib import Path as FilePath
from typing import Annotated, Literal, cast

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from enpire.queries.models import EpisodeLine, EpisodePage, EpisodeView
from enpire.service.decisions import Stake
from enpire.service.reading import Page
from enpire.service.recordings import media_type
from web_ui.archive import Archive
from web_ui.auth import Viewer
from web_ui.openapi import answers, refusals
from web_ui.recording_facts import HIGH, LOW, MOST, Intervened, Predicted
from web_ui.reports import MOST_EXPORTED, ExportForm, exported_name
from web_ui.series import Series

router = APIRouter(prefix="/episodes", tags=["episodes"], responses=refusals(503))
Id = Annotated[str, Path(max_length=80, pattern=r"^[\w.:-]+$", examples=["01JD3Y6Z8Q4M0C5T9V2K7B1XNA"])]

OrderId = Annotated[str, Field(pattern=r"^[0-9A-Z]{26}$")]


class EpisodeFilters(BaseModel):
    """Filters of a list of episodes. An empty filter matches all."""

    model_config = ConfigDict(extra="forbid")
    campaign: str = Field(default="", max_length=80, description="Empty: the latest campaign.")
    outcome: str = Field(
        default="",
        max_length=20,
        examples=["failure"],
        description="An outcome; `open`; or `ended` for all except open ones.",
    )
    purpose: str = Field(default="", max_length=20, examples=["collect"])
    round: int | None = Field(default=None, ge=0, le=2**31)
    station: str = Field(default="", max_length=100)
    policy: str = Field(default="", max_length=100)
    starts: Literal["", "train", "hidden"] = Field(default="", description="Kind of start.")
    label: Literal["", "any", "differs"] = Field(
        default="", description="`differs`: the label is not the verifier's verdict."
    )
    p_v: Predicted = Field(
        default="",
        description=f"Predicted success at the start: low is below {LOW}, high from {HIGH} on. Of the newest {MOST}.",
    )
    interventions: Intervened = Field(
        default="", description=f"Whether an operator moved the robot. Of the newest {MOST} of the selection."
    )
    cluster: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="A failure cluster of this campaign, `starts`, `policy` and `station`: `/campaigns/ID/failures`.",
    )
    before: str = Field(default="", max_length=80, description="`next` of the previous page.")
    limit: int = Field(default=50, ge=1, le=200)


@router.get("", responses=refusals(400))
def episodes(wanted: Annotated[EpisodeFilters, Query()], _caller: Viewer, request: Request) -> EpisodePage:
    """One page of episodes, newest first; pass `next` as `before` to read the next page."""
    page = Page(
        campaign_id=wanted.campaign, purpose=wanted.purpose, outcome=wanted.outcome, round=wanted.round,
        policy_id=wanted.policy, station=wanted.station, starts=wanted.starts, label=wanted.label,
        before=wanted.before, limit=wanted.limit,
    )  # fmt: skip
    return _archive(request).episodes(page, wanted.cluster, (wanted.p_v, wanted.interventions))


class Selection(BaseModel):
    """Episodes of one campaign."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"episodes": ["01JD3Y6Z8Q4M0C5T9V2K7B1XNA"]}]}
    )
    episodes: tuple[Annotated[str, Field(pattern=r"^[0-9A-Z]{26}$")], ...] = Field(
        min_length=1, max_length=MOST_EXPORTED
    )
    form: ExportForm = Field(
        default="lerobot", description="One LeRobotDataset v3; or a file for each: rrd (Rerun) or mcap (Foxglove)."
    )


@router.post(
    "/export", response_class=FileResponse, responses={**answers("application/zip"), **refusals(400, 404, 409)}
)
def export(body: Selection, _caller: Viewer, request: Request) -> FileResponse:
    """The recordings of some episodes on train starts as one zip file. May take a minute."""
    with cast(threading.Lock, request.app.state.replaying):
        scratch = _archive(request).export(body.episodes, body.form)
    return FileResponse(
        FilePath(scratch.name) / exported_name(body.form), media_type="application/zip",
        filename=exported_name(body.form),
        background=BackgroundTask(scratch.cleanup),
    )  # fmt: skip


@router.get("/{order_id}")
def episode(order_id: Id, _caller: Viewer, request: Request) -> EpisodeView:
    """One episode."""
    return _archive(request).episode(order_id)


@router.get("/{order_id}/same-start")
def same_start(order_id: Id, _caller: Viewer, request: Request) -> tuple[EpisodeLine, ...]:
    """At most 20 other episodes from the same start, newest first."""
    return _archive(request).same_start(order_id)


@router.get("/{order_id}/series")
def series(
    order_id: Id, _caller: Viewer, request: Request, points: Annotated[int, Query(ge=10, le=5000)] = 1000
) -> Series:
    """States, actions and critic outputs on one time axis; 404 when the episode has no recording."""
    return _archive(request).series(order_id, points)


@router.get("/{order_id}/stake")
def stake(order_id: Id, _caller: Viewer, request: Request, outcome: Literal["success", "failure", "unsafe"]) -> Stake:
    """The decision that counted the episode, and the decision if it were labelled `outcome`. Changes nothing."""
    return _archive(request).stake(order_id, outcome)


class Replayed(BaseModel):
    """What a replay gave."""

    why: str
    """Why there are no camera images; empty when there are."""


@router.post("/{order_id}/replay", responses=refusals(503))
def replay(order_id: Id, _caller: Viewer, request: Request) -> Replayed:
    """Render the camera images of an episode of a simulated station, one episode at a time; may take some seconds."""
    with cast(threading.Lock, request.app.state.replaying):
        found = _archive(request).episode(order_id)
        return Replayed(why="" if found.pictures else _archive(request).replay(order_id))


class Videos(BaseModel):
    """The videos of an episode."""

    cameras: tuple[str, ...]
    why: str
    """Why there are none; empty when there are."""


@router.post("/{order_id}/videos", responses=refusals(503))
def make_videos(order_id: Id, _caller: Viewer, request: Request) -> Videos:
    """Make a video of each camera, one image per control period; a simulated episode is replayed. May take a minute."""
    with cast(threading.Lock, request.app.state.replaying):
        cameras, why = _archive(request).make_videos(order_id)
    return Videos(cameras=cameras, why=why)


@router.get("/{order_id}/videos/{camera}", response_class=FileResponse, responses=answers("video/webm"))
def video(order_id: Id, camera: Annotated[str, Path(max_length=80)], _caller: Viewer, request: Request) -> FileResponse:
    """The video of one camera, WebM; answers byte ranges."""
    path = _archive(request).video(order_id, camera)
    return FileResponse(path, media_type="video/webm", headers={"cache-control": "private, max-age=3600"})


@router.get(
    "/{order_id}/strip",
    response_class=Response,
    responses={**answers("image/jpeg"), 204: {"description": "There are no camera images."}},
)
def strip(order_id: Id, _caller: Viewer, request: Request, count: Annotated[int, Query(ge=1, le=12)] = 4) -> Response:
    """A filmstrip: `count` images of the first camera from first to last, side by side; 204 when there are none."""
    found = _archive(request).strip(order_id, count)
    if found is None:
        return Response(status_code=204)
    return Response(found, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})


@router.get("/{order_id}/pictures/{name}", response_class=Response, responses=answers("image/jpeg"))
def picture(order_id: Id, name: Annotated[str, Path(max_length=120)], _caller: Viewer, request: Request) -> Response:
    """One recorded camera image, CAMERA_TICK.jpg or .png."""
    data = _archive(request).picture(order_id, name)
    return Response(data, media_type=media_type(name), headers={"cache-control": "private, max-age=3600"})


def _archive(request: Request) -> Archive:
    return cast(Archive, request.app.state.archive)
