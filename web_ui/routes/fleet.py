"""The current state of the fleet, and the health of this server."""

from __future__ import annotations

import time
from typing import Annotated, cast

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel
from starlette.responses import Response

from web_ui.auth import Viewer
from web_ui.documents import FleetDocument, StationTile
from web_ui.hub import Hub
from web_ui.live import LiveCameras, LiveLab
from web_ui.openapi import answers
from web_ui.problems import Problem

router = APIRouter(tags=["fleet"])
health_router = APIRouter(tags=["health"])
Name = Annotated[str, Path(max_length=100)]


class Health(BaseModel):
    """`ok` while the server reads the state of the lab, else `stale`; `connected` when a campaign runs."""

    status: str
    connected: bool
    looked_s_ago: float


class Stay(BaseModel):
    """One phase of a station."""

    since_ms: int
    """Wall-clock time at which it began, in milliseconds."""
    phase: str


@router.get("/fleet")
async def fleet(_caller: Viewer, request: Request) -> FleetDocument:
    """All data of the page Fleet; the WebSocket topic `fleet` sends the same document."""
    return _hub(request).fleet()


@router.get("/stations")
async def stations(_caller: Viewer, request: Request) -> list[StationTile]:
    """All stations of the running campaign."""
    return list(_hub(request).fleet().stations.values())


@router.get("/stations/{name}")
async def station(name: Name, _caller: Viewer, request: Request) -> StationTile:
    """One station."""
    found = _hub(request).fleet().stations.get(name)
    if found is None:
        raise Problem(
            404, f"There is no station {name[:40]!r} in the running campaign; `GET /api/v1/stations` lists them."
        )
    return found


@router.get("/stations/{name}/phases")
async def phases(name: Name, _caller: Viewer, request: Request) -> list[Stay]:
    """The phases of one station in the last hour, oldest first, as this server saw them; the last one lasts."""
    await station(name, _caller, request)
    return [Stay(since_ms=since_ms, phase=phase) for since_ms, phase in _hub(request).stays(name)]


@router.get("/stations/{name}/cameras/{camera}", response_class=Response, responses=answers("image/jpeg"))
async def picture(name: Name, camera: Name, _caller: Viewer, request: Request) -> Response:
    """The newest live image of one camera; the header `age` is its age in seconds.

    The WebSocket topic `camera/STATION/NAME` sends each new one.
    """
    live: object = request.app.state.live
    tile = _hub(request).fleet().stations.get(name)
    if not isinstance(live, LiveCameras) or tile is None or camera not in tile.cameras:
        raise Problem(404, f"Station {name[:40]!r} has no camera {camera[:40]!r}.")
    newest = live.picture(name, camera)
    if not newest.jpeg:
        raise Problem(404, newest.why or f"Camera {camera[:40]!r} has sent no image yet; try again in a second.")
    return Response(newest.jpeg, media_type="image/jpeg", headers={"age": f"{newest.age_s:.0f}"})


@health_router.get("/healthz")
async def healthz(request: Request) -> Health:
    """For watchdogs; needs no sign-in and gives no information about the campaign."""
    ago_s = time.monotonic() - _hub(request).polled_s
    return Health(
        status="ok" if ago_s < 5 else "stale",
        connected=cast(LiveLab, request.app.state.live).snapshot() is not None,
        looked_s_ago=round(ago_s, 3),
    )


def _hub(request: Request) -> Hub:
    return cast(Hub, request.app.state.hub)
