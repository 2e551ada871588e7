"""Prices and the log of usage in SQLite."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from stepd.engine.model import Audit
from stepd.store.accounts import LABEL, PricesRow, UsageFilter, UsageSum
from stepd.store.marks import from_text, to_text
from stepd.store.sqlite.records import audit
from stepd.store.sqlite.rows import PRICES
from stepd.store.sqlite.transaction import Transaction
from stepd.store.summing import PRICED, usage_query, usage_sum

NEWEST: Final = f"{PRICES.select} where version > ? order by version desc limit 1"
VERSION: Final = f"{PRICES.select} where version = ? and version > ?"


def prices(connection: sqlite3.Connection, version: int | None, newer_than: int) -> PricesRow | None:
    """A version of the table of prices, or the newest one."""
    if version is None:
        values = connection.execute(NEWEST, (newer_than,)).fetchone()
    else:
        values = connection.execute(VERSION, (version, newer_than)).fetchone()
    return None if values is None else PRICES.read(values)


def put_prices(transaction: Transaction, row: PricesRow, audit_row: Audit) -> PricesRow | str:
    """Keeps a new version; answers the currency where something was priced in another one."""
    connection = transaction.connection
    before = prices(connection, None, 0)
    if before is not None and before.currency != row.currency:
        for statement in PRICED:
            if (found := connection.execute(statement).fetchone()) is not None:
                return str(found[0])
    kept_row = msgspec.structs.replace(row, version=1 if before is None else before.version + 1)
    connection.execute(PRICES.insert, astuple(kept_row))
    transaction.prices = True
    audit(transaction, [msgspec.structs.replace(audit_row, object=str(kept_row.version))])
    return kept_row


def usage(
    connection: sqlite3.Connection, filter_: UsageFilter, tenants: tuple[str, ...] | None, limit: int
) -> list[UsageSum]:
    """Sums over the log of usage."""
    found = connection.execute(*usage_query(filter_, tenants, limit, _Labels()))
    return [usage_sum(filter_, _read(filter_, values)) for values in found]


class _Labels:
    """How SQLite looks into labels."""

    def look(self, key: str) -> tuple[str, object]:
        return "coalesce(cast(labels as text) ->> ?, '')", f'$."{key}"'

    def value(self, text: str) -> object:
        return to_text(text)


def _read(filter_: UsageFilter, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with labels as they were given."""
    groups = len(filter_.group_by)
    named = zip(filter_.group_by, values[:groups], strict=True)
    own = [from_text(value) if name.startswith(LABEL) else value for name, value in named]
    return (*own, *values[groups:])
