"""Settings of HABC recipes; configs/recipes/habc_plus.yaml and habc_paper.yaml are the two presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from enpire.shares import require_share
from policies.bounds import above_zero, at_least
from policies.clone import RoundSettings
from policies.habc.weights import GateForm


@dataclass(frozen=True, slots=True, kw_only=True)
class HabcSettings(RoundSettings):
    """Settings of a recipe for HABC.

    The defaults are those of `habc_plus`, except for what it sets itself: the gate, the cooling, the labels of p_v,
    `state_weights` and the training of the critics.
    """

    critic_steps: int = 500
    """Gradient steps of the critics before the actor's first step."""
    critic_beside: bool = False
    """The critics also take one step at each step of the actor, on its minibatch, as in the paper."""
    warmup_share: float = 0.0
    """Share of a round's actor steps, the first ones, during which the gate is 1."""
    critic_batch: int = 128
    critic_learning_rate: float = 1e-3
    critic_hidden: int = 128
    critic_frequencies: int = 0
    shared_encoder: bool = False
    multi_step: int = 4
    """Decisions that the temporal difference and the advantages span."""
    label_steps: int = 0
    """With `bootstrap`: decisions between a state and the later one whose p_v is its label. 0: `multi_step`."""
    target_follow: float = 0.02
    """Share by which the target network moves towards the critics at each step; 1 means no target network."""
    efficiency_unit: Literal["horizon", "decision"] = "horizon"
    """Unit of V_e in the Huber loss; `decision` is the paper's form, which diverges."""
    bounded_efficiency: bool = True
    """V_e is at most 0 by construction; False is the paper's form."""
    balance_length: bool = False
    """Divide label weights by the number of windows of the episode. This biases p_v; it is kept for earlier recipes."""
    label_supervised: bool = False
    """Label supervised episodes too, as in the paper. Operators prevent failures, so these labels bias p_v."""
    few_unsupervised: int = 10
    """With fewer unsupervised policy episodes, supervised ones are labelled, too."""
    label_decay: float = 0.2
    """Factor on a label's weight for each round that its episode is older than the newest, in [0, 1]. Labels of old
    rounds describe an earlier policy."""
    bootstrap: float = 0.0
    """Share of a viability label that is p_v `label_steps` decisions later, in [0, 1]; the rest is the outcome.
    0 is the paper's form. p_v later has a smaller sampling error than one outcome. Above 0, supervised episodes are
    labelled, too: up to a takeover by p_v later or at the takeover alone, so no outcome of an operator counts."""
    correct_interception: bool = True
    """Where supervised episodes are labelled, weight failures without an intervention by 1 / (1 - kappa)."""
    label_ends: bool = True
    """Label the last state of a labelled episode too, so that the last decision has an advantage."""
    label_smoothing: float = 0.01
    logit_limit: float = 6.0
    """z_v is clipped to [-limit, limit]; 0 means no limit."""
    gate: GateForm = "soft"
    """The form of the gate (`policies.habc.weights.gate`): `soft` is the paper's, `exchange` that of habc_plus."""
    time_value: float = 6.0
    """In the exchange gate: value of saving the time of a typical success, in nats of log p_v; 0 ignores time."""
    state_weights: Literal["successes", "visits"] = "successes"
    """How often the windows of the policy's successes are drawn: all alike, or with `visit_weights`."""
    efficiency_gain: float = 1.0
    """Factor on A_e inside the gate."""
    shrink: float = 10.0
    """Factor n / (n + shrink) on A_e, with n successful policy episodes."""
    few_successes: int = 10
    """With fewer successful policy episodes, V_e is also trained on demonstrations."""
    partition: bool = True
    """False labels every policy window with its episode's outcome ("naive labels")."""
    reweight_interventions: Literal["never", "when_sure", "always"] = "when_sure"
    """IR: weight interventions by the gate. `when_sure`: if the held-out AUC of A_e is at least 0.65."""
    reweight_from_round: int = 1
    """Interventions are weighted by the gate from this round on; before, they have weight 1."""
    on_divergence: Literal["stop", "viability", "report"] = "viability"
    """If V_e diverged: stop with LearningProblem, leave time out of the gate, or only report it."""

    def __post_init__(self) -> None:
        """Refuse values that are not allowed with ValueError."""
        RoundSettings.__post_init__(self)
        at_least(1, self, "critic_batch critic_hidden multi_step reweight_from_round")
        at_least(0, self, "critic_steps critic_frequencies logit_limit time_value efficiency_gain shrink few_successes")
        at_least(0, self, "few_unsupervised label_steps")
        above_zero(self, "critic_learning_rate")
        require_share("warmup_share", self.warmup_share, "[0, 1]")
        if self.critic_beside and self.label_ends:
            raise ValueError(
                "critics that train at the actor's steps (critic_beside) see no last states; set label_ends: false."
            )
        if self.critic_beside and self.label_steps not in (0, self.multi_step):
            raise ValueError(
                "critics that train at the actor's steps (critic_beside) follow one difference; set label_steps: 0."
            )
        if self.critic_beside and self.on_divergence != "report":
            raise ValueError(
                "critics that train at the actor's steps (critic_beside) are checked only at the end; "
                "set on_divergence: report."
            )
        require_share("label_decay", self.label_decay, "[0, 1]")
        require_share("bootstrap", self.bootstrap, "[0, 1]")
        if self.critic_beside and self.gate == "exchange":
            raise ValueError("the exchange gate needs critics that train before the actor; set critic_beside: false.")
        if self.critic_beside and self.state_weights == "visits":
            raise ValueError(
                "state_weights: visits needs critics that train before the actor; set critic_beside: false."
            )
        require_share("target_follow", self.target_follow, "(0, 1]")
        if not 0 <= self.label_smoothing < 0.5:
            raise ValueError(f"label_smoothing must be in [0, 0.5), not {self.label_smoothing:g}.")
