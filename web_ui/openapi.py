"""The OpenAPI document: what FastAPI reads off the routes, and beside it how each operation refuses, with examples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from web_ui.problems import MEDIA_TYPE, TITLES, ProblemDocument

EXAMPLES = Path(__file__).with_name("examples.json")
"""Schema name -> an answer of a recorded campaign; those that a route defines itself carry their own."""
UNUSED = ("HTTPValidationError", "ValidationError")
"""FastAPI's own shape of what does not fit a request; here that is a problem document, too."""


Responses = dict[int | str, dict[str, Any]]
"""What a route says of its answers beside its model: FastAPI's argument `responses`."""


def refusals(*statuses: int) -> Responses:
    """Problem documents with these statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    return {str(status): {"description": f"{TITLES[status]}.", "content": content} for status in statuses}


def answers(media_type: str) -> Responses:
    """An answer that is no JSON."""
    schema = {"type": "string"} if media_type.startswith("text/") else {"type": "string", "format": "binary"}
    return {200: {"content": {media_type: {"schema": schema}}}}


class Application(FastAPI):
    """FastAPI with the whole truth in its document."""

    def openapi(self) -> dict[str, Any]:
        """The document, completed once."""
        if self.openapi_schema is None:
            _complete(super().openapi())
        assert self.openapi_schema is not None  # super() keeps what it made
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
    """The statuses that follow from where an operation stands; what is special to one, its route says."""
    yield 421
    if "422" in operation["responses"]:
        yield 422
    if "security" in operation:
        yield 401
    if method != "get":
        yield from (403, 413)  # the border looks at the origin and the size
    if "requestBody" in operation:
        yield 400
    if "{" in path:
        yield 404
