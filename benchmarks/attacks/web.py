"""Attacks on the web server: a real `enpire serve`, requests over TCP."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks.attacks import Result, Run, attack
from tests.web_ui.recorded import record
from web_ui.accounts import Accounts
from web_ui.attempts import FREE
from web_ui.auth import COOKIE

PUBLIC = {"/api/v1/session", "/api/v1/setup", "/healthz", "/api/v1/openapi.json"}
"""Paths that answer before sign-in: the sign-in itself, whether the server is up, and the description of the API."""


@contextlib.contextmanager
def serving(home: Path) -> Iterator[str]:
    """The address of a server over a home with a short history."""
    record(home).ledger.close()
    command = [sys.executable, "-m", "enpire.cli", "serve", "--home", str(home), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            addresses = (re.search(r"http://[\w.]+:\d+", line) for line in server.stdout)
            address = next((found[0] for found in addresses if found), "")
            if not address:
                raise RuntimeError(f"the server ended with code {server.wait()}")
            yield address
        finally:
            server.terminate()


def routes(client: httpx.Client) -> list[tuple[str, str]]:
    """(method, path) of every route that the server describes, with an id in place of each parameter."""
    paths = client.get("/api/v1/openapi.json").raise_for_status().json()["paths"]
    return [
        (method.upper(), re.sub(r"\{\w+\}", "1", path))
        for path, methods in paths.items() for method in methods if method in {"get", "put", "post", "patch", "delete"}
    ]  # fmt: skip


@attack("a person without an account", "reads or changes anything")
def every_route_without_signing_in(run: Run) -> Result:
    """Call every route with no credentials, an invented token and an invented session."""
    with serving(run.folder / "home") as address, httpx.Client(base_url=address) as client:
        disguises: list[dict[str, str]] = [
            {}, {"authorization": "Bearer invented"}, {"cookie": f"{COOKIE}=invented", "origin": address},
        ]  # fmt: skip
        answers = [
            client.request(method, path, headers=headers, json={}).status_code
            for method, path in routes(client) if path not in PUBLIC for headers in disguises
        ]  # fmt: skip
    held = sum(code in (401, 403) for code in answers)
    return Result(tried=len(answers), held=held, evidence=f"{held} of {len(answers)} requests were answered 401 or 403")


@attack("a web site that an operator's browser visits", "sends a command with the operator's session")
def every_verb_from_another_site(run: Run) -> Result:
    """Send every changing request with an admin's session, from another origin or under a name that was rebound."""
    home = run.folder / "home"
    with serving(home) as address, httpx.Client(base_url=address) as client:
        accounts = Accounts(home / "web.db")
        accounts.add_user("ada", "admin", "correct horse")
        session = f"{COOKIE}={accounts.open_key('session', 'ada', 'a browser')}"
        signed_in = client.get("/api/v1/campaigns", headers={"cookie": session}).status_code
        verbs = [(method, path) for method, path in routes(client) if method != "GET"]
        forged = [
            {"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}, {},
            {"host": "evil.example", "origin": "http://evil.example"},
        ]  # fmt: skip
        answers = [
            client.request(method, path, headers={"cookie": session, **headers}, json={}).status_code
            for method, path in verbs for headers in forged
        ]  # fmt: skip
        accounts.close()
    held = sum(code in (403, 421) for code in answers) if signed_in == 200 else 0
    evidence = f"{held} of {len(answers)} requests refused; the same session reads from its own site ({signed_in})"
    return Result(tried=len(answers), held=held, evidence=evidence)


@attack("a person without an account", "guesses a password faster than the rate limit allows")
def sign_in_under_invented_addresses(run: Run) -> Result:
    """Try wrong passwords, each with another X-Forwarded-For, X-Real-IP and Forwarded header."""
    home, tries = run.folder / "home", 60 if run.quick else 600
    with serving(home) as address, httpx.Client(base_url=address) as client:
        accounts = Accounts(home / "web.db")
        accounts.add_user("ada", "admin", "correct horse")
        accounts.close()
        answers: list[int] = []
        for number in range(tries):
            source = f"203.0.{number // 250}.{number % 250 + 1}"
            headers = {"x-forwarded-for": source, "x-real-ip": source, "forwarded": f"for={source}"}
            body = {"name": "ada", "password": f"guess {number}"}
            answers.append(client.post("/api/v1/session", json=body, headers=headers).status_code)
    checked = answers.count(401)
    held = tries if checked <= FREE + 2 and checked + answers.count(429) == tries else 0
    evidence = f"{checked} of {tries} guesses were checked, the others refused with 429; {FREE} are free"
    return Result(tried=tries, held=held, evidence=evidence)
