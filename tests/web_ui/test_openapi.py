"""The API against its own document: requests are drawn from it for every operation, and every answer is held to it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.generation.case import Case
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from enpire.campaign.campaign import read_campaign
from enpire.code_candidates.authored_tasks import approve, find_task
from enpire.code_candidates.repository import CodeRepository
from enpire.requests.campaign_queue import CampaignQueue
from enpire.service.webhooks import WebhookSettings, keep_webhook
from enpire.store.pictures import NAME, keep
from enpire.wire.live_images import Preview
from tests.enpire.code_candidates.authored_task import proposed, scored
from tests.web_ui.conftest import ADDRESS, PASSWORD
from tests.web_ui.scripted_export import packed_at_once
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui import archive
from web_ui.accounts import Accounts
from web_ui.app import create_app
from web_ui.attempts import Attempts
from web_ui.auth import COOKIE

BUDGET = 6
"""Requests drawn for each operation."""
JPEG = b"\xff\xd8\xff\xd9"
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
CREDENTIALS = {"authorization", "cookie", "origin"}
SESSIONS_ONLY = {"/api/v1/session/password", "/api/v1/keys"}
CHECKS = [
    status_code_conformance, content_type_conformance, response_schema_conformance, negative_data_rejection,
]  # fmt: skip


@dataclass
class World:
    """An application with something of everything in it, called as an admin."""

    app: FastAPI
    client: TestClient
    known: Mapping[str, str]
    """What exists, by the name that a path has for it."""
    secret: str = ""
    """Of the set-up link; empty where there is an admin."""
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def accounts(self) -> Accounts:
        return self.app.state.accounts

    def send(self, case: Case, real: bool, bearer: bool) -> int:
        """Send what was drawn, signed in afresh; `real`: about something that exists, with what is right."""
        if real:
            self._mend(case)
            bearer = bearer and case.operation.path not in SESSIONS_ONLY
        sent = case.as_transport_kwargs(base_url=ADDRESS)
        for unknown in ("auth", "verify", "timeout", "stream", "cookies"):
            sent.pop(unknown, None)
        if "data" in sent:
            sent["content"] = sent.pop("data")
        kept = {name: value for name, value in dict(sent["headers"] or {}).items() if name.lower() not in CREDENTIALS}
        sent["headers"] = {**kept, **self._signed_in(bearer)}
        self.client.cookies.clear()
        answer = self.client.request(**sent)
        case.validate_response(answer, checks=CHECKS)
        return answer.status_code

    def _signed_in(self, bearer: bool) -> dict[str, str]:
        if self.secret:
            return {"origin": ADDRESS}
        key = self.accounts.open_key("token" if bearer else "session", "root", "drawn")
        return {"authorization": f"Bearer {key}"} if bearer else {"cookie": f"{COOKIE}={key}", "origin": ADDRESS}

    def _mend(self, case: Case) -> None:
        number, path = next(self.numbers), case.operation.path
        self.app.state.attempts = Attempts()
        fresh = self._made(path, number)
        case.path_parameters = {name: {**self.known, **fresh}[name] for name in case.path_parameters or {}}
        bodies: dict[str, Any] = {
            "/api/v1/session": {"name": "root", "password": PASSWORD},
            "/api/v1/session/password": {"present": PASSWORD, "fresh": PASSWORD},
            "/api/v1/setup": {"secret": self.secret, "name": "first", "password": PASSWORD},
            "/api/v1/commands": {"verb": ("stop", "resume")[number % 2], "target": "sim-1"},
            "/api/v1/episodes/export": {"episodes": [self.known["order_id"]] if self.known else []},
            "/api/v1/start": {"template": "pin_insertion", "name": f"drawn-{number}"},
        }
        if path.startswith("/api/v1/tasks/authored/"):
            bodies[path] = {"seen": self.known.get("digest"), "reason": "It is a point."}
        if path in bodies and case.method.upper() != "GET":
            case.body = bodies[path]
        if path == "/api/v1/commands" and case.method.upper() == "POST":
            case.headers["Idempotency-Key"] = f"drawn-{number:04}"

    def _made(self, path: str, number: int) -> dict[str, str]:
        """What a request may take away, made for it."""
        if path.startswith("/api/v1/webhook/"):
            keep_webhook(self.app.state.home.root, WebhookSettings(address="http://127.0.0.1:9/hooks/1"))
        if path == "/api/v1/users/{name}":
            return {"name": self.accounts.add_user(f"guest-{number}", "viewer", PASSWORD).name}
        if path == "/api/v1/keys/{key_id}":
            self.accounts.open_key("token", "root", "to be ended")
            return {"key_id": self.accounts.keys("root")[0].id}
        if path == "/api/v1/queue/{queued_id}":
            waits = replace(read_campaign("push_t"), name=f"made-{number}")
            return {"queued_id": CampaignQueue(self.app.state.home).add(waits, "root").id}
        if path.endswith("/withdraw"):
            approve(find_task(self.app.state.home.root, self.known["task_id"]), "root")
        if "/pictures/" in path:
            return {"name": "front_00000.jpg"}
        return {}


@pytest.fixture(scope="module")
def world(recorded: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = shutil.copytree(recorded[0], tmp_path_factory.mktemp("drawn") / "home")
    lab = ScriptedLab(campaign_id=recorded[1], pictures={("sim-1", "front"): Preview(jpeg=JPEG)})
    app = create_app(home, lab)
    app.state.accounts.add_user("root", "admin", PASSWORD)
    with TestClient(app, base_url=ADDRESS) as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "export_in_process", packed_at_once)
        patch.setenv("no_proxy", "127.0.0.1")
        made = World(app=app, client=client, known={})
        client.headers.update(made._signed_in(bearer=True))
        kept = {"purpose": "collect", "outcome": "failure"}
        episode = client.get("/api/v1/episodes", params=kept).json()["rows"][0]["order_id"]
        keep(home / "episodes" / recorded[1] / episode / NAME, {0: {"front": np.zeros((4, 4, 3), np.uint8)}}, "jpg")
        (home / "videos" / episode).mkdir(parents=True)
        (home / "videos" / episode / "front.webm").write_bytes(b"a film")
        gate = client.get(f"/api/v1/campaigns/{recorded[1]}").json()["gates"][0]["id"]
        stop = client.post("/api/v1/commands", json={"verb": "stop"}, headers={"Idempotency-Key": "the-first"})
        del client.headers["authorization"]
        task = proposed(home)
        scored(home, task)
        made.known = {
            "campaign_id": recorded[1], "order_id": episode, "name": "sim-1", "camera": "front",
            "command_id": stop.json()["id"], "gate_id": gate,
            "task_id": task.task_id, "digest": task.digest,
            "commit": CodeRepository(home).keep({"policy.py": "HORIZON = 4\n"}, "refs/submitted/a", "a", "ada").commit,
        }  # fmt: skip
        yield made


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server that has no admin yet."""
    app = create_app(tmp_path_factory.mktemp("fresh"), ScriptedLab(gone=True))
    with TestClient(app, base_url=ADDRESS) as client:
        yield World(app=app, client=client, known={}, secret=app.state.accounts.mint_setup())


