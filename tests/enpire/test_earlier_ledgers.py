"""Ledgers that earlier commits wrote are verified, recomputed, read, shown and resumed by the code of now."""

from __future__ import annotations

import io
import json
import lzma
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.encoders import jsonable_encoder
from typer.testing import CliRunner, Result

from enpire.campaign.apply_events import rebuilt
from enpire.campaign.events import UnknownEvent, read_event
from enpire.cli import app
from enpire.store.ledger import SqliteLedger, open_to_read
from enpire.store.reading import Page
from web_ui.archive import Archive

LEDGERS = Path(__file__).parent / "ledgers"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What is known of one ledger, as the code of its commit showed it."""

    file: str
    events: int
    decisions: tuple[str, ...]
    """What its gates decided."""
    checks: int
    """Decisions that a recomputation takes again, with the sum of its orders."""
    base: tuple[int, int]
    """Successes and starts of the base policy."""
    confirmed: tuple[int, int]
    champion: str
    """First digits of the version that was confirmed."""
    experiments: Mapping[str, int]
    """How its experiments ended: their phase, or what the gate decided."""
    labels: int
    """Episodes that an operator labelled."""
    late: int
    """Late results."""


EARLIER = (
    Recorded(
        file="early_1324d40", events=1192, decisions=("promote", "hold", "hold", "hold"), checks=16, base=(16, 30),
        confirmed=(31, 40), champion="9c115985779b", experiments={"inconclusive": 1, "invalid": 2}, labels=0, late=0,
    ),
    Recorded(
        file="middle_2ae3123", events=1089, decisions=("hold", "hold", "promote", "hold"), checks=17, base=(13, 30),
        confirmed=(27, 40), champion="82a040de6805", experiments={"inconclusive": 2, "invalid": 1, "cancelled": 2},
        labels=2, late=9,
    ),
    Recorded(
        file="last_0ea805b", events=959, decisions=("promote", "hold"), checks=13, base=(14, 30),
        confirmed=(31, 40), champion="61b46660fc8b", experiments={"keep": 1, "invalid": 1, "cancelled": 2},
        labels=2, late=9,
    ),
)  # fmt: skip
BY_NAME = {one.file: one for one in EARLIER}


@pytest.fixture(scope="module", params=[one.file for one in EARLIER])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that holds one earlier ledger, named after it."""
    folder = tmp_path_factory.mktemp("home") / str(request.param)
    folder.mkdir()
    (folder / "ledger.db").write_bytes(lzma.decompress((LEDGERS / f"{folder.name}.db.xz").read_bytes()))
    return folder


@pytest.fixture(scope="module")
def recorded(home: Path) -> Recorded:
    return BY_NAME[home.name]


@pytest.fixture(scope="module")
def stored(home: Path) -> list[tuple[str, str]]:
    """(kind, body as it is stored) of every event, read past all code of ENPIRE."""
    return list(stored_events(home / "ledger.db"))


