"""Imports a dataset of another tool as episodes of a campaign, ordered, ended and stored like those of a station."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from enpire.campaign.order_events import OrdersEnded, OrdersIssued
from enpire.codec import result_of
from enpire.datasets.dataset_files import memory_limit
from enpire.datasets.lerobot_import import Imported, import_dataset
from enpire.datasets.lerobot_tables import DatasetInfo, read_dataset_info
from enpire.datasets.resampling import require_resampling, resampled
from enpire.errors import FileProblem, UnknownName, UsageError
from enpire.files import shown
from enpire.home import Home
from enpire.ids import mint
from enpire.parts import TASKS
from enpire.queries import campaigns
from enpire.store import durable, pictures, removal
from enpire.store.arrays import pack
from enpire.store.episodes import FolderStore, Recording
from enpire.store.ledger import SqliteLedger
from enpire.types import (
    IMPORTED_STATION,
    JUDGED,
    SOURCE_EXPERT,
    Bounds,
    Episode,
    FloatArray,
    Order,
    OutcomeKind,
    Purpose,
    Start,
    TaskSpec,
)

_ROUNDING, _AWAY = 0.01, 10.0
"""Shares of a range: commands may exceed their bounds by rounding; states that are measured may lie farther outside."""
POLICY = "imported"
"""Policy in the orders of imported episodes; no version of this home has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which episodes of a dataset are imported, and how."""

    instructions: tuple[str, ...] = ()
    """Only episodes with one of these; empty for all."""
    default_outcome: OutcomeKind = "unknown"
    """Outcome of episodes without one."""
    resample: bool = False
    """Whether a dataset of another rate is resampled instead of refused."""


ALL = Selection()
"""Every episode of a dataset at the task's rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """Result of an import."""

    campaign_id: str
    episodes: int
    demonstrations: int
    known: int
    """Left out: the home has the same id, or the campaign has the same states and commands."""
    not_finite: tuple[str, ...]
    """Left out: they hold a number that is infinite or missing, from which nothing can be learned."""
    out_of_bounds: tuple[str, ...]
    """Left out: an action is outside the task's bounds, or a state ten times its range away from them."""
    without_verdict: int
    """Imported without a verdict, so that nothing can be learned from them."""


def import_episodes(home: Home, root: Path, campaign: str, selection: Selection = ALL) -> ImportResult:
    """Import episodes of a LeRobotDataset v3 into a campaign that is not running; the latest if `campaign` is empty.

    Camera images are kept as the dataset's videos have them. Sources and decisions of the frames are imported; in a
    dataset without sources, all frames are demonstrated by a teacher. Episodes from hidden starts are never exported,
    so all imported ones count as from train starts.

    Raises:
        FileProblem: the dataset is damaged, or has another rate, other names or widths than the campaign's task.
        UnknownName: the home has no such campaign.
        UsageError: the dataset has no new episode, or none with the instruction.
        LedgerProblem: the campaign is running.
    """
    with memory_limit(root):
        return _import(home, root, campaign, selection)


def check_dataset(root: Path, spec: TaskSpec, selection: Selection) -> None:
    """Read a dataset for a task and import nothing; errors as of `import_episodes`."""
    with memory_limit(root):
        for _ in _fitting(root, spec, selection):
            return
    raise UsageError(f"{root} holds no episode for the task {spec.name}.")


