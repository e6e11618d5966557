"""Reads episodes of a LeRobotDataset v3, from ENPIRE or another tool: exact numbers, images as the videos have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from enpire.datasets.lerobot_export import CRITIC_OUTPUTS, CriticOutputs
from enpire.datasets.lerobot_tables import Table, episode_rows, read_dataset_info, read_instructions
from enpire.datasets.lerobot_video import CameraFiles, Pictures
from enpire.errors import FileProblem
from enpire.store import arrays
from enpire.types import OUTCOME_KINDS, SOURCE_EXPERT, SOURCE_HUMAN, SOURCE_POLICY, EpisodeArrays, OutcomeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One episode of a dataset. It joins a campaign only through an order of its own."""

    uid: str
    """Its order_id, or the number of the episode in a foreign dataset."""
    instruction: str
    outcome: OutcomeKind
    """`unknown` where the dataset has no outcome."""
    arrays: EpisodeArrays
    critic_outputs: CriticOutputs
    """`p_v`, `V_e`, `g`, one number per decision; empty where there are none."""
    pictures: Pictures | None
    """Reads the images before every command from the dataset's files; None without a camera."""


def import_dataset(root: Path, default_source: int = SOURCE_HUMAN) -> Iterator[Imported]:
    """The episodes of a LeRobotDataset v3, in its order.

    A foreign dataset has no state after the last command, so its last state is repeated. Without sources, every frame
    has `default_source`; with a column `intervention` (or `complementary_info.is_intervention`, as in LeRobot's
    HIL-SERL), frames without an intervention have SOURCE_POLICY. The outcome comes from `outcome`, else `next.success`,
    else `next.reward` if that is 1 in some frames of the dataset and 0 in all others.

    Raises:
        FileProblem: something is missing or does not fit; the sentence names it.
    """
    about, table, instructions = read_dataset_info(root), Table.read(root), read_instructions(root)
    cameras = CameraFiles.of(root, about.info, episode_rows(root))
    for needed in ("observation.state", "action", "episode_index", "task_index", *cameras.images):
        if needed not in table:
            raise FileProblem(f"{root} has no column {needed}; it has {sorted(table.columns)}.")
    if len(table) != about.info.get("total_frames"):
        raise FileProblem(f"{root} holds {len(table)} frames, its info.json says {about.info.get('total_frames')}.")
    numbers, tasks, rewarded = table.whole("episode_index"), table.whole("task_index"), _is_rewarded(table)
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    if len(np.unique(numbers[begins])) != len(begins):
        raise FileProblem(f"The frames of an episode of {root} are not consecutive: the dataset is damaged.")
    for rows in np.split(np.arange(len(table)), begins)[1:]:
        index, task = int(numbers[rows[0]]), int(tasks[rows[0]])
        if task not in instructions:
            raise FileProblem(f"Episode {index} of {root} has task_index {task}, which meta/tasks.parquet lacks.")
        part = table.at(rows)
        found = _arrays(part, default_source)
        uid = str(part.columns["episode_uid"][0]) if "episode_uid" in part else f"episode-{index}"
        arrays.check(found, f"The arrays of {uid}")
        yield Imported(
            uid=uid, instruction=instructions[task], outcome=_outcome(part, rewarded), arrays=found,
            critic_outputs=_critic_outputs(part, found.chunk),
            pictures=cameras.pictures(index, part.columns, len(rows)),
        )  # fmt: skip


def _arrays(part: Table, default_source: int) -> EpisodeArrays:
    state = part.vectors("observation.state")
    after = part.vectors("next.state")[-1:] if "next.state" in part else state[-1:]
    if after.shape != state[-1:].shape:
        raise FileProblem(
            f"{part.root} has {after.shape[1]} numbers in next.state and {state.shape[1]} in observation.state; they "
            "must be the same ones."
        )
    return EpisodeArrays(
        state=np.concatenate([state, after]),
        action=part.vectors("action"),
        source=_source(part, default_source),
        chunk=part.whole("chunk").astype(np.int32) if "chunk" in part else np.full(len(part), -1, np.int32),
    )


def _critic_outputs(part: Table, chunk: npt.NDArray[np.int32]) -> CriticOutputs:
    if not all(name in part for name in ("judged", *CRITIC_OUTPUTS)) or not (part.numbers("judged") == 1).all():
        return {}
    _, first = np.unique(arrays.decision_of(chunk), return_index=True)
    return {name: part.numbers(name)[first].tolist() for name in CRITIC_OUTPUTS}


def _source(part: Table, default_source: int) -> npt.NDArray[np.uint8]:
    if "source" in part and part.columns["source"].dtype.kind in "iu":
        codes = part.whole("source")
        if not 0 <= codes.min() <= codes.max() <= SOURCE_EXPERT:
            raise FileProblem(
                f"{part.root} has source codes {codes.min()} to {codes.max()}; 0 to {SOURCE_EXPERT} are allowed."
            )
        return codes.astype(np.uint8)
    for name in ("intervention", "complementary_info.is_intervention"):
        if name in part:
            human = part.numbers(name)
            who = np.where(human != 0, SOURCE_HUMAN, SOURCE_POLICY)
            return np.where(np.isnan(human), default_source, who).astype(np.uint8)
    return np.full(len(part), default_source, np.uint8)


def _outcome(part: Table, rewarded: bool) -> OutcomeKind:
    outcome = str(part.columns["outcome"][0]) if "outcome" in part else ""
    for kind in OUTCOME_KINDS:
        if kind == outcome:
            return kind
    for name in ("next.success", "next.reward")[: 1 + rewarded]:
        values = part.numbers(name) if name in part else np.zeros(0)
        if len(values := values[~np.isnan(values)]):
            return "success" if values.any() else "failure"
    return "unknown"


def _is_rewarded(table: Table) -> bool:
    """Whether rewards mark successes: some frames have 1, all others 0."""
    if "next.reward" not in table:
        return False
    rewards = table.numbers("next.reward")
    return set(np.unique(rewards[~np.isnan(rewards)])) == {0.0, 1.0}
