"""A transaction on PostgreSQL as the operations of all stores see it: rows are read when they are asked for, and all
that is decided is written together at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from stepd.clock import Clock
from stepd.engine.definition import Compiled
from stepd.engine.model import Attempt, Audit, Execution, Idempotency
from stepd.engine.work import Changes, Loaded, Need
from stepd.store.base import ExecutionRows, Scope
from stepd.store.dealing import Desk
from stepd.store.postgres import definitions, loading, views
from stepd.store.postgres.connections import Session
from stepd.store.postgres.held import Held
from stepd.store.postgres.pending import Pending, Statement
from stepd.store.postgres.queue import Candidates, Queue
from stepd.store.tables import OPEN_ROWS
from stepd.store.telling import News
from stepd.store.versions import Definitions

PARK: Final = f"update steps set parked = $1 where execution_id = $2 and parked = $3 and {OPEN_ROWS}"
CANCEL_HELD: Final = (
    "update steps set status = 'cancelled', parked = 0, due_at = null, timer_at = null "
    f"where execution_id = $1 and parked = 2 and {OPEN_ROWS}"
)
SEARCHES: Final = frozenset(
    {"rows", "own_rows", "items", "unsettled", "kept", "signal", "source", "attempts", "ledger", "success"}
)
"""Needs that are found by what stands in rows, so that these must be written first."""
DROP: Final = "delete from steps where execution_id = $1 and ordinal = $2 and idx = $3"
OCCUPANT: Final = "select id, status from executions where exclusive_key = $1"


class Operating:
    """What ``stepd.store.transactions.Transaction`` promises, on a connection inside a transaction."""

    def __init__(self, session: Session, known: Definitions, clock: Clock | None) -> None:
        self.session = session
        self.held = Held()
        self.queue = Queue(session, self.held)
        self.news = News()
        self.changed = 0
        """How many decisions have changed something."""
        self._definitions = known
        self._clock = clock
        self._now = 0
        self._pending = Pending()
        self._for_start: dict[tuple[str, str | None], Compiled | None] = {}
        """What new executions get: the same for all of this transaction."""

    @property
    def ready(self) -> bool:
        return self.news.ready

    @ready.setter
    def ready(self, ready: bool) -> None:
        self.news.ready = ready

    def now(self) -> int:
        return max(self._now, self.queue.seen_at) if self._clock is None else self._clock.now()

    async def lock(self, execution_ids: Sequence[str], attempt_ids: Sequence[str] = ()) -> None:
        """Locks executions, by their ids or those of attempts, and then reads the clock."""
        now = await loading.lock(self.session, self.held, execution_ids, attempt_ids, clock=self._clock is None)
        self._now = now or self._now

    async def execution(self, execution_id: str) -> Execution | None:
        if execution_id not in self.held.executions:
            await self.lock([execution_id])
        return self.held.executions[execution_id]

    async def attempt(self, attempt_id: str) -> Attempt | None:
        if attempt_id not in self.held.attempts:
            await self.lock([], [attempt_id])
        return self.held.attempts[attempt_id]

    async def load(self, loaded: Loaded, needs: Iterable[Need]) -> None:
        id_ = loaded.execution.id
        needs = list(needs)
        if self._pending.concerns(id_) and any(
            need.kind in SEARCHES and self.held.missing(id_, need) for need in needs
        ):
            await self.flush()
        await loading.read(self.session, self.held, [(id_, need) for need in needs])
        for need in needs:
            self.held.give(loaded, need)

    async def write(self, loaded: Loaded, changes: Changes) -> None:
        if changes.empty:
            return
        self.changed += 1
        if changes.bulk:
            await self.flush()
            await self._bulk(changes)
            self.held.forget_steps(changes.execution.id)
        self.held.apply(changes)
        self._pending.add(changes)
        self.news.written(changes)
        for row in changes.steps.values():
            self.queue.offer(row)

    async def definition(self, workflow: str, version: str) -> Compiled | None:
        return await definitions.find(self._definitions, self.session, workflow, version)

    async def definition_for_start(self, workflow: str, version: str | None) -> Compiled | None:
        key = (workflow, version)
        if key not in self._for_start:
            self._for_start[key] = await definitions.for_start(self._definitions, self.session, workflow, version)
        return self._for_start[key]

    async def occupant(self, exclusive_key: str) -> tuple[str, str] | None:
        await self.flush()
        found = await self.session.fetchrow(OCCUPANT, exclusive_key)
        return None if found is None else tuple(found)

    async def remembered(self, principal: str, target: str, key: str) -> Idempotency | None:
        call = (principal, target, key)
        if call not in self.held.calls:
            await loading.read_calls(self.session, self.held, [call])
        return self.held.calls[call]

    async def remember(self, row: Idempotency) -> None:
        self.changed += 1
        self.held.calls[(row.principal, row.target, row.key)] = row
        self._pending.add_call(row)

    async def audit(self, rows: Sequence[Audit]) -> None:
        self.changed += 1
        self._pending.add_audit(rows)

    async def view(self, execution_id: str) -> ExecutionRows | None:
        await self.flush()
        return await views.view(self.session, execution_id, Scope(), attempts=False, payloads=False)

    async def dealt(self, principal: str, claim_id: str) -> list[str] | None:
        if (principal, claim_id) not in self.held.claims:
            await loading.read_claims(self.session, self.held, [(principal, claim_id)])
        return self.held.claims[(principal, claim_id)]

    async def keep_dealt(self, principal: str, claim_id: str, leases: list[str]) -> None:
        self.held.claims[(principal, claim_id)] = leases
        self._pending.add_claim(principal, claim_id, leases, self.now())

    def candidates(self, desks: Sequence[Desk]) -> Candidates:
        return Candidates(self.queue, desks)

    async def flush(self, last: Statement | None = None) -> None:
        """Writes what was decided so far, and ``last`` with it."""
        pending, self._pending = self._pending, Pending()
        await pending.write(self.session, last)

    async def _bulk(self, changes: Changes) -> None:
        id_ = changes.execution.id
        for kind, before, after in changes.bulk:
            match kind:
                case "park":
                    await self.session.execute(PARK, after, id_, before)
                case "cancel_held":
                    await self.session.execute(CANCEL_HELD, id_)
                case "drop":
                    await self.session.execute(DROP, id_, before, after)
                case _:
                    assert_never(kind)