def _import(home: Home, root: Path, campaign: str, selection: Selection) -> ImportResult:
    with campaigns.open_records(home.root) as opened:
        campaign_id = campaigns.find_campaign(opened, campaign)
        view = campaigns.campaign_view(opened, campaign_id)
        judged = _judged(opened, campaign_id)
    spec = TASKS.load(view.task)().spec
    store, known, not_finite, out_of_bounds = FolderStore(home.episodes), 0, list[str](), list[str]()
    made: list[tuple[Recording, Imported]] = []
    for index, one in enumerate(_fitting(root, spec, selection)):
        if not (np.isfinite(one.arrays.state).all() and np.isfinite(one.arrays.action).all()):
            not_finite.append(one.uid)
            continue
        if not (_within(one.arrays.action, spec.action, _ROUNDING) and _within(one.arrays.state, spec.state, _AWAY)):
            out_of_bounds.append(one.uid)
            continue
        recording = _recording(one, index, campaign_id, view.task, len(view.rounds), selection.default_outcome)
        if _has(store, one.uid) or _adds_nothing(recording.episode, judged):
            known += 1
            continue
        judged[recording.episode.sha256] = recording.episode.outcome in JUDGED
        made.append((recording, one))
    if not made:
        damaged = f" and {len(not_finite)} hold numbers that are not finite" if not_finite else ""
        beyond = f" and {len(out_of_bounds)} leave the bounds of the task" if out_of_bounds else ""
        raise UsageError(f"{root} holds no new episode: {known} are known already{damaged}{beyond}.")
    _keep(home, store, campaign_id, made)
    episodes = [recording.episode for recording, _ in made]
    return ImportResult(
        campaign_id=campaign_id,
        episodes=len(made),
        demonstrations=sum(item.order.purpose == "demonstrate" for item in episodes),
        known=known,
        not_finite=tuple(not_finite),
        out_of_bounds=tuple(out_of_bounds),
        without_verdict=sum(item.outcome not in JUDGED for item in episodes),
    )


def _within(values: FloatArray, bounds: Sequence[Bounds], share: float) -> bool:
    """Whether values (T, n) lie in the bounds, each widened on both sides by this share of its range."""
    low, high = (np.array([getattr(one, end) for one in bounds], np.float64) for end in ("low", "high"))
    wider = share * (high - low)
    return bool(((values >= low - wider) & (values <= high + wider)).all())


def _judged(opened: campaigns.Records, campaign_id: str) -> dict[str, bool]:
    """sha256 of the arrays of the campaign's episodes -> whether one with these arrays has a verdict."""
    found: dict[str, bool] = {}
    for sha256, outcome in opened.reading.recordings(campaign_id):
        found[sha256] = found.get(sha256, False) or outcome in JUDGED
    return found


def _adds_nothing(episode: Episode, judged: dict[str, bool]) -> bool:
    """Whether the campaign has the same arrays. Arrays without a verdict may be imported again with one."""
    return episode.sha256 in judged and (judged[episode.sha256] or episode.outcome not in JUDGED)


def _check_same_quantities(root: Path, about: DatasetInfo, spec: TaskSpec, *, resample: bool) -> None:
    """Compare the dataset with the task.

    Raises:
        FileProblem: its rate or the names of its numbers are not those of the task.
    """
    if resample:
        require_resampling(spec)
    elif not _same_rate(about, spec):
        raise FileProblem(
            f"{root} has {about.rate_hz:g} frames a second, the task {spec.name} {spec.rate_hz:g}: its commands would "
            "run at another speed. Import it with --resample, or record at the task's rate."
        )
    for key, bounds in (("observation.state", spec.state), ("action", spec.action)):
        names, ours = about.names.get(key, ()), tuple(one.name for one in bounds)
        if len(names) != len(ours) or _only_count(names) or _only_count(ours):
            continue
        for place, (theirs, our) in enumerate(zip(names, ours, strict=True)):
            if theirs != our:
                raise FileProblem(
                    f"{root} calls number {place} of {key} {theirs!r}, the task {spec.name} {our!r}. If they are "
                    f"the same quantities, write {list(ours)} as the names of {key} in its meta/info.json; otherwise "
                    "import it into a campaign of its own task."
                )


def _same_rate(about: DatasetInfo, spec: TaskSpec) -> bool:
    return math.isclose(about.rate_hz, spec.rate_hz, rel_tol=0.01)


def _only_count(names: Sequence[str]) -> bool:
    """Whether names only count, such as joint_0, joint_1."""
    first = re.fullmatch(r"(\D*)(\d+)(\D*)", names[0]) if names else None
    if first is None:
        return False
    stem, count, end = first.groups()
    return tuple(names) == tuple(f"{stem}{int(count) + n:0{len(count)}}{end}" for n in range(len(names)))


