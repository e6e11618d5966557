"""What a recipe for HABC may say; configs/recipes/habc_plus.yaml and habc_paper.yaml are the two presets."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from policies.bounds import above_zero, at_least
from policies.clone import RoundSettings
from policies.habc.weights import GateForm


@dataclass(frozen=True, slots=True, kw_only=True)
class HabcSettings(RoundSettings):
    """The defaults are those of `habc_plus`."""

    critic_steps: int = 500
    """Gradient steps of the critics before the actor begins."""
    critic_beside: bool = False
    """The critics go on learning beside the actor, one step for one, from its own minibatches (the paper's way)."""
    warmup_share: float = 0.0
    """Share of a round's actor steps, at its beginning, during which the gate counts as 1."""
    critic_batch: int = 128
    critic_learning_rate: float = 1e-3
    critic_hidden: int = 128
    critic_frequencies: int = 0
    shared_encoder: bool = False
    multi_step: int = 4
    """Decisions that the temporal difference and the advantages span."""
    target_follow: float = 0.02
    """Share by which the target network follows each step; 1 means that there is no target network."""
    efficiency_unit: Literal["horizon", "decision"] = "horizon"
    """Unit of V_e inside the Huber loss; `decision` is the literal form, which diverges."""
    bounded_efficiency: bool = True
    """V_e cannot rise above 0; False is the literal, free head."""
    balance_length: bool = True
    """Label weights 1 / windows of the episode, so that long failures do not dominate."""
    correct_interception: bool = True
    """Failures that nobody touched count 1 / (1 - kappa), because operators take failures away."""
    label_ends: bool = True
    """The last state of a labelled episode is labelled too, so that the gain of its last decision is known."""
    label_smoothing: float = 0.01
    logit_limit: float = 6.0
    gate: GateForm = "soft"
    efficiency_gain: float = 1.0
    """Factor on A_e inside the gate."""
    shrink: float = 10.0
    """A_e counts n / (n + shrink), n the successful policy episodes."""
    few_successes: int = 10
    """Below this many successful policy episodes, demonstrations teach V_e too."""
    partition: bool = True
    """False gives every policy window its episode's outcome ("naive labels")."""
    reweight_interventions: Literal["never", "when_sure", "always"] = "when_sure"
    """IR; `when_sure` from a held-out AUC(A_e) of 0.65 on."""
    on_divergence: Literal["stop", "viability", "report"] = "viability"
    """What to do when V_e left what it can mean: stop with LearningProblem, go on with A_v alone, or only say so."""

    def __post_init__(self) -> None:
        """Say which value is not allowed."""
        RoundSettings.__post_init__(self)
        at_least(1, self, "critic_batch critic_hidden multi_step")
        at_least(0, self, "critic_steps critic_frequencies logit_limit efficiency_gain shrink few_successes")
        above_zero(self, "critic_learning_rate")
        if not 0 <= self.warmup_share <= 1:
            raise ValueError(f"warmup_share is {self.warmup_share}; it must be in [0, 1].")
        if self.critic_beside and self.label_ends:
            raise ValueError("critics that learn beside the actor see no last states; say label_ends: false.")
        if self.critic_beside and self.on_divergence != "report":
            raise ValueError("critics beside the actor are judged when it is trained; say on_divergence: report.")
        if not 0 < self.target_follow <= 1 or not 0 <= self.label_smoothing < 0.5:
            raise ValueError("target_follow must be in (0, 1], label_smoothing in [0, 0.5).")

    def require_default(self, names: str, why: str) -> None:
        """ValueError for the first setting of `names` (spaces between) that is not at its default: nobody reads it."""
        for item in fields(self):
            if item.name in names.split() and getattr(self, item.name) != item.default:
                raise ValueError(f"{item.name} changes nothing here, because {why}; leave it out.")
