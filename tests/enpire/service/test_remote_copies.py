"""A version goes to another place with its card and comes back into another home."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.datasets.cards import dataset_card, version_card
from enpire.datasets.remote_files import CARD, MANIFEST, Place
from enpire.errors import FileProblem, UsageError
from enpire.home import Home, open_home
from enpire.queries import campaigns
from enpire.service.datasets import import_version
from enpire.service.remote_copies import pull_dataset, pull_version, push_dataset, push_version
from enpire.steps.begin import imported
from enpire.store import origins
from tests.fakes.sample_campaign import CAMPAIGN, SECOND, begin, record_campaign


def quiet(done: int, total: int) -> None:
    """No progress."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def version(home: Home, tmp_path: Path) -> Path:
    """A version in the home."""
    made = tmp_path / "made"
    made.mkdir()
    (made / "policy.json").write_text(json.dumps({"kind": "program", "gain": 2}))
    (made / "weights.npz").write_bytes(b"w" * 100)
    return home.versions / import_version(home, made)


def test_a_version_comes_into_another_home(home: Home, version: Path, tmp_path: Path) -> None:
    made = push_version(home, version, str(tmp_path / "shelf"), public=False, say=quiet)
    assert made.id == version.name
    assert made.sent == sum(path.stat().st_size for path in version.iterdir())
    other = open_home(tmp_path / "other")
    policy_id, exact = pull_version(other.root, made.url, quiet)
    assert (policy_id, exact) == (version.name, made.url)
    assert (other.versions / policy_id / "weights.npz").read_bytes() == b"w" * 100
    assert sorted(path.name for path in other.root.iterdir() if path.name.startswith(".")) == []
    event = imported(other, policy_id)
    assert (event.source, event.revision, event.policy_kind) == (made.url, "", "program")
    assert event.by
    assert event.at_ns > 0
    card = (tmp_path / "shelf" / CARD).read_text()
    assert version.name in card
    assert "No campaign of this home has used it." in card


def test_a_campaign_says_where_its_base_came_from(home: Home, version: Path) -> None:
    assert imported(home, version.name).source == "", "not recorded by earlier versions of ENPIRE"
    origins.record(home.root, version.name, "sftp://ada:secret@shelf.example/net", "ada")
    record = begin(home.root)
    record.tell("version imported", **imported(home, version.name).body())
    record.flush()
    shown = CliRunner().invoke(app, ["policy", "show", version.name[:12], "--home", str(home.root)])
    assert shown.exit_code == 0, shown.output
    assert "imported from  sftp://shelf.example/net" in shown.stdout
    assert "secret" not in shown.stdout


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("https://ada:p@ss@shelf.example:8443/net?token=secret#part", "https://shelf.example:8443/net"),
        ("hf://lab/net@" + "a" * 40, "hf://lab/net@" + "a" * 40),
        ("/mnt/shelf@home/net?1", "/mnt/shelf@home/net?1"),
    ],
)
def test_an_origin_keeps_no_secret_of_its_url(home: Home, version: Path, source: str, kept: str) -> None:
    origins.record(home.root, version.name, source, "ada")
    found = origins.find(home.root, version.name)
    assert found is not None
    assert found.source == kept


def test_a_changed_record_of_an_origin_is_one_sentence(home: Home, version: Path) -> None:
    origins.record(home.root, version.name, "/mnt/shelf", "ada")
    (home.root / "origins" / f"{version.name}.json").write_text("{")
    with pytest.raises(FileProblem, match="import the version again"):
        imported(home, version.name)


def test_a_version_under_a_false_id_does_not_enter(home: Home, version: Path, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    push_version(home, version, str(shelf), public=False, say=quiet)
    listed = json.loads((shelf / MANIFEST).read_text())
    listed["id"] = "0" * 64
    (shelf / MANIFEST).write_text(json.dumps(listed))
    other = open_home(tmp_path / "other")
    with pytest.raises(FileProblem, match="under the name 000000000000"):
        pull_version(other.root, str(shelf), quiet)
    listed["id"] = "../../0"
    (shelf / MANIFEST).write_text(json.dumps(listed))
    with pytest.raises(FileProblem, match="no sha256"):
        pull_version(other.root, str(shelf), quiet)
    assert list(other.versions.iterdir()) == []
    assert not [path for path in other.root.iterdir() if path.name.startswith(".pull")]


def test_a_dataset_is_no_version(home: Home, tmp_path: Path) -> None:
    data = tmp_path / "set"
    (data / "meta").mkdir(parents=True)
    with pytest.raises(FileProblem, match=r"no meta/info\.json"):
        push_dataset(data, str(tmp_path / "shelf"), public=False, say=quiet)
    (data / "meta" / "info.json").write_text('{"codebase_version": "v3.0"}')
    with pytest.raises(UsageError, match="--public is for a hub"):
        push_dataset(data, str(tmp_path / "shelf"), public=True, say=quiet)
    push_dataset(data, str(tmp_path / "shelf"), public=False, say=quiet)
    with pytest.raises(FileProblem, match="holds a dataset, not a policy version"):
        pull_version(home.root, str(tmp_path / "shelf"), quiet)
    with pytest.raises(UsageError, match="exists already"):
        pull_dataset(str(tmp_path / "shelf"), data, quiet)
    pull_dataset(str(tmp_path / "shelf"), tmp_path / "back", quiet)
    assert (tmp_path / "back" / "meta" / "info.json").is_file()


def test_the_card_says_what_the_ledger_says(tmp_path: Path) -> None:
    home = open_home(tmp_path / "lab")
    record_campaign(home.root)
    with campaigns.open_records(home.root) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
        [line] = [one for one in campaigns.versions(records, CAMPAIGN) if one.id == SECOND]
    card = version_card(SECOND, "flow", (view, line))
    assert line.hidden.success is not None
    assert f"{line.hidden.success:.1%} [{line.hidden.low:.1%}, {line.hidden.high:.1%}] of {line.hidden.n}" in card
    for gate in view.gates:
        if SECOND in (gate.candidate, gate.champion):
            assert gate.id in card
            assert gate.decision in card


def test_the_card_of_a_dataset_counts_its_episodes() -> None:
    rows = [("collect", "success", "a" * 64)] * 3 + [("collect", "failure", "a" * 64), ("demonstrate", "success", "")]
    card = dataset_card("night (X)", "pin_insertion", rows)
    assert "# 5 episodes of pin_insertion" in card
    assert "| collect | success | 3 |" in card
    assert "| collect | failure | 1 |" in card


def test_places_are_opened_by_url(tmp_path: Path) -> None:
    assert Place.at(str(tmp_path)).root == str(tmp_path)
    assert Place.at(f"file://{tmp_path}").root == str(tmp_path)
