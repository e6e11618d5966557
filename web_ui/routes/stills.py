"""Still images of alarms, for the chat of the webhook. Their names are secrets that only its messages have."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request
from starlette.responses import Response

from web_ui.problems import Problem
from web_ui.stills import FOLDER, Stills

router = APIRouter(include_in_schema=False)
HEADERS = {
    "cache-control": "private, max-age=3600",
    "cross-origin-resource-policy": "cross-origin",  # the page of a chat shows it
}


@router.get(f"/{FOLDER}/{{name}}")
async def still(name: str, request: Request) -> Response:
    """One still; needs no sign-in."""
    jpeg = cast(Stills, request.app.state.stills).find(name)
    if jpeg is None:
        raise Problem(404, "There is no such image, or its time is over; the inbox has the alarm.")
    return Response(jpeg, media_type="image/jpeg", headers=HEADERS)
