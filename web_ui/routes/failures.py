"""Where a policy fails: success over the start space, by station and by version, and clusters of failures."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from enpire.service.failures import Selection, WhereItFails
from web_ui.archive import Archive
from web_ui.auth import Viewer
from web_ui.openapi import refusals

router = APIRouter(tags=["campaigns"], responses=refusals(503))
Id = Annotated[str, Path(max_length=80, pattern=r"^[\w.:-]+$", examples=["01JD3Y6Z8Q4M0C5T9V2K7B1XNA"])]


class FailureFilters(BaseModel):
    """Which episodes of the campaign; an empty filter matches all."""

    model_config = ConfigDict(extra="forbid")
    starts: Literal["", "train", "hidden"] = Field(default="", description="Kind of start.")
    policy: str = Field(default="", max_length=100, description="A version, or `champion`.")
    station: str = Field(default="", max_length=100)
    x: int | None = Field(default=None, ge=0, le=100, description="Start value of the columns; give `y`, too.")
    y: int | None = Field(default=None, ge=0, le=100)


@router.get("/campaigns/{campaign_id}/failures", responses=refusals(400))
def failures(
    campaign_id: Id, wanted: Annotated[FailureFilters, Query()], _caller: Viewer, request: Request
) -> WhereItFails:
    """Success by start, station and version, and clusters of failures, of the newest 20000 episodes; up to 60 s old."""
    selection = Selection(
        campaign_id=campaign_id, starts=wanted.starts, policy_id=wanted.policy, station=wanted.station
    )
    axes = (wanted.x, wanted.y) if wanted.x is not None and wanted.y is not None else None
    return cast(Archive, request.app.state.archive).where_it_fails(selection, axes)
