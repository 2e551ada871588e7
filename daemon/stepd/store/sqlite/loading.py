"""Loads the rows that a decision needs, as few and as late as it can."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, assert_never

from stepd.engine.model import Attempt, Execution, Step
from stepd.engine.work import Loaded, Need
from stepd.store.sqlite.rows import ATTEMPTS, EXECUTIONS, STEPS

EXECUTION: Final = f"{EXECUTIONS.select} where id = ?"
ATTEMPT: Final = f"{ATTEMPTS.select} where id = ?"
STEP: Final = f"{STEPS.select} where execution_id = ? and ordinal = ? and idx = ?"
ALL_STEPS: Final = f"{STEPS.select} where execution_id = ? order by ordinal, idx"
UNSETTLED: Final = (
    f"{STEPS.select} where execution_id = ? and (lease_id is not null "
    "or (status in ('queued', 'retry_wait', 'waiting') and effect <> 'none')) order by ordinal, idx"
)
UNSETTLED_ATTEMPTS: Final = (
    f"select {ATTEMPTS.of('a')} from steps s join attempts a on a.id = s.lease_id "
    "where s.execution_id = ? and s.lease_id is not null"
)
PAYLOAD: Final = "select body from payloads where execution_id = ? and name = ?"


def execution(connection: sqlite3.Connection, execution_id: str) -> Execution | None:
    """The execution's row."""
    values = connection.execute(EXECUTION, (execution_id,)).fetchone()
    return None if values is None else EXECUTIONS.read(values)


def attempt(connection: sqlite3.Connection, attempt_id: str) -> Attempt | None:
    """The attempt's row."""
    values = connection.execute(ATTEMPT, (attempt_id,)).fetchone()
    return None if values is None else ATTEMPTS.read(values)


def step(connection: sqlite3.Connection, execution_id: str, ordinal: int, index: int) -> Step | None:
    """The step's row; None while it is pending."""
    values = connection.execute(STEP, (execution_id, ordinal, index)).fetchone()
    return None if values is None else STEPS.read(values)


def steps(connection: sqlite3.Connection, execution_id: str) -> list[Step]:
    """Every step row of the execution, in the order of the definition."""
    return [STEPS.read(values) for values in connection.execute(ALL_STEPS, (execution_id,))]


def load(connection: sqlite3.Connection, loaded: Loaded, needs: Iterable[Need]) -> None:
    """Adds to ``loaded`` what a decision said it needs."""
    for need in needs:
        match need.kind:
            case "step":
                _, _, ordinal, index = need
                loaded.steps[(ordinal, index)] = step(connection, loaded.execution.id, ordinal, index)
            case "attempt":
                found = attempt(connection, need.name)
                belongs = found is not None and found.execution_id == loaded.execution.id
                loaded.attempts[need.name] = found if belongs else None
            case "payload":
                values = connection.execute(PAYLOAD, (loaded.execution.id, need.name)).fetchone()
                loaded.payloads[need.name] = None if values is None else values[0]
            case "unsettled":
                _load_unsettled(connection, loaded)
            case "rows":
                rows = steps(connection, loaded.execution.id)
                loaded.steps.update({(row.ordinal, row.index): row for row in rows})
                loaded.rows = [(row.ordinal, row.index) for row in rows]
            case _:
                assert_never(need.kind)


def _load_unsettled(connection: sqlite3.Connection, loaded: Loaded) -> None:
    rows = [STEPS.read(values) for values in connection.execute(UNSETTLED, (loaded.execution.id,))]
    loaded.steps.update({(row.ordinal, row.index): row for row in rows})
    loaded.unsettled = [(row.ordinal, row.index) for row in rows]
    for values in connection.execute(UNSETTLED_ATTEMPTS, (loaded.execution.id,)):
        found = ATTEMPTS.read(values)
        loaded.attempts[found.id] = found
