"""Loads the rows that a decision needs: from what the transaction's cache has, else from the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import cache
from typing import Final, assert_never

from stepd.engine.model import NO_INDEX, Attempt, Execution, Ledger, Step, outputs_span
from stepd.engine.work import Loaded, Need, StepKey
from stepd.store.signals import SIGNAL_HEADS
from stepd.store.sqlite.cache import Entry
from stepd.store.sqlite.rows import ATTEMPTS, EXECUTIONS, LEDGER, SIGNALS, STEPS
from stepd.store.sqlite.transaction import Transaction

EXECUTION: Final = f"{EXECUTIONS.select} where id = ?"
ATTEMPT: Final = f"{ATTEMPTS.select} where id = ?"
STEP: Final = f"{STEPS.select} where execution_id = ? and ordinal = ? and idx = ?"
ALL_STEPS: Final = f"{STEPS.select} where execution_id = ? order by ordinal, idx"
OWN_STEPS: Final = (
    f"{STEPS.select} where execution_id = ? and ordinal in (select value from json_each(?)) and idx = -1 "
    "order by ordinal"
)
"""Each step's own row, looked up by itself: beside one may stand ten thousand items."""
ITEMS: Final = f"{STEPS.select} where execution_id = ? and ordinal = ? and idx >= 0 order by idx"
OUTPUTS: Final = "select name, body from payloads where execution_id = ? and name >= ? and name < ?"
UNSETTLED: Final = (
    f"{STEPS.select} where execution_id = ? and (lease_id is not null "
    "or (status in ('queued', 'retry_wait', 'waiting') and effect <> 'none')) order by ordinal, idx"
)
UNSETTLED_ATTEMPTS: Final = (
    f"select {ATTEMPTS.of('a')} from steps s join attempts a on a.id = s.lease_id "
    "where s.execution_id = ? and s.lease_id is not null"
)
KEPT: Final = (
    f"select {SIGNAL_HEADS}, x'' as payload from signals "
    "where execution_id = ? and name = ? and taken_by is null order by number"
)
SIGNAL: Final = f"{SIGNALS.select} where execution_id = ? and number = ?"
SOURCE: Final = "select 1 from signals where source = ? and execution_id = ?"
ATTEMPTS_OF: Final = f"{ATTEMPTS.select} where execution_id = ? order by id"
SUCCESS: Final = (
    f"{STEPS.select} where execution_id = ? and standing_seq < ? "
    "and ordinal in (select value from json_each(?)) order by standing_seq desc limit 1"
)
RESOLUTION: Final = f"{LEDGER.select} where execution_id = ? and key = ?"
PAYLOAD: Final = "select body from payloads where execution_id = ? and name = ?"


def execution(transaction: Transaction, execution_id: str) -> Execution | None:
    """The execution's row."""
    entry = transaction.cache.get(execution_id)
    if entry is not None:
        return entry.execution
    row = read_execution(transaction.connection, execution_id)
    return None if row is None else transaction.cache.add(row).execution


def attempt(transaction: Transaction, attempt_id: str) -> Attempt | None:
    """The attempt's row."""
    row = transaction.cache.attempt(attempt_id)
    if row is not None:
        return row
    values = transaction.connection.execute(ATTEMPT, (attempt_id,)).fetchone()
    return None if values is None else ATTEMPTS.read(values)


def load(transaction: Transaction, loaded: Loaded, needs: Iterable[Need]) -> None:
    """Adds to ``loaded`` what a decision said it needs."""
    entry = _entry(transaction, loaded)
    for need in needs:
        kind, name, ordinal, index = need
        match kind:
            case "step":
                key = (ordinal, index)
                loaded.steps[key] = entry.steps.get(key) or _step(transaction, entry, key)
            case "attempt":
                found = attempt(transaction, name)
                belongs = found is not None and found.execution_id == loaded.execution.id
                loaded.attempts[name] = found if belongs else None
            case "payload":
                body = entry.payloads.get(name)
                loaded.payloads[name] = _payload(transaction, entry, name) if body is None else body
            case "unsettled":
                _load_unsettled(transaction, loaded)
            case "rows":
                rows = read_steps(transaction.connection, loaded.execution.id)
                loaded.rows = _add_steps(loaded, rows)
            case "own_rows":
                _load_own_rows(transaction, entry, loaded)
            case "items":
                _load_items(transaction, loaded, ordinal)
            case "kept":
                kept = transaction.connection.execute(KEPT, (loaded.execution.id, name))
                loaded.kept[name] = [SIGNALS.read(values) for values in kept]
            case "signal":
                values = transaction.connection.execute(SIGNAL, (loaded.execution.id, ordinal)).fetchone()
                loaded.signals[ordinal] = SIGNALS.read(values)
            case "source":
                found = transaction.connection.execute(SOURCE, (name, loaded.execution.id)).fetchone()
                loaded.sources[name] = found is not None
            case "attempts":
                _load_attempts(transaction, loaded)
            case "ledger":
                loaded.ledger[name] = resolution(transaction.connection, loaded.execution.id, name)
            case "success":
                _load_success(transaction, entry, loaded, need)
            case _:
                assert_never(kind)