def _keep(home: Home, store: FolderStore, campaign_id: str, made: list[tuple[Recording, Imported]]) -> None:
    """Write orders, then files, then outcomes: an interrupted import leaves open orders and no counted episode."""
    ledger = SqliteLedger(home.ledger)
    whole: list[Recording] = []
    try:
        for recording, one in made:
            whole.append(_with_pictures(store, recording, one))
        ledger.append([OrdersIssued(orders=tuple(item.episode.order for item in whole))], campaign_id)
        folders = store.put_many(whole)
        for folder, (_, one) in zip(folders, made, strict=True):
            if one.critic_outputs:
                durable.write(folder / "figures.json", json.dumps(dict(one.critic_outputs)).encode())
        ledger.append([OrdersEnded(results=tuple(result_of(item.episode) for item in whole))], campaign_id)
    finally:
        for item in whole:
            if item.pictures is not None:
                removal.remove(item.pictures, store.root)  # files that the store did not take
        ledger.close()


def _with_pictures(store: FolderStore, recording: Recording, one: Imported) -> Recording:
    if one.pictures is None:
        return recording
    order = recording.episode.order
    path = durable.staged_name(store.folder(order.order_id, order.campaign_id))
    durable.make_folder(path.parent)
    digest = pictures.keep(path, one.pictures())
    return replace(recording, episode=replace(recording.episode, pictures_sha256=digest), pictures=path)


def _fitting(root: Path, spec: TaskSpec, selection: Selection) -> Iterator[Imported]:
    """The selected episodes of a dataset, at the rate of the task."""
    about, seen, found_any = read_dataset_info(root), set[str](), False
    _check_same_quantities(root, about, spec, resample=selection.resample)
    for one in import_dataset(root, SOURCE_EXPERT):
        seen.add(one.instruction)
        if selection.instructions and one.instruction not in selection.instructions:
            continue
        found = (one.arrays.state.shape[1], one.arrays.action.shape[1])
        if found != (spec.state_dim, spec.action_dim):
            raise FileProblem(
                f"{one.uid} of {root} has state and action widths {found}, the task {spec.name} has "
                f"{(spec.state_dim, spec.action_dim)}; import it into a campaign of its own task."
            )
        at_rate = one if _same_rate(about, spec) else resampled(one, about.rate_hz, spec)
        found_any = True
        if at_rate is not None:
            yield at_rate
    if not found_any and selection.instructions:
        listed = "; ".join(sorted(shown(one) for one in seen)[:20])
        raise UsageError(
            f"No episode of {root} has the instruction {selection.instructions[0]!r}; there are: {listed}."
        )


def _has(store: FolderStore, uid: str) -> bool:
    try:
        return store.folder(uid).is_dir()
    except (UnknownName, FileProblem):
        return False


def _recording(  # noqa: PLR0913 - the fields of an order
    one: Imported, index: int, campaign_id: str, task: str, round_: int, default_outcome: OutcomeKind
) -> Recording:
    is_demonstration = bool((one.arrays.source == SOURCE_EXPERT).all())
    purpose: Purpose = "demonstrate" if is_demonstration else "collect"
    order = Order(
        order_id=mint(), campaign_id=campaign_id, station=IMPORTED_STATION, task=task, policy_id=POLICY,
        start=Start(split="train", index=index, values=(), seed=0), purpose=purpose, round=round_,
        supervised=bool(np.isin(one.arrays.source, (1,)).any()),
    )  # fmt: skip
    data = pack(one.arrays)
    outcome = default_outcome if one.outcome == "unknown" else one.outcome
    episode = Episode(
        order=order, outcome=outcome, cause="", confidence=float(outcome in JUDGED),
        ran_policy_id=POLICY, ticks=len(one.arrays.action), began_s=0.0, ended_s=0.0,
        sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    return Recording(episode=episode, arrays_file=data)