def operations(app: FastAPI) -> list[APIOperation]:
    found = schemathesis.openapi.from_dict(app.openapi()).get_all_operations()
    return [result.ok() for result in found if isinstance(result, Ok)]


def drawn(world: World, operation: APIOperation) -> Counter[int]:
    """How often an operation answered with which status, over the whole of its budget."""
    statuses: Counter[int] = Counter()
    fitting, wrong = operation.as_strategy(), operation.as_strategy(GenerationMode.NEGATIVE)
    for cases, real in ((fitting, True), (fitting, False), (wrong | fitting, False)):  # of some nothing can be wrong

        @settings(max_examples=BUDGET // 3, phases=[Phase.generate], suppress_health_check=SLOW_IS_FINE)
        @given(case=cases, real=st.just(real), bearer=st.booleans())
        def draw(case: Case, real: bool, bearer: bool) -> None:
            statuses[world.send(case, real, bearer)] += 1

        draw()
    return statuses


def test_every_operation_answers_as_the_document_says_and_succeeds_where_it_can(
    world: World, fresh: World, subtests: pytest.Subtests
) -> None:
    for operation in operations(world.app):
        with subtests.test(operation.label):
            statuses = drawn(fresh if operation.path == "/api/v1/setup" else world, operation)
            assert any(200 <= status < 300 for status in statuses), statuses
            assert not [status for status in statuses if status >= 500], statuses


def test_a_request_without_credentials_is_refused_where_the_document_asks_for_them(world: World) -> None:
    guarded = 0
    world.client.cookies.clear()
    for path, methods in world.app.openapi()["paths"].items():
        for method, told in methods.items():
            answer = world.client.request(method, path.replace("{", "").replace("}", ""), json={})
            needs = [set(way) for way in told.get("security", [])]
            assert needs in ([], [{"token"}, {"session"}])
            assert (answer.status_code == 401) == bool(needs), (method, path, answer.text)
            guarded += bool(needs)
    assert guarded > 20
    schemes = world.app.openapi()["components"]["securitySchemes"]
    assert (schemes["token"]["scheme"], schemes["session"]["in"]) == ("bearer", "cookie")


def test_every_refusal_in_the_document_is_a_problem_document(world: World) -> None:
    document = world.app.openapi()
    promised = {
        "/api/v1/commands": {400, 401, 403, 404, 409, 413, 421, 422, 503},
        "/api/v1/setup": {400, 403, 413, 429},
    }
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            refusals = {status: answer for status, answer in told["responses"].items() if int(status) >= 400}
            for answer in refusals.values():
                assert list(answer["content"]) == ["application/problem+json"]
                assert answer["content"]["application/problem+json"]["schema"]["$ref"].endswith("/ProblemDocument")
            if method == "post":
                assert promised.get(path, set()) <= set(map(int, refusals)), path
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_without_a_lab_a_command_is_refused_as_the_document_says(records_only: TestClient) -> None:
    refused = records_only.post("/api/v1/commands", json={"verb": "stop"}, headers={"Idempotency-Key": "no-lab-here"})
    assert refused.status_code == 503
    told = records_only.get("/api/v1/openapi.json").json()["paths"]["/api/v1/commands"]["post"]["responses"]["503"]
    assert refused.headers["content-type"] in told["content"]


def test_every_schema_has_an_example_that_fits_it(world: World) -> None:
    document = world.app.openapi()
    schemas: dict[str, dict[str, Any]] = document["components"]["schemas"]
    closed = {name: {**schema, "additionalProperties": False} for name, schema in schemas.items()}
    for name, schema in schemas.items():
        examples = schema.get("examples") or [
            {part: told["examples"][0] for part, told in schema["properties"].items() if "examples" in told}
        ]
        for example in examples:
            asked = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": closed}}
            jsonschema.Draft202012Validator(asked).validate(example)
