"""Import of a dataset: its episodes join a campaign, and learners read them as demonstrations and rollouts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from enpire.codec import order_fields, result_fields, result_of
from enpire.datasets.dataset_export import export_episodes, wanted
from enpire.datasets.dataset_import import import_episodes
from enpire.datasets.lerobot_export import export_dataset
from enpire.errors import FileProblem, UsageError
from enpire.home import Home, open_home
from enpire.queries import campaigns
from enpire.store.arrays import pack
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.types import (
    SOURCE_EXPERT,
    SOURCE_HUMAN,
    SOURCE_POLICY,
    Episode,
    EpisodeArrays,
    Order,
    OutcomeKind,
    Purpose,
    Start,
)
from policies.habc.segments import Part, WindowSpec, cut
from policies.training_data import read_episodes
from sim.tasks.pin_insertion import PinInsertion
from tests.fakes.sample_campaign import CAMPAIGN, begin
from tests.fakes.sample_events import append

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SPEC = PinInsertion.spec


def an_episode(index: int, source: list[int], outcome: OutcomeKind, purpose: Purpose) -> tuple[Episode, bytes]:
    random = np.random.default_rng(index)
    ticks = len(source)
    arrays = EpisodeArrays(
        state=random.normal(size=(ticks + 1, SPEC.state_dim)).astype(np.float32),
        action=random.normal(size=(ticks, SPEC.action_dim)).astype(np.float32),
        source=np.array(source, np.uint8),
        chunk=(np.arange(ticks) // 4).astype(np.int32),
    )
    order = Order(
        order_id=f"01K{index:023}", campaign_id=CAMPAIGN, station="cell-1", task="pin_insertion", policy_id="p",
        start=Start(split="train", index=index, values=(), seed=index), purpose=purpose, round=1,
    )  # fmt: skip
    data = pack(arrays)
    episode = Episode(
        order=order, outcome=outcome, cause="", confidence=0.9, ran_policy_id="p", ticks=ticks, began_s=0.0,
        ended_s=1.0, sha256=hashlib.sha256(data).hexdigest(), arrays=arrays,
    )  # fmt: skip
    return episode, data


EPISODES = (
    an_episode(1, [SOURCE_EXPERT] * 12, "success", "demonstrate"),
    an_episode(2, [SOURCE_POLICY] * 12, "failure", "collect"),
    an_episode(3, [SOURCE_POLICY] * 12 + [SOURCE_HUMAN] * 12 + [SOURCE_POLICY] * 12, "success", "collect"),
)
THOUGHT = {"p_v": [0.5, 0.25, 0.75], "V_e": [-3.0, -2.0, -1.0], "g": [1.0, 1.5, 0.5]}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with the small campaign and three episodes that were recorded in it."""
    home = open_home(tmp_path_factory.mktemp("lab"))
    begin(home.root).flush()
    ledger, store = SqliteLedger(home.ledger), FolderStore(home.episodes)
    for episode, data in EPISODES:
        bare = replace(episode, arrays=None)
        append(ledger, [("order issued", {"campaign_id": CAMPAIGN, "orders": [order_fields(bare.order)]})])
        folder = store.put(bare, data)
        append(ledger, [("orders ended", {"campaign_id": CAMPAIGN, "episodes": [result_fields(result_of(bare))]})])
        if episode.order.purpose == "collect" and len(data) and episode.ticks == 12:
            (folder / "figures.json").write_text(json.dumps(THOUGHT))
    ledger.close()
    return home


@pytest.fixture(scope="module")
def dataset(lab: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("set") / "set"
    told: list[tuple[int, int]] = []
    ids = [episode.order.order_id for episode, _ in EPISODES]
    assert export_episodes(lab, ids, target, lambda done, total: told.append((done, total))).written == 3
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    return target


def test_known_episodes_are_not_imported_twice(lab: Home, dataset: Path) -> None:
    with pytest.raises(UsageError, match="3 are known already"):
        import_episodes(lab, dataset, "")


def test_imported_episodes_are_like_recorded_ones(dataset: Path, tmp_path: Path) -> None:
    home = open_home(tmp_path / "other")
    begin(home.root).flush()
    taken = import_episodes(home, dataset, CAMPAIGN)
    assert (taken.episodes, taken.demonstrations, taken.without_verdict) == (3, 1, 0)
    with campaigns.open_records(home.root) as records:
        ids = wanted(records, CAMPAIGN, 3)
    store = FolderStore(home.episodes)
    folders = [store.folder(order_id) for order_id in ids]
    for (before, _), order_id in zip(EPISODES, ids, strict=True):
        after = store.get(order_id)
        assert after.outcome == before.outcome
        assert after.order.purpose == before.order.purpose
        assert before.arrays is not None
        assert after.arrays is not None
        for name in ("state", "action", "source", "chunk"):
            assert np.array_equal(getattr(before.arrays, name), getattr(after.arrays, name))
    assert json.loads((folders[1] / "figures.json").read_text()) == THOUGHT
    windows = cut(read_episodes(folders), WindowSpec(horizon=8, execute=4, stride=4))
    assert set(windows.part) == set(Part) - {Part.BEFORE_STOP}
    SqliteLedger(home.ledger, read_only=True).verify()


def test_a_dataset_of_another_task_is_refused(lab: Home, tmp_path: Path) -> None:
    episode, _ = EPISODES[0]
    assert episode.arrays is not None
    other = replace(SPEC, action=SPEC.action[:2])
    narrow = replace(episode, arrays=replace(episode.arrays, action=episode.arrays.action[:, :2]))
    export_dataset([narrow], other, tmp_path / "narrow")
    with pytest.raises(FileProblem, match="import it into a campaign of its own task"):
        import_episodes(lab, tmp_path / "narrow", "")
