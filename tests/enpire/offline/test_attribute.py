"""Attribution of a recorded campaign: a learner whose changes have known effects, tried on the starts of a task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from enpire.cli import app
from enpire.codec import order_fields, result_fields, result_of
from enpire.errors import UsageError
from enpire.home import Home, open_home
from enpire.interfaces import ImprovementJob, Progress
from enpire.offline.attribute import (
    Attribution,
    AttributionPlan,
    attribute,
    first_start,
    keep_attribution,
    kept_attribution,
)
from enpire.offline.attribution_text import attribution_text
from enpire.store import versions
from enpire.store.arrays import pack
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode, EpisodeArrays
from tests.fakes.point_task import PointTask, point_order
from tests.fakes.sample_events import append

MODULE = "tests.enpire.offline.test_attribute"
POINT = "tests.fakes.point_task:PointTask"
TRAINED: list[Mapping[str, object]] = []
"""Settings of every training run in this process."""
SETTINGS = {"far": False, "grip": False, "close": False}
STARTS = 80


class Reaching:
    """Its versions reach 0.4 m; `far` adds 0.3 m, `grip` and `close` add 0.2 m together and nothing alone."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        settings = job.recipe["settings"]
        assert isinstance(settings, dict)
        assert job.parent is not None
        assert len(job.episodes) == 1
        TRAINED.append(settings)
        reach_m = 0.4 + 0.3 * settings["far"] + 0.2 * (settings["grip"] and settings["close"])
        report(Progress(stage="reaching", done=1, total=1, metrics={}))
        job.output.mkdir()
        said = {"kind": "tests.chaos.point_lab:load", "reach_m": reach_m / 40}
        (job.output / "policy.json").write_text(json.dumps(said))
        return {"reach_m": reach_m}


