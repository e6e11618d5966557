"""HABC: behaviour cloning weighted by the advantages of two critics (arXiv 2606.17043)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np

from enpire.campaign.recipe import settings_of
from enpire.errors import LearningProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.types import FloatArray, IntArray, MaskArray
from policies import flow_policy, viability_policy
from policies.clone import (
    TrainingState,
    initial_training_state,
    prepare,
    training_schedule,
    window_sampling_weights,
    window_spec,
    write_version,
)
from policies.flow_policy import AddedNetwork
from policies.flow_training import SMOKE_STEPS, FlowBatches, TrainingSchedule, train_actor
from policies.habc import diagnostics
from policies.habc.critic_outputs import write_critic_outputs
from policies.habc.labels import labels_supervised, true_weights
from policies.habc.segments import Windows, cut, interception_rate, recent_windows
from policies.habc.settings import HabcSettings
from policies.habc.train import CriticTraining, critic_data, new_critics, pretrain_critics
from policies.habc.weights import Advantages, WeightRule, actor_weights, visit_weights
from policies.normalise import Scale
from policies.replay import recent_episodes
from policies.training_data import RecordedEpisode, read_episodes

HELD_OUT_EVERY = 10
"""Every tenth policy episode is held out from the critics, to measure their AUC and calibration."""
REWEIGHT_AUC = 0.65
"""`when_sure` reweights interventions from this held-out AUC of A_e on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundData:
    """The data of one round."""

    episodes: list[RecordedEpisode]
    windows: Windows
    held_out: MaskArray
    """(N,) bool, windows of episodes that the critics do not train on."""
    kappa: float
    """Share of failures that operators prevented, in [0, 1)."""

    @property
    def judged(self) -> list[RecordedEpisode]:
        """The episodes that were not stopped early."""
        return [item for item in self.episodes if not item.stopped]


class Habc:
    """The learner of hierarchical advantage-weighted behaviour cloning."""

    settings: ClassVar = HabcSettings
    smoke: ClassVar = {**SMOKE_STEPS, "critic_steps": 20}
    parent_kinds: ClassVar = flow_policy.KINDS

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train the critics, weight the windows, train the actor from the parent's weights; returns the metrics."""
        settings = settings_of(self.settings, job.recipe)
        prepare(job)
        round_data = collect_round_data(read_episodes(job.episodes, stopped=True), settings)
        actor = initial_training_state(job, settings, round_data.judged, round_data.episodes)
        training, schedule = critic_training(job, settings, round_data, actor.scales[0])
        report(Progress(stage="critics", done=0, total=max(1, settings.critic_steps), metrics={}))
        pretrain_critics(training, schedule)
        spread, metrics = actor.scales[1].spread, dict[str, float]()
        if settings.critic_beside:
            rule = weight_rule(round_data, training.advantages(), training, spread, job.round)
        else:
            metrics, rule = evaluate_critics(round_data, training, spread, job.round)
            report(Progress(stage="critics", done=training.done, total=max(1, training.done), metrics=metrics))
        actor_metrics = _train_actor(
            job, round_data, WindowWeights(round_data.windows, training, rule, job.round), actor, report
        )
        if settings.critic_beside:
            metrics, _ = evaluate_critics(round_data, training, spread, job.round)
        write_critic_outputs(round_data.judged, training, job.episodes)
        write_version(actor.version(), job.output, viability_network(training))
        return metrics | actor_metrics


def viability_network(training: CriticTraining) -> AddedNetwork | None:
    """The viability head as an added network of the version; None if it was not trained."""
    if not training.done or not len(training.data.targets.viability_rows):
        return None
    shape = training.critics.shape
    about = viability_policy.ViabilityHead(frequencies=shape.frequencies, logit_limit=shape.logit_limit)
    weights = {**training.critics.viability_layers(), **training.data.scale.as_tensors(viability_policy.STATE)}
    return AddedNetwork(kind=viability_policy.KIND, key=viability_policy.KEY, about=asdict(about), weights=weights)


