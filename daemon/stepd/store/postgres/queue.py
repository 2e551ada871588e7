"""The claimable steps in the order in which they are dealt: found and locked as far as they are needed.

Steps whose execution another transaction has locked are passed over; whoever has it will tell when it is done.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, TypeAlias

from stepd.engine.model import Parked, Step
from stepd.store.base import Request
from stepd.store.dealing import Desk, Order, order_of
from stepd.store.postgres.connections import Session
from stepd.store.postgres.held import Held
from stepd.store.postgres.loading import MS
from stepd.store.postgres.tables import EXECUTIONS, STEPS, columns, unnested

QueueKey: TypeAlias = tuple[str, str | None, str | None, str | None]
"""Workflow, version, tenant, step; None for all."""
ANY: Final = (None,)
DEPTH_MAX: Final = 4_096
"""Deeper than this no queue is looked into for one transaction."""


def _found_by(*conditions: str) -> str:
    """One look into many queues: each by its index, to its own depth."""
    where = " and ".join(("s.workflow = k.workflow", "s.version = k.version", *conditions))
    return (
        f"select w.number, {MS}, f.* "
        f"from {unnested('bigint[]', 'text[]', 'text[]', 'text[]', 'text[]', 'bigint[]')} "
        "as w (number, workflow, version, tenant, step, depth) "
        "join versions k on k.workflow = w.workflow and (w.version is null or w.version = k.version) "
        f"cross join lateral (select {STEPS.of('s')}, {_of_execution()} "
        "from steps s join executions e on e.id = s.execution_id "
        f"where {where} and s.status = 'queued' and s.parked = 0 "
        "order by s.priority desc, s.due_at, s.execution_created_at, s.execution_id, s.ordinal, s.idx "
        "limit w.depth for update of e, s skip locked) f"
    )


def _of_execution() -> str:
    """The columns of the execution under names that no column of the step has."""
    return ", ".join(f"e.{column} as e_{column}" for column in EXECUTIONS.columns)


LOOKS: Final = {
    (False, False): _found_by(),
    (False, True): _found_by("s.step = w.step"),
    (True, False): _found_by("s.tenant = w.tenant"),
    (True, True): _found_by("s.tenant = w.tenant", "s.step = w.step"),
}
"""By whether a tenant and a step are named: each has an index of its own."""


def queues_of(request: Request) -> set[QueueKey]:
    """The queues that a request draws from."""
    tenants: Iterable[str | None] = ANY if request.tenants is None else request.tenants
    keys: set[QueueKey] = set()
    for serve in request.serves:
        steps: Iterable[str | None] = ANY if serve.steps is None else serve.steps
        keys.update((serve.workflow, serve.version, tenant, step) for tenant, step in product(tenants, steps))
    return keys


class Queue:
    """What a transaction knows of the claimable steps."""

    def __init__(self, session: Session, held: Held) -> None:
        self._session = session
        self._held = held
        self._order: list[tuple[Order, str, int, int]] = []
        self._known: set[tuple[str, int, int]] = set()
        self._depths: dict[QueueKey, int] = {}
        self.seen_at = 0
        """The server's clock once the last of them was locked, ms."""
        self._horizons: dict[QueueKey, Order | None] = {}
        """Up to where a queue is known; None where it is known to its end."""

    def offer(self, row: Step) -> None:
        """Adds a step, if it is claimable."""
        key = (row.execution_id, row.ordinal, row.index)
        if _claimable(row) and key not in self._known:
            self._known.add(key)
            insort(self._order, (order_of(row), *key))

    async def look(self, wanted: Counter[QueueKey]) -> None:
        """Looks into queues to the depths given, which may not be less than before."""
        for shape, statement in LOOKS.items():
            keys = [key for key in wanted if (key[2] is not None, key[3] is not None) == shape]
            if keys:
                await self._find(statement, keys, wanted)

    async def deepen(self, keys: Iterable[QueueKey]) -> None:
        """Looks twice as deep into queues."""
        await self.look(Counter({key: min(2 * self._depths[key], DEPTH_MAX) for key in keys}))

    def horizon(self, keys: Iterable[QueueKey]) -> tuple[Order, QueueKey] | None:
        """Up to where all of these queues are known, and which of them ends there; None where all are to their end."""
        known = [(horizon, key) for key in keys if (horizon := self._horizons[key]) is not None]
        return min(known, key=lambda one: one[0], default=None)

    def unknown(self, keys: Iterable[QueueKey]) -> list[QueueKey]:
        """Those of these queues that were not looked into."""
        return [key for key in keys if key not in self._horizons]

    def after(self, last: Order | None) -> tuple[Order, Step] | None:
        """The first claimable step behind this place of the order; None where there is none."""
        position = 0 if last is None else bisect_right(self._order, last, key=lambda entry: entry[0])
        while position < len(self._order):
            order, id_, ordinal, index = self._order[position]
            row = self._held.step(id_, (ordinal, index))
            if row is not None and _claimable(row) and order_of(row) == order:
                return order, row
            del self._order[position]
            self._known.discard((id_, ordinal, index))
            if row is not None:
                self.offer(row)
        return None

    def rows(self) -> Iterator[Step]:
        """The steps that are known, in order."""
        for _, id_, ordinal, index in self._order:
            row = self._held.step(id_, (ordinal, index))
            if row is not None:
                yield row

    async def _find(self, statement: str, keys: list[QueueKey], wanted: Counter[QueueKey]) -> None:
        depths = [wanted[key] for key in keys]
        found: list[dict[str, list[Order]]] = [{} for _ in keys]
        parameters = [list(range(len(keys))), *columns(keys), depths]
        for number, at, *values in await self._session.fetch(statement, *parameters):
            self.seen_at = at
            step = STEPS.read(values[: len(STEPS.columns)])
            execution = EXECUTIONS.read(values[len(STEPS.columns) :])
            self._held.executions.setdefault(execution.id, execution)
            self._held.keep_step(step)
            # It may have been changed here, and not have been written yet.
            self.offer(self._held.step(step.execution_id, (step.ordinal, step.index)) or step)
            found[number].setdefault(step.version, []).append(order_of(step))
        for key, depth, versions in zip(keys, depths, found, strict=True):
            self._depths[key] = depth
            cut_off = [max(orders) for orders in versions.values() if len(orders) >= depth]
            self._horizons[key] = min(cut_off) if cut_off and depth < DEPTH_MAX else None


def _claimable(row: Step) -> bool:
    return row.status == "queued" and row.parked == Parked.FREE


class Candidates:
    """Claimable steps for some desks, in order, each once, for as long as any of the desks has room."""

    def __init__(self, queue: Queue, desks: Sequence[Desk]) -> None:
        self._queue = queue
        self._desks = [(desk, queues_of(desk.request)) for desk in desks]
        self._last: Order | None = None

    async def next(self) -> Step | None:
        """The next step; None where there is none, or no desk has room."""
        while True:
            keys = {key for desk, queues in self._desks if desk.room > 0 for key in queues}
            if not keys:
                return None
            if unknown := self._queue.unknown(keys):
                room = sum(desk.room for desk, _ in self._desks)
                await self._queue.look(Counter(dict.fromkeys(unknown, room)))
            found, horizon = self._queue.after(self._last), self._queue.horizon(keys)
            if horizon is not None and (found is None or found[0] > horizon[0]):
                await self._queue.deepen([horizon[1]])
            elif found is None:
                return None
            else:
                self._last = found[0]
                return found[1]
