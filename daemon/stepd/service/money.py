"""Tokens and money as callers see them."""

from __future__ import annotations

from msgspec import Raw

from stepd.engine.model import Attempt, Execution
from stepd.engine.pricing import units
from stepd.engine.reports import read_lines
from stepd.engine.spending import whole
from stepd_protocol.executions import UsageTotal, UsageView
from stepd_protocol.fields import NULL


def amount(nano: int) -> Raw:
    """Nano-units as a number of whole units, digit for digit."""
    return Raw(units(nano).encode())


def usage_total(execution: Execution) -> UsageTotal:
    """What an execution used with its children."""
    spent = whole(execution)
    return UsageTotal(
        input_tokens=spent.input_tokens,
        cache_read_tokens=spent.cache_read_tokens,
        cache_write_tokens=spent.cache_write_tokens,
        output_tokens=spent.output_tokens,
        reasoning_tokens=spent.reasoning_tokens,
        cost=NULL if spent.currency is None else amount(spent.cost_nano),
        currency=spent.currency,
        unpriced_tokens=spent.unpriced_tokens,
    )


def usage_views(attempt: Attempt, currency: str | None) -> list[UsageView]:
    """What an attempt used, a line a model, and what that cost in its execution's currency."""
    return [
        UsageView(
            model=line.model,
            **line.named_counts,
            cost=NULL if line.cost is None else amount(line.cost),
            currency=None if line.cost is None else currency,
            unpriced_tokens=line.unpriced,
            prices_version=line.prices,
        )
        for line in ([] if attempt.usage is None else read_lines(attempt.usage))
    ]
