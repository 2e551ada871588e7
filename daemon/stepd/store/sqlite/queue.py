"""The claimable steps in the order in which they are dealt, fetched as far as they are needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Final

import msgspec

from stepd.engine.model import Step
from stepd.store.dealing import Desk, order_of, steps_wanted
from stepd.store.sqlite.rows import STEPS

CLAIMABLE: Final = "status = 'queued' and parked = 0"
ORDER: Final = "order by priority desc, due_at, execution_created_at, execution_id, ordinal, idx limit ?"
STEPS_ONLY: Final = "and step in (select value from json_each(?))"
BY_VERSION: Final = f"from steps indexed by steps_claimable where workflow = ? and version = ? and {CLAIMABLE}"
BY_TENANT: Final = (
    f"from steps indexed by steps_claimable_by_tenant where workflow = ? and version = ? and tenant = ? and {CLAIMABLE}"
)
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
    """Claimable steps that may fit these desks, in order, each once. What desks still want is looked at as it goes on.

    A step given before and not leased by then may be skipped over; one that is leased is never given again.
    """
    queues = [
        _Queue(connection, workflow, version, tenant, members)
        for (workflow, version, tenant), members in _queues(connection, desks).items()
    ]
    if len(queues) == 1:
        yield from queues[0].rows()
        return
    given: set[tuple[str, int, int]] = set()
    for row in merge(*(queue.rows() for queue in queues), key=order_of):
        key = (row.execution_id, row.ordinal, row.index)
        if key not in given:
            given.add(key)
            yield row


def _queues(connection: sqlite3.Connection, desks: Sequence[Desk]) -> dict[tuple[str, str, str | None], list[Desk]]:
    """The desks by the queues they draw from: workflow, version, and tenant where they may not see all."""
    queues: dict[tuple[str, str, str | None], list[Desk]] = {}
    queued: dict[str, list[str]] = {}
    for desk in desks:
        tenants: tuple[str | None, ...] = (None,) if desk.request.tenants is None else desk.request.tenants
        for serve in desk.request.serves:
            if serve.version is not None:
                versions = [serve.version]
            elif (found := queued.get(serve.workflow)) is not None:
                versions = found
            else:
                rows = connection.execute(QUEUED_VERSIONS, (serve.workflow,))
                versions = queued[serve.workflow] = [version for (version,) in rows]
            for version in versions:
                for tenant in tenants:
                    members = queues.setdefault((serve.workflow, version, tenant), [])
                    if not members or members[-1] is not desk:
                        members.append(desk)
    return queues


class _Queue:
    """The claimable steps of one version, or of one tenant of it, for the desks that draw from it."""

    def __init__(
        self, connection: sqlite3.Connection, workflow: str, version: str, tenant: str | None, desks: list[Desk]
    ) -> None:
        self._connection = connection
        self._workflow = workflow
        self._version = version
        self._tenant = tenant
        self._desks = desks
        self._given: set[tuple[str, int, int]] = set()

    def rows(self) -> Iterator[Step]:
        """The steps in order, until no desk has room. Each further look goes twice as deep, past what nobody took."""
        limit = sum(desk.room for desk in self._desks)
        while any(desk.room > 0 for desk in self._desks):
            found = self._fetch(limit)
            for row in found:
                key = (row.execution_id, row.ordinal, row.index)
                if key not in self._given:
                    self._given.add(key)
                    yield row
            if len(found) < limit:
                return
            limit *= 2

    def _fetch(self, limit: int) -> list[Step]:
        steps = steps_wanted(self._desks, self._workflow, self._version)
        parameters: list[object] = [self._workflow, self._version]
        statement = f"select {STEPS.listed} {BY_VERSION}"
        if self._tenant is not None:
            statement = f"select {STEPS.listed} {BY_TENANT}"
            parameters.append(self._tenant)
        if steps is not None:
            statement = f"{statement} {STEPS_ONLY}"
            parameters.append(msgspec.json.encode(sorted(steps)).decode())
        rows = self._connection.execute(f"{statement} {ORDER}", (*parameters, limit)).fetchall()
        return [STEPS.read(values) for values in rows]
