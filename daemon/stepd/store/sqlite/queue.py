"""The claimable steps in the order in which they are dealt, fetched as far as they are needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from typing import Final

import msgspec

from stepd.engine.model import Step
from stepd.store.dealing import Desk, order_of, steps_wanted
from stepd.store.sqlite.rows import STEPS

CLAIMABLE: Final = "status = 'queued' and parked = 0"
STEPS_ONLY: Final = "and step in (select value from json_each(?))"
ORDER: Final = "order by priority desc, due_at, execution_created_at, execution_id, ordinal, idx limit ?"
OF_VERSION: Final = (
    f"select {STEPS.listed} from steps indexed by steps_claimable where workflow = ? and version = ? and {CLAIMABLE}"
)
OF_TENANT: Final = (
    f"select {STEPS.listed} from steps indexed by steps_claimable_by_tenant "
    f"where workflow = ? and version = ? and tenant = ? and {CLAIMABLE}"
)
ALL_OF_VERSION: Final = f"{OF_VERSION} {ORDER}"
SOME_OF_VERSION: Final = f"{OF_VERSION} {STEPS_ONLY} {ORDER}"
ALL_OF_TENANT: Final = f"{OF_TENANT} {ORDER}"
SOME_OF_TENANT: Final = f"{OF_TENANT} {STEPS_ONLY} {ORDER}"
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
    queues = [
        _Queue(connection, workflow, version, tenant, members)
        for (workflow, version, tenant), members in _queues(connection, desks).items()
    ]
    if len(queues) == 1:
        return queues[0].rows()
    return _each_once(merge(*(queue.rows() for queue in queues), key=order_of))


def _each_once(rows: Iterable[Step]) -> Iterator[Step]:
    """A step may stand in two queues: in its version's, and in its tenant's of that version."""
    given: set[tuple[str, int, int]] = set()
    for row in rows:
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

    def rows(self) -> Iterator[Step]:
        """The steps in order, until no desk has room. Each further look goes twice as deep, past what nobody took."""
        limit = sum(desk.room for desk in self._desks)
        given: set[tuple[str, int, int]] = set()
        while any(desk.room > 0 for desk in self._desks):
            found = self._fetch(limit)
            for row in found:
                if not given or (row.execution_id, row.ordinal, row.index) not in given:
                    yield row
            if len(found) < limit:
                return
            given.update((row.execution_id, row.ordinal, row.index) for row in found)
            limit *= 2

    def _fetch(self, limit: int) -> list[Step]:
        steps = steps_wanted(self._desks, self._workflow, self._version)
        of: tuple[object, ...] = (self._workflow, self._version)
        if self._tenant is not None:
            of = (*of, self._tenant)
        if steps is None:
            statement = ALL_OF_VERSION if self._tenant is None else ALL_OF_TENANT
        else:
            statement = SOME_OF_VERSION if self._tenant is None else SOME_OF_TENANT
            of = (*of, msgspec.json.encode(sorted(steps)).decode())
        return [STEPS.read(values) for values in self._connection.execute(statement, (*of, limit)).fetchall()]