def stored_events(path: Path) -> Iterator[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as database:
        yield from database.execute("SELECT kind, body FROM events ORDER BY seq")


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def shown(home: Path, *words: str) -> Any:
    result = enpire(*words, "--home", home, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_its_chain_and_its_orders_verify(home: Path, recorded: Recorded, stored: list[tuple[str, str]]) -> None:
    with closing(open_to_read(home / "ledger.db")) as ledger:
        assert ledger.verify() == recorded.events == len(stored)
    assert enpire("ledger", "verify", "--ledger-only", "--home", home).exit_code == 0


def test_every_decision_comes_out_equal(home: Path, recorded: Recorded) -> None:
    checks = shown(home, "ledger", "recompute")
    assert [check for check in checks if not check["equal"]] == []
    assert len(checks) == recorded.checks
    decided = [check["sentence"].split(" ")[0] for check in checks if check["kind"] == "gate decided"]
    assert tuple(decided) == recorded.decisions


def test_the_campaign_is_shown_with_the_numbers_of_its_time(
    home: Path, recorded: Recorded, stored: list[tuple[str, str]]
) -> None:
    view = shown(home, "campaign", "show")
    decisions = (gate["decision"] for gate in view["gates"])
    assert tuple(one for one in decisions if one not in ("open", "dropped")) == recorded.decisions
    assert (view["base"]["successes"], view["base"]["n"]) == recorded.base
    assert (view["confirm"]["successes"], view["confirm"]["n"]) == recorded.confirmed
    assert view["champion"]["id"].startswith(recorded.champion)
    outcomes = outcomes_of(stored)
    assert {kind: view["episodes"].get(kind, 0) for kind in outcomes} == outcomes
    assert view["episodes"]["total"] == sum(outcomes.values())
    experiments = Counter(one["decision"] or one["phase"] for idea in view["ideas"] for one in idea["experiments"])
    assert experiments == recorded.experiments
    assert (view["labels"] or {}).get("checked", 0) == recorded.labels


def outcomes_of(stored: list[tuple[str, str]]) -> Counter[str]:
    """How every order ended, a late result instead of the unknown end before it, from the stored text alone."""
    ended: dict[str, str] = {}
    for kind, text in stored:
        if kind in ("orders ended", "orders found"):
            ended |= {episode["order_id"]: episode["outcome"] for episode in json.loads(text)["episodes"]}
    return Counter(ended.values())


@pytest.mark.parametrize(
    "words", [("campaign", "list"), ("campaign", "show"), ("policy", "list"), ("episodes", "list"), ("ledger", "tail")]
)
def test_it_is_shown_in_the_terminal(home: Path, words: tuple[str, ...]) -> None:
    result = enpire(*words, "--home", home)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) > 1


def test_its_report_is_written(home: Path, recorded: Recorded) -> None:
    result = enpire("report", "--home", home)
    assert result.exit_code == 0, result.output
    [report] = (home / "reports").glob("*.html")
    text = report.read_text(encoding="utf-8")
    assert recorded.champion in text
    assert f"{recorded.confirmed[0] / recorded.confirmed[1]:.1%}" in text


def test_the_page_reads_it(home: Path, recorded: Recorded, stored: list[tuple[str, str]]) -> None:
    archive = Archive(home)
    [line] = archive.campaigns()
    view = jsonable_encoder(archive.campaign(line.id))
    assert view["champion"]["id"].startswith(recorded.champion)
    made = sum(kind == "version made" for kind, _ in stored)
    assert len(jsonable_encoder(archive.versions(line.id))) == made
    page = archive.episodes(Page(campaign_id=line.id, limit=20))
    assert len(page.rows) == 20
    assert jsonable_encoder(archive.episode(page.rows[0].order_id))
    assert jsonable_encoder(archive.events(0, line.id, 5000))


def test_its_events_give_the_state(home: Path, recorded: Recorded, stored: list[tuple[str, str]]) -> None:
    campaign_id = json.loads(stored[0][1])["campaign_id"]
    with closing(open_to_read(home / "ledger.db")) as ledger:
        state = rebuilt(ledger, campaign_id)
    assert state.over
    assert not state.open
    assert state.champion.startswith(recorded.champion)
    assert state.confirmed == {state.champion: True}
    assert state.gates_opened == sum(kind == "gate opened" for kind, _ in stored)
    assert +state.outcomes == outcomes_of(stored)
    assert len(state.labels) == recorded.labels
    found = [len(json.loads(text)["episodes"]) for kind, text in stored if kind == "orders found"]
    assert len(found) == recorded.late


COMMANDS = ("command requested", "command accepted", "command refused", "command effective")
EMPTY = (None, "", 0, -1, False, [], {})
"""What a key may hold that an older version did not write."""


def test_every_event_is_read_and_written_again_without_loss(recorded: Recorded, stored: list[tuple[str, str]]) -> None:
    changed: Counter[str] = Counter()
    for kind, text in stored:
        body = json.loads(text)
        event = read_event(kind, body)
        assert not isinstance(event, UnknownEvent), f"{kind} is not known any more"
        written = {"campaign_id": body["campaign_id"], **event.body()}
        if kind in COMMANDS:  # what a command is about was called station, whatever it was
            body["target"] = body.pop("station")
        assert without_new(written, body) == body, kind
        assert read_event(kind, written) == event
        changed[kind] += spelling(written) != spelling(body)
    assert recorded.file != "last_0ea805b" or not +changed, "the last version before the change wrote every key"


def without_new(written: Any, before: Any) -> Any:
    """`written` without the keys that `before` lacks and that hold nothing."""
    if isinstance(written, dict) and isinstance(before, dict):
        return {
            key: without_new(value, before[key]) if key in before else value
            for key, value in written.items()
            if key in before or value not in EMPTY
        }
    if isinstance(written, list) and isinstance(before, list) and len(written) == len(before):
        return [without_new(now, then) for now, then in zip(written, before, strict=True)]
    return written


def spelling(body: object) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"))


def unpacked(name: str, folder: Path) -> Path:
    """The home of an interrupted campaign, with its campaign file and what that names beside it; returns the home."""
    data = lzma.decompress((LEDGERS / f"interrupted_{name}_0ea805b.tar.xz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    for file in LEDGERS.glob(f"{name}*"):
        shutil.copy(file, folder)
    return folder / "enpire"


@pytest.mark.parametrize(("name", "decisions", "issued"), [("reach", ["promote", "hold"], 93), ("blind", ["hold"], 26)])
def test_a_campaign_that_an_earlier_version_began_is_resumed_to_its_end(
    tmp_path: Path, name: str, decisions: list[str], issued: int
) -> None:
    home = unpacked(name, tmp_path)
    root = str(Path(__file__).parents[2])
    around = {**os.environ, "PYTHONPATH": os.pathsep.join([root, str(tmp_path)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "enpire.cli", "run", f"{name}.yaml", "--home", str(home), "--headless", "--resume"]
    run = subprocess.run(command, cwd=tmp_path, env=around, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 3, run.stderr  # the campaign is over without its goal, which was out of reach
    with closing(SqliteLedger(home / "ledger.db")) as ledger:
        assert ledger.verify() > 0
    assert [check["sentence"] for check in shown(home, "ledger", "recompute") if not check["equal"]] == []
    view = shown(home, "campaign", "show")
    assert view["state"] == "ended"
    assert [gate["decision"] for gate in view["gates"]] == decisions
    assert view["episodes"]["total"] >= issued
    kinds = Counter(kind for kind, _ in stored_events(home / "ledger.db"))
    assert kinds["campaign started"] == kinds["campaign resumed"] == kinds["campaign ended"] == 1
    assert kinds["store differs"] == 0
