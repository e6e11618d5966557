"""The webhook of this home: its state, its address, and a test message."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from enpire.home import Home
from enpire.service.webhooks import LONGEST, keep_address
from web_ui.auth import Admin, Viewer, accounts_of
from web_ui.openapi import refusals
from web_ui.webhook import Webhook

router = APIRouter(prefix="/webhook", tags=["webhook"])


class WebhookAddress(BaseModel):
    """The address that a chat gave for incoming messages. It is kept, and never sent back."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"address": "https://chat.example.org/hooks/1"}]}
    )
    address: str = Field(max_length=LONGEST, description="https:// or http://; empty: no webhook any more.")


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
    has_images: bool
    """Whether messages have an image of the station: the chat can reach that address."""


@router.get("")
def state(_caller: Viewer, request: Request) -> WebhookLine:
    """Whether a webhook is set, without its address."""
    return WebhookLine(**asdict(_webhook(request).state()))


@router.put("", responses=refusals(400, 403))
def keep(body: WebhookAddress, caller: Admin, request: Request) -> WebhookLine:
    """Set the address, or remove it."""
    # the request guard has checked that a browser's Origin is this server
    page = request.headers.get("origin", "")
    keep_address(cast(Home, request.app.state.home).root, body.address.strip(), page)
    accounts_of(request).record(caller.user.name, "set the webhook" if body.address.strip() else "removed the webhook")
    return state(caller, request)


@router.post("/test", responses=refusals(403))
def test(caller: Admin, request: Request) -> WebhookLine:
    """Send one test message now; `problem` says why the chat did not accept it."""
    _webhook(request).test()
    return state(caller, request)


def _webhook(request: Request) -> Webhook:
    return cast(Webhook, request.app.state.webhook)
