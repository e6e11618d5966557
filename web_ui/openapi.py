"""The OpenAPI document: FastAPI makes it from the routes; this module adds the refusals and the examples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from web_ui.problems import MEDIA_TYPE, TITLES, ProblemDocument

EXAMPLES = Path(__file__).with_name("examples.json")
"""Schema name -> an example from a recorded campaign. Schemas that a route defines have their own examples."""
UNUSED = ("HTTPValidationError", "ValidationError")
"""FastAPI's schemas of invalid requests; this API answers them with a problem document."""


Responses = dict[int | str, dict[str, Any]]
"""FastAPI's argument `responses` of a route."""


def refusals(*statuses: int) -> Responses:
    """Responses with a problem document for these statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    return {str(status): {"description": f"{TITLES[status]}.", "content": content} for status in statuses}


def answers(media_type: str) -> Responses:
    """The response of a route that does not answer with JSON."""
    schema = {"type": "string"} if media_type.startswith("text/") else {"type": "string", "format": "binary"}
    return {200: {"content": {media_type: {"schema": schema}}}}


class Application(FastAPI):
    """FastAPI with a complete OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document; completed on the first call."""
        if self.openapi_schema is None:
            _complete(super().openapi())
        assert self.openapi_schema is not None  # set by super()
        return self.openapi_schema


def _complete(document: dict[str, Any]) -> None:
    schemas: dict[str, Any] = document["components"]["schemas"]
    for name in UNUSED:
        schemas.pop(name, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    for name, example in json.loads(EXAMPLES.read_text(encoding="utf-8")).items():
        schemas[name].setdefault("examples", [example])
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            known = {**operation["responses"], **refusals(*_refused(path, method, operation))}
            operation["responses"] = {str(status): known[status] for status in sorted(known, key=int)}


def _refused(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    """Statuses that follow from the method and path of an operation; its route declares the others."""
    yield 421
    if "422" in operation["responses"]:
        yield 422
    if "security" in operation:
        yield 401
    if method != "get":
        yield from (403, 413)  # the request guard checks origin and size
    if "requestBody" in operation:
        yield 400
    if "{" in path:
        yield 404
