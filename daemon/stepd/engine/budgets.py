"""What an execution may use, with its children: the one rule that says whether that is used up."""

from __future__ import annotations

import msgspec

from stepd.engine.definition import CompiledStep
from stepd.engine.definition_budget import Budget
from stepd.engine.model import Execution
from stepd.engine.pricing import units
from stepd.engine.spending import Spent, whole

BUDGET_EXCEEDED = "budget_exceeded"


def budget_of(execution: Execution) -> Budget:
    """What it may use now."""
    return Budget(execution.budget_nano, execution.budget_tokens)


def is_used_up(execution: Execution, budget: Budget | None = None) -> bool:
    """Whether what was used reaches a bound of its budget, or of another one that it might have.

    Tokens are all five counts, whether they have a price or not; money counts what was priced.
    """
    budget = budget or budget_of(execution)
    if budget.nano is None and budget.tokens is None:
        return False
    spent = whole(execution)
    is_money_spent = budget.nano is not None and spent.cost_nano >= budget.nano
    return is_money_spent or (budget.tokens is not None and spent.tokens >= budget.tokens)


def keeps_from_beginning(execution: Execution, compiled: CompiledStep) -> bool:
    """Whether the budget keeps a step from beginning: a child would be started, and use more. A task's lease is kept
    back by the pause.
    """
    return compiled.kind == "workflow" and is_used_up(execution)


def why_used_up(execution: Execution, budget: Budget) -> str:
    """What was used of which budget, and the way out, for whom a resume is refused."""
    spent = whole(execution)
    used = []
    if budget.nano is not None:
        used.append(f"{_money(spent.cost_nano, spent)} of {_money(budget.nano, spent)}")
    if budget.tokens is not None:
        used.append(f"{spent.tokens:,} of {budget.tokens:,} tokens")
    return f'its budget is used up: {" and ".join(used)}; resume it with a greater one, {{"budget": {_greater(spent)}}}'


def shown(budget: Budget) -> dict[str, object]:
    """A budget as the journal shows it."""
    cost = None if budget.nano is None else msgspec.Raw(units(budget.nano).encode())
    return {"cost": cost, "tokens": budget.tokens}


def _money(nano: int, spent: Spent) -> str:
    return units(nano) if spent.currency is None else f"{units(nano)} {spent.currency}"


def _greater(spent: Spent) -> str:
    return f'{{"cost": more than {units(spent.cost_nano)}, "tokens": more than {spent.tokens}}}'
