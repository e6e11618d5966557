"""No id leads out of the folder that it names something in, wherever it becomes a path."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from enpire.campaign.campaign import AgentPlan, Base
from enpire.codec import order_fields, read_order
from enpire.errors import EnpireError, FileProblem, PolicyProblem, TransportProblem, UsageError
from enpire.field_reader import Fields
from enpire.fleet.station_processes import StationProcesses
from enpire.home import Home
from enpire.ids import file_name, is_file_name, is_version_id, quoted_name, version_id
from enpire.policy_server.version_uploads import VersionUploads
from enpire.requests import operator_commands
from enpire.requests.agent_requests import folder_of
from enpire.service.datasets import copy_version
from enpire.service.processes import enroll_station
from enpire.station.policy_cache import PolicyCache, check_version
from enpire.station.spool import Spool
from enpire.station.station_file import StationFile
from enpire.store import versions
from enpire.store.episodes import FolderStore
from enpire.wire.curve_keys import enroll
from enpire.wire.listening_address import station_key
from tests.enpire.store.store_samples import a_recording, an_order
from tests.fakes.point_task import PointTask, point_order, write_policy
from web_ui.archive import Archive

BAD = (
    "", ".", "..", "/", "../b", "a/b", "/etc/passwd", "..\0", "a\0b", "\0", "a\nb", ".hidden", "é", "x" * 129,
    "x" * 5000, "a b", "~", "~root", "a\\b", "\u202e", "C:\\x", "%2e%2e", "-rf\n", "a\ud800", "${HOME}", "*",
    "a" * 64 + "/..",
)  # fmt: skip
"""Ids that name no file."""


def _uploads(folder: Path, name: str) -> None:
    VersionUploads(folder).take(name, 0, 1, b"part")


def _cache(folder: Path, name: str) -> None:
    cache = PolicyCache(folder, PointTask(), 0)
    try:
        cache.find(name)
        for _ in range(100):
            with contextlib.suppress(PolicyProblem):
                cache.find(name)
    finally:
        cache.close()


def _spool(folder: Path, name: str) -> None:
    spool = Spool(folder, 0)
    try:
        spool.get(name)
        spool.pictures(name).write_bytes(b"seen")
        spool.delete(name)
    finally:
        spool.close()


def _keep(folder: Path, name: str) -> None:
    (folder / "packed").write_bytes(b"no version")
    versions.keep(folder / "packed", name, folder)


def _archive(folder: Path, name: str) -> None:
    Archive(folder).series(name, 5)


PLACES: tuple[Callable[[Path, str], object], ...] = (
    lambda folder, name: FolderStore(folder).put(*a_recording(replace(an_order(), order_id=name))),
    lambda folder, name: FolderStore(folder).put(*a_recording(replace(an_order(), campaign_id=name))),
    lambda folder, name: FolderStore(folder).get(name),
    lambda folder, name: FolderStore(folder).folder(name, name),
    check_version,
    _keep, _uploads, _cache, _spool, _archive,
    lambda folder, name: operator_commands.leave(folder, "stop", command_id=name),
    lambda folder, name: operator_commands.CommandInbox(folder).leave(
        operator_commands.OperatorCommand(command_id=name, kind="stop")
    ),
    lambda folder, name: folder_of(folder, "search", name).mkdir(parents=True),
    lambda folder, name: folder_of(folder, name, "one").mkdir(parents=True),
    enroll,
    lambda folder, name: station_key("tcp://0.0.0.0:7000", folder, name),
    lambda folder, name: enroll_station(Home(folder), name, "point", ""),
    lambda folder, name: StationProcesses([], "tcp://127.0.0.1:1", folder).log(name).write_text(""),
    lambda folder, name: copy_version(folder, name, folder / "copy"),
    lambda folder, name: (folder / f"{quoted_name(name)}.tokens").write_text(""),
)  # fmt: skip
"""Every kind of place where a text from outside becomes a path: (folder, text)."""


@given(
    st.integers(0, len(PLACES) - 1),
    st.one_of(st.sampled_from(BAD), st.text(max_size=20), st.text("./a~\0", max_size=9)),
)
def test_whatever_the_id_nothing_outside_changes(
    tmp_path_factory: pytest.TempPathFactory, place: int, name: str
) -> None:
    """Each place either refuses the id with one sentence or writes below its own folder."""
    top = tmp_path_factory.mktemp("ids")
    own = top / "x" / "y" / "own"
    for folder in (own, top / "b", top / "x" / "b", top / "x" / "y" / "b"):
        folder.mkdir(parents=True)
        write_policy(folder / "files")
    before = _outside(top, own)
    with contextlib.suppress(EnpireError, FileExistsError):
        PLACES[place](own, name)
    assert _outside(top, own) == before


def _outside(top: Path, own: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in top.rglob("*")
        if own not in (path, *path.parents)
    }


@pytest.mark.parametrize("name", BAD)
def test_what_names_no_file_is_refused_with_a_sentence(name: str) -> None:
    assert not is_file_name(name)
    with pytest.raises(FileProblem, match=r"cannot be the name of a station: use 1 to 128 letters, digits or \. - _ :"):
        file_name(name, "a station")
    with pytest.raises(FileProblem, match="64 hexadecimal digits.*`enpire policy import FOLDER`"):
        version_id(name)
    with pytest.raises(ValueError, match="name .* must have 1 to 128 letters"):
        StationFile(name=name, task="point", home=Path("home"))
    with pytest.raises(TransportProblem, match="order_id"):
        Fields({"order_id": name}, "An order").identifier("order_id")


@pytest.mark.parametrize("field", ["order_id", "campaign_id", "station", "policy_id", "gate_id"])
@pytest.mark.parametrize("name", [name for name in BAD if name])
def test_an_order_with_an_id_that_names_no_file_is_not_read(field: str, name: str) -> None:
    fields = order_fields(point_order("scripted:expert", 1))
    with pytest.raises(TransportProblem, match=field):
        read_order({**fields, field: name})


@given(st.text())
@example("01J" + "0" * 23)
@example("scripted:expert")
def test_a_file_name_is_one_component_of_a_path(text: str) -> None:
    if is_file_name(text):
        assert Path("top", text).parent == Path("top")
        assert len(text.encode()) <= 128
    if is_version_id(text):
        assert is_file_name(text)
    assert "/" not in quoted_name(text)
    assert 0 < len(quoted_name(text)) <= 128


@pytest.mark.parametrize("path", ["/home/me/checkpoint", "runs/act", "../v", "A" * 64, "a" * 63])
def test_a_base_that_is_no_id_says_how_to_import_a_checkpoint(path: str) -> None:
    with pytest.raises(ValueError, match=r"64 hexadecimal digits, not .*`enpire policy import FOLDER`"):
        Base(policy=path)


def test_an_agent_is_no_path() -> None:
    with pytest.raises(ValueError, match="name of an agent"):
        AgentPlan(name="../../agents")


def test_no_station_takes_the_keys_of_the_orchestrator(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be named 'server'"):
        enroll(tmp_path, "server")
