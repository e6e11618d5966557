"""The verifier `classifier`: a small network that judges the last images of a rollout. `enpire verifier fit` trains it.

Each camera is one view with its own network. A success needs every view to agree (the smallest probability counts), so
that one wrong or covered view does not decide. Torch is loaded with the first verdict.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from enpire.errors import FileProblem, UsageError
from enpire.files import parse
from enpire.interfaces import Evidence, Task
from enpire.store import durable
from enpire.types import FloatArray, ImageArray, IntArray, MaskArray, Verdict
from sim.verifiers.examples import Example
from sim.verifiers.frozen import digest_of

if TYPE_CHECKING:
    import torch
    from torch import nn

PIXELS = 112
"""Images are scaled to this width and height."""
_FOLDER_FILES = ("classifier.json", "weights.npz")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierOptions:
    """The options in a station or campaign file."""

    folder: str
    """The folder that `enpire verifier fit --out` wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierInfo:
    """Task, cameras and threshold of a trained classifier."""

    task: str
    cameras: tuple[str, ...]
    threshold: float
    """Least probability of a success that every view must give."""
    examples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Settings of the training."""

    epochs: int = 25
    batch: int = 32
    rate: float = 2e-3
    shift: int = 4
    """Largest random shift of an image in pixels, as of a camera that was moved."""
    light: float = 0.35
    """Largest random change of the brightness, as a share."""
    seed: int = 0


class Classifier:
    """Implements the Verifier protocol; the task's own verifier decides when a rollout is finished."""

    needs_images = pictures_alone = True

    def __init__(self, task: Task, facts: ClassifierInfo, weights: Mapping[str, FloatArray]) -> None:
        """Judge with `weights`: CAMERA/PARAMETER -> array."""
        self._own, self.facts, self._weights = task.verifier(), facts, dict(weights)
        self._nets: dict[str, nn.Module] = {}
        content = b"".join([canonical_bytes(facts), *(self._weights[name].tobytes() for name in sorted(self._weights))])
        self.digest = digest_of(type(self), thresholds=(self._own.digest, hashlib.sha256(content).hexdigest()))

    def finished(self, state: FloatArray, ticks: IntArray) -> MaskArray:
        """Which lanes look done to the task's own verifier."""
        return self._own.finished(state, ticks)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict of the view that is least sure of a success.

        Raises:
            UsageError: an image is missing.
            FileProblem: the weights do not fit the network.
        """
        least = float(self.probabilities([evidence.images]).min())
        success = least >= self.facts.threshold
        return Verdict(kind="success" if success else "failure", confidence=max(least, 1.0 - least), source="verifier")

    def probabilities(self, pictures: Sequence[Mapping[str, ImageArray]]) -> FloatArray:
        """(n, cameras) float32 in [0, 1]: probability of a success by each view; images (height, width, 3) uint8."""
        import torch

        views: list[FloatArray] = []
        with torch.inference_mode():
            for camera in self.facts.cameras:
                missing = [1 for images in pictures if camera not in images]
                if missing:
                    raise UsageError(f"The classifier of {self.facts.task} needs pictures of {camera}, and got none.")
                seen = torch.from_numpy(np.stack([small(images[camera]) for images in pictures]))
                views.append(torch.sigmoid(self._net(camera)(seen)).numpy())
        return np.stack(views, axis=1)

    def write(self, folder: Path) -> None:
        """Write it to a folder, without pickle."""
        durable.make_folder(folder)
        with (folder / _FOLDER_FILES[1]).open("wb") as file:
            np.savez(file, **self._weights)  # pyright: ignore[reportArgumentType]
        durable.write(folder / _FOLDER_FILES[0], canonical_bytes(self.facts))

    def _net(self, camera: str) -> nn.Module:
        if camera not in self._nets:
            import torch

            _single_thread()
            net = network()
            prefix = f"{camera}/"
            mine = {name.removeprefix(prefix): torch.from_numpy(value) for name, value in self._weights.items()
                    if name.startswith(prefix)}  # fmt: skip
            try:
                net.load_state_dict(mine)
            except RuntimeError as problem:
                raise FileProblem(
                    f"The weights of the classifier of {self.facts.task} do not fit its network for {camera}: "
                    "train it anew with `enpire verifier fit --out`."
                ) from problem
            self._nets[camera] = net.eval()
        return self._nets[camera]


def open_verifier(task: Task, options: Mapping[str, object]) -> Classifier:
    """Open the plug-in `classifier`.

    Raises:
        FileProblem: the folder holds no classifier, or one of another task.
    """
    folder = Path(parse(ClassifierOptions, options, "The options of the verifier classifier").folder)
    try:
        facts = parse(
            ClassifierInfo, json.loads((folder / _FOLDER_FILES[0]).read_text("utf-8")), f"The classifier in {folder}"
        )
        with (folder / _FOLDER_FILES[1]).open("rb") as packed, np.load(packed, allow_pickle=False) as file:
            weights = {name: cast(FloatArray, file[name]) for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        raise FileProblem(f"{folder} holds no classifier ({problem}); `enpire verifier fit` makes one.") from problem
    if facts.task != task.spec.name:
        raise FileProblem(f"The classifier in {folder} is of {facts.task}, not of {task.spec.name}.")
    return Classifier(task, facts, weights)


def train(task: Task, examples: Sequence[Example], settings: TrainingSettings | None = None) -> Classifier:
    """Train a classifier on labelled images; the threshold is chosen on a fifth of them, which training does not see.

    Raises:
        UsageError: an image is missing, or there are fewer than ten examples of a kind.
    """
    truth = np.array([example.success for example in examples])
    cameras = tuple(sorted({camera for example in examples for camera in example.evidence.images}))
    if not cameras:
        raise UsageError(f"The examples of {task.spec.name} have no pictures, and a classifier needs them.")
    bare = [(one.name, camera) for one in examples for camera in cameras if camera not in one.evidence.images]
    if bare:
        raise UsageError(
            "The example {} has no picture of {}, and others do: add it or take that one out.".format(*bare[0])
        )
    if min(truth.sum(), (~truth).sum()) < 10:
        raise UsageError("A classifier needs at least ten examples of each kind.")
    kept = np.zeros(len(examples), np.bool_)
    for kind in (truth, ~truth):
        kept[np.flatnonzero(kind)[::5]] = True
    weights: dict[str, FloatArray] = {}
    for camera in cameras:
        views = np.stack([small(example.evidence.images[camera]) for example in examples])
        learnt = _train_view(views[~kept], truth[~kept], settings or TrainingSettings())
        weights |= {f"{camera}/{name}": value for name, value in learnt.items()}
    facts = ClassifierInfo(task=task.spec.name, cameras=cameras, threshold=0.5, examples=len(examples))
    tried = Classifier(task, facts, weights)
    least = tried.probabilities([example.evidence.images for example, one in zip(examples, kept, strict=True) if one])
    threshold = _threshold(least.min(axis=1), truth[kept])
    return Classifier(task, ClassifierInfo(**{**asdict(facts), "threshold": threshold}), weights)


def small(picture: ImageArray) -> FloatArray:
    """An image (height, width, 3) uint8 scaled to (3, PIXELS, PIXELS) float32 and normalised.

    Normalisation makes it nearly independent of the overall brightness.
    """
    from PIL import Image

    scaled = Image.fromarray(picture).resize((PIXELS, PIXELS), Image.Resampling.BOX)
    mean = np.asarray(scaled, np.float32).transpose(2, 0, 1)
    return np.ascontiguousarray((mean - mean.mean()) / (mean.std() + 1.0))


def network() -> nn.Module:
    """Four convolutions and two linear layers, 70 thousand parameters; (n, 3, PIXELS, PIXELS) -> logits (n,)."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(16, 24, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(24, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 32), nn.ReLU(),
        nn.Linear(32, 1), nn.Flatten(0),
    )  # fmt: skip


