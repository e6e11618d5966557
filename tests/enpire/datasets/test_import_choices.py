"""Import with choices: one instruction, another rate, a campaign that begins with the episodes; readable files."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from enpire.campaign.campaign import read_campaign
from enpire.cli import app
from enpire.datasets.dataset_files import finish
from enpire.datasets.dataset_import import Selection, import_episodes
from enpire.datasets.lerobot_import import Imported
from enpire.datasets.lerobot_video import Seen
from enpire.datasets.resampling import require_resampling, resampled
from enpire.errors import FileProblem, UsageError
from enpire.home import Home, open_home
from enpire.queries import campaigns
from enpire.steps.begin import find_unfinished
from enpire.store.ledger import open_to_read
from enpire.types import SOURCE_EXPERT, Bounds, EpisodeArrays, TaskSpec
from sim.tasks.pin_insertion import PinInsertion
from tests.enpire.datasets.foreign_dataset import FRAMES, columns, written
from tests.fakes.sample_campaign import CAMPAIGN, begin

SPEC = PinInsertion.spec
ARM = TaskSpec(
    name="arm", instruction="move", rate_hz=10.0, limit_ticks=100,
    state=(Bounds(name="joint_rad", unit="rad", low=-9, high=9),),
    action=(
        Bounds(name="joint_rad", unit="rad", low=-9, high=9), Bounds(name="vx_mm_s", unit="mm/s", low=-9, high=9),
    ),
)  # fmt: skip


@pytest.fixture
def lab(tmp_path: Path) -> Home:
    home = open_home(tmp_path / "lab")
    begin(home.root).flush()
    return home


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["episodes", "import", *map(str, words)])


def line(periods: int, rate_hz: float) -> Imported:
    """A motion at 1 rad a second; each command is where the joint is at the end of its period, and 5 mm/s."""
    times = np.arange(periods + 1, dtype=np.float32) / rate_hz
    action = np.stack([times[1:], np.full(periods, 5.0)], axis=1).astype(np.float32)
    arrays = EpisodeArrays(
        state=times[:, None], action=action, source=np.full(periods, SOURCE_EXPERT, np.uint8),
        chunk=np.full(periods, -1, np.int32),
    )  # fmt: skip

    def pictures() -> Iterator[Seen]:
        for number in range(periods):
            yield {"top": np.full((2, 2, 3), number, np.uint8)}

    return Imported(
        uid="e", instruction="move", outcome="success", arrays=arrays, critic_outputs={"p_v": [1.0]}, pictures=pictures
    )


@pytest.mark.parametrize("rate_hz", [5.0, 20.0, 30.0, 50.0, 15.0])
def test_a_straight_motion_is_the_same_motion_at_another_rate(rate_hz: float) -> None:
    one = line(round(2 * rate_hz), rate_hz)
    at_rate, wanted = resampled(one, rate_hz, ARM), line(20, 10.0)
    assert at_rate is not None
    assert at_rate.arrays.state == pytest.approx(wanted.arrays.state, abs=1e-5)
    assert at_rate.arrays.action[:, 1] == pytest.approx(wanted.arrays.action[:, 1], abs=1e-5)
    # Before the end of the first old period no command is known, so it is the first one.
    first = np.maximum(wanted.arrays.action[:, 0], 1 / rate_hz)
    assert at_rate.arrays.action[:, 0] == pytest.approx(first, abs=1e-5)
    assert (at_rate.arrays.source == SOURCE_EXPERT).all()
    assert at_rate.critic_outputs == {}
    assert at_rate.pictures is not None
    shown = [int(seen["top"][0, 0, 0]) for seen in at_rate.pictures()]
    assert shown == [int(number * rate_hz / 10 + 1e-9) for number in range(20)]


def test_a_rate_keeps_the_way_and_a_source_is_the_one_in_force() -> None:
    one = line(6, 20.0)
    action = one.arrays.action.copy()
    action[:, 1] = [0, 6, 2, 4, 0, 0]
    source = np.array([0, 0, 0, 1, 1, 1], np.uint8)
    arrays = EpisodeArrays(state=one.arrays.state, action=action, source=source, chunk=one.arrays.chunk)
    at_rate = resampled(replace(one, arrays=arrays), 20.0, ARM)
    assert at_rate is not None
    assert at_rate.arrays.action[:, 1].tolist() == [3, 3, 0]
    assert at_rate.arrays.source.tolist() == [0, 1, 1]


def test_an_episode_shorter_than_a_period_is_none_and_differences_are_refused() -> None:
    assert resampled(line(1, 30.0), 30.0, ARM) is None
    step = Bounds(name="step_mm", unit="mm", low=-1, high=1)
    with pytest.raises(FileProblem, match="difference for each period"):
        require_resampling(replace(ARM, action=(step,)))
    require_resampling(SPEC)


def test_another_rate_is_imported_on_request_only(lab: Home, tmp_path: Path) -> None:
    cells = columns(SPEC.state_dim, SPEC.action_dim) | {"next.success": [True] * sum(FRAMES)}
    root = written(tmp_path / "set", cells, info={"fps": 15})
    refused = enpire(root, "--home", lab.root)
    assert refused.exit_code == 1
    assert "Import it with --resample" in refused.stderr
    result = enpire(root, "--home", lab.root, "--resample")
    assert result.exit_code == 0, result.output
    with campaigns.open_records(lab.root) as records:
        rows = [row for one in records.reading.recorded() if (row := records.reading.order(one)) is not None]
        ticks = sorted(row.episode.ticks for row in rows if row.episode is not None)
    assert ticks[:2] == [2 * frames for frames in FRAMES], "the episodes that were there have 40"


def test_only_episodes_with_the_instruction_are_imported(lab: Home, tmp_path: Path) -> None:
    cells = columns(SPEC.state_dim, SPEC.action_dim)
    cells["task_index"] = [0] * FRAMES[0] + [1] * FRAMES[1]
    root = written(tmp_path / "set", cells, tasks={"task_index": [0, 1], "task": ["stack", "insert"]})
    taken = import_episodes(lab, root, CAMPAIGN, Selection(instructions=("insert",)))
    assert taken.episodes == 1
    with pytest.raises(UsageError, match=r"has the instruction 'fold'; there are: 'insert'; 'stack'"):
        import_episodes(lab, root, CAMPAIGN, Selection(instructions=("fold",)))
    assert import_episodes(lab, root, CAMPAIGN).episodes == 1, "the other one"


def test_a_campaign_begins_with_the_episodes_in_a_new_home(tmp_path: Path) -> None:
    cells = columns(SPEC.state_dim, SPEC.action_dim) | {"next.success": [True] * sum(FRAMES)}
    root, home = written(tmp_path / "set", cells), tmp_path / "new"
    result = enpire(root, "--begin", "pin_insertion", "--home", home)
    assert result.exit_code == 0, result.output
    assert f"Continue it: enpire run pin_insertion --home {home}" in result.stdout
    ledger = open_to_read(home / "ledger.db")
    try:
        campaign_id = find_unfinished(ledger, read_campaign("pin_insertion"))
    finally:
        ledger.close()
    assert campaign_id is not None
    with campaigns.open_records(home) as records:
        assert len(records.reading.demonstrations(campaign_id)) == 2, "its base learns from them"
    again = enpire(root, "--begin", "pin_insertion", "--home", home)
    assert again.exit_code == 1
    assert "has an unfinished campaign 'pin_insertion' already" in again.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--begin", "pin_insertion", "--campaign", "x"], "give one of them"),
        (["--begin", "no-such"], "no-such"),
        (["--begin", "pin_insertion", "--instruction", "fold"], "has the instruction 'fold'"),
        (["--begin", "pin_insertion"], "Import it with --resample"),
    ],
)
def test_a_campaign_that_cannot_begin_leaves_no_home(tmp_path: Path, words: list[str], said: str) -> None:
    fps = 30 if "--instruction" in words else 5
    root = written(tmp_path / "set", columns(SPEC.state_dim, SPEC.action_dim), info={"fps": fps})
    result = enpire(root, *words, "--home", tmp_path / "new")
    assert result.exit_code == 1
    assert said in result.stderr
    assert not (tmp_path / "new").exists()


def test_a_written_dataset_is_as_readable_as_its_folder(tmp_path: Path) -> None:
    videos = tmp_path / "set" / "videos"
    videos.mkdir(parents=True)
    (tmp_path / "set").chmod(0o755)
    videos.chmod(0o700)
    (videos / "top.mp4").write_bytes(b"video")
    (videos / "top.mp4").chmod(0o600)
    finish(tmp_path / "set")
    assert stat.S_IMODE(videos.stat().st_mode) == 0o755
    assert stat.S_IMODE((videos / "top.mp4").stat().st_mode) == 0o644
    (videos / "top.mp4").chmod(0o600)
    (tmp_path / "set").chmod(0o700)
    finish(tmp_path / "set")
    assert stat.S_IMODE((videos / "top.mp4").stat().st_mode) == 0o600, "a private dataset stays private"
