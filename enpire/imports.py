"""A dataset of another tool becomes episodes of a campaign: ordered, ended and stored like those of a station."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from enpire import views
from enpire.errors import FileProblem, UnknownName, UsageError
from enpire.home import Home
from enpire.ids import mint
from enpire.interfaces import Task
from enpire.plugins import load
from enpire.store import durable, pictures, records
from enpire.store.arrays import pack
from enpire.store.episodes import FolderStore, Recording
from enpire.store.ledger import SqliteLedger
from enpire.store.lerobot_import import Imported, import_dataset
from enpire.types import SOURCE_EXPERT, Episode, Order, OutcomeKind, Purpose, Start, TaskSpec

STATION, POLICY = "imported", "imported"
"""What their orders name: no station of the lab moved, and no version of the lab decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What an import did."""

    campaign_id: str
    episodes: int
    demonstrations: int
    known: int
    """Left out, because the home has them under the same id."""
    without_verdict: int
    """Taken, but nothing can be learned from them."""


def import_episodes(home: Home, root: Path, campaign: str, unsaid: OutcomeKind = "unknown") -> Taken:
    """Take the episodes of a LeRobotDataset v3 into a campaign that is not running; the latest when it is empty.

    What the cameras saw is kept beside them, as its video has it. Who held the robot and how decisions were cut comes
    along; frames of a dataset that does not say are a teacher's, so that its episodes are demonstrations. `unsaid` is
    the outcome of episodes that do not say theirs. What ran from hidden starts never was in a dataset, so all of them
    count as from train starts.

    Raises:
        FileProblem: the dataset is damaged or has other widths than the campaign's task.
        UnknownName: the home has no such campaign.
        LedgerProblem: the campaign is running.
    """
    with views.open_records(home.root) as opened:
        campaign_id = views.find_campaign(opened, campaign)
        view = views.campaign_view(opened, campaign_id)
    spec = cast("Callable[[], Task]", load("tasks", view.task))().spec
    store, known = FolderStore(home.episodes), 0
    made: list[tuple[Recording, Imported]] = []
    for index, one in enumerate(_fitting(root, spec)):
        if _has(store, one.uid):
            known += 1
            continue
        made.append((_recording(one, index, campaign_id, view.task, len(view.rounds), unsaid), one))
    if not made:
        raise UsageError(f"{root} holds no episode that this home does not have; {known} are known already.")
    _keep(home, store, campaign_id, made)
    episodes = [recording.episode for recording, _ in made]
    return Taken(
        campaign_id=campaign_id,
        episodes=len(made),
        demonstrations=sum(item.order.purpose == "demonstrate" for item in episodes),
        known=known,
        without_verdict=sum(item.outcome not in ("success", "failure") for item in episodes),
    )


def _keep(home: Home, store: FolderStore, campaign_id: str, made: list[tuple[Recording, Imported]]) -> None:
    """Orders first, then the files, then their ends: a cut import leaves open orders and no episode that counts."""
    ledger = SqliteLedger(home.ledger)
    whole: list[Recording] = []
    try:
        for recording, one in made:
            whole.append(_with_pictures(store, recording, one))
        orders = [records.order_body(item.episode.order) for item in whole]
        ends = [records.episode_body(item.episode) for item in whole]
        ledger.append([(records.ORDER_ISSUED, {"campaign_id": campaign_id, "orders": orders})])
        folders = store.put_many(whole)
        for folder, (_, one) in zip(folders, made, strict=True):
            if one.figures:
                durable.write(folder / "figures.json", json.dumps(dict(one.figures)).encode())
        ledger.append([(records.ORDERS_ENDED, {"campaign_id": campaign_id, "episodes": ends})])
    finally:
        for item in whole:
            if item.pictures is not None:
                item.pictures.unlink(missing_ok=True)  # those that the store did not take
        ledger.close()


def _with_pictures(store: FolderStore, recording: Recording, one: Imported) -> Recording:
    if one.pictures is None:
        return recording
    order = recording.episode.order
    path = durable.staged_name(store.folder(order.order_id, order.campaign_id))
    durable.make_folder(path.parent)
    digest = pictures.keep(path, one.pictures())
    return replace(recording, episode=replace(recording.episode, pictures_sha256=digest), pictures=path)


def _fitting(root: Path, spec: TaskSpec) -> Iterator[Imported]:
    for one in import_dataset(root, SOURCE_EXPERT):
        found = (one.arrays.state.shape[1], one.arrays.action.shape[1])
        if found != (spec.state_dim, spec.action_dim):
            raise FileProblem(
                f"{one.uid} of {root} has state and action widths {found}, the task {spec.name} has "
                f"{(spec.state_dim, spec.action_dim)}; import it into a campaign of its own task."
            )
        yield one


def _has(store: FolderStore, uid: str) -> bool:
    try:
        return store.folder(uid).is_dir()
    except (UnknownName, FileProblem):
        return False


def _recording(  # noqa: PLR0913 - an order's facts
    one: Imported, index: int, campaign_id: str, task: str, round_: int, unsaid: OutcomeKind
) -> Recording:
    taught = bool((one.arrays.source == SOURCE_EXPERT).all())
    purpose: Purpose = "demonstrate" if taught else "collect"
    order = Order(
        order_id=mint(), campaign_id=campaign_id, station=STATION, task=task, policy_id=POLICY,
        start=Start(split="train", index=index, values=(), seed=0), purpose=purpose, round=round_,
        supervised=bool(np.isin(one.arrays.source, (1,)).any()),
    )  # fmt: skip
    data = pack(one.arrays)
    outcome = unsaid if one.outcome == "unknown" else one.outcome
    episode = Episode(
        order=order, outcome=outcome, cause="", confidence=1.0 if outcome in ("success", "failure", "unsafe") else 0.0,
        ran_policy_id=POLICY, ticks=len(one.arrays.action), began_s=0.0, ended_s=0.0,
        sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    return Recording(episode=episode, arrays_file=data)
