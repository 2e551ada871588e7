"""The tables as SQL made from the row types: how rows are read, and written many at a time with one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any, Final, get_args

import msgspec
from msgspec.structs import astuple

from stepd.engine.model import Attempt, Audit, Event, Execution, Idempotency, Ledger, Signal, Step
from stepd.engine.spending import UsageRow
from stepd.store.accounts import PricesRow
from stepd.store.base import VersionRow
from stepd.store.marks import to_text
from stepd.store.records import KeyRow, SignInRow, WorkerRow
from stepd.store.tables import Columns, Row

ARRAYS: Final = {str: "text[]", int: "bigint[]", bool: "boolean[]", bytes: "bytea[]"}


class Table(Columns[Row]):
    """One table; its statements take one list a column. ``front``: text columns before those of the row type."""

    def __init__(self, name: str, row: type[Row], key: tuple[str, ...] = (), front: tuple[str, ...] = ()) -> None:
        super().__init__(name, row)
        columns = (*front, *self.columns)
        arrays = ["text[]"] * len(front) + [ARRAYS[_plain(field.type)] for field in msgspec.structs.fields(row)]
        self._unnest = _unnest(arrays)
        listed = ", ".join(columns)
        self.insert = f"insert into {name} ({listed}) select * from {self._unnest}"
        settings = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key)
        self.upsert = f"{self.insert} on conflict ({', '.join(key)}) do update set {settings}" if key else self.insert
        changes = ", ".join(f"{column} = new.{column}" for column in columns if column not in key)
        match = " and ".join(f"old.{column} = new.{column}" for column in key)
        self.update = f"update {name} old set {changes} from {self._unnest} as new ({listed}) where {match}"

    def read(self, values: Sequence[Any]) -> Row:
        """The row with these values, in the order of ``columns``."""
        return self.row(*values)

    def lists(self, rows: Iterable[Row]) -> list[list[Any]]:
        """The parameters of a statement for these rows; nothing where there are none."""
        return columns([astuple(row) for row in rows])


def columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows as one list a column, the parameters of a statement with ``unnest``; nothing where there are no rows."""
    return [[_held(value) for value in column] for column in zip(*rows, strict=True)]


def _held(value: Any) -> Any:
    """What stands in a list; the driver has a codec of its own for lists of texts."""
    return to_text(value) if type(value) is str else value


def unnested(*arrays: str) -> str:
    """Lists of parameters as rows, for a join: ``unnested("text[]", "bigint[]")``."""
    return _unnest(arrays)


def _unnest(arrays: Sequence[str]) -> str:
    return f"unnest({', '.join(f'${number}::{array}' for number, array in enumerate(arrays, 1))})"


def _plain(type_: Any) -> type:
    """The type of a field that may be None."""
    kinds = [kind for kind in get_args(type_) if kind is not NoneType] or [type_]
    plain: type = kinds[0]
    return plain


def numbered(statement: str) -> str:
    """The statement with ``$1``, ``$2``, … in the place of each ``?``."""
    first, *others = statement.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))


EXECUTIONS: Final = Table("executions", Execution, ("id",))
STEPS: Final = Table("steps", Step, ("execution_id", "ordinal", "idx"))
ATTEMPTS: Final = Table("attempts", Attempt, ("id",))
SIGNALS: Final = Table("signals", Signal, ("execution_id", "number"))
EVENTS: Final = Table("events", Event, front=("execution_id",))
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

UPSERT_PAYLOADS: Final = (
    f"insert into payloads (execution_id, name, body) select * from {unnested('text[]', 'text[]', 'bytea[]')} "
    "on conflict (execution_id, name) do update set body = excluded.body"
)
UPSERT_SPANS: Final = (
    "insert into spans (execution_id, attempt_id, span_id, body) "
    f"select * from {unnested('text[]', 'text[]', 'text[]', 'bytea[]')} "
    "on conflict (execution_id, attempt_id, span_id) do update set body = excluded.body"
)
CUT_USAGE: Final = (
    f"delete from usage u using {unnested('text[]', 'bigint[]')} as w (attempt_id, lines) "
    "where u.attempt_id = w.attempt_id and u.line >= w.lines"
)
"""Takes away the lines of attempts that have fewer now."""
DROP_SPANS: Final = (
    f"delete from spans using {unnested('text[]', 'text[]', 'text[]')} as dropped (execution, attempt, span) "
    "where execution_id = dropped.execution and attempt_id = dropped.attempt and span_id = dropped.span"
)
INSERT_LABELS: Final = (
    "insert into labels (key, value, created_at, execution_id) "
    f"select * from {unnested('text[]', 'text[]', 'bigint[]', 'text[]')}"
)
INSERT_CLAIMS: Final = (
    "insert into claims (principal, claim_id, leases, dealt_at) "
    f"select * from {unnested('text[]', 'text[]', 'text[]', 'bigint[]')}"
)
