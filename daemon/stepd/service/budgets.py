"""Budgets as callers give them and see them."""

from __future__ import annotations

import re
from typing import Final

from msgspec import UNSET, UnsetType

from stepd.engine import definition_budget as engine
from stepd.engine.model import Execution
from stepd.service.money import amount
from stepd_protocol import executions as wire
from stepd_protocol.fields import NULL
from stepd_protocol.limits import BUDGET_COST_MAX
from stepd_protocol.problems import FieldFault

_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")


def budget_faults(budget: wire.Budget | None) -> list[FieldFault]:
    """What the types don't tell of a budget in a request."""
    try:
        given_nano(budget)
    except ValueError as fault:
        return [FieldFault(path="/budget/cost", message=str(fault))]
    return []


def read_budget(budget: wire.Budget | None) -> engine.Budget | None:
    """The budget of a start; None where the definition's counts. Raises ValueError."""
    if budget is None:
        return None
    nano = given_nano(budget)
    return engine.Budget(
        None if isinstance(nano, UnsetType) else nano,
        None if isinstance(budget.tokens, UnsetType) else budget.tokens,
    )


def given_nano(budget: wire.Budget | None) -> int | None | UnsetType:
    """The bound of money, in nano-units; None where there is to be none, UNSET where it isn't given.

    Raises ValueError.
    """
    if budget is None or isinstance(budget.cost, UnsetType):
        return UNSET
    text = bytes(budget.cost).decode().strip()
    if text == "null":
        return None
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"must be a number from 0 to {BUDGET_COST_MAX}, or null, not {text[:60]}")
    try:
        return engine.nano_of(text)
    except ValueError as fault:
        raise ValueError(f"{text[:60]} {fault}") from None


def budget_view(execution: Execution) -> wire.BudgetView | None:
    """What an execution may use; None where it has no bound."""
    nano, tokens = execution.budget_nano, execution.budget_tokens
    if nano is None and tokens is None:
        return None
    return wire.BudgetView(cost=NULL if nano is None else amount(nano), tokens=tokens)
