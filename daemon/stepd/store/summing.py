"""Sums over the log of usage as a query that all databases take, with ``?`` for its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from stepd.engine.pricing import COUNTS, capped
from stepd.engine.spending import UsageRow
from stepd.store.accounts import LABEL, UsageFilter, UsageSum
from stepd.store.listing import Where, places
from stepd.store.marks import MARK, to_text

DAY_MS: Final = 86_400_000
COLUMNS: Final = {
    "day": f"at / {DAY_MS}",
    "workflow": "workflow",
    "version": "version",
    "step": "step",
    "model": "model",
    "tenant": "coalesce(tenant, '')",
}
"""What a sum may be grouped by; ``tenant`` and a label are empty where there is none."""
LOW_BITS: Final = 32
PRICED: Final = tuple(
    f"select currency from {table} where currency is not null limit 1" for table in ("usage", "executions")
)
"""Each finds a currency in which something was priced."""


class Labels(Protocol):
    """How a database looks into labels."""

    def look(self, key: str) -> tuple[str, object]:
        """An expression for a label's value, empty where there is none, and its parameter."""

    def value(self, text: str) -> object:
        """A label's value as a parameter."""


def usage_query(
    filter_: UsageFilter, tenants: tuple[str, ...] | None, limit: int, labels: Labels
) -> tuple[str, list[Any]]:
    """The sums as a query, with ``?`` for its parameters."""
    lines, parameters = _lines(filter_, tenants, labels)
    names = [f"g{place}" for place in range(len(filter_.group_by))]
    sums = ", ".join([*names, *SUMS, _attempts(filter_)])
    if not names:
        return f"select {sums} from ({lines}) as lines", parameters
    behind = ""
    if filter_.cursor is not None:
        behind = f"where ({', '.join(names)}) > ({places(filter_.cursor)})"
        named = zip(filter_.group_by, filter_.cursor, strict=True)
        parameters += [labels.value(str(value)) if name.startswith(LABEL) else value for name, value in named]
    listed = ", ".join(names)
    statement = f"select {sums} from ({lines}) as lines {behind} group by {listed} order by {listed} limit ?"
    return statement, [*parameters, limit]


def usage_sum(filter_: UsageFilter, values: Sequence[Any]) -> UsageSum:
    """What a row says that ``usage_query`` has found."""
    groups = len(filter_.group_by)
    *halves, priced, attempts = values[groups:]
    pairs = zip(halves[::2], halves[1::2], strict=True)
    *counts, cost, unpriced = (capped((int(high or 0) << LOW_BITS) + int(low or 0)) for high, low in pairs)
    return UsageSum(tuple(values[:groups]), tuple(counts), cost, unpriced, bool(priced), int(attempts))


def kept(row: UsageRow) -> UsageRow:
    """A line of the log with labels into which a database can look that knows no NUL."""
    if rb"\u0000" not in row.labels and MARK.encode() not in row.labels:
        return row
    labels = {key: to_text(value) for key, value in msgspec.json.decode(row.labels, type=dict[str, str]).items()}
    return msgspec.structs.replace(row, labels=msgspec.json.encode(labels))


def _halves(column: str) -> tuple[str, str]:
    """A sum in two parts, neither of which can be more than a database's whole numbers hold."""
    return f"sum({column} >> {LOW_BITS})", f"sum({column} & {2**LOW_BITS - 1})"


SUMS: Final = (
    *(half for column in (*COUNTS, "cost", "unpriced") for half in _halves(column)),
    "max(priced)",
)


def _attempts(filter_: UsageFilter) -> str:
    """How many attempts there are: each has one first line, and one first line of each model that it used."""
    by_model = filter_.model is not None or "model" in filter_.group_by
    return f"coalesce(sum(case when {'of_model' if by_model else 'line'} = 0 then 1 else 0 end), 0)"


def _lines(filter_: UsageFilter, tenants: tuple[str, ...] | None, labels: Labels) -> tuple[str, list[Any]]:
    """The lines that are summed, each with its group, and the parameters."""
    groups: list[str] = []
    parameters: list[Any] = []
    for place, name in enumerate(filter_.group_by):
        expression = COLUMNS.get(name)
        if expression is None:
            expression, key = labels.look(name.removeprefix(LABEL))
            parameters.append(key)
        groups.append(f"{expression} as g{place}")
    tokens = " + ".join(COUNTS)
    money = (
        "case when currency = ? then cost_nano else 0 end as cost",
        f"case when currency is null or currency = ? then unpriced_tokens else {tokens} end as unpriced",
        "case when currency = ? then 1 else 0 end as priced",
    )
    parameters += [filter_.currency] * len(money)
    where = _conditions(filter_, tenants, labels)
    listed = ", ".join([*groups, "line", "of_model", *COUNTS, *money])
    return f"select {listed} from usage {where}", [*parameters, *where.parameters]


def _conditions(filter_: UsageFilter, tenants: tuple[str, ...] | None, labels: Labels) -> Where:
    where = Where()
    for column in ("workflow", "tenant", "model"):
        if (value := getattr(filter_, column)) is not None:
            where.add(f"{column} = ?", value)
    for condition, time in (("at >= ?", filter_.at_from), ("at < ?", filter_.at_before)):
        if time is not None:
            where.add(condition, time)
    for key, value in filter_.labels:
        expression, parameter = labels.look(key)
        where.add(f"{expression} = ?", parameter, labels.value(value))
    if tenants is not None:
        where.add(f"tenant in ({places(tenants)})" if tenants else "1 = 0", *tenants)
    return where