def canonical_bytes(facts: ClassifierInfo) -> bytes:
    """Canonical JSON of the facts."""
    return json.dumps(asdict(facts), sort_keys=True).encode()


def _train_view(
    views: FloatArray, truth: npt.NDArray[np.bool_], settings: TrainingSettings
) -> Mapping[str, FloatArray]:
    import torch
    from torch import nn

    _single_thread()
    rng = np.random.default_rng(settings.seed)
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        net = network()
    labels, balance = torch.from_numpy(truth.astype(np.float32)), float((~truth).sum() / truth.sum())
    loss_of = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(balance))
    steps = settings.epochs * -(-len(views) // settings.batch)
    optimiser = torch.optim.AdamW(net.parameters(), lr=settings.rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, total_steps=steps)
    for _ in range(settings.epochs):
        for rows in np.array_split(rng.permutation(len(views)), -(-len(views) // settings.batch)):
            optimiser.zero_grad()
            loss_of(net(_varied(views[rows], rng, settings)), labels[torch.from_numpy(rows)]).backward()
            optimiser.step()
            schedule.step()
    return {name: value.detach().numpy().copy() for name, value in net.state_dict().items()}


def _single_thread() -> None:
    """Use one thread: for so small a network, a second one costs more than it brings."""
    import torch

    torch.set_num_threads(1)


def _varied(views: FloatArray, rng: np.random.Generator, settings: TrainingSettings) -> torch.Tensor:
    """Augmented images (n, 3, PIXELS, PIXELS): shifted, and with another brightness."""
    import torch

    reach = settings.shift
    moved = [
        np.roll(view, rng.integers(-reach, reach, 2, endpoint=True), axis=(1, 2))
        * (1.0 + settings.light * rng.uniform(-1.0, 1.0))
        for view in views
    ]
    return torch.from_numpy(np.stack(moved).astype(np.float32))


def _threshold(least: FloatArray, truth: npt.NDArray[np.bool_]) -> float:
    """The middle of the thresholds with the least cost; a false success costs four times a false failure."""
    tried = np.linspace(0.05, 0.95, 91)
    costs = np.array([4 * ((least >= one) & ~truth).sum() + ((least < one) & truth).sum() for one in tried])
    return float(tried[costs == costs.min()].mean())
