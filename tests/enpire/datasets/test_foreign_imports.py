"""Import of foreign datasets: refused datasets, episodes left out, known episodes, and the messages about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.datasets.dataset_import import Selection, import_episodes
from enpire.errors import FileProblem, UsageError
from enpire.home import Home, open_home
from enpire.store.episodes import FolderStore
from policies.training_data import read_episodes
from sim.tasks.pin_insertion import PinInsertion
from tests.enpire.datasets.foreign_dataset import Columns, columns, written
from tests.fakes.sample_campaign import CAMPAIGN, begin

SPEC = PinInsertion.spec


@pytest.fixture
def lab(tmp_path: Path) -> Home:
    home = open_home(tmp_path / "lab")
    begin(home.root).flush()
    return home


def of_the_task() -> Columns:
    return columns(SPEC.state_dim, SPEC.action_dim)


def test_an_episode_that_is_not_finite_is_left_out_by_name(lab: Home, tmp_path: Path) -> None:
    cells = of_the_task() | {"next.success": [True] * 12}
    rows = np.array(cells["observation.state"])
    rows[2, 1] = np.inf
    taken = import_episodes(lab, written(tmp_path / "set", cells | {"observation.state": rows.tolist()}), CAMPAIGN)
    assert (taken.episodes, taken.not_finite) == (1, ("episode-0",))
    store = FolderStore(lab.episodes)
    assert len(read_episodes([store.folder(order_id) for order_id in store.ids()])) == 1
    rows[:] = np.nan
    with pytest.raises(UsageError, match="0 are known already and 2 hold numbers that are not finite"):
        import_episodes(lab, written(tmp_path / "all", cells | {"observation.state": rows.tolist()}), CAMPAIGN)


def test_the_subcommand_names_the_episodes_left_out(lab: Home, tmp_path: Path) -> None:
    cells = of_the_task()
    cells["action"][-1] = [float("nan")] * SPEC.action_dim
    root = written(tmp_path / "set", cells | {"outcome": ["unsafe"] * 12})
    done = CliRunner().invoke(app, ["episodes", "import", str(root), "--home", str(lab.root)])
    assert done.exit_code == 0, done.output
    assert "Left out because a state or an action is not finite: episode-1." in done.output
    assert "no verdict" not in done.output


def test_another_rate_is_refused(lab: Home, tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="has 5 frames a second, the task pin_insertion 30"):
        import_episodes(lab, written(tmp_path / "set", of_the_task(), info={"fps": 5}), CAMPAIGN)


OURS = [one.name for one in SPEC.action]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["shoulder.pos", *OURS[1:]], "calls number 0 of action 'shoulder.pos'"),
        ([OURS[1], OURS[0], *OURS[2:]], "calls number 0 of action"),
        ([f"joint_{n}" for n in reversed(range(SPEC.action_dim))], "calls number 0 of action"),
        (OURS, ""),
        ([f"joint_{n}.pos" for n in range(1, SPEC.action_dim + 1)], ""),
        (None, ""),
    ],
)
def test_other_names_are_refused_and_mere_counting_is_not(
    lab: Home, tmp_path: Path, names: list[str] | None, sentence: str
) -> None:
    root = written(tmp_path / "set", of_the_task(), info={"features": {"action": {"names": names}}})
    if not sentence:
        assert import_episodes(lab, root, CAMPAIGN).episodes == 2
        return
    with pytest.raises(FileProblem, match=sentence):
        import_episodes(lab, root, CAMPAIGN)


def test_a_second_import_takes_only_new_episodes(lab: Home, tmp_path: Path) -> None:
    root = written(tmp_path / "set", of_the_task())
    first = import_episodes(lab, root, CAMPAIGN)
    assert (first.episodes, first.known, first.without_verdict) == (2, 0, 2)
    with pytest.raises(UsageError, match="2 are known already"):
        import_episodes(lab, root, CAMPAIGN)
    again = import_episodes(lab, root, CAMPAIGN, Selection(default_outcome="success"))
    assert (again.episodes, again.known, again.without_verdict) == (2, 0, 0)
    with pytest.raises(UsageError, match="2 are known already"):
        import_episodes(lab, root, CAMPAIGN, Selection(default_outcome="failure"))


def test_two_equal_episodes_of_one_dataset_are_taken_once(lab: Home, tmp_path: Path) -> None:
    cells = of_the_task()
    twice = {key: values[:6] * 2 for key, values in cells.items()} | {"episode_index": [0] * 6 + [1] * 6}
    taken = import_episodes(lab, written(tmp_path / "set", twice), CAMPAIGN)
    assert (taken.episodes, taken.known) == (1, 1)


def test_unsafe_is_a_verdict(lab: Home, tmp_path: Path) -> None:
    root = written(tmp_path / "set", of_the_task() | {"outcome": ["unsafe"] * 5 + ["aborted"] * 7})
    assert import_episodes(lab, root, CAMPAIGN).without_verdict == 1
