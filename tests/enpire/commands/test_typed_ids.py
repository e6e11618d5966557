"""Commands that take an id refuse what names nothing, with one sentence, and touch nothing outside the home."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.cli import app
from tests.fakes.point_task import write_policy
from tests.fakes.sample_campaign import record_campaign

BAD = (
    "..", "../user", "../../user", "/etc", "a/../../user", "a\0b", "", "x" * 129, "x" * 5000, ".hidden", "a\nb",
    "a\udcff", "%s{0}", "*",
)  # fmt: skip
COMMANDS = (
    "campaign show ID", "policy list ID", "policy show ID", "policy export ID out", "policy import ID", "report ID",
    "episodes list --campaign ID", "episodes show ID", "episodes replay ID", "episodes export out --campaign ID",
    "station enroll ID", "agent run ID", "agent run search --lane ID", "mcp --lane ID --http nohost",
    "mcp --campaign ID --http nohost", "improve filtered_bc --parent ID", "improve filtered_bc --campaign ID",
    "gate ID scripted:expert --pairs 1",
)  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("top") / "x" / "home"
    folder.mkdir(parents=True)
    (folder.parent / "user").mkdir()
    (folder.parent / "user" / "thesis.tex").write_text("three years")
    record_campaign(folder)
    return folder


def outside(home: Path) -> set[Path]:
    return {path for path in home.parent.parent.rglob("*") if home not in (path, *path.parents)}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_id_is_answered_with_a_sentence(lab: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab)
    before = outside(lab)
    # The system passes no NUL in an argument; where a path is asked for, the parser itself would fail on it.
    for name in [name for name in BAD if command != "policy import ID" or "\0" not in name]:
        words = [name if word == "ID" else word for word in command.split()]
        done = CliRunner().invoke(app, [*words, "--home", str(lab)])
        assert isinstance(done.exception, SystemExit | None), (name[:40], done.exception)
        assert done.exit_code in ((0, 1, 2, 3) if name == "" else (1, 2)), (name[:40], done.output)
        assert outside(lab) == before, name[:40]
    assert (lab.parent / "user" / "thesis.tex").read_text() == "three years"


def test_a_checkpoint_is_imported_under_the_hash_of_its_files(lab: Path, tmp_path: Path) -> None:
    folder = write_policy(tmp_path / "checkpoint")
    first, again = (CliRunner().invoke(app, ["policy", "import", str(folder), "--home", str(lab)]) for _ in range(2))
    policy_id = first.stdout.strip()
    assert (first.exit_code, len(policy_id), again.stdout) == (0, 64, first.stdout)
    assert {path.name for path in (lab / "versions" / policy_id).iterdir()} == {"policy.json", "weights.safetensors"}
    assert {path.name for path in folder.iterdir()} == {"policy.json", "weights.safetensors"}
    done = CliRunner().invoke(app, ["policy", "import", str(tmp_path), "--home", str(lab)])
    assert done.exit_code == 1
    assert "is no checkpoint: a LeRobot checkpoint has config.json" in done.stderr
