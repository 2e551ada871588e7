"""The contract of a store: what it must do, in terms of behaviour, and the types that cross the seam.

Every ``submit`` runs inside a transaction that holds the executions' rows; many operations may share one commit, in the
order they came. A result is told only after that commit. One failing operation does not fail its neighbours. The time a
decision sees is the store's clock, read after its rows are locked. Stores know no rules: they compare only columns that
the engine filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from stepd.engine.commands import Command, Granted, Start
from stepd.engine.definition import Compiled
from stepd.engine.model import Audit, Event, Execution, Idempotency, Ledger, Signal
from stepd.engine.work import Settings
from stepd.store.accounts import Accounts
from stepd.store.keeping import Keep, KeyConflict, Remember, Replayed
from stepd.store.reads import (
    Due,
    Errand,
    ExecutionFilter,
    ExecutionRows,
    ItemsPage,
    QueueLine,
    Scope,
    SpanKey,
    SpanLine,
    Traced,
    VersionRow,
    WorkflowRow,
)
from stepd.store.records import AuditFilter, AuditRow, KeyRow, KeySource, ServiceRow, SignInRow, WorkerRow
from stepd.store.told import Batch, Tell

__all__ = [
    "COUNTED_MAX",
    "Batch",
    "Begin",
    "BeginChild",
    "Deal",
    "Dealt",
    "Decide",
    "Due",
    "Errand",
    "ExecutionFilter",
    "ExecutionRows",
    "ItemsPage",
    "Keep",
    "KeyConflict",
    "Operation",
    "QueueLine",
    "Remember",
    "Replayed",
    "Request",
    "Scope",
    "Serve",
    "Started",
    "Store",
    "StoreRefused",
    "StoreUnavailable",
    "Tell",
    "UnknownWorkflow",
    "VersionRow",
    "Viewed",
    "WorkflowRow",
]


COUNTED_MAX: Final = 1_000_000
"""Counting more of one kind would take too long for what it says."""


class StoreUnavailable(Exception):
    """The store can't be used now (locked, full, read-only, away). Nothing was done. ``retry_seconds`` is a hint."""

    def __init__(self, message: str, retry_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class StoreRefused(Exception):
    """The store can't be opened at all: another daemon has it, or its schema is another; the text says the way out."""


# -- operations: what ``submit`` takes ----------------------------------------------------------------------------


class Decide(msgspec.Struct):
    """Give ``command`` to one execution, named by its id or by one of its leases. Answer: what the engine answers.

    ``tenants`` narrows what exists for the caller (None: everything); ``started_by`` to what that principal started.
    An execution or lease that isn't there, or isn't the caller's, answers NotFound.
    """

    command: Command
    execution_id: str | None = None
    attempt_id: str | None = None
    tenants: tuple[str, ...] | None = None
    started_by: str | None = None
    idempotency: Remember | None = None
    seen_by: Scope | None = None
    """Where it is given, Done is answered as Viewed: with what this scope sees of the execution afterwards."""
    answer: Any = None
    """Filled in by the store before commit, so that a later operation of the same batch may look at it."""


class Begin(msgspec.Struct):
    """Start an execution. Answers Started, Replayed, KeyConflict, UnknownWorkflow, InvalidInput, Conflict ``occupied``.

    In this order: the remembered key; the version; the open exclusive execution; ``engine.machine.begin``.
    """

    start: Start
    version: str | None
    """None: the current one."""
    idempotency: Remember | None = None
    answer: Any = None


class Deal(msgspec.Struct):
    """Hand out work to waiting claims: in the order of priority (high first), ``due_at``, creation, id, ordinal, index.

    For each request: where its claim id was dealt leases before, the living ones of its tenants are renewed and
    answered; else up to ``max`` queued steps that fit. A candidate goes to the first request in the list that it fits
    and that has room. Answers a list of ``Dealt``, one a request, in order.
    """

    requests: Sequence[Request]
    only_if: Callable[[], bool] | None = None
    """Looked at inside the batch: False answers every request with nothing."""
    answer: Any = None


class BeginChild(msgspec.Struct):
    """Start the child that this step of an execution is to have (errand ``start``), and tell the step what came of it.

    Both in one transaction that holds the parent's row; the child's is new. Does nothing where that errand is gone.
    Answers Done with the parent's status, or NotFound.
    """

    execution_id: str
    ordinal: int
    index: int
    answer: Any = None


class Request(msgspec.Struct):
    """One waiting claim, as the store sees it."""

    principal: str
    worker: str
    instance: str
    claim_id: str
    max: int
    serves: tuple[Serve, ...]
    tenants: tuple[str, ...] | None
    """None: all, also null; else only these."""
    answer_bytes: int = 8_388_608
    """The bound of what the leases of one answer may weigh together; one lease at least is given."""
    looked_up: bool = False
    """Set by the store when its claim id had been dealt nothing: while it waits, that needs no look at each deal."""


class Serve(msgspec.Struct, frozen=True):
    """One entry of ``serves``: version None means any, steps None means all."""

    workflow: str
    version: str | None = None
    steps: frozenset[str] | None = None


class Dealt(msgspec.Struct):
    """What one request was given. ``known``: its claim id had been dealt leases before."""

    leases: list[Granted]
    known: bool = False


class Started(msgspec.Struct):
    """The execution as it stands after its start (payloads ``input`` and ``state`` come with it)."""

    rows: ExecutionRows
    definition: Compiled


class Viewed(msgspec.Struct):
    """A command was carried out; ``rows`` is the execution as it stands then, None where it is out of sight."""

    execution_id: str
    status: str
    rows: ExecutionRows | None
    definition: Compiled


class UnknownWorkflow(msgspec.Struct):
    """No such workflow, or no such version of it."""


Operation: TypeAlias = Decide | Begin | Deal | BeginChild | Keep


class Store(Accounts, Protocol):
    """Where executions live. Every method may raise StoreUnavailable; none leaves anything half-done."""

    settings: Settings

    @property
    def alone(self) -> bool:
        """Once it is open: no other daemon serves from this store. None can start before ``admit_others``."""

    async def open(self) -> None:
        """Opens it, brings its schema up where that is this store's way, and finds out whether this daemon is alone.

        Raises StoreRefused.
        """

    async def admit_others(self) -> None:
        """Lets other daemons start, as far as this store is for more than one; called before anything is served."""

    async def close(self) -> None:
        """Waits for the batch in hand, closes everything, lets the hold go."""

    def on_commit(self, tell: Callable[[Tell], None]) -> None:
        """Registers the one listener that hears of each commit (on the loop)."""

    async def submit(self, *operations: Operation) -> list[Any]:
        """Runs the operations in order inside one transaction and commits; answers one result each.

        Operations submitted together share the transaction. Raises StoreUnavailable (nothing was done).
        """

    async def now(self) -> int:
        """The store's clock, ms."""

    # workflows
    async def register(self, compiled: Compiled, audit: Audit | None) -> tuple[VersionRow, bool, str]:
        """Keeps a version: ``(row as it stands, whether it is new, current version)``.

        Where the version stands with another digest, the row that stands is answered unchanged.
        """

    async def make_current(self, workflow: str, version: str, audit: Audit) -> bool:
        """Makes a version current for new executions; False where there is no such version."""

    async def workflows(self, name: str | None, scope: Scope) -> list[WorkflowRow]:
        """The workflows by name; of open executions only those in scope are counted."""

    async def definition(self, workflow: str, version: str) -> Compiled | None:
        """The compiled version, from memory where it was used before."""

    # executions
    async def execution(
        self, execution_id: str, scope: Scope, *, attempts: bool = False, payloads: bool = False
    ) -> ExecutionRows | None:
        """One execution in scope, as committed, in one consistent look.

        Of each step comes its own row, none of its items. Payloads ``input``, ``state``, ``output``, ``outcome`` always
        come; those of the steps and attempts that come (inputs and outputs, late outcomes, progress) with ``payloads``;
        their attempts with ``attempts``.
        """

    async def items(
        self, execution_id: str, scope: Scope, page: ItemsPage, *, attempts: bool = False, payloads: bool = False
    ) -> ExecutionRows | None:
        """The rows of a page of a step's items, by index, each as a step of ``execution`` comes, but without what is
        the execution's own. None where there is no such execution in scope.
        """

    async def standing(self, execution_id: str, scope: Scope) -> Execution | None:
        """The execution's row alone."""

    async def executions(self, filter_: ExecutionFilter, scope: Scope, limit: int) -> list[Execution]:
        """Newest (or oldest) first by ``(created_at, id)``."""

    async def untaken(self, executions: Sequence[Execution]) -> list[Signal]:
        """The signals that no wait took before their execution ended, without payloads."""

    async def correlated(self, correlation: str, tenants: tuple[str, ...] | None, after: str, limit: int) -> list[str]:
        """Ids of open executions with this correlation, of these tenants (None: all), behind ``after``, by id."""

    async def delivered(self, source: str) -> int:
        """How many executions have received the signal of this event."""

    async def events(self, execution_id: str, after: int, limit: int) -> list[Event]:
        """Events with ``seq > after``, in order."""

    async def spans(self, execution_id: str, after: SpanKey, limit: int) -> list[SpanLine]:
        """The execution's attempts and kept spans behind ``after``, by ``SpanLine.key``."""

    async def loose_spans(self, execution_id: str, keys: Sequence[str]) -> list[SpanLine]:
        """The spans of an execution that are kept under these keys, see ``engine.landings``."""

    async def loose_count(self, execution_id: str, owner: str, limit: int) -> int:
        """How many are kept under keys that begin so; no more are counted than ``limit``."""

    async def traced(self, trace_ids: Sequence[str], span_ids: Sequence[str], scope: Scope) -> Traced:
        """What is known of these traces and spans, in hex as on the wire; of executions in scope only."""

    async def queue(self, scope: Scope) -> list[QueueLine]:
        """The claimable steps, counted by workflow, version, step and tenant."""

    async def queued_executions(self, lines: Sequence[tuple[str, str, str, str | None]], limit: int) -> list[str]:
        """Ids of executions that have a claimable step of one of these ``(workflow, version, step, tenant)``."""

    async def counts(self) -> dict[str, int]:
        """Executions by status, those that there are; of each status no more than ``COUNTED_MAX`` are counted."""

    async def flight(self) -> dict[str, int]:
        """Attempts that have not ended, by status."""

    # calls with a key
    async def remembered(self, principal: str, target: str, key: str) -> Idempotency | None:
        """The first answer kept under this key."""

    async def resolution(self, execution_id: str, key: str) -> Ledger | None:
        """The resolution of an execution that was made with this key; also when the execution is gone."""

    # workers
    async def seen(self, rows: Sequence[WorkerRow]) -> None:
        """Notes workers' lives."""

    async def workers(self, since: int) -> list[WorkerRow]:
        """Lives seen since that time."""

    async def held_leases(
        self, tenants: tuple[str, ...] | None = None, *, until: int | None = None
    ) -> dict[tuple[str, str, str], int]:
        """Leases in flight by (principal, worker, instance); only those for executions of these tenants, and those
        handed out at ``until`` (ms, store's clock) at the latest.
        """

    # keys and the service
    async def keys(self) -> list[KeyRow]:
        """Every key that ever was, revoked ones too."""

    async def add_key(self, row: KeyRow, audit: Audit | None, *, first: bool = False) -> bool:
        """Keeps a key; told after the commit. ``first``: False, and nothing kept, where there ever was one before."""

    async def revoke_key(self, key_id: str, by: KeySource, audit: Audit) -> bool:
        """Revokes it at once, and notes by whom; told after the commit. False where there is none alive."""

    async def sign_in(self, row: SignInRow, audit: Audit) -> None:
        """Keeps a sign-in to the page."""

    async def signed_in(self, id_hash: str) -> SignInRow | None:
        """The sign-in with this hash, also where its time is over and it was not forgotten yet."""

    async def sign_out(self, id_hash: str) -> None:
        """Ends a sign-in; nothing where there is none."""

    async def service(self) -> ServiceRow:
        """The service's row, made on first use."""

    async def share_settings(self, settings: bytes) -> bytes:
        """Writes the shared settings where none are; answers those that stand."""

    async def audit(self, rows: Sequence[Audit]) -> None:
        """Writes audit rows that belong to no change (reads, refused attempts)."""

    async def audited(self, filter_: AuditFilter, tenants: tuple[str, ...] | None, limit: int) -> list[AuditRow]:
        """The audit log, newest first by ``(at, number)``; of these tenants only (None: everything)."""

    # loops
    async def pulse(self) -> bool:
        """Moves the pulse; where it was older than 5 s, gives grace in the same transaction and answers True.

        Grace: ``expires_at`` of every lease not orphaned yet becomes at least now + its ``lease_ms`` (``reclaim_at``
        as far behind it as before and ``next_at`` to match), and ``reclaim_at`` of every orphan at least now + its
        ``reclaim_ms``.
        """

    async def due(self, limit: int) -> list[Due]:
        """What the sweeper must look at now, oldest first; held and paused steps are not."""

    async def next_due(self) -> int | None:
        """The earliest time (ms) at which ``due`` will answer something."""

    async def errands(self, limit: int) -> list[Errand]:
        """What stands to be carried between executions, up to ``limit`` of steps and of children each."""

    async def news(self, execution_id: str) -> tuple[Execution, bytes | None] | None:
        """The row of an execution, as committed, with its output if it has one; None where there is none."""

    async def with_blocked_child(self, limit: int) -> list[str]:
        """Ids of executions that have a child which needs reconciliation."""

    async def open_executions(self, after: str, limit: int) -> list[str]:
        """Ids of executions that have not ended, by id, for the judgement of a daemon that starts alone."""

    async def remove_ended(self, limit: int) -> int:
        """Removes up to ``limit`` ended executions past ``remove_at``, with all that is theirs; answers how many."""

    async def forget(self, limit: int) -> int:
        """Removes claims, idempotency keys, worker lives, audit rows and usage past their time; answers how many."""
