"""The page of usage: tokens and money by day as a chart, by workflow and model as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from stepd.service import usage
from stepd.ui.answers import content
from stepd.ui.web import Answered, Visit
from stepd_protocol.limits import PAGE_ITEMS_MAX
from stepd_protocol.problems import Problem

DAYS: Final = 30
DAYS_MAX: Final = 366
KINDS_MAX: Final = 8
"""Workflows that have a colour of their own in the chart; the rest stand together."""
ROWS_MAX: Final = 1_000
"""Sums that one page is made of."""
REST: Final = "all others"
TOKENS: Final = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


class Piece(Struct, frozen=True):
    """A part of a day's column: which kind it is of, where it stands and how high it is, in percent of the chart."""

    kind: int
    top: str
    height: str
    title: str


class Column(Struct, frozen=True):
    """One day of the chart, its place and its width in percent."""

    day: str
    left: str
    width: str
    pieces: tuple[Piece, ...]


class Chart(Struct, frozen=True):
    """Columns by day; ``unit`` is a currency, or ``tokens`` where nothing has a price."""

    columns: tuple[Column, ...]
    kinds: tuple[str, ...]
    highest: str
    unit: str


async def show(visit: Visit) -> Answered:
    """The whole page."""
    asked = dict(visit.call.query)
    days = int(asked["days"]) if asked.get("days", "").isdecimal() and len(asked["days"]) < 5 else DAYS
    days = min(max(days, 1), DAYS_MAX)
    today = datetime.fromtimestamp(await visit.daemon.store.now() / 1000, UTC).date()
    after = f"{today - timedelta(days=days - 1)}T00:00:00Z"
    by_day = await _sums(visit, "day,workflow", after)
    by_model = await _sums(visit, "workflow,model", after)
    if isinstance(by_day, Problem):
        return by_day
    if isinstance(by_model, Problem):
        return by_model
    return visit.page(
        "usage.html", chart=chart_of(by_day, today, days), rows=sorted(by_model, key=_weight, reverse=True), days=days
    )


def chart_of(sums: Sequence[Mapping[str, Any]], today: date, days: int) -> Chart | None:
    """The chart of sums by day and workflow, up to today; None where nothing was used."""
    if not sums:
        return None
    is_money = any(one["cost"] is not None for one in sums)
    amount = _money if is_money else _tokens
    weights: dict[str, Decimal] = {}
    for one in sums:
        weights[one["workflow"]] = weights.get(one["workflow"], Decimal()) + amount(one)
    named = sorted(weights, key=lambda name: (-weights[name], name))[:KINDS_MAX]
    stacks: dict[str, dict[str, Decimal]] = {}
    for one in sums:
        kind = one["workflow"] if one["workflow"] in named else REST
        stack = stacks.setdefault(one["day"], {})
        stack[kind] = stack.get(kind, Decimal()) + amount(one)
    kinds = [*named, *([REST] if len(weights) > KINDS_MAX else [])]
    highest = max(sum(stack.values()) for stack in stacks.values())
    unit = next((one["currency"] for one in sums if one["currency"]), "tokens") if is_money else "tokens"
    columns = tuple(_columns(stacks, kinds, Decimal(highest), unit, today, days))
    return Chart(columns, tuple(kinds), f"{highest:,}", unit)


def _columns(
    stacks: Mapping[str, Mapping[str, Decimal]],
    kinds: Sequence[str],
    highest: Decimal,
    unit: str,
    today: date,
    days: int,
) -> Iterable[Column]:
    width = 100 / days
    for number in range(days):
        day = str(today - timedelta(days=days - 1 - number))
        pieces, top = [], Decimal(100)
        for kind, name in enumerate(kinds):
            amount = stacks.get(day, {}).get(name, Decimal())
            if not amount or not highest:
                continue
            height = amount * 100 / highest
            top -= height
            pieces.append(Piece(kind, f"{top:.3f}%", f"{height:.3f}%", f"{day}, {name}: {amount:,} {unit}"))
        yield Column(day, f"{number * width + width * 0.1:.3f}%", f"{width * 0.8:.3f}%", tuple(pieces))


async def _sums(visit: Visit, group_by: str, after: str) -> list[dict[str, Any]] | Problem:
    found: list[dict[str, Any]] = []
    asked = [("group_by", group_by), ("after", after), ("limit", str(PAGE_ITEMS_MAX))]
    while len(found) < ROWS_MAX:
        answer = await usage.sums(visit.daemon, visit.caller, asked)
        if isinstance(answer, Problem):
            return answer
        page = content(answer)
        found += page["items"]
        if page["next"] is None:
            break
        asked = [("cursor", page["next"]), ("limit", str(PAGE_ITEMS_MAX))]
    return found


def _weight(one: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    return _money(one), _tokens(one)


def _money(one: Mapping[str, Any]) -> Decimal:
    return Decimal(str(one["cost"] or 0))


def _tokens(one: Mapping[str, Any]) -> Decimal:
    return Decimal(sum(one[name] for name in TOKENS))