def evaluate_critics(
    round_data: RoundData, training: CriticTraining, spread: FloatArray, round_: int
) -> tuple[dict[str, float], WeightRule]:
    """Check the critics for divergence and set the gates; returns the critics' metrics and the weight rule.

    `spread`: (action_dim,), standard deviation of the commands, units of the robot.

    Raises:
        LearningProblem: the efficiency head diverged and the recipe has on_divergence: stop.
    """
    windows, settings = round_data.windows, training.settings
    metrics = _divergence_metrics(settings, training)
    advantages = training.scaled_advantages()
    rule = weight_rule(round_data, advantages, training, spread, round_)
    training.update_gates(advantages, rule)
    counts = true_weights(windows, round_data.kappa) * round_data.held_out
    metrics |= {
        "n_episodes": float(len(round_data.judged)),
        "n_stopped": float(len(round_data.episodes) - len(round_data.judged)),
        "n_success": float(training.data.successes),
        "windows": float(len(windows)),
        "kappa": round_data.kappa,
        "labels_supervised": float(labels_supervised(windows, settings)),
        "p_v_at_start": diagnostics.p_v_at_start(windows, advantages),
        "auc_a_e": diagnostics.efficiency_auc(windows, advantages, round_data.held_out, spread),
        "p_v_reliability": diagnostics.calibration_error(windows, advantages, counts),
        "brier": diagnostics.held_out_brier(windows, advantages, counts),
        "interventions_reweighted": float(rule.reweight_interventions),
    }
    weights = actor_weights(windows, training.gates, rule)
    return metrics | diagnostics.gate_metrics(windows, advantages, training.gates, weights), rule


def _train_actor(
    job: ImprovementJob,
    round_data: RoundData,
    weights: WindowWeights,
    actor: TrainingState,
    report: Callable[[Progress], None],
) -> dict[str, float]:
    """Train the actor's network in place by weighted flow matching; returns the last metrics."""
    training, windows = weights.training, round_data.windows
    batches = FlowBatches.of(windows, actor.network.shape, actor.scales, weights.sampling_weights)
    schedule = training_schedule(job, training.settings, int((weights.sampling_weights > 0).sum()))
    actor_metrics: dict[str, float] = {}
    for done, actor_metrics in train_actor(actor.network, batches, schedule, weights.weights, training):
        report(Progress(stage="actor", done=done, total=schedule.steps, metrics=actor_metrics))
    return actor_metrics | {"temperature": actor.temperature}


def weight_rule(
    round_data: RoundData, advantages: Advantages, training: CriticTraining, spread: FloatArray, round_: int
) -> WeightRule:
    """Whether the gate weights interventions in round `round_`: as the recipe sets it, or if A_e ranks well enough.

    Without any viability label, because operators finished every episode, p_v is untrained and the gate is not used.
    `spread`: (action_dim,), standard deviation of the commands.
    """
    settings = training.settings
    reweight = round_ >= settings.reweight_from_round and len(training.data.targets.viability_rows) > 0
    if settings.reweight_interventions == "when_sure":
        score = diagnostics.efficiency_auc(round_data.windows, advantages, round_data.held_out, spread)
        reweight = reweight and score >= REWEIGHT_AUC
    elif settings.reweight_interventions == "never":
        reweight = False
    return WeightRule(reweight_interventions=bool(reweight), partition=settings.partition)


