"""A model hub on this machine: the part of the Hugging Face HTTP interface that pushes and pulls use.

Files live in memory. Files that end in `.npz` or `.parquet` go over the protocol for large files, the others lie in
the commit itself. Everything that was asked is kept in `asked`, so a test sees what was sent and what was not.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE = (".npz", ".parquet")
TOKEN = "a-token-of-the-tests"


@dataclass
class Repo:
    """A repository: its commits, the newest last."""

    private: bool
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """Commit id and files of a revision."""
        wanted = self.commits[-1][0] if revision == "main" else self.tags.get(revision, revision)
        return next((one for one in self.commits if one[0] == wanted), None)


@dataclass
class Hub:
    """What the server knows."""

    url: str = ""
    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    refused: str = ""
    """Requests whose path contains this text are answered with 500; empty for none."""

    def environment(self, home: str) -> Mapping[str, str]:
        """Variables with which the client talks to this hub, keeping its files below `home`."""
        return {"HF_ENDPOINT": self.url, "HF_TOKEN": TOKEN, "HF_HOME": home, "HF_HUB_DISABLE_XET": "1"}


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub on a free port of this machine."""
    hub = Hub()

    class Handler(_Handler):
        of = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    of: Hub

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.of.asked.append(f"{self.command} {path}")
        if self.of.refused and self.of.refused in path:
            self._answer(400, {"error": "not now"})
        elif path.startswith("/large/") and self.command == "PUT":
            self.of.large[hashlib.sha256(body).hexdigest()] = body
            self._answer(200, {})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"error": "sign in"})
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif found := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch", path):
            self._batch(json.loads(body))
        elif found := re.fullmatch(r"/api/(model|dataset)s/([^/]+/[^/]+)(?:/(.*))?", path):
            self._repo(found[1], found[2], found[3] or "", body)
        elif found := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file("dataset" if found[1] else "model", found[2], found[3], found[4])
        else:
            self._answer(404, {"error": f"no {path}"})

    def _create(self, wanted: Mapping[str, Any]) -> None:
        name = f"{wanted.get('organization') or 'me'}/{wanted['name']}"
        kind = str(wanted.get("type") or "model")
        url = f"{self.of.url}/{'datasets/' if kind == 'dataset' else ''}{name}"
        if (kind, name) in self.of.repos:
            self._answer(409, {"error": "exists", "url": url})
            return
        self.of.repos[kind, name] = Repo(private=wanted.get("visibility") == "private", commits=[(_id(name), {})])
        self._answer(200, {"url": url, "name": name})

    def _repo(self, kind: str, name: str, rest: str, body: bytes) -> None:
        repo = self.of.repos.get((kind, name))
        if repo is None:
            self._answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
            return
        verb, _, more = rest.partition("/")
        if verb in {"", "revision"}:
            self._info(repo, name, more or "main")
        elif verb == "preupload":
            files = json.loads(body)["files"]
            self._answer(200, {"files": [
                {"path": one["path"], "uploadMode": "lfs" if one["path"].endswith(LARGE) else "regular",
                 "shouldIgnore": False} for one in files
            ]})  # fmt: skip
        elif verb == "commit":
            self._commit(repo, name, body)
        elif verb == "tag" and self.command == "DELETE":
            self._answer(200 if repo.tags.pop(more, None) else 404, {})
        elif verb == "tag":
            repo.tags[json.loads(body)["tag"]] = more
            self._answer(200, {})
        elif verb == "refs":
            main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repo.commits[-1][0]}
            tags = [{"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": at} for tag, at in repo.tags.items()]
            self._answer(200, {"branches": [main], "tags": tags, "converts": []})
        elif verb in {"paths-info", "tree"}:
            self._paths(repo, verb, more, body)
        else:
            self._answer(404, {"error": f"no {rest}"})

    def _info(self, repo: Repo, name: str, revision: str) -> None:
        found = repo.at(revision)
        if found is None:
            self._answer(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
            return
        siblings = [{"rfilename": path} for path in found[1]]
        self._answer(
            200, {"id": name, "sha": found[0], "private": repo.private, "siblings": siblings, "tags": []}
        )  # fmt: skip

    def _commit(self, repo: Repo, name: str, body: bytes) -> None:
        files = dict(repo.commits[-1][1])
        for line in body.splitlines():
            said = json.loads(line)
            value = said["value"]
            match said["key"]:
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.of.large[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
                case _:
                    pass
        commit = _id(f"{name}{len(repo.commits)}")
        repo.commits.append((commit, files))
        url = f"{self.of.url}/{name}/commit/{commit}"
        self._answer(200, {"success": True, "commitOid": commit, "commitUrl": url})

    def _batch(self, wanted: Mapping[str, Any]) -> None:
        objects = [
            {"oid": one["oid"], "size": one["size"]}
            if one["oid"] in self.of.large
            else {**one, "actions": {"upload": {"href": f"{self.of.url}/large/{one['oid']}"}}}
            for one in wanted["objects"]
        ]
        self._answer(200, {"transfer": "basic", "objects": objects})

    def _paths(self, repo: Repo, verb: str, more: str, body: bytes) -> None:
        revision, _, below = more.partition("/")
        found = repo.at(revision)
        if found is None:
            self._answer(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
            return
        asked = json.loads(body)["paths"] if verb == "paths-info" else None
        lines: dict[str, Mapping[str, Any]] = {}
        for path, data in found[1].items():
            parts = path.split("/")
            for n in range(1, len(parts)):
                folder = "/".join(parts[:n])
                lines[folder] = {"type": "directory", "path": folder, "oid": _id(folder)}
            lines[path] = {"type": "file", "path": path, "size": len(data), "oid": _id(path)}
        if asked is not None:
            self._answer(200, [lines[path] for path in asked if path in lines])
            return
        everything = "recursive=true" in urlsplit(self.path).query.lower()
        inside = [
            line for path, line in lines.items()
            if path.rpartition("/")[0] == below or (everything and (not below or path.startswith(f"{below}/")))
        ]  # fmt: skip
        self._answer(200 if inside or not below else 404, inside)

    def _file(self, kind: str, name: str, revision: str, path: str) -> None:
        repo = self.of.repos.get((kind, name))
        found = repo.at(revision) if repo else None
        if found is None or path not in found[1]:
            self._answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
            return
        data = found[1][path]
        head = {"ETag": f'"{_id(data)}"', "X-Repo-Commit": found[0], "Accept-Ranges": "bytes"}
        if part := re.fullmatch(r"bytes=(\d+)-(\d+)?", self.headers.get("Range") or ""):
            first, last = int(part[1]), min(int(part[2] or len(data)), len(data) - 1)
            head["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            self._send(206, data[first : last + 1], head)
        else:
            self._send(200, data, head)

    def _answer(self, status: int, what: object, head: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(what).encode(), {"Content-Type": "application/json", **(head or {})})

    def _send(self, status: int, data: bytes, head: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in head.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _id(of: str | bytes) -> str:
    return hashlib.sha1(of if isinstance(of, bytes) else of.encode(), usedforsecurity=False).hexdigest()
