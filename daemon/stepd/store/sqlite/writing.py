"""Writes what a decision changed, in the order its contract gives: bulk changes, then the rows."""

from __future__ import annotations

import sqlite3
from typing import Final, assert_never

import msgspec
from msgspec.structs import astuple

from stepd.engine.model import Execution
from stepd.engine.work import Changes, Loaded
from stepd.store.sqlite.rows import (
    ATTEMPTS,
    AUDIT,
    CUT_USAGE,
    EXECUTIONS,
    INSERT_EVENT,
    INSERT_LABEL,
    LEDGER,
    SIGNALS,
    STEPS,
    UPSERT_PAYLOAD,
    UPSERT_SPAN,
    USAGE,
)
from stepd.store.sqlite.transaction import Transaction
from stepd.store.summing import kept
from stepd.store.tables import OPEN_ROWS

PARK: Final = f"update steps set parked = ? where execution_id = ? and parked = ? and {OPEN_ROWS}"
CANCEL_HELD: Final = (
    "update steps set status = 'cancelled', parked = 0, due_at = null, timer_at = null "
    f"where execution_id = ? and parked = 2 and {OPEN_ROWS}"
)

DROP_SPAN: Final = "delete from spans where execution_id = ? and attempt_id = ? and span_id = ?"
DROP: Final = "delete from steps where execution_id = ? and ordinal = ? and idx = ?"


def write(transaction: Transaction, loaded: Loaded, changes: Changes) -> None:
    """Writes the changes of one decision, which saw ``loaded``; nothing where it changed nothing."""
    if changes.empty:
        return
    connection = transaction.connection
    if changes.bulk:
        _bulk(connection, changes)
    _execution(connection, loaded, changes)
    _steps(connection, loaded, changes)
    _attempts(connection, loaded, changes)
    _belongings(connection, changes)
    transaction.written(changes)


def _bulk(connection: sqlite3.Connection, changes: Changes) -> None:
    execution_id = changes.execution.id
    for kind, before, after in changes.bulk:
        match kind:
            case "park":
                connection.execute(PARK, (after, execution_id, before))
            case "cancel_held":
                connection.execute(CANCEL_HELD, (execution_id,))
            case "drop":
                connection.execute(DROP, (execution_id, before, after))
            case _:
                assert_never(kind)


def _execution(connection: sqlite3.Connection, loaded: Loaded, changes: Changes) -> None:
    if changes.created:
        connection.execute(EXECUTIONS.insert, astuple(changes.execution))
        _labels(connection, changes.execution)
        return
    update = EXECUTIONS.update(loaded.execution, changes.execution)
    if update is not None:
        connection.execute(*update)


def _labels(connection: sqlite3.Connection, execution: Execution) -> None:
    if len(execution.labels) <= 2:  # {}
        return
    labels: dict[str, str] = msgspec.json.decode(execution.labels)
    rows = [(key, value, execution.created_at, execution.id) for key, value in labels.items()]
    connection.executemany(INSERT_LABEL, rows)


def _steps(connection: sqlite3.Connection, loaded: Loaded, changes: Changes) -> None:
    for key, row in changes.steps.items():
        before = None if changes.bulk else loaded.steps.get(key)  # a bulk change may have changed it meanwhile
        if before is None:
            connection.execute(STEPS.upsert, astuple(row))
        elif (update := STEPS.update(before, row)) is not None:
            connection.execute(*update)


def _attempts(connection: sqlite3.Connection, loaded: Loaded, changes: Changes) -> None:
    for key, row in changes.attempts.items():
        before = loaded.attempts.get(key)
        if before is None:
            connection.execute(ATTEMPTS.insert, astuple(row))
        elif (update := ATTEMPTS.update(before, row)) is not None:
            connection.execute(*update)


def _belongings(connection: sqlite3.Connection, changes: Changes) -> None:
    id_ = changes.execution.id
    if changes.payloads:
        connection.executemany(UPSERT_PAYLOAD, [(id_, name, body) for name, body in changes.payloads.items()])
    if changes.events:
        connection.executemany(INSERT_EVENT, [(id_, *astuple(event)) for event in changes.events])
    if changes.dropped_spans:
        connection.executemany(DROP_SPAN, [(id_, *span) for span in changes.dropped_spans])
    if changes.spans:
        connection.executemany(UPSERT_SPAN, [(id_, span.attempt_id, span.span_id, span.body) for span in changes.spans])
    if changes.signals:
        connection.executemany(SIGNALS.upsert, [astuple(signal) for signal in changes.signals.values()])
    if changes.audit:
        connection.executemany(AUDIT.insert, [astuple(row) for row in changes.audit])
    for attempt_id, rows in changes.usage.items():
        connection.execute(CUT_USAGE, (attempt_id, len(rows)))
        connection.executemany(USAGE.upsert, [astuple(kept(row)) for row in rows])
    if changes.ledger:
        connection.executemany(LEDGER.insert, [astuple(row) for row in changes.ledger])
