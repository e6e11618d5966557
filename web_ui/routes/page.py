"""The built page and its files; without a build, instructions to build it."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, HTMLResponse, Response

from web_ui.problems import Problem

router = APIRouter(include_in_schema=False)
BUILT = Path(__file__).resolve().parents[1] / "static"
FOREVER = "public, max-age=31536000, immutable"
HOW = """<!doctype html><html lang="en"><meta charset="utf-8"><title>ENPIRE</title>
<h1>ENPIRE is running, but its page is not built</h1>
<p>Build it once with <code>make ui</code> (or <code>npm ci &amp;&amp; npm run build</code> in <code>web_ui/ui</code>),
then reload this address. The API is available under <code>/api/v1</code>; it is described in
<a href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p></html>"""


@router.get("/{path:path}")
async def page(path: str, request: Request) -> Response:
    """A file of the build, or the page itself for every other path; the page has its own router."""
    if path.startswith("api/"):
        raise Problem(404, f"The API has no address /{path[:100]}.")
    static = cast(Path, request.app.state.static)
    index = static / "index.html"
    if not index.is_file():
        return HTMLResponse(HOW)
    wanted = _built_file(static, path)
    if wanted is not None:
        cache = {"cache-control": FOREVER} if path.startswith("assets/") else {"cache-control": "no-cache"}
        return FileResponse(wanted, headers=cache)
    if path.startswith("assets/"):
        raise Problem(404, f"The page has no file /{path[:100]}.")
    return FileResponse(index, headers={"cache-control": "no-cache"})


def _built_file(static: Path, path: str) -> Path | None:
    """The file of the build with this name; None if there is none, also where no system allows such a name."""
    try:
        wanted = (static / path).resolve()
        return wanted if wanted.is_relative_to(static.resolve()) and wanted.is_file() else None
    except (OSError, ValueError):
        return None