class WindowWeights:
    """The loss weight of each window at each step: the gate is 1 during warm-up, then it comes from the critics.

    With `critic_beside`, as in the paper, the critics train on each minibatch when its weights are computed.
    """

    def __init__(self, windows: Windows, training: CriticTraining, rule: WeightRule, round_: int) -> None:
        """`training` holds the gates. LearningProblem if no window may be imitated."""
        self.training = training
        self._gate_zero = actor_weights(windows, np.zeros(len(windows), np.float32), rule)
        self.ungated = actor_weights(windows, np.ones(len(windows), np.float32), rule)
        """(N,) float32, weights with every gate at 1."""
        if not (self.ungated > 0).any():
            raise LearningProblem(
                "No window may be imitated: there is neither a demonstration nor a success; collect more episodes."
            )
        settings = training.settings
        self.sampling_weights = self._sampling_weights(windows, round_)
        """(N,) float32, above 0 for windows that may be imitated or, with `critic_beside`, that train the critics."""
        self.warmup_steps = round(settings.warmup_share * settings.steps(int((self.sampling_weights > 0).sum())))
        """The first step that uses the gates."""

    def _sampling_weights(self, windows: Windows, round_: int) -> FloatArray:
        settings = self.training.settings
        wanted = self.ungated > 0
        if settings.critic_beside:
            for trained in (self.training.data.targets.viability_rows, self.training.data.targets.efficiency_rows):
                wanted[trained] = True
        weights = window_sampling_weights(windows, settings, round_) * wanted.astype(np.float32)
        if settings.state_weights == "visits" and len(self.training.data.targets.viability_rows):
            weights *= visit_weights(self.training.viability, wanted & windows.policy)
        return weights

    def weights(self, step: int, rows: IntArray) -> FloatArray:
        """Weights (B,) float32 of a minibatch of windows `rows` (B,), before normalisation: 1, 0 or the gate."""
        training = self.training
        gates = training.train_step_on(rows) if training.settings.critic_beside else training.gates[rows]
        if step < self.warmup_steps:
            return self.ungated[rows]
        lowest = self._gate_zero[rows]
        return (lowest + (self.ungated[rows] - lowest) * gates).astype(np.float32, copy=False)


def collect_round_data(episodes: list[RecordedEpisode], settings: HabcSettings) -> RoundData:
    """Windows of successful demonstrations and of recent policy episodes, with the held-out ones marked.

    Episodes that were stopped early have windows for bootstrapping critics only, and none is held out.

    Raises:
        LearningProblem: there is no such episode.
    """
    known = [item for item in episodes if settings.bootstrap or not item.stopped]
    useful = [item for item in known if item.success or not item.demonstration]
    if all(item.stopped for item in useful):
        raise LearningProblem(
            "There is neither a successful demonstration nor a policy episode with a verdict; collect episodes first."
        )
    spec = replace(
        window_spec(settings, settings.multi_step),
        label_steps=settings.label_steps,
        until_takeover=settings.bootstrap > 0,
    )
    windows = recent_windows(cut(useful, spec), settings.window_rounds)
    present = np.unique(windows.episode)
    order = [index for index in present if not useful[index].demonstration and not useful[index].stopped]
    held = np.array(order[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY], dtype=np.int64)
    kept = [useful[index] for index in present]
    kappa = interception_rate(recent_episodes(kept, settings.window_rounds))
    return RoundData(episodes=kept, windows=windows, held_out=np.isin(windows.episode, held), kappa=kappa)


def critic_training(
    job: ImprovementJob, settings: HabcSettings, round_data: RoundData, scale: Scale
) -> tuple[CriticTraining, TrainingSchedule]:
    """New critics with their training data, and a schedule that holds the job's digest.

    `scale`: of the state, as the actor sees it.
    """
    data = critic_data(round_data.windows, settings, scale, round_data.kappa, ~round_data.held_out)
    critics = new_critics(round_data.windows, settings, job.seed)
    return CriticTraining(critics, data, settings, job.seed), training_schedule(job, settings, len(round_data.windows))


def _divergence_metrics(settings: HabcSettings, training: CriticTraining) -> dict[str, float]:
    """Metrics of the divergence check; if it fails, stop, ignore time, or only report, as the recipe sets it."""
    state = training.divergence_check() if training.done else None
    if state is None:
        return {"efficiency_sound": math.nan}
    if not state.sound:
        if settings.on_divergence == "stop":
            raise LearningProblem(
                f"The efficiency head diverged: V in [{state.lowest:.1f}, {state.highest:.1f}] for at most "
                f"{training.critics.shape.horizon_decisions:.0f} decisions, mean A_e {state.mean_advantage:.2f}; use "
                "efficiency_unit: horizon, or a target network."
            )
        if settings.on_divergence == "viability":
            training.ignore_time()
    metrics = {"efficiency_sound": float(state.sound), "v_e_lowest": state.lowest, "v_e_highest": state.highest}
    return metrics | {"a_e_mean": state.mean_advantage}
