"""Campaigns, their policy versions, and the events of the ledger."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel
from starlette.responses import HTMLResponse, Response

from enpire.queries.models import CampaignLine, CampaignView, VersionView
from enpire.service.code import CodeDiff
from enpire.service.offline import Attribution
from enpire.service.reading import GatePair
from web_ui.archive import Archive
from web_ui.auth import Viewer
from web_ui.documents import Json, plain
from web_ui.openapi import answers, refusals

REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'"
"""A report has its styles and images inside, and no script."""

router = APIRouter(tags=["campaigns"], responses=refusals(503))
Id = Annotated[str, Path(max_length=80, pattern=r"^[\w.:-]+$", examples=["01JD3Y6Z8Q4M0C5T9V2K7B1XNA"])]


class EventLine(BaseModel):
    """One event of the ledger. `seq` gives the order; the time stamp is for information."""

    seq: int
    stamp_ns: int
    kind: str
    body: dict[str, object]
    hash: str


class LedgerHead(BaseModel):
    """The last event of the ledger. Kept elsewhere, `head` makes a rewritten history show: `ledger verify --expect`."""

    head: str
    """SEQUENCE:HASH."""
    events: int


class EventPage(BaseModel):
    """Events in order; pass `next` as `after` to read the following ones."""

    rows: list[EventLine]
    next: int


@router.get("/campaigns")
def campaigns(_caller: Viewer, request: Request) -> tuple[CampaignLine, ...]:
    """Every campaign, newest first."""
    return _archive(request).campaigns()


@router.get("/campaigns/{campaign_id}")
def campaign(campaign_id: Id, _caller: Viewer, request: Request) -> CampaignView:
    """The state of one campaign; the WebSocket topic `campaign/ID` sends the same document."""
    return _archive(request).campaign(campaign_id)


@router.get("/campaigns/{campaign_id}/policies")
def policies(campaign_id: Id, _caller: Viewer, request: Request) -> tuple[VersionView, ...]:
    """Its policy versions with lineage and evidence, oldest first."""
    return _archive(request).versions(campaign_id)


@router.get("/campaigns/{campaign_id}/report", responses=answers("text/html"))
def report(campaign_id: Id, _caller: Viewer, request: Request) -> Response:
    """Its report, one HTML page without other files; written again where it has newer events."""
    page = _archive(request).report(campaign_id)
    return HTMLResponse(page, headers={"content-security-policy": REPORT_POLICY})


@router.get("/campaigns/{campaign_id}/attribution")
def attribution(campaign_id: Id, _caller: Viewer, request: Request) -> Attribution | None:
    """What each kept change contributed, as `enpire campaign attribute` measured it last; null before that."""
    return _archive(request).attribution(campaign_id)


@router.get("/gates/{gate_id}/pairs")
def gate_pairs(gate_id: Id, _caller: Viewer, request: Request) -> tuple[GatePair, ...]:
    """Its finished pairs: the episodes of both versions from the same hidden start."""
    return _archive(request).gate_pairs(gate_id)


@router.get("/code/{commit}")
def code(
    commit: Annotated[str, Path(pattern="^[0-9a-f]{40}$", examples=["a" * 40])], _caller: Viewer, request: Request
) -> CodeDiff:
    """How a code candidate differs from the one that it continues, or from the template."""
    return _archive(request).code(commit)


@router.get("/ledger")
def ledger(_caller: Viewer, request: Request) -> LedgerHead:
    """The head of the ledger now."""
    head, events = _archive(request).head()
    return LedgerHead(head=head, events=events)


@router.get("/events")
def events(
    _caller: Viewer,
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    campaign: Annotated[str, Query(max_length=80)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> EventPage:
    """Events of the ledger with a number above `after`."""
    found = _archive(request).events(after, campaign, limit)
    rows = [
        EventLine(
            seq=event.seq,
            stamp_ns=event.stamp_ns,
            kind=event.kind,
            body=cast(dict[str, object], cast(Json, plain(event.body))),
            hash=event.hash,
        )
        for event in found
    ]
    return EventPage(rows=rows, next=rows[-1].seq if rows else after)


def _archive(request: Request) -> Archive:
    return cast(Archive, request.app.state.archive)