def reached(reach_m: float, starts: int = STARTS, seed: int = 0) -> float:
    """Share of the starts that a version with this reach solves, up to the few at the very edge of its reach."""
    first = first_start(seed)
    ways = [np.abs(PointTask().start("train", first + index, b"").values).max() for index in range(starts)]
    return float(np.mean(np.array(ways) < reach_m))


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A kept change of regime, with its promoted version."""

    regime: str
    reach_m: float
    commit: str = ""
    continues: int | None = None
    """Number of the kept change whose version its training started from; None: the base."""
    promoted: int = 0
    """Place among the promotions; 0: without the event of its promotion."""

    def version(self, home: Home, number: int) -> str:
        staged = home.root / f"staged-{number}"
        staged.mkdir()
        said = {"kind": "tests.chaos.point_lab:load", "reach_m": self.reach_m / 40}
        (staged / "policy.json").write_text(json.dumps(said))
        return versions.publish(staged, home.versions)


def events_of(kept: Kept, number: int, base: str, parent: str, made: str) -> list[tuple[str, Mapping[str, object]]]:
    """The events of a branch whose version was promoted."""
    of: dict[str, object] = {"experiment_id": f"X{number}", "hypothesis_id": f"H{number}"}
    other = {"name": kept.regime, "learner": "program_search", "settings": {"width": 3}}
    tried = {"changes": {"width": 3}, "champion": base, "regime": kept.regime, "turn_rollouts": 5}
    job = {"job": f"J{number}", "round": 2}
    return [
        ("experiment submitted", {**of, **tried, "recipe": other, "commit": kept.commit}),
        ("experiment checked", of),
        (
            "learner started",
            {**job, "learner": "program_search", "parent": parent, "recipe": other, "turn": 1,
             "experiment_id": f"X{number}"},
        ),
        ("version made", {"policy_id": made, "parent": parent, "round": 2}),
        ("learner ended", {**job, "policy_id": made}),
        ("experiment decided", {**of, "decision": "keep", "policy_id": made}),
    ]  # fmt: skip


def campaign_in(root: Path, *kept: Mapping[str, object] | Kept, driver: str = "mujoco", learner: str = "") -> Home:
    """A home with a campaign that recorded one episode and kept these changes."""
    home = open_home(root)
    staged = root / "staged"
    staged.mkdir()
    (staged / "policy.json").write_text(json.dumps({"kind": "tests.chaos.point_lab:load", "reach_m": 0.01}))
    base = versions.publish(staged, home.versions)
    recipe = {"name": "reach", "learner": f"{MODULE}:Reaching", "settings": SETTINGS,
              "space": {name: [False, True] for name in SETTINGS}}  # fmt: skip
    order = replace(point_order(base, 3), campaign_id="C1", purpose="collect")
    data = pack(
        EpisodeArrays(
            state=np.zeros((9, 2), np.float32), action=np.zeros((8, 2), np.float32), source=np.zeros(8, np.uint8),
            chunk=np.zeros(8, np.int32),
        )
    )  # fmt: skip
    episode = Episode(
        order=order, outcome="success", cause="", confidence=1.0, ran_policy_id=base, ticks=8, began_s=0.0, ended_s=1.0,
        sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    FolderStore(home.episodes).put(episode, data)
    told = {
        "name": "points",
        "task": POINT,
        "campaign": {"name": "points", "task": POINT, "recipe": "habc_warm"},
        "goal": {"success": 0.9},
        "seed": 5,
    }
    entries: list[tuple[str, Mapping[str, object]]] = [
        ("campaign started", {"campaign_id": "C1", **told}),
        ("station joined", {"station": "sim-1", "lanes": 2, "lease": 1, "facts": {"driver": driver}}),
        ("recipe declared", {"recipe": recipe, "recipe_hash": "1"}),
        ("deployed", {"policy_id": base, "reason": "the base"}),
        ("order issued", {"orders": [order_fields(order)]}),
        ("orders ended", {"episodes": [result_fields(result_of(episode))]}),
    ]
    promoted: dict[int, str] = {}
    versions_of: dict[int, str] = {}
    for number, changes in enumerate(kept):
        of: dict[str, object] = {"experiment_id": f"X{number}", "hypothesis_id": f"H{number}"}
        if isinstance(changes, Kept):
            made = changes.version(home, number)
            promoted |= {changes.promoted: made} if changes.promoted else {}
            versions_of[number] = made
            parent = base if changes.continues is None else versions_of[changes.continues]
            entries += events_of(changes, number, base, parent, made)
            continue
        whole = {**recipe, "settings": {**SETTINGS, **changes}, "learner": learner or recipe["learner"]}
        entries += [
            ("experiment submitted", {**of, "changes": changes, "champion": base, "recipe": whole}),
            ("experiment decided", {**of, "decision": "keep", "delta": 0.1, "low": 0.0, "high": 0.2}),
        ]
    entries += [("deployed", {"policy_id": promoted[place], "reason": "better"}) for place in sorted(promoted)]
    ledger = SqliteLedger(home.ledger)
    append(ledger, entries, "C1")
    ledger.close()
    return home


@pytest.fixture(autouse=True)
def nothing_trained() -> Iterator[None]:
    TRAINED.clear()
    yield
    TRAINED.clear()


def run(home: Home, **plan: object) -> Attribution:
    chosen = AttributionPlan(**{"starts": STARTS, **plan})  # pyright: ignore[reportArgumentType]
    return attribute(home, chosen, lambda _: None)


def test_known_effects_are_found_and_the_interaction_is_shared(tmp_path: Path) -> None:
    found = run(campaign_in(tmp_path, {"far": True}, {"grip": True}, {"close": True}))
    assert len(TRAINED) == len(found.sets) == 8
    rates = {frozenset(one.changes): one.successes / one.n for one in found.sets}
    for subset, reach_m in (((), 0.4), ((0,), 0.7), ((1,), 0.4), ((1, 2), 0.6), ((0, 1, 2), 0.9)):
        assert rates[frozenset(subset)] == pytest.approx(reached(reach_m), abs=0.05)
    alone, both, far, whole = (rates[frozenset(one)] for one in ((), (1, 2), (0,), (0, 1, 2)))
    shapley = [one.effects.shapley.delta for one in found.changes]
    shared = (both - alone) / 6 + (whole - far) / 3
    assert shapley[1] == pytest.approx(shared)
    assert shapley[2] == pytest.approx(shared)
    assert sum(shapley) == pytest.approx(whole - alone)
    assert found.changes[0].effects.leave_one_out.delta == pytest.approx(whole - both)
    assert found.changes[1].effects.leave_one_out.delta == pytest.approx(whole - far)
    values = [one.effects.shapley for one in found.changes]
    assert all(one.low <= one.delta <= one.high for one in values)
    assert found.exact
    assert found.orders == ()
    text = attribution_text(found)
    assert "far True  (X0)" in text
    assert f"train starts {first_start(0)} to {first_start(0) + STARTS - 1}; seed 0" in text


def test_a_second_call_trains_and_tries_nothing_again(tmp_path: Path) -> None:
    home = campaign_in(tmp_path, {"far": True}, {"grip": True})
    first = run(home)
    assert len(TRAINED) == 4
    assert run(home) == first
    assert len(TRAINED) == 4
    more = run(home, starts=STARTS + 20)
    assert len(TRAINED) == 4
    assert [one.n for one in more.sets] == [STARTS + 20] * 4
    run(home, seed=1)
    assert len(TRAINED) == 8, "another seed is another training run"


def test_an_interrupted_call_resumes_with_the_next_set(tmp_path: Path) -> None:
    home = campaign_in(tmp_path, {"far": True}, {"grip": True})

    def interrupt(progress: Progress) -> None:
        if progress.stage.startswith("set 3 of 4"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attribute(home, AttributionPlan(starts=STARTS), interrupt)
    done = len(TRAINED)
    run(home)
    assert len(TRAINED) == done + 2


def test_later_changes_of_one_setting_win_and_equal_recipes_are_trained_once(tmp_path: Path) -> None:
    found = run(campaign_in(tmp_path, {"far": True}, {"far": True}))
    assert len(TRAINED) == 2
    assert [one.effects.leave_one_out.delta for one in found.changes] == [0.0, 0.0]
    gained = found.sets[-1].successes / STARTS - found.sets[0].successes / STARTS
    assert [one.effects.shapley.delta for one in found.changes] == pytest.approx([gained / 2] * 2)


def test_what_cannot_be_tried_is_left_out_with_a_reason(tmp_path: Path) -> None:
    home = campaign_in(tmp_path / "a", {"far": True}, {"width": 3})
    found = run(home)
    assert [one.experiment for one in found.changes] == ["X0"]
    assert found.left_out == ("X1 is of another recipe than 'reach', and its version is missing",)
    assert "Left out: X1" in attribution_text(found)
    with pytest.raises(UsageError, match=r"kept no change that can be attributed \(X0 is of another recipe"):
        run(campaign_in(tmp_path / "b", {"far": True}, learner="habc"))
    with pytest.raises(UsageError, match=r"kept no change that can be attributed\. `enpire"):
        run(campaign_in(tmp_path / "c"))
    code = Kept(regime="code", reach_m=0.8, commit="c0ffee")
    assert run(campaign_in(tmp_path / "d", {"far": True}, code)).left_out == (
        "X1 is code of an agent, which runs in a room alone",
    )


def test_a_campaign_that_kept_a_regime_alone_measures_its_promoted_version(tmp_path: Path) -> None:
    home = campaign_in(tmp_path, Kept(regime="spiral", reach_m=0.8))
    found = run(home)
    assert len(TRAINED) == 1, "the campaign's own recipe; the regime is not trained again"
    [change] = found.changes
    assert (change.regime, change.changes, found.left_out) == ("spiral", {"width": 3}, ())
    assert (home.versions / change.version).is_dir()
    gained = reached(0.8) - reached(0.4)
    assert change.effects.shapley.delta == change.effects.leave_one_out.delta == pytest.approx(gained, abs=0.05)
    assert change.effects.shapley.low > 0
    text = attribution_text(found)
    assert f"regime spiral, version {change.version[:12]} width 3  (X0)" in text
    assert "counts with its promoted version" in text
    assert run(home) == found
    assert len(TRAINED) == 1
    keep_attribution(home, found)
    assert kept_attribution(home, "C1") == found


def test_in_each_set_the_change_that_was_kept_last_decides(tmp_path: Path) -> None:
    kept = ({"grip": True}, Kept(regime="spiral", reach_m=0.6), {"far": True}, {"close": True})
    found = run(campaign_in(tmp_path, *kept))
    rates = {one.changes: one.successes / one.n for one in found.sets}
    wanted = {(): 0.4, (1,): 0.6, (0, 1): 0.6, (0,): 0.4, (1, 2): 0.7, (0, 1, 3): 0.6, (0, 1, 2, 3): 0.9}
    for subset, reach_m in wanted.items():
        assert rates[subset] == pytest.approx(reached(reach_m), abs=0.05), subset
    assert len(TRAINED) == 8, "each set of changes of settings once"
    gained = rates[(0, 1, 2, 3)] - rates[()]
    assert sum(one.effects.shapley.delta for one in found.changes) == pytest.approx(gained)
    assert [bool(one.version) for one in found.changes] == [False, True, False, False]


def test_a_regime_that_continues_another_one_counts_only_together_with_it(tmp_path: Path) -> None:
    """Its version contains what the other one found, so without the other one there is no such version."""
    kept = (Kept(regime="clone", reach_m=0.6), Kept(regime="residual", reach_m=0.9, continues=0))
    found = run(campaign_in(tmp_path, *kept))
    rates = {one.changes: one.successes / one.n for one in found.sets}
    wanted = {(): 0.4, (0,): 0.6, (1,): 0.4, (0, 1): 0.9}
    assert rates == {subset: pytest.approx(reached(reach_m), abs=0.05) for subset, reach_m in wanted.items()}
    first, second = (one.effects.leave_one_out.delta for one in found.changes)
    assert first == pytest.approx(reached(0.9) - reached(0.4), abs=0.05), "without it, the other one is lost, too"
    assert second == pytest.approx(reached(0.9) - reached(0.6), abs=0.05)


def test_changes_count_in_the_order_in_which_they_were_promoted(tmp_path: Path) -> None:
    """The second experiment was submitted later and kept first."""
    kept = (Kept(regime="spiral", reach_m=0.8, promoted=2), Kept(regime="slow", reach_m=0.2, promoted=1))
    found = run(campaign_in(tmp_path, *kept))
    assert [one.regime for one in found.changes] == ["slow", "spiral"]
    assert found.sets[-1].successes / STARTS == pytest.approx(reached(0.8), abs=0.05)


def test_a_kept_attribution_of_an_earlier_version_is_still_read(tmp_path: Path) -> None:
    home = campaign_in(tmp_path, {"far": True})
    found = run(home)
    keep_attribution(home, found)
    [path] = home.reports.glob("attribution-*.json")
    document = json.loads(path.read_text())
    for change in document["changes"]:
        del change["regime"], change["version"]
    path.write_text(json.dumps(document))
    assert kept_attribution(home, "C1") == found


def test_a_campaign_on_real_robots_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ran on robots with the driver lerobot: .* simulated robots"):
        run(campaign_in(tmp_path, {"far": True}, driver="lerobot"))


def enpire(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_prints_text_and_json(tmp_path: Path) -> None:
    home = campaign_in(tmp_path, {"far": True})
    said = enpire("campaign", "attribute", "points", "--starts", "20", "--home", home.root)
    assert said.exit_code == 0, said.output
    assert "leave-one-out" in said.output
    told = enpire("campaign", "attribute", "--starts", "20", "--home", home.root, "--json")
    assert json.loads(told.stdout)["changes"][0]["experiment"] == "X0"
    assert len(TRAINED) == 2


@pytest.mark.parametrize("permutations", ["0", "many", "-1", "1.5"])
def test_permutations_that_are_none_are_refused(tmp_path: Path, permutations: str) -> None:
    home = campaign_in(tmp_path, {"far": True})
    said = enpire("campaign", "attribute", "--permutations", permutations, "--home", home.root)
    assert said.exit_code != 0
    assert "auto" in said.output
    assert not TRAINED
