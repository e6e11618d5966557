"""Training of a small actor and its critics on recorded decisions, as TD3 does (Fujimoto et al., arXiv 1802.09477).

A learner gives networks and losses. Optimizers, target networks, learning rate, checkpoints and reports are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from enpire.errors import LearningProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.shares import require_share
from policies.bounds import above_zero, at_least
from policies.clone import job_digest
from policies.flow_network import SmallNetwork
from policies.flow_training import CHECKPOINT_STEPS, REPORT_STEPS
from policies.optimizer import AveragedAdam, CosineSchedule, read_checkpoint, write_checkpoint
from policies.replay import Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCriticSettings:
    """Settings that the recipes of all such learners share."""

    discount: float = 0.97
    """Discount factor per decision."""
    batch: int = 256
    least_steps: int = 500
    most_steps: int = 2500
    passes: float = 60.0
    """Gradient steps, as passes over the replay."""
    learning_rate: float = 1e-3
    hidden: int = 128
    target_follow: float = 0.01
    """Share by which the target networks move at each step."""
    actor_every: int = 2
    """Steps of the critics for one of the actor (TD3's delayed policy updates)."""
    window_rounds: int = 4
    """Policy episodes this many rounds older than the newest are dropped."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        at_least(1, self, "batch least_steps most_steps hidden actor_every window_rounds")
        above_zero(self, "learning_rate passes")
        require_share("discount", self.discount, "(0, 1)")
        require_share("target_follow", self.target_follow, "(0, 1]")

    def steps(self, decisions: int) -> int:
        """Gradient steps for this number of decisions."""
        return min(self.most_steps, max(self.least_steps, math.ceil(self.passes * decisions / self.batch)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained[Batch]:
    """Networks that one optimizer trains."""

    network: nn.Module
    loss: Callable[[Batch], Tensor]
    """The scalar loss; it is computed after the optimizers before this one have made their step."""
    targets: Sequence[SmallNetwork] = ()
    """Networks of the same shapes, which become the moving average."""
    every: int = 1
    """Steps of the run for one of this optimizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning[Batch]:
    """What one run trains, and on what."""

    trained: Mapping[str, Trained[Batch]]
    """By name, in the order of their steps. The first one's loss is reported."""
    draw: Callable[[int], Batch]
    """The minibatch of a step; the same one for the same step."""
    measure: Callable[[Batch], Mapping[str, float]]
    """Metrics of the networks as they are."""


def require_reward(replay: Replay) -> Replay:
    """The replay; LearningProblem if no decision in it has a reward."""
    if not replay.reward.any():
        raise LearningProblem(
            "No decision has a reward: there is neither a demonstration nor a success; collect more episodes."
        )
    return replay


def train[Batch](
    learning: Learning[Batch], replay: Replay, settings: ActorCriticSettings, job: ImprovementJob,
    report: Callable[[Progress], None],
) -> dict[str, float]:  # fmt: skip
    """Train in place and report; returns the metrics of the run.

    Raises:
        LearningProblem: the first loss is not finite.
    """
    metrics = {"decisions": float(len(replay)), "rewarded": float(replay.reward.sum())}
    steps = settings.steps(len(replay))
    for done, latest in _steps(learning, settings, job, steps):
        metrics |= latest
        report(Progress(stage="actor", done=done, total=steps, metrics=latest))
    return metrics | {"steps": float(steps)}


def _steps[Batch](
    learning: Learning[Batch], settings: ActorCriticSettings, job: ImprovementJob, steps: int
) -> Iterator[tuple[int, dict[str, float]]]:
    """Train; a killed and resumed run ends with the same bytes.

    Yields:
        (steps done, metrics) every REPORT_STEPS and at the last step.
    """
    rate = CosineSchedule(first=settings.learning_rate, last=0.1 * settings.learning_rate, steps=steps)
    optimizers: dict[str, AveragedAdam] = {}
    for name, part in learning.trained.items():
        optimizers[name] = AveragedAdam(part.network.parameters(), rate, 1 - settings.target_follow)
        optimizers[name].share_average(parameter for target in part.targets for parameter in target.parameters())
    path, digest, first_step = job.work / "checkpoint.safetensors", job_digest(job), 0
    if (found := read_checkpoint(path, digest)) is not None:
        table, first_step = found
        for name, optimizer in optimizers.items():
            optimizer.restore(name, table)
    for step in range(first_step, steps):
        batch, losses = learning.draw(step), list[Tensor]()
        for name, part in learning.trained.items():
            if step % part.every == 0:
                losses.append(part.loss(batch))
                optimizers[name].minimise(losses[-1], step // part.every)
        done = step + 1
        if done % REPORT_STEPS and done < steps:
            continue
        if not math.isfinite(loss := float(losses[0].detach())):
            raise LearningProblem(f"The critics' loss is {loss}; it must be finite, so lower learning_rate.")
        metrics = {"loss": loss, **learning.measure(batch)}
        if done % CHECKPOINT_STEPS == 0 or done == steps:
            tensors = {key: value for name, one in optimizers.items() for key, value in one.tensors(name).items()}
            write_checkpoint(path, tensors, digest, done)
        yield done, metrics


def critics_of(wide: int, settings: ActorCriticSettings, seed: int, count: int = 2) -> nn.ModuleList:
    """`count` new networks from `wide` numbers to a value."""
    return nn.ModuleList(SmallNetwork((wide, settings.hidden, settings.hidden, 1), seed + i) for i in range(count))


def target_of(network: nn.Module) -> SmallNetwork:
    """A network of the same shape; `Trained.targets` makes it the moving average."""
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    return SmallNetwork((layers[0].in_features, *(layer.out_features for layer in layers)), 0)


def values(seen: Tensor, critics: Sequence[nn.Module] | nn.ModuleList) -> Tensor:
    """The values of inputs (B, features), one row for each critic: (critics, B)."""
    return torch.stack([critic(seen).squeeze(-1) for critic in critics])


def least(seen: Tensor, critics: Sequence[nn.Module] | nn.ModuleList) -> Tensor:
    """The minimum of the critics' values (B,) (clipped double Q-learning of TD3)."""
    return values(seen, critics).amin(dim=0)


def regression(seen: Tensor, wanted: Tensor, critics: Sequence[nn.Module] | nn.ModuleList) -> Tensor:
    """The sum over the critics of the mean squared error of their values of `seen` (B, features) from `wanted` (B,)."""
    return (values(seen, critics) - wanted).square().mean(dim=1).sum()


def gain(value: Tensor) -> Tensor:
    """The actor's loss of values (B,), of size 1 whatever their scale, so that a penalty's weight fits every task.

    The normalisation is that of TD3+BC (Fujimoto and Gu, arXiv 2106.06860).
    """
    return -value.mean() / value.detach().abs().mean().clamp(min=1e-3)
