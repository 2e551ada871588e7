"""The tables as SQL made from the row types: how rows are read, inserted, and updated by what changed in them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from stepd.engine.model import Attempt, Audit, Event, Execution, Idempotency, Ledger, Signal, Step
from stepd.engine.spending import UsageRow
from stepd.store.accounts import PricesRow
from stepd.store.base import VersionRow
from stepd.store.records import KeyRow, SignInRow, WorkerRow
from stepd.store.tables import Columns, Row


class Table(Columns[Row]):
    """One table: its columns are the fields of its row type, in their order; without a key it takes inserts only."""

    def __init__(self, name: str, row: type[Row], key: tuple[str, ...] = ()) -> None:
        super().__init__(name, row)
        self.insert = f"insert into {name} ({self.listed}) values ({', '.join('?' * len(self.columns))})"
        self.upsert = self.insert + self._on_conflict(key)
        self._key = " and ".join(f"{column} = ?" for column in key)
        self._key_at = tuple(self.columns.index(column) for column in key)
        self._flags = tuple(field.name for field in msgspec.structs.fields(row) if field.type is bool)
        self._updates: dict[tuple[int, ...], str] = {}

    def read(self, values: tuple[Any, ...]) -> Row:
        """The row with these values, in the order of ``columns``; SQLite has no truth values of its own."""
        row = self.row(*values)
        for flag in self._flags:
            setattr(row, flag, getattr(row, flag) == 1)
        return row

    def update(self, before: Row, after: Row) -> tuple[str, list[Any]] | None:
        """A statement that writes what changed between the two, with its parameters; None where nothing did.

        Columns that did not change are left out, because SQLite would renew every index over a column that is set.
        """
        old, new = astuple(before), astuple(after)
        changed = tuple([at for at, value in enumerate(new) if value is not old[at] and value != old[at]])
        if not changed:
            return None
        statement = self._updates.get(changed)
        if statement is None:
            settings = ", ".join(f"{self.columns[at]} = ?" for at in changed)
            statement = self._updates[changed] = f"update {self.name} set {settings} where {self._key}"
        return statement, [new[at] for at in (*changed, *self._key_at)]

    def _on_conflict(self, key: tuple[str, ...]) -> str:
        settings = ", ".join(f"{column} = excluded.{column}" for column in self.columns if column not in key)
        return f" on conflict ({', '.join(key)}) do update set {settings}"


EXECUTIONS: Final = Table("executions", Execution, ("id",))
STEPS: Final = Table("steps", Step, ("execution_id", "ordinal", "idx"))
ATTEMPTS: Final = Table("attempts", Attempt, ("id",))
SIGNALS: Final = Table("signals", Signal, ("execution_id", "number"))
EVENTS: Final = Table("events", Event)
"""Beside the fields, its rows have the execution's id in front."""
AUDIT: Final = Table("audit", Audit)
"""The database numbers its rows."""
LEDGER: Final = Table("ledger", Ledger)
IDEMPOTENCY: Final = Table("idempotency", Idempotency, ("principal", "target", "key"))
VERSIONS: Final = Table("versions", VersionRow, ("workflow", "version"))
WORKERS: Final = Table("workers", WorkerRow, ("principal", "worker", "instance"))
KEYS: Final = Table("keys", KeyRow, ("id",))
USAGE: Final = Table("usage", UsageRow, ("attempt_id", "line"))
PRICES: Final = Table("prices", PricesRow)
SIGN_INS: Final = Table("sessions", SignInRow, ("id_hash",))

INSERT_EVENT: Final = (
    f"insert into events (execution_id, {EVENTS.listed}) values (?, {', '.join('?' * len(EVENTS.columns))})"
)
UPSERT_PAYLOAD: Final = (
    "insert into payloads (execution_id, name, body) values (?, ?, ?) "
    "on conflict (execution_id, name) do update set body = excluded.body"
)
UPSERT_SPAN: Final = (
    "insert into spans (execution_id, attempt_id, span_id, body) values (?, ?, ?, ?) "
    "on conflict (execution_id, attempt_id, span_id) do update set body = excluded.body"
)
CUT_USAGE: Final = "delete from usage where attempt_id = ? and line >= ?"
"""Takes away the lines of an attempt that has fewer now."""
INSERT_LABEL: Final = "insert into labels (key, value, created_at, execution_id) values (?, ?, ?, ?)"
