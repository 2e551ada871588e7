"""Reads of signals: those that no wait took, the executions that an event may reach, and those that it has reached."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from stepd.engine.model import Execution, Signal
from stepd.store.signals import PAYLOADS_BYTES, SIGNAL_HEADS, has_untaken
from stepd.store.sqlite.rows import SIGNALS

UNTAKEN: Final = (
    f"select {SIGNAL_HEADS}, x'' as payload, length(payload) from signals "
    "where execution_id = ? and taken_by is null order by number"
)
PAYLOAD: Final = "select payload from signals where execution_id = ? and number = ?"
OPEN: Final = (
    "select id from executions indexed by executions_correlation_open "
    "where correlation = ? and ended_at is null and id > ?{tenants} order by id limit ?"
)
DELIVERED: Final = "select count(*) from signals where source = ?"


def not_taken(connection: sqlite3.Connection, execution: Execution) -> list[Signal]:
    """The signals that no wait took before the execution ended, in order; none while it is open.

    A payload is there as long as all up to it have no more than ``PAYLOADS_BYTES``, else it is empty.
    """
    found, room = [], PAYLOADS_BYTES
    for signal, size in _untaken(connection, execution):
        room -= size
        if room >= 0:
            (signal.payload,) = connection.execute(PAYLOAD, (signal.execution_id, signal.number)).fetchone()
        found.append(signal)
    return found


def untaken(connection: sqlite3.Connection, executions: Sequence[Execution]) -> list[Signal]:
    """The same of several executions, without payloads."""
    return [signal for execution in executions for signal, _ in _untaken(connection, execution)]


def correlated(
    connection: sqlite3.Connection, correlation: str, tenants: tuple[str, ...] | None, after: str, limit: int
) -> list[str]:
    """Ids of the open executions with this correlation, of these tenants (None: all), behind ``after``, by id."""
    places = "" if tenants is None else f" and tenant in ({', '.join('?' * len(tenants))})"
    found = connection.execute(OPEN.format(tenants=places), (correlation, after, *(tenants or ()), limit))
    return [id_ for (id_,) in found]


def delivered(connection: sqlite3.Connection, source: str) -> int:
    """How many executions have taken or kept the signal of this event."""
    count: int = connection.execute(DELIVERED, (source,)).fetchone()[0]
    return count


def _untaken(connection: sqlite3.Connection, execution: Execution) -> list[tuple[Signal, int]]:
    if not has_untaken(execution):
        return []
    rows = connection.execute(UNTAKEN, (execution.id,))
    return [(SIGNALS.read(values[:-1]), values[-1]) for values in rows]
