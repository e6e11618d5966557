from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from enpire.cli import app
from enpire.home import open_home
from enpire.store import durable, versions
from tests.enpire.study.test_study import known_home, study
from tests.fakes.point_task import KINDS, MODULE

FILE = """
name: wrist
task: pin_insertion
hypothesis: it helps
arms: {old: scripted:expert, new: 41f0c2}
blocks: 40
test: fixed
"""


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(FILE)
    return path


def test_a_plan_is_a_table_and_a_document(file: Path) -> None:
    done = enpire("study", "plan", file, "--control", "0.6", "--blocks", "80")
    assert done.exit_code == 0, done.output
    assert "equal arms are called different in at most 5.0% of studies" in done.stdout
    assert [line.split()[:2] for line in done.stdout.splitlines()[3:5]] == [["40", "80"], ["80", "160"]]
    found = json.loads(enpire("study", "plan", file, "--json").stdout)
    assert found["blocks"] == [10, 20, 40]
    assert len(found["power"]) == 3
    assert all(0 <= one["better"] <= 1 for row in found["power"] for one in row)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["plan", "FILE", "--control", "0.97"], "must lie between 0 and 0.95, not 0.97"),
        (["plan", "missing.yaml"], "missing.yaml does not exist"),
        (["report", "wrist", "--home", "HOME"], "has no ledger.db"),
    ],
)
def test_what_cannot_be_is_one_sentence(file: Path, tmp_path: Path, words: list[str], sentence: str) -> None:
    places = {"FILE": str(file), "HOME": str(tmp_path / "home")}
    done = enpire("study", *(places.get(word, word) for word in words))
    assert done.exit_code == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_report_says_better_by_the_test_and_exits_with_3_where_nothing_is_shown(tmp_path: Path) -> None:
    for name, new, code in (("shown", 1.0, 0), ("open", 0.1, 3)):
        home = known_home(tmp_path / name)
        study(home, tmp_path, 0.1, new, blocks=12, test="fixed").run()
        done = enpire("study", "report", "wrist", "--home", home.root)
        assert done.exit_code == code, done.output
        assert ("new is better than old" in done.stdout) == (code == 0)
        assert "12 of 12 blocks, ended" in done.stdout
        shown = enpire("campaign", "show", "--home", home.root)
        assert "compare versions; the result: enpire study report wrist" in shown.stdout, shown.output
        assert "fresh starts" not in shown.stdout
        found = json.loads(enpire("study", "report", "wrist", "--home", home.root, "--json").stdout)
        assert [arm["name"] for arm in found["arms"]] == ["old", "new"]


def test_a_report_hides_the_results_until_they_are_opened_with_a_reason(tmp_path: Path) -> None:
    home = known_home(tmp_path / "home")
    with study(home, tmp_path, 0.5, 0.5, blocks=30).session() as (lab, work):
        while work.record.trials.complete < 1:
            work.turn(lab)
    done = enpire("study", "report", "wrist", "--home", home.root)
    assert done.exit_code == 0
    assert "The results are hidden until the study ends" in done.stdout
    assert "success" not in done.stdout
    done = enpire("study", "report", "wrist", "--home", home.root, "--open", "the arm broke")
    assert done.exit_code == 3
    assert "results opened (the arm broke)" in done.stdout
    assert "has not ended" in done.stdout


@pytest.mark.slow
def test_a_study_runs_at_a_station_of_its_own_and_is_reported(tmp_path: Path) -> None:
    """A version that acts at random against the expert of a small task, at a station process."""
    home = open_home(tmp_path / "home")
    folder = tmp_path / "noisy"
    durable.make_folder(folder)
    durable.write(folder / "policy.json", json.dumps({"kind": f"{MODULE}:load", "noise": 5.0}).encode())
    version = versions.publish(folder, home.versions)
    path = tmp_path / "study.yaml"
    path.write_text(
        f"name: point\ntask: {MODULE}:PointTask\narms: {{noisy: {version[:12]}, expert: scripted:expert}}\n"
        f"blocks: 30\nstations: {{count: 1, lanes: 2, ahead: 0, driver: {MODULE}:open_rig, "
        f"policy_kinds: {list(KINDS)}}}\n"
    )
    done = enpire("study", "run", path, "--home", home.root)
    assert done.exit_code == 0, done.output
    assert "noisy" not in done.stderr
    assert "expert" not in done.stderr
    done = enpire("study", "report", "point", "--home", home.root)
    assert done.exit_code == 0, done.output
    assert "expert is better than noisy" in done.stdout
    assert enpire("ledger", "recompute", "--home", home.root).exit_code == 0
    done = enpire("study", "run", path, "--home", home.root)
    assert done.exit_code == 1
    assert "give a new question a new name" in done.stderr
