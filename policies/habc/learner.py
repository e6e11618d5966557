"""HABC: cloning weighted by how much a decision helped, judged by two critics (arXiv 2606.17043)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from enpire.campaign.recipe import settings_of
from enpire.errors import LearningProblem
from enpire.interfaces import ImprovementJob, Progress
from enpire.types import FloatArray, IntArray, MaskArray
from policies import viability_policy
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
from policies.flow_training import FlowBatches, TrainingSchedule, train_actor, version_of
from policies.habc import diagnostics
from policies.habc.critic_outputs import write_critic_outputs
from policies.habc.segments import Windows, cut, interception_rate, recent_windows
from policies.habc.settings import HabcSettings
from policies.habc.train import CriticTraining, critic_data, label_weights, new_critics, pretrain_critics
from policies.habc.weights import Advantages, WeightRule, actor_weights
from policies.normalise import Scale
from policies.replay import recent_episodes
from policies.training_data import RecordedEpisode, read_episodes

HELD_OUT_EVERY = 10
"""Every tenth policy episode is kept from the critics, to see how they do on what they have not seen."""
REWEIGHT_AUC = 0.65


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundData:
    """What one round learns from."""

    episodes: list[RecordedEpisode]
    windows: Windows
    held_out: MaskArray
    """(N,), windows of episodes that the critics do not learn from."""
    kappa: float


class Habc:
    """The learner for recipes of hierarchical advantage-weighted cloning."""

    settings: ClassVar = HabcSettings

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        """Train critics, weigh the windows, train the actor from the parent's weights; returns the diagnostics."""
        settings = settings_of(self.settings, job.recipe)
        prepare(job)
        round_data = collect_round_data(read_episodes(job.episodes), settings)
        actor = initial_training_state(job, settings, round_data.episodes)
        training, schedule = critic_training(job, settings, round_data, actor.scales[0])
        report(Progress(stage="critics", done=0, total=max(1, settings.critic_steps), metrics={}))
        pretrain_critics(training, schedule)
        spread, metrics = actor.scales[1].spread, dict[str, float]()
        if settings.critic_beside:
            rule = weight_rule(round_data, training.advantages(), training, spread)
        else:
            metrics, rule = evaluate_critics(round_data, training, spread)
            report(Progress(stage="critics", done=training.done, total=max(1, training.done), metrics=metrics))
        taught = _train_actor(
            job, round_data, WindowWeights(round_data.windows, training, rule, job.round), actor, report
        )
        if settings.critic_beside:
            metrics, _ = evaluate_critics(round_data, training, spread)
        write_critic_outputs(round_data.episodes, training, actor.scales[0], job.episodes)
        write_version(
            version_of(actor.network, actor.scales, actor.temperature), job.output, viability_network(training)
        )
        return metrics | taught


def viability_network(training: CriticTraining) -> AddedNetwork | None:
    """The viability head, to go into the version beside its actor; None where nothing taught it."""
    if not training.done or not len(training.data.marks.labelled):
        return None
    shape = training.critics.shape
    about = viability_policy.ViabilityHead(frequencies=shape.frequencies, logit_limit=shape.logit_limit)
    layers = training.critics.viability_layers()
    return AddedNetwork(kind=viability_policy.KIND, key=viability_policy.KEY, about=asdict(about), weights=layers)


def evaluate_critics(
    round_data: RoundData, training: CriticTraining, spread: FloatArray
) -> tuple[dict[str, float], WeightRule]:
    """Guard against divergence, set the gates, and say how the critics do and which rows they weigh.

    `spread` (action_dim,) is that of the commands.
    """
    windows, settings = round_data.windows, training.settings
    metrics = _divergence_metrics(settings, training)
    said = training.update_gates()
    rule = weight_rule(round_data, said, training, spread)
    counts = label_weights(windows, settings, round_data.kappa) * round_data.held_out
    metrics |= {
        "n_episodes": float(len(round_data.episodes)),
        "n_success": float(training.data.successes),
        "windows": float(len(windows)),
        "kappa": round_data.kappa,
        "auc_a_e": diagnostics.efficiency_auc(windows, said, round_data.held_out, spread),
        "p_v_reliability": diagnostics.calibration_error(windows, said, counts, settings.partition),
        "brier": diagnostics.held_out_brier(windows, said, counts, settings.partition),
        "interventions_reweighted": float(rule.reweight_interventions),
    }
    return metrics | diagnostics.gate_metrics(windows, said, actor_weights(windows, training.gates, rule)), rule


