"""What a training run writes into its folder is read, also in the spelling of earlier versions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from enpire.interfaces import Progress
from enpire.processes.training_process import TrainingProcess


@pytest.mark.parametrize("key", ["metrics", "figures"])
def test_progress_and_result_are_read_under_both_names(tmp_path: Path, key: str) -> None:
    lines = [{"stage": "actor", "done": done, "total": 100, key: {"loss": 1 / done}} for done in (50, 100)]
    (tmp_path / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "result.json").write_text(json.dumps({key: {"loss": 0.5}}))
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        run = TrainingProcess(folder=tmp_path, process=process)
        assert run.progress() == Progress(stage="actor", done=100, total=100, metrics={"loss": 0.01})
        process.wait(600)
        assert run.metrics() == {"loss": 0.5}
