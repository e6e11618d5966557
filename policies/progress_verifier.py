"""The verifier `progress`: a LeRobot reward model of progress (Robometer, TOPReward) judges the images at the end.

Such a model says how far a task has come from images and the instruction. It can be wrong in ways that no one has
measured at your task, so it does not judge alone before its precision and recall on labels of people were shown.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from enpire.errors import EnpireError, FileProblem, MissingExtra, PolicyProblem, UsageError
from enpire.files import is_json_object, parse, read_json, shown
from enpire.gate.intervals import wilson
from enpire.interfaces import Evidence, Task
from enpire.plugins import bring_in
from enpire.types import FloatArray, IntArray, MaskArray, Verdict
from policies.reward_admission import admit_reward_model, digest_of_files
from sim.verifiers.frozen import digest_of

LEAST_PRECISION, LEAST_RECALL = 0.95, 0.8
"""Lower 95 % bounds that a verifier must show on labels of people before it judges alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressOptions:
    """The options in a station or campaign file."""

    model: str
    """Folder of the reward model, as LeRobot saves it."""
    camera: str
    threshold: float
    """Progress, in (0, 1), from which a rollout is a success. TOPReward's is the probability of its answer."""
    question: str = ""
    """The task in words; its instruction where this is empty."""
    hub_models: str = ""
    """Names of models on a hub, with commas between, that the reward model may be built from. They are read from
    Hugging Face's cache on this machine, and their own code runs."""
    module: str = ""
    """A module of your own that registers another type of reward model with LeRobot."""
    grades: str = ""
    """File with the output of `enpire verifier report --json` on labels of people; without it, others must judge, too.
    """

    def __post_init__(self) -> None:
        """Refuse a threshold out of range."""
        if not 0.0 < self.threshold < 1.0:
            raise ValueError(f"threshold must lie in (0, 1), not {self.threshold:g}.")


