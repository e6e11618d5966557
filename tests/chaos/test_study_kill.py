"""kill -9 of `enpire study run`, of its station and of both; the same command then loses and doubles no trial."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from enpire.home import Home, open_home
from enpire.service.studies import read_report
from enpire.store import versions
from policies.scripted import Script, save
from tests.chaos.harness import STATION, WAIT_S, Orchestrator, Witness, audit, children, kill_quietly, until

pytestmark = [pytest.mark.slow]
BLOCKS = 30


class StudyRun(Orchestrator):
    """`enpire study run` of one study in one home."""

    words = ("study", "run")
    headless = ()


def study_file(home: Home, root: Path) -> Path:
    """The two experts of a shipped task, as versions; the test reads once, after the last block."""
    arms: dict[str, str] = {}
    for script in ("expert", "clean_expert"):
        folder = root / script
        folder.mkdir()
        save(Script(task="pin_insertion", script=script), folder)
        arms[script] = versions.publish(folder, home.versions)
    content = {
        "name": "killed", "control": "expert", "task": "pin_insertion", "test": "fixed", "blocks": BLOCKS, "arms": arms,
        "stations": {"count": 1, "lanes": 2, "pace": "fast", "reset": "teleport", "ahead": 0},
    }  # fmt: skip
    path = root / "study.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("victim", ["run", "station", "power"])
def test_a_killed_study_resumes_with_every_trial(tmp_path: Path, victim: str) -> None:
    home = open_home(tmp_path / "home")
    lab = StudyRun(study_file(home, tmp_path), home.root)
    witness = Witness.of(home.root, stations=1)
    witness.start()
    lab.start()
    try:
        until(lambda: len(witness.seen) > 6 or not lab.alive, "trials before the kill")
        assert lab.alive, lab.said()[-2000:]
        if victim == "station":
            assert kill_quietly(children(lab.pid, STATION)[0])
        else:
            lab.kill() if victim == "run" else lab.kill_all()
            lab.start()
        assert lab.process is not None
        assert lab.process.wait(WAIT_S) == 0, lab.said()[-2000:]
    finally:
        lab.kill_all()
        witness.stop()
    assert audit(home.root, witness).problems() == []
    found = read_report(home, "killed")
    assert found.blocks == BLOCKS
    assert [arm.n for arm in found.arms] == [BLOCKS, BLOCKS]
    assert found.comparisons[0].answer == "better"
