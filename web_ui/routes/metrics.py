"""Metrics for Prometheus under `/metrics`, with a bearer token of any role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.responses import Response

from enpire.queries.models import CampaignView
from enpire.queries.success_models import Success
from enpire.types import PHASES
from web_ui.archive import Archive
from web_ui.auth import Viewer
from web_ui.documents import FleetDocument
from web_ui.hub import Hub
from web_ui.openapi import answers, refusals

router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=Response, responses=answers("text/plain") | refusals(503))
async def metrics(_caller: Viewer, request: Request) -> Response:
    """The newest campaign and its stations in Prometheus' text format."""
    hub, archive = cast(Hub, request.app.state.hub), cast(Archive, request.app.state.archive)
    fleet = hub.fleet()
    text = await run_in_threadpool(_exposition, fleet, archive)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


class Metrics:
    """One scrape. Counters come from the ledger, so they survive restarts."""

    def __init__(self, fleet: FleetDocument, view: CampaignView | None) -> None:
        self._fleet, self._view = fleet, view

    def collect(self) -> Iterator[Metric]:
        """All metric families."""
        yield GaugeMetricFamily("enpire_lab_connected", "1 while a campaign runs.", value=float(self._fleet.connected))
        yield from self._stations()
        if self._view is not None:
            yield from self._campaign(self._view)

    def _stations(self) -> Iterator[Metric]:
        phase = GaugeMetricFamily("enpire_station_phase", "1 for the phase of a station.", labels=["station", "phase"])
        needs = GaugeMetricFamily(
            "enpire_station_needs_person", "1 while the station has an alarm.", labels=["station"]
        )
        halted = GaugeMetricFamily("enpire_station_stopped", "1 while the station is stopped.", labels=["station"])
        ended = CounterMetricFamily("enpire_station_episodes", "Episodes of this campaign.", labels=["station"])
        for name, tile in self._fleet.stations.items():
            for known in PHASES:
                phase.add_metric([name, known], float(tile.phase == known))
            needs.add_metric([name], float(bool(tile.alarm)))
            halted.add_metric([name], float(tile.stopped))
            ended.add_metric([name], tile.episodes)
        yield from (phase, needs, halted, ended)

    def _campaign(self, view: CampaignView) -> Iterator[Metric]:
        names = ["campaign", "task"]
        mine = [view.id, view.task]
        orders = GaugeMetricFamily("enpire_orders", "Orders by outcome, and open ones.", labels=[*names, "outcome"])
        for outcome, count in view.episodes.items():
            if outcome != "total":
                orders.add_metric([*mine, outcome], count)
        refused = CounterMetricFamily(
            "enpire_deliveries_refused", "Deliveries that were refused and not counted.", labels=names
        )
        refused.add_metric(mine, view.refused)
        spent = CounterMetricFamily("enpire_robot_seconds", "Robot time by phase.", labels=[*names, "phase"])
        for phase, seconds in view.robot_time.items():
            spent.add_metric([*mine, phase], seconds)
        success = GaugeMetricFamily(
            "enpire_success_ratio", "Success with its 95 % bounds.", labels=[*names, "of", "policy", "bound"]
        )
        for of, measured in (("base", view.base), ("champion", view.champion)):
            for bound, value in _bounds(measured):
                success.add_metric([*mine, of, measured.id if measured else "", bound], value)
        yield from (orders, refused, spent, success)
        yield _gauge("enpire_robot_utilisation_ratio", "Mean robot utilisation.", names, mine, view.mru)
        speed, used = view.real_time_factor, view.rollouts_used.share
        yield _gauge("enpire_robot_motion_ratio", "Share of the time in motion.", names, mine, view.motion)
        yield _gauge("enpire_real_time_factor", "Robot time in one second of a rollout.", names, mine, speed)
        yield _gauge("enpire_rollouts_used_ratio", "Share of rollouts that something used.", names, mine, used)
        yield _gauge("enpire_wall_seconds", "Wall clock of the campaign.", names, mine, view.wall_s)
        yield _gauge("enpire_round", "Rounds of improvement begun.", names, mine, len(view.rounds) - 1)
        yield _gauge(
            "enpire_search_gate_gap_ratio",
            "Success on training starts minus success on hidden starts.",
            names,
            mine,
            view.search_gate_gap,
        )
        tokens = CounterMetricFamily("enpire_tokens", "Tokens of the agents.", labels=[*names, "kind"])
        for kind in ("fresh", "cached", "output"):
            tokens.add_metric([*mine, kind], getattr(view.tokens, kind))
        yield tokens


def _exposition(fleet: FleetDocument, archive: Archive) -> bytes:
    registry = CollectorRegistry()
    known = archive.campaigns()
    registry.register(Metrics(fleet, archive.campaign(known[0].id) if known else None))
    return generate_latest(registry)


def _bounds(measured: Success | None) -> list[tuple[str, float]]:
    if measured is None or measured.success is None:
        return []
    return [("rate", measured.success), ("low", measured.low), ("high", measured.high)]


def _gauge(name: str, about: str, names: list[str], mine: list[str], value: float | None) -> Metric:
    family = GaugeMetricFamily(name, about, labels=names)
    if value is not None:
        family.add_metric(mine, value)
    return family
