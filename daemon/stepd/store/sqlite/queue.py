"""The claimable steps in the order in which they are dealt, fetched as far as they are needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import product
from typing import Final, TypeAlias

from stepd.engine.model import Step
from stepd.store.dealing import Desk, order_of
from stepd.store.sqlite.rows import STEPS

StepKey: TypeAlias = tuple[str, int, int]
QueueKey: TypeAlias = tuple[str, str, str | None, str | None]
"""Workflow, version, tenant (None: of all), step (None: all)."""
ANY: Final = (None,)

CLAIMABLE: Final = "status = 'queued' and parked = 0"
ORDER: Final = "order by priority desc, due_at, execution_created_at, execution_id, ordinal, idx limit ?"
OF_VERSION: Final = (
    f"{STEPS.select} indexed by steps_claimable where workflow = ? and version = ? and {CLAIMABLE} {ORDER}"
)
OF_STEP: Final = (
    f"{STEPS.select} indexed by steps_claimable_by_step "
    f"where workflow = ? and version = ? and step = ? and {CLAIMABLE} {ORDER}"
)
OF_TENANT: Final = (
    f"{STEPS.select} indexed by steps_claimable_by_tenant "
    f"where workflow = ? and version = ? and tenant = ? and {CLAIMABLE} {ORDER}"
)
OF_TENANTS_STEP: Final = (
    f"{STEPS.select} where (execution_id, ordinal, idx) in ("
    "select execution_id, ordinal, idx from steps indexed by steps_claimable_by_tenant "
    f"where workflow = ? and version = ? and tenant = ? and step = ? and {CLAIMABLE} {ORDER})"
)
"""Of a tenant's other steps only the index is read. The few rows found come in the order of their key."""
QUEUED_VERSIONS: Final = f"""
    with recursive queued (version) as (
        select min(version) from steps indexed by steps_claimable where workflow = ?1 and {CLAIMABLE}
        union all
        select (select min(version) from steps indexed by steps_claimable
                where workflow = ?1 and version > queued.version and {CLAIMABLE})
        from queued where queued.version is not null
    )
    select version from queued where version is not null"""
"""The versions of a workflow with a claimable step, one look-up each, however many steps are queued."""


def candidates(connection: sqlite3.Connection, desks: Sequence[Desk]) -> Iterator[Step]:
    """Claimable steps that may fit these desks, in order, each once, for as long as any of the desks has room."""
    queues = [_Queue(connection, key, members) for key, members in _queues(connection, desks).items()]
    if len(queues) == 1:
        return queues[0].rows()
    return _each_once(merge(*(queue.rows() for queue in queues), key=order_of))


def _each_once(rows: Iterable[Step]) -> Iterator[Step]:
    """A step may stand in several queues: its version's, its own, its tenant's."""
    given: set[StepKey] = set()
    for row in rows:
        key = _key_of(row)
        if key not in given:
            given.add(key)
            yield row


def _key_of(row: Step) -> StepKey:
    return row.execution_id, row.ordinal, row.index


def _queues(connection: sqlite3.Connection, desks: Sequence[Desk]) -> dict[QueueKey, list[Desk]]:
    """The desks by the queues they draw from."""
    queues: dict[QueueKey, list[Desk]] = {}
    queued: dict[str, list[str]] = {}
    for desk in desks:
        tenants: Iterable[str | None] = ANY if desk.request.tenants is None else desk.request.tenants
        for serve in desk.request.serves:
            steps: Iterable[str | None] = ANY if serve.steps is None else serve.steps
            if serve.version is not None:
                versions = [serve.version]
            elif (found := queued.get(serve.workflow)) is not None:
                versions = found
            else:
                rows = connection.execute(QUEUED_VERSIONS, (serve.workflow,))
                versions = queued[serve.workflow] = [version for (version,) in rows]
            for version, tenant, step in product(versions, tenants, steps):
                members = queues.setdefault((serve.workflow, version, tenant, step), [])
                if not members or members[-1] is not desk:
                    members.append(desk)
    return queues


class _Queue:
    """The claimable steps of one version, narrowed to a tenant, a step or both, for the desks that draw from it."""

    def __init__(self, connection: sqlite3.Connection, key: QueueKey, desks: list[Desk]) -> None:
        self._connection = connection
        self._key = key
        self._desks = desks

    def rows(self) -> Iterator[Step]:
        """The steps in order, until no desk has room. Each further look goes twice as deep, past what nobody took."""
        limit = sum(desk.room for desk in self._desks)
        given: set[StepKey] = set()
        while any(desk.room > 0 for desk in self._desks):
            found = self._fetch(limit)
            for row in found:
                if not given or _key_of(row) not in given:
                    yield row
            if len(found) < limit:
                return
            given.update(map(_key_of, found))
            limit *= 2

    def _fetch(self, limit: int) -> list[Step]:
        workflow, version, tenant, step = self._key
        if tenant is None and step is None:
            found = self._connection.execute(OF_VERSION, (workflow, version, limit))
        elif tenant is None:
            found = self._connection.execute(OF_STEP, (workflow, version, step, limit))
        elif step is None:
            found = self._connection.execute(OF_TENANT, (workflow, version, tenant, limit))
        else:
            found = self._connection.execute(OF_TENANTS_STEP, (workflow, version, tenant, step, limit))
        rows = [STEPS.read(values) for values in found.fetchall()]
        return sorted(rows, key=order_of) if len(rows) > 1 else rows