def read_execution(connection: sqlite3.Connection, execution_id: str) -> Execution | None:
    """The execution's row, from the database."""
    values = connection.execute(EXECUTION, (execution_id,)).fetchone()
    return None if values is None else EXECUTIONS.read(values)


def read_steps(connection: sqlite3.Connection, execution_id: str) -> list[Step]:
    """Every step row of the execution in the order of the definition, from the database."""
    return [STEPS.read(values) for values in connection.execute(ALL_STEPS, (execution_id,))]


def read_own_steps(connection: sqlite3.Connection, execution: Execution) -> list[Step]:
    """Each step's own row in the order of the definition, from the database."""
    parameters = (execution.id, _ordinals(len(execution.graph)))
    return [STEPS.read(values) for values in connection.execute(OWN_STEPS, parameters)]


@cache
def _ordinals(count: int) -> str:
    return str(list(range(count)))


def resolution(connection: sqlite3.Connection, execution_id: str, key: str) -> Ledger | None:
    """The resolution of an execution that was made with this key."""
    values = connection.execute(RESOLUTION, (execution_id, key)).fetchone()
    return None if values is None else LEDGER.read(values)


def _entry(transaction: Transaction, loaded: Loaded) -> Entry:
    return transaction.cache.get(loaded.execution.id) or transaction.cache.add(loaded.execution)


def _step(transaction: Transaction, entry: Entry, key: StepKey) -> Step | None:
    if entry.whole and key[1] == NO_INDEX:
        return None
    values = transaction.connection.execute(STEP, (entry.execution.id, *key)).fetchone()
    if values is None:
        return None
    row = STEPS.read(values)
    entry.keep_steps({key: row})
    return row


def _payload(transaction: Transaction, entry: Entry, name: str) -> bytes | None:
    values = transaction.connection.execute(PAYLOAD, (entry.execution.id, name)).fetchone()
    if values is None:
        return None
    body: bytes = values[0]
    entry.keep_payload(name, body)
    return body


def _load_own_rows(transaction: Transaction, entry: Entry, loaded: Loaded) -> None:
    if entry.whole:
        loaded.own_rows = _add_steps(loaded, [row for row in entry.steps.values() if row.index == NO_INDEX])
        return
    loaded.own_rows = _add_steps(loaded, read_own_steps(transaction.connection, loaded.execution))
    entry.whole = True
    entry.keep_steps({key: row for key in loaded.own_rows if (row := loaded.steps[key]) is not None})


def _load_items(transaction: Transaction, loaded: Loaded, ordinal: int) -> None:
    connection, execution_id = transaction.connection, loaded.execution.id
    rows = [STEPS.read(values) for values in connection.execute(ITEMS, (execution_id, ordinal))]
    _add_steps(loaded, rows)
    loaded.payloads.update(connection.execute(OUTPUTS, (execution_id, *outputs_span(ordinal))))
    loaded.items.add(ordinal)


def _add_steps(loaded: Loaded, rows: Iterable[Step]) -> list[StepKey]:
    found = {(row.ordinal, row.index): row for row in rows}
    loaded.steps.update(found)
    return sorted(found)


def _load_unsettled(transaction: Transaction, loaded: Loaded) -> None:
    connection, execution_id = transaction.connection, loaded.execution.id
    rows = [STEPS.read(values) for values in connection.execute(UNSETTLED, (execution_id,))]
    loaded.steps.update({(row.ordinal, row.index): row for row in rows})
    loaded.unsettled = [(row.ordinal, row.index) for row in rows]
    for values in connection.execute(UNSETTLED_ATTEMPTS, (execution_id,)):
        found = ATTEMPTS.read(values)
        loaded.attempts[found.id] = found


def _load_attempts(transaction: Transaction, loaded: Loaded) -> None:
    loaded.all_attempts = []
    for values in transaction.connection.execute(ATTEMPTS_OF, (loaded.execution.id,)):
        found = ATTEMPTS.read(values)
        loaded.attempts[found.id] = found
        loaded.all_attempts.append(found.id)


def _load_success(transaction: Transaction, entry: Entry, loaded: Loaded, need: Need) -> None:
    values = transaction.connection.execute(SUCCESS, (loaded.execution.id, need.item, need.name)).fetchone()
    if values is None:
        loaded.successes[need] = None
        return
    row = STEPS.read(values)
    key = (row.ordinal, row.index)
    loaded.steps[key] = row
    loaded.successes[need] = key
    entry.keep_steps({key: row})
