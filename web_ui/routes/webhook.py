"""The webhook of this home: its state, its address, and a test message."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from enpire.errors import UsageError
from enpire.home import Home
from enpire.service.webhooks import LONGEST, WebhookSettings, keep_webhook, read_webhook
from web_ui.auth import Admin, Viewer, accounts_of
from web_ui.openapi import refusals
from web_ui.stills import Stills
from web_ui.webhook import Webhook

router = APIRouter(prefix="/webhook", tags=["webhook"])


class WebhookAddress(BaseModel):
    """The address that a chat gave for incoming messages. It is kept, and never sent back."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"address": "https://chat.example.org/hooks/1"}]}
    )
    address: str = Field(max_length=LONGEST, description="https:// or http://; empty: no webhook any more.")


class WebhookImages(BaseModel):
    """Whether messages may have a live image of the station, which then leaves the lab."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"allowed": True}]})
    allowed: bool


class WebhookLine(BaseModel):
    """Whether a webhook is set, and what became of its messages."""

    configured: bool
    sent: int
    """Messages that the chat accepted since this server started."""
    last_ms: int | None
    problem: str
    """Why the last message was not accepted; empty if it was."""
    page: str
    """Address of the page in the links of messages."""
    local: bool
    """Whether only the lab's machine can open that address."""
    images: bool
    """Whether an admin has allowed images of stations in messages."""
    reached: bool
    """Whether the chat can be expected to load an image from that address."""


@router.get("")
def state(_caller: Viewer, request: Request) -> WebhookLine:
    """Whether a webhook is set, without its address."""
    return WebhookLine(**asdict(_webhook(request).state()))


@router.put("", responses=refusals(400, 403))
def keep(body: WebhookAddress, caller: Admin, request: Request) -> WebhookLine:
    """Set the address, or remove it. Images are off until they are allowed for this address."""
    # the request guard has checked that a browser's Origin is this server
    page, address = request.headers.get("origin", ""), body.address.strip()
    _stills(request).forget()
    keep_webhook(_home(request), WebhookSettings(address=address, page=page))
    accounts_of(request).record(caller.user.name, "set the webhook" if address else "removed the webhook")
    return state(caller, request)


@router.put("/images", responses=refusals(400, 403))
def allow_images(body: WebhookImages, caller: Admin, request: Request) -> WebhookLine:
    """Allow live images in messages, or end that; the images of earlier messages can then no longer be loaded here."""
    kept = read_webhook(_home(request))
    if not kept.address:
        raise UsageError("No webhook is set; set its address first.")
    keep_webhook(_home(request), replace(kept, images=body.allowed))
    if not body.allowed:
        _stills(request).forget()
    change = "allowed images in messages of the webhook" if body.allowed else "ended images in messages of the webhook"
    accounts_of(request).record(caller.user.name, change)
    return state(caller, request)


@router.post("/test", responses=refusals(400, 403))
def test(caller: Admin, request: Request) -> WebhookLine:
    """Send one test message now; `problem` says why the chat did not accept it."""
    _webhook(request).test()
    return state(caller, request)


def _webhook(request: Request) -> Webhook:
    return cast(Webhook, request.app.state.webhook)


def _stills(request: Request) -> Stills:
    return cast(Stills, request.app.state.stills)


def _home(request: Request) -> Path:
    return cast(Home, request.app.state.home).root
