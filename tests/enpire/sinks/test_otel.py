"""Traces of a campaign, read by OpenTelemetry's own exporters, by a receiver of OTLP over HTTP, and from the file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from enpire.errors import MissingExtra, TransportProblem
from enpire.sinks.otel_sink import readable
from enpire.sinks.sink import SINKS, Following, TrackedRun, follow
from enpire.sinks.spans import Span
from tests.enpire.sinks.points_of_home import points_of
from tests.fakes.loopback_server import answering
from tests.fakes.sample_campaign import BASE, CAMPAIGN, SECOND, CampaignWriter, begin

RUN = TrackedRun(folder=Path(), project="lab", campaign_id=CAMPAIGN, name="pins", config={"seed": 7})


def a_round(home: Path) -> CampaignWriter:
    """A campaign with a measured base, a round with collection, a training run and its gate; not ended."""
    record = begin(home)
    for _ in range(6):
        record.run("collect", BASE, 1, 0.4)
    record.learn(1, BASE, SECOND)
    record.gate(1, 0, (BASE, 0.4), (SECOND, 1.0))
    record.flush()
    return record


def spans_of(home: Path) -> list[Span]:
    return [span for point in points_of(home) for span in point.spans]


def followed(home: Path, folder: Path) -> Following:
    following = follow(home, CAMPAIGN, SINKS.load("otel"), (folder, "lab"))
    state = next(following)
    following.close()
    return state


def test_the_spans_of_a_round_its_gate_and_its_episodes(tmp_path: Path) -> None:
    a_round(tmp_path)
    exporter = InMemorySpanExporter()
    exporter.export(list(readable(RUN, points_of(tmp_path))))
    found = exporter.get_finished_spans()
    roots = {span.context.trace_id: span for span in found if span.parent is None and span.context}
    assert len({(span.context.trace_id, span.context.span_id) for span in found if span.context}) == len(found)
    for span in found:
        assert span.start_time is not None
        assert span.end_time is not None
        if span.parent is not None:
            assert span.parent == roots[span.parent.trace_id].context
        assert span.start_time <= span.end_time
    names = Counter(span.name for span in roots.values())
    assert names == Counter(
        {
            "episode: demonstrate": 4, "episode: base": 40, "episode: collect": 6, "round 0": 1, "round 1": 1,
            "gate 1": 1, "episode: gate": names["episode: gate"],
        }
    )  # fmt: skip
    inner = {name: [span for span in found if span.name == name] for name in ("collect", "train habc")}
    (gate,) = (span for span in roots.values() if span.name == "gate 1")
    pairs = [span for span in found if span.parent == gate.context]
    assert gate.attributes is not None
    assert names["episode: gate"] == 2 * len(pairs) == 2 * int(str(gate.attributes["enpire.pairs"]))
    for name, spans in inner.items():
        assert {roots[span.parent.trace_id].name for span in spans if span.parent} == {"round 0", "round 1"}, name
    trials = [span for span in roots.values() if span.name == "episode: gate"]
    assert all(span.links[0].context == gate.context for span in trials)
    (first, *_) = [span for span in found if span.name == "at the station"]
    assert first.attributes is not None
    assert first.attributes["enpire.robot_s"] == 2.5
    assert first.resource.attributes["service.name"] == "lab"
    assert first.resource.attributes["enpire.campaign"] == CAMPAIGN


def test_what_failed_is_an_error_and_a_failure_of_a_rollout_is_none(tmp_path: Path) -> None:
    record = begin(tmp_path)
    record.end(record.order("collect", BASE, 1), "failure")
    record.end(record.order("collect", BASE, 1), "invalid", "the camera is dark")
    record.end(record.order("collect", BASE, 1), "aborted", "released")
    about = {"learner": "habc", "parent": BASE, "round": 1, "episodes": [], "recipe_hash": "1", "data_hash": "2"}
    record.tell("learner started", job="j", recipe={"name": "h", "learner": "habc", "settings": {}}, **about)
    record.tell("learner killed", job="j", restarts=1)
    record.tell("learner failed", job="j", why="no memory")
    record.flush()
    spans = [span for span in spans_of(tmp_path) if span.attributes.get("enpire.round") == 1 or span.part == "train"]
    assert [(span.name, span.failed) for span in spans[-4:]] == [
        ("episode: collect", ""), ("episode: collect", "the camera is dark"), ("round 1", "no memory"),
        ("train habc", "no memory"),
    ]  # fmt: skip
    assert len(spans[-1].marks) == 1


@pytest.fixture
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                yield from scope["spans"]


@pytest.mark.usefixtures("no_endpoint")
def test_the_file_holds_every_span_once_over_kills_and_restarts(tmp_path: Path) -> None:
    record, folder = begin(tmp_path / "home"), tmp_path / "kept"
    record.flush()
    words = ("otel", str(record.home), str(folder), CAMPAIGN)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.enpire.sinks.killed", *words], capture_output=True, timeout=600, check=False
    )
    assert killed.returncode == -9, killed.stderr
    path = folder / f"{CAMPAIGN}.jsonl"
    assert 0 < len(list(lines(path))) < len(spans_of(record.home))
    with path.open("ab") as file:
        file.write(b'{"resourceSpans": [{"sc')  # a process that was killed while it wrote
    assert followed(record.home, folder).points > 0
    record.run("collect", BASE, 1, 1.0)
    record.flush()
    assert followed(record.home, folder).points == 1
    assert followed(record.home, folder).points == 0
    wanted = spans_of(record.home)
    found = list(lines(path))
    assert [span["name"] for span in found] == [span.name for span in wanted]
    assert len({span["spanId"] for span in found}) == len(found)
    assert all(len(span["traceId"]) == 32 and int(span["traceId"], 16) for span in found)
    assert [int(span["startTimeUnixNano"]) for span in found] == [span.began_ns for span in wanted]


def test_an_endpoint_gets_every_span_and_a_refusal_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[str] = []
    refuses = [True]

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(400 if refuses[0] else 200)
            self.end_headers()
            if not refuses[0]:
                request = ExportTraceServiceRequest.FromString(body)
                scopes = [scope for resource in request.resource_spans for scope in resource.scope_spans]
                received.extend(span.name for scope in scopes for span in scope.spans)
                assert self.path == "/v1/traces"

        def log_message(self, format: str, *args: object) -> None: ...

    record = begin(tmp_path / "home")
    record.flush()
    folder = tmp_path / "kept"
    with answering(Receiver) as address:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(TransportProblem, match="the same command resumes there"):
            followed(record.home, folder)
        refuses[0] = False
        followed(record.home, folder)
        wanted = [span.name for span in spans_of(record.home)]
        assert received == wanted
        assert followed(record.home, folder).points == 0
    assert received == wanted


@pytest.mark.usefixtures("no_endpoint")
def test_a_missing_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.common.trace_encoder", None)
    with pytest.raises(MissingExtra, match=r"pip install 'enpire\[otel\]'"):
        SINKS.make("otel", TrackedRun(folder=tmp_path, project="lab", campaign_id=CAMPAIGN, name="pins", config={}))