def _train_actor(
    job: ImprovementJob,
    round_data: RoundData,
    table: WindowWeights,
    actor: TrainingState,
    report: Callable[[Progress], None],
) -> dict[str, float]:
    """Weighted flow matching from the parent's weights; the pupil's network holds the result."""
    training, windows = table.training, round_data.windows
    batches = FlowBatches.of(windows, actor.network.shape, actor.scales, table.sampling_weights)
    schedule = training_schedule(job, training.settings, int((table.sampling_weights > 0).sum()))
    taught: dict[str, float] = {}
    for done, taught in train_actor(actor.network, batches, schedule, table.weights, training):
        report(Progress(stage="actor", done=done, total=schedule.steps, metrics=taught))
    return taught | {"temperature": actor.temperature}


def weight_rule(round_data: RoundData, said: Advantages, training: CriticTraining, spread: FloatArray) -> WeightRule:
    """Which rows the gate weighs; interventions only as the recipe says, or once A_e ranks held-out windows well.

    Never where people finished every episode: no label then teaches what p_v is, and the gate would be noise.
    """
    settings, reweight = training.settings, len(training.data.marks.labelled) > 0
    if settings.reweight_interventions == "when_sure":
        ranked = diagnostics.efficiency_auc(round_data.windows, said, round_data.held_out, spread)
        reweight = reweight and ranked >= REWEIGHT_AUC
    elif settings.reweight_interventions == "never":
        reweight = False
    return WeightRule(reweight_interventions=bool(reweight), partition=settings.partition)


class WindowWeights:
    """The weight of every window at every step: gates of 1 while warming up, then the critics'.

    Critics beside the actor (the paper's way) learn from each minibatch when they are asked for its weights.
    """

    def __init__(self, windows: Windows, training: CriticTraining, rule: WeightRule, round_: int) -> None:
        """`training` keeps the gates. LearningProblem when no window may be imitated."""
        self.training = training
        self._least = actor_weights(windows, np.zeros(len(windows), np.float32), rule)
        self.open = actor_weights(windows, np.ones(len(windows), np.float32), rule)
        """(N,), weights with every gate at 1: above 0 wherever a weight can be."""
        if not (self.open > 0).any():
            raise LearningProblem(
                "No window may be imitated: there is neither a demonstration nor a success; collect more."
            )
        settings = training.settings
        self.sampling_weights = self._sampling_weights(windows, round_)
        """(N,), how often each window is drawn: those that may be imitated, and those that teach critics beside."""
        self.warm = round(settings.warmup_share * settings.steps(int((self.sampling_weights > 0).sum())))
        """The first step at which gates count."""

    def _sampling_weights(self, windows: Windows, round_: int) -> FloatArray:
        settings = self.training.settings
        wanted = self.open > 0
        if settings.critic_beside:
            for teaching in (self.training.data.marks.labelled, self.training.data.marks.timed):
                wanted[teaching] = True
        return window_sampling_weights(windows, settings, round_) * wanted.astype(np.float32)

    def weights(self, step: int, rows: IntArray) -> FloatArray:
        """Weights (B,) of a minibatch, before normalisation: a window counts 1, 0 or its gate."""
        training = self.training
        gates = training.step_on(rows) if training.settings.critic_beside else training.gates[rows]
        if step < self.warm:
            return self.open[rows]
        least = self._least[rows]
        return (least + (self.open[rows] - least) * gates).astype(np.float32, copy=False)


def collect_round_data(episodes: list[RecordedEpisode], settings: HabcSettings) -> RoundData:
    """Successful demonstrations and all policy episodes that are not too old, cut into windows."""
    useful = [item for item in episodes if item.success or not item.demonstration]
    if not useful:
        raise LearningProblem("There is neither a successful demonstration nor a policy episode; collect some first.")
    windows = recent_windows(cut(useful, window_spec(settings, settings.multi_step)), settings.window_rounds)
    present = np.unique(windows.episode)
    order = [index for index in present if not useful[index].demonstration]
    held = np.array(order[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY], dtype=np.int64)
    kept = [useful[index] for index in present]
    kappa = interception_rate(recent_episodes(kept, settings.window_rounds))
    return RoundData(episodes=kept, windows=windows, held_out=np.isin(windows.episode, held), kappa=kappa)


def critic_training(
    job: ImprovementJob, settings: HabcSettings, round_data: RoundData, scale: Scale
) -> tuple[CriticTraining, TrainingSchedule]:
    """Fresh critics with what they learn from (states in `scale`), and the course whose digest names the job."""
    data = critic_data(round_data.windows, settings, scale, round_data.kappa, ~round_data.held_out)
    critics = new_critics(round_data.windows, settings, job.seed)
    return CriticTraining(critics, data, settings, job.seed), training_schedule(job, settings, len(round_data.windows))


def _divergence_metrics(settings: HabcSettings, training: CriticTraining) -> dict[str, float]:
    """Raise, go on with A_v alone, or only say so, when the efficiency head left what it can mean."""
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
            training.form = "viability" if settings.gate != "off" else "off"
    metrics = {"efficiency_sound": float(state.sound), "v_e_lowest": state.lowest, "v_e_highest": state.highest}
    return metrics | {"a_e_mean": state.mean_advantage}
