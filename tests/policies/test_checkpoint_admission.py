"""A checkpoint is read by LeRobot only after its files were found to hold data alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.errors import MissingExtra, PolicyProblem
from policies.checkpoint_admission import FAMILIES, admit
from policies.lerobot_files import load_parts
from tests.policies import checkpoints
from tests.policies.without_lerobot import without_lerobot

READS = """
import sys
from pathlib import Path
from enpire.errors import PolicyProblem
from policies.checkpoint_admission import admit
admit(Path(sys.argv[1]))
for refused in sys.argv[2:]:
    try:
        admit(Path(refused))
    except PolicyProblem:
        continue
    raise SystemExit(f"{refused} is admitted")
assert not {"lerobot", "transformers", "torch", "diffusers", "datasets"} & set(sys.modules)
"""


def test_a_checkpoint_is_admitted_or_refused_without_importing_a_library(tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "version")
    assert admit(folder).tokenizer_name is None
    refused = [checkpoints.write(tmp_path / f"refused-{number}") for number in range(len(checkpoints.ATTACKS))]
    for one, (change, _) in zip(refused, checkpoints.ATTACKS.values(), strict=True):
        change(one)
    words = [sys.executable, "-c", READS, str(folder), *map(str, refused)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", checkpoints.ATTACKS)
def test_what_could_run_or_fetch_something_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    change, said = checkpoints.ATTACKS[name]
    folder = checkpoints.write(tmp_path / "version")
    change(folder)
    with pytest.raises(PolicyProblem, match=said) as refusal:
        admit(folder)
    assert str(folder) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", checkpoints.ATTACKS)
def test_a_version_that_is_more_than_data_is_refused_before_lerobot_is_imported(name: str, tmp_path: Path) -> None:
    change, said = checkpoints.ATTACKS[name]
    folder = checkpoints.write(tmp_path / "version")
    change(folder)
    with without_lerobot() as asked, pytest.raises(PolicyProblem, match=said):
        load_parts(folder)
    assert asked == []


def test_an_honest_version_is_loaded_with_lerobot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with without_lerobot() as asked, pytest.raises(MissingExtra, match="this test hides it"):
        load_parts(checkpoints.write(tmp_path / "version"))
    assert asked[0].startswith("lerobot"), "so the test above would see it"


@pytest.mark.parametrize("name", checkpoints.ATTACKS)
def test_a_checkpoint_that_is_refused_is_not_imported(name: str, tmp_path: Path) -> None:
    change, said = checkpoints.ATTACKS[name]
    folder, home = checkpoints.write(tmp_path / "version"), tmp_path / "home"
    change(folder)
    done = CliRunner().invoke(app, ["policy", "import", str(folder), "--home", str(home)])
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert re.search(said, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1
    assert not list((home / "versions").glob("*"))


def test_an_honest_checkpoint_is_imported(tmp_path: Path) -> None:
    folder, home = checkpoints.write(tmp_path / "version"), tmp_path / "home"
    done = CliRunner().invoke(app, ["policy", "import", str(folder), "--home", str(home)])
    assert done.exit_code == 0, done.stderr
    assert [path.name for path in (home / "versions").iterdir()] == [done.stdout.strip()]


def test_a_fifo_is_not_opened(tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "version")
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with pytest.raises(PolicyProblem, match="not a plain file"):
        admit(folder)


def test_a_name_on_the_hub_needs_no_files_only_if_it_is_listed(tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "version")
    (folder / "language.tokenizer_config.json").unlink()
    step = {"registry_name": "tokenizer_processor", "config": {"tokenizer_name": "google/paligemma-3b-pt-224"}}
    checkpoints.edit(folder / "policy_preprocessor.json", lambda document: document["steps"].append(step))
    assert admit(folder).tokenizer_name == "google/paligemma-3b-pt-224"
    step["config"] = {"tokenizer_name": "someone/tokenizer"}
    checkpoints.edit(folder / "policy_preprocessor.json", lambda document: document["steps"].append(step))
    with pytest.raises(PolicyProblem, match="someone/tokenizer"):
        admit(folder)


@pytest.mark.slow
def test_every_listed_family_is_lerobots() -> None:
    config = pytest.importorskip("lerobot.configs.policies")
    pytest.importorskip("lerobot.policies.factory")
    assert set(FAMILIES) <= set(config.PreTrainedConfig.get_known_choices())
