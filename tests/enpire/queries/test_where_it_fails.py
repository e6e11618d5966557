"""Where a policy fails: the map of starts, the clusters, the hints, and the list of a cluster's episodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from enpire.gate.intervals import wilson
from enpire.queries.campaigns import open_records
from enpire.queries.failure_clusters import divide, ending, masked
from enpire.queries.where_it_fails import where_it_fails
from enpire.service.reading import Page
from enpire.store.start_rows import Selection, start_rows
from tests.web_ui.failing import HARD, add_failures
from tests.web_ui.recorded import BASE, History
from tests.web_ui.tiny_task import SPEC
from web_ui.archive import Archive


@pytest.fixture
def past(tmp_path: Path) -> History:
    """An open campaign without episodes."""
    made = History(tmp_path / "home")
    made.say(
        "campaign started", name="tiny", task="tests.web_ui.tiny_task:TinyTask", seed=1, code="0.1.0",
        campaign={}, goal={"success": 0.97, "confirm_starts": 400}, home=str(made.home),
    )  # fmt: skip
    return made


def test_it_finds_the_hard_starts_the_two_ways_to_fail_and_their_episodes(past: History) -> None:
    how = add_failures(past)
    selection = Selection(campaign_id=past.campaign_id, starts="train", policy_id=BASE)
    with open_records(past.home) as records:
        found = where_it_fails(records, selection, SPEC, (0, 1))
        rows = start_rows(records.reading, selection)
        none = where_it_fails(records, Selection(campaign_id=past.campaign_id, starts="hidden"), SPEC)
    assert (found.success.n, found.success.n - found.success.successes) == (320, len(how))
    assert found.axes[0].spread > 0.5 > 0.05 > found.axes[1].spread
    assert found.map is not None
    hard = [cell for cell in found.map.cells if cell.column == found.map.bins - 1]
    assert hard
    for cell in found.map.cells:
        if cell.column < int(HARD * found.map.bins) - 1:
            assert (cell.success.success or 0) > 0.5
        if cell in hard:
            assert (cell.success.success or 0) < 0.5
            assert cell.success.low <= (cell.success.success or 0) <= cell.success.high
            assert set(cell.failed) <= set(how)
    assert sum(cell.success.n for cell in found.map.cells) == len(rows) == 320, "every episode is in one cell"
    assert sum(cell.success.n - cell.success.successes for cell in found.map.cells) == len(how)
    for name, groups in (("station", found.stations), ("policy_id", found.versions)):
        counted = {one.id: (one.successes, one.n, one.low, one.high) for one in groups}
        known = {getattr(row, name): [one for one in rows if getattr(one, name) == getattr(row, name)] for row in rows}
        exact = {key: wilson(sum(one.order_id not in how for one in mine), len(mine)) for key, mine in known.items()}
        assert counted == {key: (one.successes, one.n, one.low, one.high) for key, one in exact.items()}
    first, second = found.clusters
    assert {how[one] for one in first.order_ids} == {"above"}
    assert {how[one] for one in second.order_ids} == {"aside"}
    assert first.example in first.order_ids
    assert "z 0.08 m (successes" in first.what
    assert second.stations == (("sim-2", second.n),)
    folder = past.home / "episodes" / past.campaign_id
    assert ending(rows, second.example, folder, SPEC.state).startswith("ends at x 0.0")
    assert ending(rows, "another", folder, SPEC.state) == ""
    assert found.hints[0].link.startswith(f"cell {found.map.bins - 1} ")
    assert [one.link for one in found.hints[1:3]] == ["station sim-2", "cluster 1"]
    assert (none.success.n, none.map, none.clusters, none.hints) == (0, None, (), ())
    listed = Archive(past.home).episodes(
        Page(campaign_id=past.campaign_id, starts="train", policy_id=BASE, limit=200), cluster=2
    )
    assert {row.order_id for row in listed.rows} == set(second.order_ids)
    past.ledger.close()


def test_the_list_shows_labels_that_differ_from_the_verdict(past: History) -> None:
    how = list(add_failures(past, 60))
    for order_id, outcome in ((how[0], "success"), (how[1], "failure")):
        past.say("person judged", order_id=order_id, outcome=outcome, by="ada")
    archive = Archive(past.home)

    def shown(label: str) -> set[str]:
        return {row.order_id for row in archive.episodes(Page(campaign_id=past.campaign_id, label=label)).rows}

    assert (shown("differs"), shown("any")) == ({how[0]}, {how[0], how[1]})
    hints = archive.where_it_fails(Selection(campaign_id=past.campaign_id)).hints
    assert [one.order_id for one in hints if one.link == "labels"] == [how[0]]
    past.ledger.close()


def test_one_cloud_is_not_divided_and_reasons_that_differ_in_numbers_are_one() -> None:
    cloud = np.random.default_rng(3).normal(size=(200, 3))
    assert divide(cloud).max() == 0
    assert divide(np.zeros((100, 2))).max() == 0
    assert masked("tip 3.2 mm off at tick 17") == masked("tip -0.4 mm off at tick 9") == "tip # mm off at tick #"
