"""Reads of signals: those that no wait took, the executions that an event may reach, and those that it has reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepd.engine.model import Execution, Signal
from stepd.store.postgres.connections import Session
from stepd.store.postgres.tables import SIGNALS
from stepd.store.signals import PAYLOADS_BYTES, SIGNAL_HEADS, has_untaken

UNTAKEN: Final = (
    f"select {SIGNAL_HEADS}, ''::bytea as payload from signals "
    "where execution_id = any($1::text[]) and taken_by is null order by execution_id, number"
)
UNTAKEN_WITH_PAYLOADS: Final = (
    f"select {SIGNAL_HEADS}, case when total <= $2 then payload else ''::bytea end as payload from ("
    "select *, sum(octet_length(payload)) over (order by number) as total from signals "
    "where execution_id = $1 and taken_by is null) as summed order by number"
)
OPEN: Final = (
    "select id from executions where correlation = $1 and ended_at is null and id > $2 "
    "and ($3::text[] is null or tenant = any($3::text[])) order by id limit $4"
)
DELIVERED: Final = "select count(*) from signals where source = $1"


async def not_taken(session: Session, execution: Execution) -> list[Signal]:
    """The signals that no wait took before the execution ended, in order; none while it is open.

    A payload is there as long as all up to it have no more than ``PAYLOADS_BYTES``, else it is empty.
    """
    if not has_untaken(execution):
        return []
    found = await session.fetch(UNTAKEN_WITH_PAYLOADS, execution.id, PAYLOADS_BYTES)
    return [SIGNALS.read(values) for values in found]


async def untaken(session: Session, executions: Sequence[Execution]) -> list[Signal]:
    """The same of several executions, without payloads."""
    ids = [execution.id for execution in executions if has_untaken(execution)]
    return [SIGNALS.read(values) for values in await session.fetch(UNTAKEN, ids)]


async def correlated(
    session: Session, correlation: str, tenants: tuple[str, ...] | None, after: str, limit: int
) -> list[str]:
    """Ids of the open executions with this correlation, of these tenants (None: all), behind ``after``, by id."""
    return [id_ for (id_,) in await session.fetch(OPEN, correlation, after, tenants, limit)]


async def delivered(session: Session, source: str) -> int:
    """How many executions have taken or kept the signal of this event."""
    count: int = await session.fetchval(DELIVERED, source)
    return count
