"""The store on one SQLite file: its parts put together behind the contract of a store."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stepd.clock import Clock, SystemClock
from stepd.engine.definition import Compiled
from stepd.engine.model import Audit, Event, Execution, Idempotency, Ledger, Signal
from stepd.engine.work import Settings
from stepd.store.accounts import PricesRow, UsageFilter, UsageSum
from stepd.store.base import (
    Due,
    Errand,
    ExecutionFilter,
    ExecutionRows,
    ItemsPage,
    Operation,
    QueueLine,
    Scope,
    StoreRefused,
    StoreUnavailable,
    Tell,
    VersionRow,
    WorkflowRow,
)
from stepd.store.operations import Operations
from stepd.store.reads import SpanKey, SpanLine, Traced
from stepd.store.records import AuditFilter, AuditRow, KeyRow, KeySource, ServiceRow, SignInRow, WorkerRow
from stepd.store.sqlite import (
    accounts,
    definitions,
    lists,
    loading,
    records,
    removal,
    sign_ins,
    signals,
    tracing,
    upkeep,
    views,
)
from stepd.store.sqlite.checkpoints import Checkpoints
from stepd.store.sqlite.commits import Commits
from stepd.store.sqlite.errors import unavailable
from stepd.store.sqlite.hold import Hold
from stepd.store.sqlite.operating import Operating
from stepd.store.sqlite.presence import Presence
from stepd.store.sqlite.readers import Readers
from stepd.store.sqlite.schema import bring_up
from stepd.store.sqlite.transaction import Transaction
from stepd.store.transactions import run_now
from stepd.store.versions import Definitions


class SqliteStore:
    """A store on one file, for one daemon. What its methods promise is said once, in ``stepd.store.base.Store``.

    What writes, and short reads by key, run on the event loop; reads that may take long run on threads.
    """

    def __init__(self, file: Path, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._file = file.resolve()
        self._clock = clock or SystemClock()
        self._hold = Hold(self._file)
        self._definitions = Definitions()
        self._operations = Operations(settings)
        self._listener: Callable[[Tell], None] | None = None
        self._commits: Commits | None = None
        self._readers: Readers | None = None
        self._checkpoints: Checkpoints | None = None

    async def open(self) -> None:
        self._hold.take()
        try:
            await asyncio.to_thread(bring_up, self._file)
            presence = Presence(self._file)
            self._commits = Commits(self._file, self._clock, presence)
        except BaseException as error:
            self._hold.release()
            if isinstance(error, sqlite3.Error):
                message = f"The database {self._file} can't be opened: {unavailable(error) or error}"
                raise StoreRefused(message) from error
            raise
        self._readers = Readers(self._file, presence)
        self._checkpoints = Checkpoints(self._file, self._commits.look)
        self._commits.committed = self._checkpoints.committed
        if self._listener is not None:
            self._commits.tell = self._listener

    @property
    def alone(self) -> bool:
        return True  # one daemon only has the file's lock

    async def admit_others(self) -> None:
        pass

    async def close(self) -> None:
        if self._readers is not None:
            await self._readers.close()
        if self._commits is not None:
            await self._commits.drain()
        if self._checkpoints is not None:
            await self._checkpoints.close()
        if self._commits is not None:
            self._commits.close()
        self._hold.release()

    def on_commit(self, tell: Callable[[Tell], None]) -> None:
        self._listener = tell
        if self._commits is not None:
            self._commits.tell = tell

    async def submit(self, *operations: Operation) -> list[Any]:
        return await self.writer.run(lambda transaction: run_now(self._run(transaction, operations)))

    async def now(self) -> int:
        return self._clock.now()

    # -- workflows ----------------------------------------------------------------------------------------------

    async def register(self, compiled: Compiled, audit: Audit | None) -> tuple[VersionRow, bool, str]:
        answer = await self.writer.run(lambda transaction: definitions.register(transaction, compiled, audit))
        if answer[0].digest == compiled.digest:
            self._definitions.keep(compiled)
        return answer

    async def make_current(self, workflow: str, version: str, audit: Audit) -> bool:
        return await self.writer.run(
            lambda transaction: definitions.make_current(transaction, workflow, version, audit)
        )

    async def workflows(self, name: str | None, scope: Scope) -> list[WorkflowRow]:
        return await self.reader.run(lambda connection: definitions.workflows(connection, name, scope))

    async def definition(self, workflow: str, version: str) -> Compiled | None:
        return self.writer.look(lambda connection: definitions.find(self._definitions, connection, workflow, version))

    # -- executions ---------------------------------------------------------------------------------------------

    async def execution(
        self, execution_id: str, scope: Scope, *, attempts: bool = False, payloads: bool = False
    ) -> ExecutionRows | None:
        if not attempts and not payloads:
            try:
                return self.writer.look(lambda connection: views.small_view(connection, execution_id, scope))
            except views.TooLarge:
                pass
        return await self.reader.run(lambda connection: views.view(connection, execution_id, scope, attempts, payloads))

    async def items(
        self, execution_id: str, scope: Scope, page: ItemsPage, *, attempts: bool = False, payloads: bool = False
    ) -> ExecutionRows | None:
        return await self.reader.run(
            lambda connection: views.items(connection, execution_id, scope, page, attempts, payloads)
        )

    async def standing(self, execution_id: str, scope: Scope) -> Execution | None:
        return self.writer.look(lambda connection: views.standing(connection, execution_id, scope))

    async def executions(self, filter_: ExecutionFilter, scope: Scope, limit: int) -> list[Execution]:
        return await self.reader.run(lambda connection: lists.executions(connection, filter_, scope, limit))

    async def untaken(self, executions: Sequence[Execution]) -> list[Signal]:
        return await self.reader.run(lambda connection: signals.untaken(connection, executions))

    async def correlated(self, correlation: str, tenants: tuple[str, ...] | None, after: str, limit: int) -> list[str]:
        return self.writer.look(lambda connection: signals.correlated(connection, correlation, tenants, after, limit))

    async def delivered(self, source: str) -> int:
        return self.writer.look(lambda connection: signals.delivered(connection, source))

    async def events(self, execution_id: str, after: int, limit: int) -> list[Event]:
        if limit <= views.SMALL_EVENTS:
            return self.writer.look(lambda connection: views.events(connection, execution_id, after, limit))
        return await self.reader.run(lambda connection: views.events(connection, execution_id, after, limit))

    async def spans(self, execution_id: str, after: SpanKey, limit: int) -> list[SpanLine]:
        return await self.reader.run(lambda connection: views.spans(connection, execution_id, after, limit))

    async def loose_spans(self, execution_id: str, keys: Sequence[str]) -> list[SpanLine]:
        return await self.reader.run(lambda connection: tracing.loose_spans(connection, execution_id, keys))

    async def loose_count(self, execution_id: str, owner: str, limit: int) -> int:
        return await self.reader.run(lambda connection: tracing.loose_count(connection, execution_id, owner, limit))

    async def traced(self, trace_ids: Sequence[str], span_ids: Sequence[str], scope: Scope) -> Traced:
        now = await self.now()
        return await self.reader.run(lambda connection: tracing.traced(connection, trace_ids, span_ids, scope, now))

    async def queue(self, scope: Scope) -> list[QueueLine]:
        return await self.reader.run(lambda connection: lists.queue(connection, scope))

    async def queued_executions(self, lines: Sequence[tuple[str, str, str, str | None]], limit: int) -> list[str]:
        return await self.reader.run(lambda connection: lists.queued_executions(connection, lines, limit))

    async def counts(self) -> dict[str, int]:
        return await self.reader.run(lists.counts)

    async def flight(self) -> dict[str, int]:
        return await self.reader.run(lists.flight)

    async def remembered(self, principal: str, target: str, key: str) -> Idempotency | None:
        return self.writer.look(lambda connection: records.remembered(connection, principal, target, key))

    async def resolution(self, execution_id: str, key: str) -> Ledger | None:
        return self.writer.look(lambda connection: loading.resolution(connection, execution_id, key))

    # -- workers, keys, the service -----------------------------------------------------------------------------

    async def seen(self, rows: Sequence[WorkerRow]) -> None:
        await self.writer.run(lambda transaction: records.seen(transaction, rows))

    async def workers(self, since: int) -> list[WorkerRow]:
        return await self.reader.run(lambda connection: records.workers(connection, since))

    async def held_leases(
        self, tenants: tuple[str, ...] | None = None, *, until: int | None = None
    ) -> dict[tuple[str, str, str], int]:
        return await self.reader.run(lambda connection: records.held_leases(connection, tenants, until))

    async def keys(self) -> list[KeyRow]:
        return self.writer.look(records.keys)

    async def add_key(self, row: KeyRow, audit: Audit | None, *, first: bool = False) -> bool:
        return await self.writer.run(lambda transaction: records.add_key(transaction, row, audit, first))

    async def revoke_key(self, key_id: str, by: KeySource, audit: Audit) -> bool:
        return await self.writer.run(lambda transaction: records.revoke_key(transaction, key_id, by, audit))

    async def sign_in(self, row: SignInRow, audit: Audit) -> None:
        await self.writer.run(lambda transaction: sign_ins.sign_in(transaction, row, audit))

    async def signed_in(self, id_hash: str) -> SignInRow | None:
        return self.writer.look(lambda connection: sign_ins.signed_in(connection, id_hash))

    async def sign_out(self, id_hash: str) -> None:
        await self.writer.run(lambda transaction: sign_ins.sign_out(transaction, id_hash))

    async def service(self) -> ServiceRow:
        return await self.writer.run(records.service)

    async def share_settings(self, settings: bytes) -> bytes:
        return await self.writer.run(lambda transaction: records.share_settings(transaction, settings))

    async def audit(self, rows: Sequence[Audit]) -> None:
        await self.writer.run(lambda transaction: records.audit(transaction, rows))

    async def audited(self, filter_: AuditFilter, tenants: tuple[str, ...] | None, limit: int) -> list[AuditRow]:
        return await self.reader.run(lambda connection: records.audited(connection, filter_, tenants, limit))

    # -- prices and usage ---------------------------------------------------------------------------------------

    async def prices(self, version: int | None = None, *, newer_than: int = 0) -> PricesRow | None:
        return self.writer.look(lambda connection: accounts.prices(connection, version, newer_than))

    async def put_prices(self, row: PricesRow, audit: Audit) -> PricesRow | str:
        return await self.writer.run(lambda transaction: accounts.put_prices(transaction, row, audit))

    async def usage(self, filter_: UsageFilter, tenants: tuple[str, ...] | None, limit: int) -> list[UsageSum]:
        return await self.reader.run(lambda connection: accounts.usage(connection, filter_, tenants, limit))

    # -- loops --------------------------------------------------------------------------------------------------

    async def pulse(self) -> bool:
        return await self.writer.run(upkeep.pulse)

    async def due(self, limit: int) -> list[Due]:
        return self.writer.look(lambda connection: upkeep.due(connection, self._clock.now(), limit))

    async def next_due(self) -> int | None:
        return self.writer.look(upkeep.next_due)

    async def errands(self, limit: int) -> list[Errand]:
        return self.writer.look(lambda connection: upkeep.errands(connection, limit))

    async def news(self, execution_id: str) -> tuple[Execution, bytes | None] | None:
        return self.writer.look(lambda connection: upkeep.news(connection, execution_id))

    async def with_blocked_child(self, limit: int) -> list[str]:
        return await self.reader.run(lambda connection: upkeep.with_blocked_child(connection, limit))

    async def open_executions(self, after: str, limit: int) -> list[str]:
        return self.writer.look(lambda connection: upkeep.open_executions(connection, after, limit))

    async def remove_ended(self, limit: int) -> int:
        removed = 0
        while removed <= limit:
            while await self.writer.run(removal.clear_leavings):
                pass
            count = await self.writer.run(partial(removal.remove_ended, limit=limit - removed))
            if count == 0:
                break
            removed += count
        return removed

    async def forget(self, limit: int) -> int:
        forgotten = 0
        usage = partial(removal.forget, statement=removal.FORGET_USAGE, kept_ms=self.settings.usage_retention_ms)
        for forget in (*removal.FORGET, usage):
            room = limit
            while room > 0:
                if (count := await self.writer.run(partial(forget, limit=room))) == 0:
                    break
                room -= count
            forgotten += limit - room
        return forgotten

    # -- parts --------------------------------------------------------------------------------------------------

    async def _run(self, transaction: Transaction, operations: Sequence[Operation]) -> list[Any]:
        return await self._operations.run(Operating(transaction, self._definitions), operations)

    @property
    def writer(self) -> Commits:
        """What writes. Raises StoreUnavailable while the store is not open."""
        if self._commits is None:
            raise StoreUnavailable("The store is not open.")
        return self._commits

    @property
    def reader(self) -> Readers:
        """What reads at length. Raises StoreUnavailable while the store is not open."""
        if self._readers is None:
            raise StoreUnavailable("The store is not open.")
        return self._readers
