"""What agent sessions use of language models for branches, and when a branch has used up its tokens or its money."""

from __future__ import annotations

from dataclasses import dataclass, field

from enpire.campaign.agent_events import ModelCalled, TokensSpent
from enpire.campaign.branch_events import BranchEnd
from enpire.campaign.branch_plan import BranchPlan


@dataclass(slots=True)
class Spent:
    """Calls of language models, added up."""

    tokens: int = 0
    """Tokens that count for budgets: of a lost call the most that it could cost."""
    money: dict[str, float] = field(default_factory=dict[str, float])
    """Currency -> known cost."""
    budgeted_money: float = 0.0
    """Money that counts for budgets: of a call of unknown cost the most that it could cost, where that is known."""
    unknown: int = 0
    """Calls of unknown cost."""

    def add(self, event: ModelCalled | TokensSpent) -> None:
        """Add one call; what an agent reports beside the count of the model gateway counts for nothing."""
        if isinstance(event, TokensSpent):
            self.tokens += 0 if event.self_reported else event.total
            return
        self.tokens += event.tokens
        self.budgeted_money += event.spent
        if event.money is None:
            self.unknown += 1
        elif event.money:
            self.money[event.currency] = self.money.get(event.currency, 0.0) + event.money


def used_up(spent: Spent, plan: BranchPlan) -> BranchEnd | None:
    """Why a branch that spent so much on language models gets no further training run; None if it may."""
    if plan.tokens and spent.tokens >= plan.tokens:
        return "no tokens left"
    return "no money left" if plan.money and spent.budgeted_money >= plan.money else None


def spending_text(reason: BranchEnd, spent: Spent, plan: BranchPlan) -> str:
    """What a branch that ended for its tokens or its money had used, of how much; empty for another reason."""
    texts = {
        "no tokens left": f"{spent.tokens} of {plan.tokens} tokens used (branches: tokens)",
        "no money left": f"{spent.budgeted_money:.4g} of {plan.money:g} used (branches: money)",
    }
    return texts.get(reason, "")
