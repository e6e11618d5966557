"""Attacks with texts that no honest person writes: files and arguments of commands, requests to the web server."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks.attacks import Result, Run, attack
from benchmarks.attacks.web import routes, serving
from enpire.store.durable import make_folder
from tests.web_ui.foreign_texts import BODIES, HEADERS, QUERIES, SEGMENTS
from web_ui.accounts import Accounts

DIGITS = "9" * 5000
PATIENCE_S = 120.0


def _files(folder: Path) -> list[str]:
    """Files that hold a reader: very deep, very long numbers, very many aliases, a pipe, a device, no text."""
    make_folder(folder)
    texts = {
        "deep.yaml": "a: " + "[" * 100_000, "deep.json": "[" * 100_000, "digits.yaml": f"seed: {DIGITS}",
        "hexadecimal.yaml": f"seed: 0x{DIGITS}", "self.yaml": "a: &a [*a]", "code.yaml": "a: !!python/name:os.system",
        "date.yaml": "name: 2026-01-01", "half.json": "{", "percent.yaml": "{name: a, task: push_t, recipe: sft, goal: "
        "{success: 97}}", "soup.yaml": "{name: a, task: push_t, recipe: soup}",
        "aliases.yaml": "\n".join(
            ["a0: &a0 [1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
        ),
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe\0")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "device.yaml").symlink_to("/dev/zero")
    return [*(str(path) for path in sorted(folder.iterdir())), str(folder), "x" * 100_000 + ".yaml", "", "../" * 20_000]


@attack("a person who types or fetches a file", "ends a command with a traceback, or holds it for ever")
def texts_on_the_command_line(run: Run) -> Result:
    """Give every file to every command that reads one; each must end with one sentence and make no home."""
    home, files = run.folder / "home", _files(run.folder / "files")
    commands = [
        ["run", file, "--headless", "--home", str(home)] for file in files
    ] + [["station", file] for file in files] + [
        ["improve", file, "--home", str(home)] for file in files
    ] + [["robot", "status", file] for file in files] + [["robot", "check", file] for file in files] + [
        ["gate", file, file, "--home", str(home)] for file in files
    ] + [["episodes", "import", file, "--home", str(home)] for file in files] + [
        ["run", "push_t", "--seed", DIGITS, "--home", str(home)], ["run", "push_t", "--seed", str(2**63), "--headless"],
        ["serve", "--home", str(home)], ["serve", "--home", "x" * 100_000], ["task", "show", "\udcff"],
    ]  # fmt: skip
    chosen = random.Random(run.seed).sample(commands, 4) if run.quick else commands
    lost = [answer for command in chosen if (answer := _answer(command))]
    made = [str(home)] if home.exists() else []
    held = len(chosen) - min(len(chosen), len(lost) + len(made))
    evidence = f"{held} of {len(chosen)} commands ended with one sentence and made no home"
    return Result(tried=len(chosen), held=held, evidence=". ".join([evidence, *(lost + made)[:1]]))


def _answer(words: list[str]) -> str:
    """Empty if a command ended with one sentence; otherwise what it did."""
    command = [sys.executable, "-m", "enpire.cli", *words]
    shown = " ".join(word[:60] for word in words)
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{shown}: did not end within {PATIENCE_S:g} s"
    said = done.stderr.decode(errors="replace")
    lines = said.splitlines()
    sentences = [line for line in lines if line.startswith(("enpire: ", "Error: "))] or lines
    if done.returncode in (1, 2) and len(sentences) == 1 and "Traceback" not in said:
        return ""
    return f"{shown}: code {done.returncode}, {said[-300:]}"


@attack("a signed-in client", "makes the web server fail with 500")
def texts_to_every_route(run: Run) -> Result:
    """Send every text in every place of a request to a real server; each must be answered below 500."""
    home = run.folder / "home"
    draw = random.Random(run.seed)
    with serving(home) as address, httpx.Client(base_url=address, timeout=60) as client:
        accounts = Accounts(home / "web.db")
        accounts.add_user("ada", "admin", "correct horse")
        signed_in = {
            "authorization": f"Bearer {accounts.open_key('token', 'ada', 'texts')}",
            "idempotency-key": "texts-1",
        }
        accounts.close()
        requests = _requests(routes(client))
        chosen = draw.sample(requests, 100) if run.quick else requests
        codes = [_code(client, signed_in, request) for request in chosen]
        alive = client.get("/healthz").status_code
    held = sum(code < 500 for code in codes) if alive == 200 else 0
    worst = max(codes)
    evidence = f"{held} of {len(codes)} requests were answered below 500 (highest {worst}), then /healthz with {alive}"
    return Result(tried=len(codes), held=held, evidence=evidence)


_Request = tuple[str, str, Mapping[str, Any]]


def _requests(described: list[tuple[str, str]]) -> list[_Request]:
    """(method, path, arguments of httpx) of every text in every place."""
    ends = ("DELETE", "/api/v1/session")
    found: list[_Request] = []
    body = {"content": b"{}"}
    for method, path in (route for route in described if route != ends):
        found += [(method, f"{path.rpartition('/')[0]}/{segment}", body) for segment in SEGMENTS]
        found += [(method, path, {"content": body}) for body in BODIES if method != "GET"]
        found += [(method, path, {"params": query}) for query in QUERIES]
    for header in HEADERS:
        if "content-length" not in header and "host" not in header:  # the client would not send these as they are
            sent = {name: value.encode("latin-1") for name, value in header.items()}
            found += [("GET", "/api/v1/campaigns", {"headers": sent}), ("POST", "/api/v1/commands", {"headers": sent})]
    return found


def _code(client: httpx.Client, signed_in: dict[str, str], request: _Request) -> int:
    """The status of the answer; 400 where the connection was closed on a request that is no HTTP."""
    method, path, arguments = request
    headers = {**signed_in, **arguments.get("headers", {})}
    try:
        return client.request(method, path, **{**arguments, "headers": headers}).status_code
    except (httpx.InvalidURL, httpx.LocalProtocolError, httpx.RemoteProtocolError):
        return 400
