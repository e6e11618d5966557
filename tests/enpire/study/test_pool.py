"""The same study at several sites, each with its own home, ledger and secret, pooled from their evidence files."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from enpire.campaign.events import kinds_of
from enpire.campaign.study_events import StudyUnblinded
from enpire.cli import app
from enpire.errors import FileProblem, LedgerProblem, UsageError
from enpire.gate.e_values import log_e
from enpire.home import open_home
from enpire.queries.campaigns import open_records
from enpire.service.studies import read_report
from enpire.service.study_evidence import export_study, pool_files, read_site
from enpire.store import durable
from enpire.store.evidence_file import opened_evidence
from enpire.store.ledger import SqliteLedger
from enpire.study.pool import pool
from enpire.study.results import unblinded_record
from tests.enpire.study.test_study import study


def site(tmp: Path, name: str, **changes: object) -> Path:
    """The evidence file of a site at which the new arm is better in most blocks."""
    home = open_home(tmp / name)
    secret = (name.encode() * 32)[:32]
    durable.write(home.root / "secret", secret.hex().encode(), mode=0o600)
    made = study(home, tmp, 0.4, 0.9, **{"blocks": 3, **changes})
    made.campaign_id = name
    made.run()
    export_study(home, "wrist", tmp / f"{name}.zip", "ann")
    return tmp / f"{name}.zip"


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_sites_show_together_what_none_shows_alone(tmp_path: Path) -> None:
    names = [f"site-{letter}" for letter in "abcdef"]
    files = [site(tmp_path, name) for name in names]
    alone = [read_report(open_home(tmp_path / name), "wrist").comparisons[0] for name in names]
    assert {one.answer for one in alone} == {"not shown"}
    [found] = pool_files(files).comparisons
    wins, losses = sum(one.wins for one in alone), sum(one.losses for one in alone)
    assert (found.counts.wins, found.counts.losses, found.counts.blocks) == (wins, losses, 3 * len(names))
    assert [part.wins for part in found.sites] == [one.wins for one in alone]
    assert found.evidence == log_e(wins, losses)
    assert found.need == math.log(2 / 0.05)
    assert found.answer == "better"
    assert 0 < found.counts.low < found.counts.difference < found.counts.high
    assert pool_files(files[::-1]).comparisons[0].evidence == found.evidence

    done = enpire("study", "pool", *files)
    assert done.exit_code == 0, done.output
    assert (
        f"new is better than old at one site at least: over 6 sites new alone succeeds in {wins} of 18 blocks"
        in done.stdout
    )
    shown = json.loads(enpire("study", "pool", *files[:2], "--json").stdout)
    assert shown["comparisons"][0]["answer"] == "not shown"
    assert enpire("study", "pool", *files[:2]).exit_code == 3


def test_studies_that_ask_another_question_are_not_pooled(tmp_path: Path) -> None:
    first = site(tmp_path, "site-a")
    for name, changes, sentence in [
        ("site-b", {"alpha": 0.1}, "they differ in alpha"),
        ("site-c", {"control": "new"}, "they differ in control"),
        ("site-d", {"test": "fixed"}, "only studies with the test 'anytime'"),
    ]:
        with pytest.raises(UsageError, match=sentence):
            pool_files([first, site(tmp_path, name, **changes)])
    with pytest.raises(UsageError, match="given more than once"):
        pool_files([first, first])
    with pytest.raises(UsageError, match="at least two sites"):
        pool([])


def test_other_versions_and_other_verifiers_are_not_pooled(tmp_path: Path) -> None:
    one, two = (read_site(site(tmp_path, name)) for name in ("site-a", "site-b"))
    assert pool([one, two]).files == (one.file, two.file)
    for other, sentence in [
        (replace(two, verifier="another"), "they differ in verifier"),
        (replace(two, limit_ticks=two.limit_ticks + 1), "they differ in time limit"),
        (replace(two, record=replace(two.record, arms={**two.record.arms, "new": "0" * 64})), "they differ in arms"),
    ]:
        with pytest.raises(UsageError, match=sentence):
            pool([one, other])


def test_only_a_study_that_ended_is_exported(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    with study(home, tmp_path, 0.5, 0.5).session() as (lab, work):
        while work.record.trials.complete < 1:
            work.turn(lab)
    done = enpire("study", "export", "wrist", tmp_path / "a.zip", "--home", home.root)
    assert done.exit_code == 1
    assert "has not ended, so its arms stay hidden" in done.stderr
    assert not (tmp_path / "a.zip").exists()


def test_a_second_export_writes_nothing_into_the_ledger(tmp_path: Path) -> None:
    site(tmp_path, "site-a")
    home = open_home(tmp_path / "site-a")
    first = enpire("ledger", "head", "--home", home.root).stdout
    done = enpire("study", "export", "wrist", tmp_path / "again.zip", "--home", home.root)
    assert done.exit_code == 0, done.output
    assert enpire("ledger", "head", "--home", home.root).stdout == first
    assert enpire("ledger", "recompute", tmp_path / "again.zip").exit_code == 0


def test_an_export_of_the_campaign_alone_does_not_say_which_arm_ran(tmp_path: Path) -> None:
    first = site(tmp_path, "site-a")
    home = open_home(tmp_path / "home")
    study(home, tmp_path, 0.4, 0.9, blocks=7).run()
    assert enpire("campaign", "export", tmp_path / "blind.zip", "--home", home.root).exit_code == 0
    with pytest.raises(UsageError, match="does not say which arm ran in each trial"):
        pool_files([first, tmp_path / "blind.zip"])


def test_arms_that_a_file_names_wrongly_are_one_sentence(tmp_path: Path) -> None:
    path = site(tmp_path, "site-a")
    with opened_evidence(path) as (folder, _), open_records(folder) as records:
        ids = next(
            entry.event.arms for entry in records.ledger.events(kinds=kinds_of(StudyUnblinded))
            if isinstance(entry.event, StudyUnblinded)
        )  # fmt: skip
    first, second = ids
    for arms, sentence in [
        ({first: ids[first]}, "does not name each of its arms once"),
        ({first: ids[first], "0" * 64: ids[second]}, "ran a version that is no arm"),
    ]:
        home = open_home(tmp_path / "site-a")
        ledger = SqliteLedger(home.ledger)
        ledger.append([StudyUnblinded(by="eve", arms=arms)], "site-a")
        ledger.close()
        with open_records(home.root) as records, pytest.raises(LedgerProblem, match=sentence):
            unblinded_record(records.ledger, "site-a")


def test_a_pipe_is_refused_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    with pytest.raises(FileProblem, match="a folder, a pipe or a device"):
        pool_files([tmp_path / "pipe.zip"])


def test_changed_records_are_refused(tmp_path: Path) -> None:
    first, second = site(tmp_path, "site-a"), site(tmp_path, "site-b")
    with zipfile.ZipFile(second) as members:
        members.extractall(tmp_path / "open")
    database = sqlite3.connect(tmp_path / "open" / "ledger.db")
    database.execute("UPDATE orders SET outcome = 'success' WHERE outcome = 'failure'")
    database.commit()
    database.close()
    manifest = json.loads((tmp_path / "open" / "manifest.json").read_text())
    manifest["sha256"] = hashlib.sha256((tmp_path / "open" / "ledger.db").read_bytes()).hexdigest()
    with zipfile.ZipFile(tmp_path / "forged.zip", "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("manifest.json", json.dumps(manifest))
        members.write(tmp_path / "open" / "ledger.db", "ledger.db")
    with pytest.raises(LedgerProblem, match="differs from its events"):
        pool_files([first, tmp_path / "forged.zip"])
