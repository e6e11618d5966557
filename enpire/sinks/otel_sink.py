"""OpenTelemetry: spans at the OTLP/HTTP endpoint that OTEL_EXPORTER_OTLP_ENDPOINT names; without it, in a file.

The file has one OTLP request as JSON on each line, as the OpenTelemetry Collector reads and writes files. Its last line
knows the position. For an endpoint a small file keeps it: a process that is killed between the two sends the spans of
one batch again, under the same ids.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from enpire.errors import FileProblem, MissingExtra, TransportProblem
from enpire.ids import file_name
from enpire.sinks.points import Point
from enpire.sinks.sink import TrackedRun
from enpire.store import durable

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EVENT = "enpire.event"
"""Attribute of each span: the number of the event that ended it."""
_IDS = {"traceId", "spanId", "parentSpanId"}


class _Place(Protocol):
    def position(self) -> int: ...

    def write(self, spans: Sequence[Any], seq: int) -> None: ...

    def close(self) -> None: ...


class OtelSink:
    """The spans of one campaign."""

    interval_s = 2.0
    reads_spans = True

    def __init__(self, run: TrackedRun) -> None:
        self._run = run
        endpoint = any(os.environ.get(name) for name in ENDPOINTS)
        try:
            self._place: _Place = _Endpoint(run) if endpoint else _File(run)
        except ModuleNotFoundError as error:
            raise MissingExtra(f"OpenTelemetry is not installed ({error}): pip install 'enpire[otel]'.") from error

    def position(self) -> int:
        """The last event whose spans were kept."""
        return self._place.position()

    def write(self, points: Sequence[Point]) -> None:
        """Write the spans of a batch. TransportProblem if the endpoint does not take them."""
        self._place.write(list(readable(self._run, points)), points[-1].seq)

    def close(self) -> None:
        """Close the connection."""
        self._place.close()


def readable(run: TrackedRun, points: Sequence[Point]) -> Iterator[Any]:
    """The spans of these points as OpenTelemetry's SDK has them; their ids are hashes, the same in every process."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import Link, Status, StatusCode

    config = {f"enpire.{name}": value for name, value in run.config.items()}
    named = {"service.name": run.project, "enpire.campaign": run.campaign_id, "enpire.campaign_name": run.name}
    resource, scope = Resource({**named, **config}), InstrumentationScope("enpire")
    for point in points:
        for span in point.spans:
            yield ReadableSpan(
                name=span.name,
                context=_context(run, span.trace, span.part),
                parent=_context(run, span.trace, "") if span.part else None,
                resource=resource,
                attributes={**span.attributes, EVENT: point.seq},
                events=[Event("restarted", timestamp=stamp_ns) for stamp_ns in span.marks],
                links=[Link(_context(run, span.belongs_to, ""))] if span.belongs_to else [],
                status=Status(StatusCode.ERROR, span.failed) if span.failed else Status(StatusCode.UNSET),
                start_time=span.began_ns,
                end_time=span.ended_ns,
                instrumentation_scope=scope,
            )


def _context(run: TrackedRun, trace: str, part: str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    def number(text: str, size: int) -> int:
        return int.from_bytes(hashlib.sha256(f"{run.campaign_id} {text}".encode()).digest()[:size], "big")

    return SpanContext(
        trace_id=number(trace, 16), span_id=number(f"{trace} {part}", 8), is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )  # fmt: skip


class _Endpoint:
    def __init__(self, run: TrackedRun) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        self._path = run.folder / f"{file_name(run.campaign_id, 'a campaign')}.position"
        self._exporter: Any = OTLPSpanExporter()

    def position(self) -> int:
        try:
            return int(self._path.read_text(encoding="ascii")) if self._path.is_file() else 0
        except ValueError as error:
            raise FileProblem(f"{self._path} must hold a number; give another folder with --dir.") from error

    def write(self, spans: Sequence[Any], seq: int) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise TransportProblem(
                "The endpoint of OTEL_EXPORTER_OTLP_ENDPOINT did not take the spans; the same command resumes there."
            )
        durable.write(self._path, str(seq).encode())

    def close(self) -> None:
        self._exporter.shutdown()


class _File:
    def __init__(self, run: TrackedRun) -> None:
        import google.protobuf.json_format
        import opentelemetry.exporter.otlp.proto.common.trace_encoder

        self._encode: Any = opentelemetry.exporter.otlp.proto.common.trace_encoder.encode_spans
        self._document: Any = google.protobuf.json_format.MessageToDict
        path = self._path = run.folder / f"{file_name(run.campaign_id, 'a campaign')}.jsonl"
        whole = path.read_bytes() if path.is_file() else b""
        end = whole.rfind(b"\n") + 1
        if end < len(whole):  # a killed process left a part of a line
            with path.open("r+b") as file:
                file.truncate(end)
        lines = whole[:end].splitlines()
        self._position = max((_event_of(span) for span in _spans_of(json.loads(lines[-1]))), default=0) if lines else 0

    def position(self) -> int:
        return self._position

    def write(self, spans: Sequence[Any], seq: int) -> None:
        document = self._document(self._encode(spans), use_integers_for_enums=True)
        durable.append(self._path, json.dumps(_with_hex_ids(document)).encode() + b"\n")
        self._position = seq

    def close(self) -> None:
        """Nothing is open between two writes."""


def _with_hex_ids(request: Any) -> Any:
    """The request with ids as OTLP's JSON has them, in hex; protobuf's JSON has base64."""
    for span in _spans_of(request):
        for holder in (span, *span.get("links", ())):
            for key in _IDS.intersection(holder):
                holder[key] = base64.b64decode(holder[key]).hex()
    return request


def _spans_of(line: Any) -> Iterator[Any]:
    for resource in line["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


def _event_of(span: Any) -> int:
    return next(int(one["value"]["intValue"]) for one in span["attributes"] if one["key"] == EVENT)