class ProgressVerifier:
    """Implements the Verifier protocol; the task's own verifier decides when a rollout is finished."""

    needs_images = pictures_alone = True
    slow = True

    def __init__(self, task: Task, options: ProgressOptions) -> None:
        """Check the folder; the model is loaded with the first verdict.

        Raises:
            PolicyProblem: the folder may hold more than data.
            UsageError: the task has no such camera.
            FileProblem: the file of grades is none.
        """
        self._own, self._options = task.verifier(), options
        if options.camera not in task.spec.cameras:
            raise UsageError(
                f"The verifier progress looks through {options.camera!r}, but {task.spec.name} has the cameras "
                f"{', '.join(task.spec.cameras) or '(none)'}."
            )
        self._folder = Path(options.model).expanduser()
        self._hub_models = tuple(name.strip() for name in options.hub_models.split(",") if name.strip())
        self._question = options.question or task.spec.instruction
        if options.module:
            bring_in(options.module)
        self._config = self._admitted(self._folder)
        self._files = digest_of_files(self._folder)
        judged_by = (self._own.digest, self._files, options.camera, options.threshold, self._question)
        self.digest = digest_of(type(self), thresholds=judged_by)
        self.unproven = _unproven(options.grades, task.spec.name, self.digest)
        self._loaded: tuple[Any, Any] | None = None

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done to the task's own verifier."""
        return self._own.finished(state, ticks)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict by the progress at the end.

        Raises:
            UsageError: the rollout has no image of the camera.
            PolicyProblem: LeRobot cannot load or run the model.
        """
        import torch

        image = evidence.images.get(self._options.camera)
        if image is None:
            raise UsageError(f"The verifier progress needs an image of the camera {self._options.camera!r}.")
        model, preprocessor = self._model()
        frames = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1), np.float32) / np.float32(255))
        key = str(getattr(model.config, "image_key", f"observation.images.{self._options.camera}"))
        try:
            with torch.no_grad(), contextlib.redirect_stdout(sys.stderr):
                batch = preprocessor({key: frames[None, None], "task": [self._question]})
                reward = float(model.compute_reward(batch)[0])
        except (RuntimeError, ValueError, KeyError, TypeError, IndexError) as problem:
            raise PolicyProblem(f"The reward model {self._folder} gave no progress: {problem}") from problem
        progress = math.exp(min(0.0, reward)) if self._config["type"] == "topreward" else reward
        if not 0.0 <= progress <= 1.0:
            raise PolicyProblem(f"The reward model {self._folder} gave the progress {progress}; it must be in [0, 1].")
        success = progress >= self._options.threshold
        return Verdict(
            kind="success" if success else "failure", confidence=max(0.5, progress if success else 1 - progress),
            source="verifier", reason=f"progress {progress:.3f}, threshold {self._options.threshold:g}",
        )  # fmt: skip

    def _model(self) -> tuple[Any, Any]:
        if self._loaded is None:
            os.environ["HF_HUB_OFFLINE"] = "1"
            try:
                with (
                    contextlib.redirect_stdout(sys.stderr),
                    tempfile.TemporaryDirectory(prefix="enpire-reward-") as made,
                ):
                    copy = self._unchanged_copy(Path(made) / "model")
                    self._loaded = _load(copy, self._admitted(copy))
            except ImportError as missing:
                raise MissingExtra(
                    f"The reward model {self._folder} needs a package that is not installed ({missing}): "
                    f"pip install 'lerobot[{self._config['type']}]'."
                ) from missing
            except (OSError, ValueError, KeyError, RuntimeError, TypeError) as problem:
                raise PolicyProblem(f"LeRobot cannot load the reward model {self._folder}: {problem}") from problem
        return self._loaded

    def _admitted(self, folder: Path) -> dict[str, object]:
        return admit_reward_model(folder, self._hub_models, _registered() if self._options.module else ())

    def _unchanged_copy(self, folder: Path) -> Path:
        """Copy the files to where nobody else writes, and compare them with those that made this verifier's digest.

        Raises:
            PolicyProblem: they have changed since.
        """
        shutil.copytree(self._folder, folder, symlinks=True)
        if digest_of_files(folder) != self._files:
            raise PolicyProblem(
                f"The files of the reward model {self._folder} were changed after this verifier was made from them, so "
                "it gives no verdict. Start its station again; changed files are another verifier."
            )
        return folder


def open_verifier(task: Task, options: Mapping[str, object]) -> ProgressVerifier:
    """The verifier `progress`; options: `ProgressOptions`."""
    return ProgressVerifier(task, parse(ProgressOptions, options, "The options of the verifier progress"))


def _load(folder: Path, config: Mapping[str, object]) -> tuple[Any, Any]:
    """The model and its preprocessor, from the admitted configuration and the weights of the folder."""
    from draccus.utils import ParsingError
    from lerobot.configs.rewards import RewardModelConfig
    from lerobot.rewards.factory import get_reward_model_class, make_reward_pre_post_processors

    with tempfile.TemporaryDirectory(prefix="enpire-reward-") as made:
        # LeRobot reads what was checked, not the file, which its parser could read in another way.
        (Path(made) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        try:
            found = RewardModelConfig.from_pretrained(made, local_files_only=True)
        except ParsingError as problem:
            raise ValueError(f"config.json does not fit its type: {problem}") from problem
    kind = get_reward_model_class(str(config["type"]))
    if config["pretrained_path"]:
        model = kind.from_pretrained(str(folder.resolve()), config=found, local_files_only=True, strict=True)
    else:
        model = kind(found)
    model.eval()
    preprocessor, _ = make_reward_pre_post_processors(found)
    return model, preprocessor


def _registered() -> tuple[str, ...]:
    """Types of reward models of packages other than LeRobot in this process."""
    from lerobot.configs.rewards import RewardModelConfig

    known = cast("Mapping[str, type]", RewardModelConfig.get_known_choices())
    return tuple(name for name, one in known.items() if one.__module__.partition(".")[0] != "lerobot")


def _unproven(grades: str, task: str, digest: str) -> str:
    """Why the verifier may not judge alone; empty if a file shows its precision and recall on labels of people.

    Raises:
        FileProblem: the file is no report of a verifier.
    """
    if not grades:
        return (
            "The verifier progress does not judge alone: name another verifier beside it, such as `task`, or measure "
            "it on labels of people (enpire verifier report --examples DIR --json) and name the result as `grades`."
        )
    document = read_json(Path(grades).expanduser())
    try:
        if not is_json_object(document):
            raise TypeError(f"it is {shown(document)}")
        facts = cast("dict[str, Any]", document)
        same = facts["digest"] == digest and facts["task"] == task and facts["labelled_by"] == "people"
        first = facts["grades"][0]
        precision, recall = (wilson(int(first[name]["successes"]), int(first[name]["n"])) for name in _MEASURES)
    except (KeyError, IndexError, TypeError, ValueError, EnpireError) as problem:
        raise FileProblem(f"The file {grades} is no report of `enpire verifier report --json`: {problem}.") from problem
    if not same:
        return (
            f"The report {grades} is of another verifier, of another task, or not on labels of people; the verifier "
            f"{digest[:12]} does not judge alone before it was measured."
        )
    if precision.low < LEAST_PRECISION or recall.low < LEAST_RECALL:
        return (
            "The verifier progress does not judge alone: on labels of people its precision is at least "
            f"{precision.low:.1%} and its recall at least {recall.low:.1%}; {LEAST_PRECISION:.0%} and "
            f"{LEAST_RECALL:.0%} are needed."
        )
    return ""


_MEASURES = ("precision", "recall")
