"""The store on PostgreSQL: its parts put together behind the contract of a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from stepd.clock import Clock
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
from stepd.store.postgres import (
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
from stepd.store.postgres.address import without_secrets
from stepd.store.postgres.commits import Commits
from stepd.store.postgres.connections import Pool, Session
from stepd.store.postgres.errors import NEVER, code_of, unavailable
from stepd.store.postgres.listener import Listener
from stepd.store.postgres.notices import Teller
from stepd.store.postgres.roles import check_role
from stepd.store.postgres.sessions import Sessions
from stepd.store.postgres.standing import check_schema, check_server
from stepd.store.reads import SpanKey, SpanLine, Traced
from stepd.store.records import AuditFilter, AuditRow, KeyRow, KeySource, ServiceRow, SignInRow, WorkerRow
from stepd.store.versions import Definitions

R = TypeVar("R")

ENCODING: Final = "select current_setting('server_encoding')"


class PostgresStore:
    """A store on one database, for any number of daemons. What its methods promise is said in ``stepd.store.base``."""

    def __init__(
        self, url: str, settings: Settings, clock: Clock | None = None, *, allow_owner_role: bool = False
    ) -> None:
        self.settings = settings
        self._url = url
        self._allow_owner_role = allow_owner_role
        self._clock = clock
        """None: the server's own, which all daemons share."""
        self._definitions = Definitions()
        self._operations = Operations(settings)
        self._teller = Teller()
        self._listener = Listener(url, self._teller)
        self._parts: tuple[Commits, Sessions] | None = None

    @property
    def alone(self) -> bool:
        return self._listener.alone

    async def open(self) -> None:
        pool = await Pool.open(self._url)
        sessions = Sessions(pool, self._teller, self._clock)
        try:
            await sessions.read(self._check)
            await self._listener.start()
        except BaseException as error:
            await self._listener.close()
            await pool.close()
            raise self._said(error) from error
        commits = Commits(self._url, self._operations, self._definitions, self._clock, self._teller)
        self._parts = commits, sessions

    def _said(self, error: BaseException) -> BaseException:
        """Refused where the database will never do as it is; unavailable where it may in a moment."""
        shown = without_secrets(self._url)
        if isinstance(error, ValueError):  # what the driver says of a URL
            return StoreRefused(f"The URL {shown} makes no sense: write it as postgresql://user@host:5432/database.")
        told = unavailable(error)
        if told is None or code_of(told.__cause__ or error)[:2] not in NEVER:
            return told or error
        return StoreRefused(f"The database {shown} can't be used: {told}")

    async def admit_others(self) -> None:
        await self._listener.admit_others()

    async def close(self) -> None:
        if self._parts is not None:
            commits, sessions = self._parts
            await commits.close()
            await sessions.close()
        await self._listener.close()

    def on_commit(self, tell: Callable[[Tell], None]) -> None:
        self._teller.hear = tell

    async def submit(self, *operations: Operation) -> list[Any]:
        return await self._commits.run(operations)

    async def now(self) -> int:
        return await self._read(self._sessions.now)

    # -- workflows ----------------------------------------------------------------------------------------------

    async def register(self, compiled: Compiled, audit: Audit | None) -> tuple[VersionRow, bool, str]:
        answer = await self._write(lambda session, now: definitions.register(session, now, compiled, audit))
        if answer[0].digest == compiled.digest:
            self._definitions.keep(compiled)
        return answer

    async def make_current(self, workflow: str, version: str, audit: Audit) -> bool:
        return await self._write(lambda session, _: definitions.make_current(session, workflow, version, audit))

    async def workflows(self, name: str | None, scope: Scope) -> list[WorkflowRow]:
        return await self._look(lambda session: definitions.workflows(session, name, scope))

    async def definition(self, workflow: str, version: str) -> Compiled | None:
        known = self._definitions.cached(workflow, version)
        if known is not None:
            return known
        return await self._read(lambda session: definitions.find(self._definitions, session, workflow, version))

    # -- executions ---------------------------------------------------------------------------------------------

    async def execution(
        self, execution_id: str, scope: Scope, *, attempts: bool = False, payloads: bool = False
    ) -> ExecutionRows | None:
        return await self._look(lambda session: views.view(session, execution_id, scope, attempts, payloads))

    async def items(
        self, execution_id: str, scope: Scope, page: ItemsPage, *, attempts: bool = False, payloads: bool = False
    ) -> ExecutionRows | None:
        return await self._look(lambda session: views.items(session, execution_id, scope, page, attempts, payloads))

    async def standing(self, execution_id: str, scope: Scope) -> Execution | None:
        return await self._read(lambda session: views.standing(session, execution_id, scope))

    async def executions(self, filter_: ExecutionFilter, scope: Scope, limit: int) -> list[Execution]:
        return await self._read(lambda session: lists.executions(session, filter_, scope, limit))

    async def untaken(self, executions: Sequence[Execution]) -> list[Signal]:
        return await self._read(lambda session: signals.untaken(session, executions))

    async def correlated(self, correlation: str, tenants: tuple[str, ...] | None, after: str, limit: int) -> list[str]:
        return await self._read(lambda session: signals.correlated(session, correlation, tenants, after, limit))

    async def delivered(self, source: str) -> int:
        return await self._read(lambda session: signals.delivered(session, source))

    async def events(self, execution_id: str, after: int, limit: int) -> list[Event]:
        return await self._read(lambda session: views.events(session, execution_id, after, limit))

    async def spans(self, execution_id: str, after: SpanKey, limit: int) -> list[SpanLine]:
        return await self._read(lambda session: views.spans(session, execution_id, after, limit))

    async def loose_spans(self, execution_id: str, keys: Sequence[str]) -> list[SpanLine]:
        return await self._read(lambda session: tracing.loose_spans(session, execution_id, keys))

    async def loose_count(self, execution_id: str, owner: str, limit: int) -> int:
        return await self._read(lambda session: tracing.loose_count(session, execution_id, owner, limit))

    async def traced(self, trace_ids: Sequence[str], span_ids: Sequence[str], scope: Scope) -> Traced:
        now = await self.now()
        return await self._read(lambda session: tracing.traced(session, trace_ids, span_ids, scope, now))

    async def queue(self, scope: Scope) -> list[QueueLine]:
        return await self._read(lambda session: lists.queue(session, scope))

    async def queued_executions(self, lines: Sequence[tuple[str, str, str, str | None]], limit: int) -> list[str]:
        return await self._read(lambda session: lists.queued_executions(session, lines, limit))

    async def counts(self) -> dict[str, int]:
        return await self._read(lists.counts)

    async def flight(self) -> dict[str, int]:
        return await self._read(lists.flight)

    async def remembered(self, principal: str, target: str, key: str) -> Idempotency | None:
        return await self._read(lambda session: records.remembered(session, principal, target, key))

    async def resolution(self, execution_id: str, key: str) -> Ledger | None:
        return await self._read(lambda session: loading.resolution(session, execution_id, key))

    # -- workers, keys, the service -----------------------------------------------------------------------------

    async def seen(self, rows: Sequence[WorkerRow]) -> None:
        await self._write(lambda session, _: records.seen(session, rows))

    async def workers(self, since: int) -> list[WorkerRow]:
        return await self._read(lambda session: records.workers(session, since))

    async def held_leases(
        self, tenants: tuple[str, ...] | None = None, *, until: int | None = None
    ) -> dict[tuple[str, str, str], int]:
        return await self._read(lambda session: records.held_leases(session, tenants, until))

    async def keys(self) -> list[KeyRow]:
        return await self._read(records.keys)

    async def add_key(self, row: KeyRow, audit: Audit | None, *, first: bool = False) -> bool:
        return await self._write(lambda session, _: records.add_key(session, row, audit, first), keys=True)

    async def revoke_key(self, key_id: str, by: KeySource, audit: Audit) -> bool:
        return await self._write(lambda session, now: records.revoke_key(session, now, key_id, by, audit), keys=True)

    async def sign_in(self, row: SignInRow, audit: Audit) -> None:
        await self._write(lambda session, _: sign_ins.sign_in(session, row, audit))

    async def signed_in(self, id_hash: str) -> SignInRow | None:
        return await self._read(lambda session: sign_ins.signed_in(session, id_hash))

    async def sign_out(self, id_hash: str) -> None:
        await self._write(lambda session, _: sign_ins.sign_out(session, id_hash))

    async def service(self) -> ServiceRow:
        return await self._write(lambda session, _: records.service(session))

    async def share_settings(self, settings: bytes) -> bytes:
        return await self._write(lambda session, _: records.share_settings(session, settings))

    async def audit(self, rows: Sequence[Audit]) -> None:
        await self._write(lambda session, _: records.write_audit(session, rows))

    async def audited(self, filter_: AuditFilter, tenants: tuple[str, ...] | None, limit: int) -> list[AuditRow]:
        return await self._read(lambda session: records.audited(session, filter_, tenants, limit))

    # -- prices and usage ---------------------------------------------------------------------------------------

    async def prices(self, version: int | None = None, *, newer_than: int = 0) -> PricesRow | None:
        return await self._read(lambda session: accounts.prices(session, version, newer_than))

    async def put_prices(self, row: PricesRow, audit: Audit) -> PricesRow | str:
        return await self._write(lambda session, _: accounts.put_prices(session, row, audit), prices=True)

    async def usage(self, filter_: UsageFilter, tenants: tuple[str, ...] | None, limit: int) -> list[UsageSum]:
        return await self._read(lambda session: accounts.usage(session, filter_, tenants, limit))

    # -- loops --------------------------------------------------------------------------------------------------

    async def pulse(self) -> bool:
        return await self._sessions.transact(self._sessions.pulse)

    async def due(self, limit: int) -> list[Due]:
        async def look(session: Session) -> list[Due]:
            return await upkeep.due(session, await self._sessions.now(session), limit)

        return await self._read(look)

    async def next_due(self) -> int | None:
        return await self._read(upkeep.next_due)

    async def errands(self, limit: int) -> list[Errand]:
        return await self._read(lambda session: upkeep.errands(session, limit))

    async def news(self, execution_id: str) -> tuple[Execution, bytes | None] | None:
        return await self._look(lambda session: upkeep.news(session, execution_id))

    async def with_blocked_child(self, limit: int) -> list[str]:
        return await self._read(lambda session: upkeep.with_blocked_child(session, limit))

    async def open_executions(self, after: str, limit: int) -> list[str]:
        return await self._read(lambda session: upkeep.open_executions(session, after, limit))

    async def remove_ended(self, limit: int) -> int:
        removed = 0
        while removed <= limit:
            while await self._write(lambda session, _: removal.clear_leavings(session)):
                pass
            room = limit - removed
            count = await self._write(partial(removal.remove_ended, limit=room))
            if count == 0:
                break
            removed += count
        return removed

    async def forget(self, limit: int) -> int:
        forgotten = 0
        for statement, kept_ms in (*removal.FORGET, (removal.FORGET_USAGE, self.settings.usage_retention_ms)):
            room = limit
            while room > 0:
                act = partial(removal.forget, statement=statement, kept_ms=kept_ms, limit=room)
                if (count := await self._write(act)) == 0:
                    break
                room -= count
            forgotten += limit - room
        return forgotten

    # -- parts --------------------------------------------------------------------------------------------------

    async def _check(self, connection: Any) -> None:
        await check_server(connection)
        if await connection.fetchval(ENCODING) != "UTF8":
            raise StoreRefused(f"The database {without_secrets(self._url)} is not in UTF-8; make one that is.")
        await check_schema(connection)
        await check_role(connection, allow_owner=self._allow_owner_role)

    @property
    def _commits(self) -> Commits:
        return self._open_parts()[0]

    @property
    def _sessions(self) -> Sessions:
        return self._open_parts()[1]

    def _open_parts(self) -> tuple[Commits, Sessions]:
        if self._parts is None:
            raise StoreUnavailable("The store is not open.")
        return self._parts

    async def _read(self, act: Callable[[Session], Coroutine[Any, Any, R]]) -> R:
        return await self._sessions.read(act)

    async def _look(self, act: Callable[[Session], Coroutine[Any, Any, R]]) -> R:
        return await self._sessions.look(act)

    async def _write(
        self, act: Callable[[Session, int], Awaitable[R]], *, keys: bool = False, prices: bool = False
    ) -> R:
        return await self._sessions.write(act, keys=keys, prices=prices)
