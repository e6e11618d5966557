"""Trackers get every number of a campaign exactly once, also after a kill; read back with their own libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from enpire.errors import MissingExtra
from enpire.queries import campaigns
from enpire.sinks.points import Point
from enpire.sinks.sink import SINKS, TrackedRun
from enpire.store import durable
from tests.enpire.sinks.points_of_home import points_of
from tests.fakes.sample_campaign import CAMPAIGN, SECOND, begin, record_campaign

TRACKERS = ("trackio", "tensorboard", "wandb", "mlflow")
LONG = {"wandb": pytest.mark.slow, "mlflow": pytest.mark.slow}


def run(*words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.parametrize("tracker", [pytest.param(one, marks=LONG.get(one, ())) for one in TRACKERS])
def test_a_tracker_gets_every_point_once_over_kills_and_restarts(tracker: str, tmp_path: Path) -> None:
    record, folder = begin(tmp_path / "home"), tmp_path / "kept"
    record.flush()
    run("-m", "tests.enpire.sinks.killed", tracker, str(record.home), str(folder), CAMPAIGN, code=-9)
    if tracker == "wandb":  # a part that a killed process did not finish
        durable.make_folder(folder / "wandb" / f"offline-run-20260101_000000-{CAMPAIGN}")
    follow = (
        "-m", "enpire.cli", "campaign", "follow", CAMPAIGN, "--to", tracker, "--dir", str(folder), "--project", "lab",
        "--once", "--home", str(record.home),
    )  # fmt: skip
    earlier = points_of(record.home)
    assert f"{len(earlier) - 5} points are new in {folder}" in run(*follow)
    for _ in range(8):
        record.run("collect", SECOND, 1, 0.5)
    record.tell("campaign ended", reached=True, reason="enough")
    record.flush()
    points = points_of(record.home)
    assert len(points) > len(earlier)
    assert f"{len(points) - len(earlier)} points are new" in run(
        *follow[:-3], "--home", str(record.home)
    )  # until its end
    assert "0 points are new" in run(*follow)

    assert_each_once(json.loads(run("-m", "tests.enpire.sinks.readers", tracker, str(folder), "lab")), points)


def test_mlflow_gets_every_point_once_after_a_batch_without_its_tag(tmp_path: Path) -> None:
    record = begin(tmp_path / "home")
    for _ in range(8):
        record.run("collect", SECOND, 1, 0.5)
    record.flush()
    kept = run("-m", "tests.enpire.sinks.cut_off", str(record.home), str(tmp_path / "kept"), CAMPAIGN)
    assert_each_once(json.loads(kept), points_of(record.home))


def assert_each_once(kept: Sequence[tuple[int, str, float]], points: Sequence[Point]) -> None:
    """What a tracker kept, (step, name, value), is what the points say, once."""
    wanted = [(point.seq, name, value) for point in points for name, value in point.values.items()]
    assert sorted((step, name) for step, name, _ in kept) == sorted((step, name) for step, name, _ in wanted)
    values = {(step, name): value for step, name, value in kept}
    assert values == pytest.approx({(step, name): value for step, name, value in wanted}, rel=1e-6)


def test_the_points_of_a_campaign_say_what_its_own_view_says(tmp_path: Path) -> None:
    record_campaign(tmp_path)
    points = points_of(tmp_path)
    assert [point.seq for point in points] == sorted({point.seq for point in points})
    last: dict[str, float] = {}
    for point in points:
        last |= point.values
    with campaigns.open_records(tmp_path) as records:
        view = campaigns.campaign_view(records, CAMPAIGN)
    shown, released = view.episodes, 2  # one order of each gate was released before the robot moved
    assert last["episodes/ended"] == shown["success"] + shown["failure"] + shown["aborted"] - released
    assert {kind: last[f"episodes/{kind}"] for kind in ("success", "failure")} == {
        kind: shown[kind] for kind in ("success", "failure")
    }
    assert last["episodes/aborted"] == shown["aborted"] - released == 1
    assert [point.values["gate/promoted"] for point in points if "gate/promoted" in point.values] == [1.0, 0.0]
    assert view.base is not None
    assert view.confirm is not None
    assert last["base/success_rate"] == view.base.success
    assert last["confirmation/bound"] == view.confirm.bound > 0.95
    assert (last["champion/promotions"], last["campaign/reached"], last["learner/loss"]) == (1, 1, 0.25)
    assert last["robots/utilisation"] == pytest.approx(0.9)
    assert last["collection/rollouts"] == 30


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_missing_package_is_one_sentence(tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tracker, "tensorboard.backend.event_processing.event_file_loader"):
        monkeypatch.setitem(sys.modules, module, None)
    wanted = TrackedRun(folder=tmp_path, project="lab", campaign_id=CAMPAIGN, name="pins", config={})
    monkeypatch.setenv("TRACKIO_DIR", "")
    with pytest.raises(MissingExtra, match=rf"pip install 'enpire\[{tracker}\]'"):
        SINKS.make(tracker, wanted)


def test_only_one_process_writes_a_campaign_into_a_folder(tmp_path: Path) -> None:
    import fcntl

    record = begin(tmp_path / "home")
    record.flush()
    folder = tmp_path / "home" / "sinks" / "tensorboard"
    durable.make_folder(folder)
    with (folder / f".{CAMPAIGN}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        asked = ("-m", "enpire.cli", "campaign", "follow", "--to", "tensorboard", "--once", "--home", str(record.home))
        done = subprocess.run([sys.executable, *asked], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1
    assert "Another process writes this campaign" in done.stderr
