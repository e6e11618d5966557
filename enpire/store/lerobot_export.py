"""Episodes to and from LeRobotDataset v3, the format that other tools of the field read.

Exported with the standard keys (`observation.state`, the same as `observation.environment_state` because LeRobot's ACT
and Diffusion insist on that or on a picture, `action`, `next.reward`, `next.done`, `next.success`,
`intervention`, task), with what makes the way back exact (`next.state`, `source`, `chunk`, `episode_uid`, `outcome`),
and with what HABC's critics thought (`p_v`, `V_e`, `g`, 0 where `judged` is false).
A LeRobotDataset is not crash-safe while it is written, so it is written under a hidden name and renamed when complete.
Reading goes to the files directly: LeRobot's own loader would ask the Hub when a file is broken.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from enpire.errors import FileProblem, MissingExtra, UsageError
from enpire.store import arrays, durable
from enpire.types import OUTCOME_KINDS, SOURCE_HUMAN, SOURCE_POLICY, Bounds, Episode, EpisodeArrays, TaskSpec

_FORMAT = "v3.0"
FIGURES = ("p_v", "V_e", "g")
"""What HABC's critics say about every decision: chance of success, minus decisions to come, gate."""
Figures = Mapping[str, Sequence[float]]
Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One episode of a dataset. It becomes part of a campaign only through an order of its own."""

    uid: str
    """The order_id that it was recorded under, or the number of the episode in a foreign dataset."""
    instruction: str
    outcome: Literal["success", "failure", "unsafe", "aborted", "invalid", "unknown"]
    """`unknown` where the dataset does not say."""
    arrays: EpisodeArrays
    figures: Figures
    """`p_v`, `V_e`, `g`, one number per decision, as the critics gave them; empty where there are none."""


def export_dataset(
    episodes: Iterable[Episode], spec: TaskSpec, target: Path, figures_of: Callable[[Episode], Figures] = lambda _: {}
) -> int:
    """Write episodes (with arrays) as one dataset at `target`, which appears when it is complete; returns how many.

    `figures_of` gives what the critics thought of an episode's decisions, where they did.
    UsageError when `target` exists or nothing was recorded; FileProblem when an episode does not fit the task;
    MissingExtra without LeRobot.
    """
    if target.exists():
        raise UsageError(f"{target} exists already: name a new folder for the dataset.")
    staged = durable.stage_folder(target)
    try:
        written = _write(((one, figures_of(one)) for one in episodes), spec, staged / "dataset")
        for file in sorted((staged / "dataset").rglob("*")):
            durable.sync(file)
        durable.reveal([(staged / "dataset", target)])
    finally:
        shutil.rmtree(staged)
    return written


def import_dataset(root: Path, default_source: int = SOURCE_HUMAN) -> Iterator[Imported]:
    """The episodes of a LeRobotDataset v3 of numbers (pictures are not read), in its order.

    A foreign dataset does not say what was sensed after the last command, so its last state is repeated; where it does
    not say who held the robot, `default_source` did (SOURCE_POLICY in frames that its `intervention` column denies).
    FileProblem names what is missing.
    """
    info = _json(root / "meta" / "info.json")
    if info.get("codebase_version") != _FORMAT:
        raise FileProblem(f"{root} is LeRobotDataset {info.get('codebase_version')}; only {_FORMAT} can be read.")
    instructions = _instructions(root)
    columns = _columns(root)
    for needed in ("observation.state", "action", "episode_index", "task_index"):
        if needed not in columns:
            raise FileProblem(f"{root} has no column {needed}; it has {sorted(columns)}.")
    numbers = columns["episode_index"]
    if len(numbers) != info.get("total_frames"):
        raise FileProblem(f"{root} holds {len(numbers)} frames, its info.json says {info.get('total_frames')}.")
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    for rows in np.split(np.arange(len(numbers)), cuts) if len(numbers) else []:
        part = {name: column[rows] for name, column in columns.items()}
        yield _imported(part, instructions[int(part["task_index"][0])], default_source)


def _write(episodes: Iterable[tuple[Episode, Figures]], spec: TaskSpec, root: Path) -> int:
    dataset = _create(spec, root)
    written = 0
    for episode, figures in episodes:
        for frame in _frames(episode, spec, figures):
            dataset.add_frame(frame)
        dataset.save_episode()
        written += 1
    dataset.finalize()
    if not written:
        raise UsageError("There is no recorded episode to export; the filter may be too narrow.")
    return written


def _create(spec: TaskSpec, root: Path) -> Any:
    if spec.rate_hz != round(spec.rate_hz):
        raise UsageError(f"LeRobotDataset needs a whole number of frames a second; {spec.name} runs at {spec.rate_hz}.")
    try:
        from datasets import disable_progress_bars  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
        from lerobot.datasets.lerobot_dataset import LeRobotDataset  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise MissingExtra(f"Exporting needs LeRobot ({error}): pip install 'enpire[lerobot]'.") from error
    disable_progress_bars()  # one bar per episode says nothing
    maker = cast(Any, LeRobotDataset)
    return maker.create(
        repo_id=f"enpire/{spec.name}",
        fps=round(spec.rate_hz),
        features=_features(spec),
        root=root,
        robot_type=spec.name,
        use_videos=False,
    )


def _features(spec: TaskSpec) -> dict[str, dict[str, object]]:
    one = {"shape": (1,), "names": None}
    return {
        "observation.state": _vector(spec.state),
        "observation.environment_state": _vector(spec.state),
        "action": _vector(spec.action),
        "next.state": _vector(spec.state),
        "next.reward": {"dtype": "float32", **one},
        "next.done": {"dtype": "bool", **one},
        "next.success": {"dtype": "bool", **one},
        "intervention": {"dtype": "bool", **one},
        "complementary_info.is_intervention": {"dtype": "float32", **one},
        "source": {"dtype": "int64", **one},
        "chunk": {"dtype": "int64", **one},
        "judged": {"dtype": "bool", **one},
        **{name: {"dtype": "float32", **one} for name in FIGURES},
        "episode_uid": {"dtype": "string", **one},
        "outcome": {"dtype": "string", **one},
    }


def _vector(bounds: Sequence[Bounds]) -> dict[str, object]:
    return {"dtype": "float32", "shape": (len(bounds),), "names": [one.name for one in bounds]}


def _frames(episode: Episode, spec: TaskSpec, figures: Figures) -> Iterator[dict[str, object]]:
    recorded = episode.arrays
    uid = episode.order.order_id
    if recorded is None or not len(recorded.action):
        raise FileProblem(f"Episode {uid} has no recorded frame; a dataset holds recorded episodes only.")
    if (recorded.state.shape[1], recorded.action.shape[1]) != (spec.state_dim, spec.action_dim):
        raise FileProblem(
            f"Episode {uid} has state {recorded.state.shape} and action {recorded.action.shape}; the task {spec.name} "
            f"has {spec.state_dim} state and {spec.action_dim} action numbers."
        )
    last = len(recorded.action) - 1
    for tick, (action, source) in enumerate(zip(recorded.action, recorded.source, strict=True)):
        won = tick == last and episode.outcome == "success"
        human = bool(source == SOURCE_HUMAN)
        decision = int(recorded.chunk[tick])
        judged = 0 <= decision < min(len(figures.get(name, ())) for name in FIGURES)
        yield {
            "judged": np.array([judged]),
            **{name: np.array([figures[name][decision] if judged else 0.0], np.float32) for name in FIGURES},
            "observation.state": recorded.state[tick],
            "observation.environment_state": recorded.state[tick],
            "action": action,
            "next.state": recorded.state[tick + 1],
            "next.reward": np.array([won], np.float32),
            "next.done": np.array([tick == last]),
            "next.success": np.array([won]),
            "intervention": np.array([human]),
            "complementary_info.is_intervention": np.array([human], np.float32),
            "source": np.array([source], np.int64),
            "chunk": np.array([recorded.chunk[tick]], np.int64),
            "episode_uid": uid,
            "outcome": episode.outcome,
            "task": spec.instruction,
        }


def _imported(part: Columns, instruction: str, default_source: int) -> Imported:
    state = part["observation.state"].astype(np.float32)
    after = part["next.state"][-1:].astype(np.float32) if "next.state" in part else state[-1:]
    ticks = len(state)
    found = EpisodeArrays(
        state=np.concatenate([state, after]),
        action=part["action"].astype(np.float32),
        source=_source(part, default_source, ticks),
        chunk=part["chunk"].astype(np.int32) if "chunk" in part else np.full(ticks, -1, np.int32),
    )
    uid = str(part["episode_uid"][0]) if "episode_uid" in part else f"episode-{int(part['episode_index'][0])}"
    arrays.check(found, f"The arrays of {uid}")
    figures = _figures(part, found.chunk)
    return Imported(uid=uid, instruction=instruction, outcome=_outcome(part), arrays=found, figures=figures)


def _figures(part: Columns, chunk: npt.NDArray[np.int32]) -> Figures:
    if not all(name in part for name in ("judged", *FIGURES)) or not part["judged"].astype(bool).all():
        return {}
    _, first = np.unique(chunk, return_index=True)
    return {name: [float(value) for value in part[name].astype(np.float32)[first]] for name in FIGURES}


def _source(part: Columns, default_source: int, ticks: int) -> npt.NDArray[np.uint8]:
    if "source" in part and np.issubdtype(part["source"].dtype, np.integer):
        return part["source"].astype(np.uint8)
    if "intervention" in part:
        return np.where(part["intervention"].astype(bool), SOURCE_HUMAN, SOURCE_POLICY).astype(np.uint8)
    return np.full(ticks, default_source, np.uint8)


def _outcome(part: Columns) -> Literal["success", "failure", "unsafe", "aborted", "invalid", "unknown"]:
    said = str(part["outcome"][0]) if "outcome" in part else ""
    for kind in OUTCOME_KINDS:
        if kind == said:
            return kind
    if "next.success" in part:
        return "success" if bool(part["next.success"].astype(bool).any()) else "failure"
    return "unknown"


def _columns(root: Path) -> dict[str, npt.NDArray[Any]]:
    parquet, broken = _parquet()
    files = sorted((root / "data").rglob("*.parquet"))
    if not files:
        raise FileProblem(f"{root} has no parquet file below data: it is not a complete LeRobotDataset.")
    gathered: dict[str, list[npt.NDArray[Any]]] = {}
    for file in files:
        try:
            table = parquet.read_table(file)
        except (broken, OSError) as error:
            raise FileProblem(
                f"{file} cannot be read: {error}. A recording that was killed leaves such files."
            ) from error
        for name in table.column_names:
            column = np.asarray(table[name].to_pylist())
            gathered.setdefault(name, []).append(column)
    return {name: np.concatenate(parts) for name, parts in gathered.items()}


def _instructions(root: Path) -> dict[int, str]:
    parquet, broken = _parquet()
    path = root / "meta" / "tasks.parquet"
    try:
        table = parquet.read_table(path)
    except (broken, OSError) as error:
        raise FileProblem(f"{path} cannot be read: {error}.") from error
    (texts,) = (name for name in table.column_names if name != "task_index")
    return dict(zip(table["task_index"].to_pylist(), table[texts].to_pylist(), strict=True))


def _parquet() -> tuple[Any, type[Exception]]:
    try:
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise MissingExtra(f"LeRobot's files need pyarrow ({error}): pip install 'enpire[lerobot]'.") from error
    return parquet, cast(Any, pyarrow).ArrowException


def _json(path: Path) -> Mapping[str, object]:
    try:
        content: object = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FileProblem(f"{path} cannot be read: {error}. It must be a LeRobotDataset {_FORMAT}.") from error
    if not isinstance(content, dict):
        raise FileProblem(f"{path} must be a JSON object.")
    return cast(dict[str, object], content)
