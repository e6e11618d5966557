"""Every error of the API as one document: application/problem+json (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from enpire.errors import EnpireError, LedgerProblem, StorageFull, UnknownName, UsageError

MEDIA_TYPE = "application/problem+json"
TITLES: Mapping[int, str] = {
    400: "The request cannot be read",
    401: "Sign in first",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict with the current state",
    413: "The request is too large",
    415: "The content type is not supported",
    421: "This host name is not served here",
    422: "The request is not valid",
    429: "Too many tries",
    500: "Internal server error",
    503: "Not available now",
}


class ProblemDocument(BaseModel):
    """Why a request was refused."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank", "title": "Not found", "status": 404,
                    "detail": "There is no station 'sim-9' in the running lab.",
                }
            ]
        }
    )  # fmt: skip
    type: str = "about:blank"
    title: str = Field(description="The same for every problem of this status.")
    status: int = Field(ge=400, le=599)
    detail: str = Field(min_length=1, description="What is wrong with the request, and what to do.")


class Problem(EnpireError):
    """A refused request: the HTTP status and one sentence."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})


def answer(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The problem document as a response."""
    body = ProblemDocument(title=TITLES.get(status, "Refused"), status=status, detail=detail)
    return Response(body.model_dump_json(), status, dict(headers or {}), MEDIA_TYPE)


def status_of(error: EnpireError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, Problem):
        return error.status
    if isinstance(error, UnknownName):
        return 404
    if isinstance(error, UsageError):
        return 400
    return 503 if isinstance(error, LedgerProblem | StorageFull) else 500


def install(app: FastAPI) -> None:
    """Answer every error of a route with a problem document."""

    async def enpire_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, EnpireError)  # registered for this class alone
        headers = error.headers if isinstance(error, Problem) else None
        return answer(status_of(error), str(error), headers)

    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # registered for this class alone
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        broken = first["type"] == "json_invalid"
        return answer(400 if broken else 422, f"{where}: {first['msg']}.")

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # registered for this class alone
        detail = f"{request.method} {request.url.path}: {error.detail}."
        return answer(error.status_code, detail, error.headers)

    async def unexpected(request: Request, error: Exception) -> Response:
        detail = f"{request.method} {request.url.path} failed ({type(error).__name__}); see the server's log."
        return answer(500, detail)

    app.add_exception_handler(Exception, unexpected)
    app.add_exception_handler(EnpireError, enpire_error)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
