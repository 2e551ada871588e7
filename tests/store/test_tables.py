"""The tables of what happens, exactly, on each store: every cell is an execution of its own.

The cells are made from the tables that the engine itself runs by. A store is emptied once a table, not once a cell:
that takes ten times as long as a cell does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest

from stepd.engine import commands as c
from stepd.engine.model import Attempt
from stepd.engine.transitions import TRANSITIONS
from stepd.engine.verdicts import VERDICTS
from stepd.loops.recovery import recover
from stepd.loops.sweeper import Sweeper
from tests.store.shop import Shop, heartbeat, step

LEASE_MS = 30_000
RECLAIM_MS = 15_000
ACTOR = c.Actor("operator")


class Case:
    """One step of an execution that stands on a store beside others."""

    def __init__(self, shop: Shop, id_: str, granted: c.Granted | None) -> None:
        self.shop = shop
        self.id = id_
        self.granted = granted

    @classmethod
    async def begin(cls, shop: Shop, *, claimed: bool = True, definition: dict[str, Any], **step_: Any) -> Case:
        name = f"flow-{len(shop.told)}"
        definition.setdefault("steps", [step("only", **step_)])
        await shop.register(name, **definition)
        id_ = await shop.start(name)
        return cls(shop, id_, await shop.claim_one(workflow=name) if claimed else None)

    @property
    def lease(self) -> c.Granted:
        assert self.granted is not None
        return self.granted

    async def started(self) -> None:
        await self.shop.store.submit(heartbeat(self.lease, started=True))

    async def pass_time(self, ms: int) -> None:
        self.shop.clock.at += ms
        await sweep(self.shop)

    async def cancel(self, *, force: bool = False) -> None:
        await self.shop.command(self.id, c.Cancel(ACTOR, None, force))

    async def status(self) -> str:
        return await self.shop.status(self.id)

    async def step_status(self, name: str = "only") -> str:
        rows = (await self.shop.view(self.id)).steps
        return next(row.status for row in rows if row.step == name)

    async def attempt(self) -> Attempt:
        attempts = (await self.shop.view(self.id, attempts=True)).attempts
        return next(attempt for attempt in attempts if attempt.id == self.lease.attempt.id)


async def sweep(shop: Shop) -> None:
    """Deals with everything that is due."""

    async def nothing() -> None:
        """There is nothing to catch up with."""

    sweeper = Sweeper(shop.store, nothing)
    while await shop.store.due(1):
        await sweeper.run_once()


# -- an attempt -------------------------------------------------------------------------------------------------------

READS = frozenset({("running", "execution_ending"), ("orphaned", "execution_ending")})


async def attempt_in(shop: Shop, before: str, what: str) -> Case:
    """An attempt in that status, of a step to which that can happen."""
    effect = "non_idempotent_write" if before == "leased" else "idempotent_write"
    fields: dict[str, Any] = {"effect": "read_only" if (before, what) in READS else effect}
    if what == "timed_out":
        fields |= {"timeout_seconds": 20, "lease_seconds": 5, "reclaim_seconds": 60}
    definition = {"on_restart": "retry" if what == "taken_back" and before == "running" else "resume"}
    case = await Case.begin(shop, definition=definition, **fields)
    if before == "orphaned":
        await case.pass_time(6_000 if what == "timed_out" else LEASE_MS)
    assert (await case.attempt()).status == before
    return case


async def fail(case: Case, class_: str) -> None:
    await case.shop.fail(case.lease, class_, effect="none")


async def stopped(case: Case) -> None:
    await case.cancel()
    await fail(case, "cancelled")


async def taken_back(case: Case) -> None:
    status = (await case.attempt()).status
    if status == "running":
        await recover(case.shop.store)
    else:
        await case.pass_time(RECLAIM_MS if status == "orphaned" else LEASE_MS + RECLAIM_MS)


HAPPENS: dict[str, Callable[[Case], Awaitable[Any]]] = {
    "started": Case.started,
    "completed": lambda case: case.shop.complete(case.lease),
    "failed": lambda case: fail(case, "fatal"),
    "given_back": lambda case: fail(case, "interrupted"),
    "stopped": stopped,
    "lapsed": lambda case: case.pass_time(LEASE_MS),
    "taken_back": taken_back,
    "undelivered": lambda case: case.shop.command(case.id, c.GiveBack(case.lease.attempt.id)),
    "timed_out": lambda case: case.pass_time(20_000),
    "execution_ending": Case.cancel,
    "forced": lambda case: case.cancel(force=True),
    "restarted": lambda case: recover(case.shop.store),
}


async def test_an_attempt_goes_by_its_table(shop: Shop) -> None:
    for line in TRANSITIONS:
        if line.before is None:
            continue
        case = await attempt_in(shop, line.before, line.what)
        await HAPPENS[line.what](case)
        found = (await case.attempt()).status
        assert found == line.after, f"{line.before}, {line.what}: {found}, not {line.after}"


async def test_an_attempt_begins_as_its_delivery_says(shop: Shop) -> None:
    for delivery, status in (("at_most_once", "leased"), ("at_least_once", "running")):
        case = await Case.begin(shop, definition={}, delivery=delivery)
        assert (await case.attempt()).status == status


# -- failures ---------------------------------------------------------------------------------------------------------

COLUMNS = {
    "none": ("non_idempotent_write", "none"),
    "idempotent_unknown": ("idempotent_write", "unknown"),
    "other_unknown": ("non_idempotent_write", "unknown"),
    "idempotent_applied": ("idempotent_write", "applied"),
    "other_applied": ("non_idempotent_write", "applied"),
}
DISPOSITIONS = {"again": "retry_scheduled", "requeue": "requeued", "failed": "step_failed", "uncertain": "uncertain"}
NEVER = {("unservable", "other_unknown")}
"""An attempt before it that left this would have made the step uncertain."""


async def fails(shop: Shop, row: str, column: str) -> str:
    """The disposition of a failure of that row, for a step with that effect."""
    effect, left = COLUMNS[column]
    retry = {"max_attempts": 1 if row == "exhausted" else 5, "initial_seconds": 0}
    case = await Case.begin(shop, definition={}, effect=effect, retry=retry)
    if row == "unservable":
        if effect == "idempotent_write":
            await shop.fail(case.lease, "retryable", effect=left)
            await sweep(shop)
            case.granted = await shop.claim_one(workflow=case.lease.execution.workflow, instance="another")
        told = await shop.fail(case.lease, "unservable", effect=left)
        return str(told.disposition)
    await case.started()
    told = await shop.fail(case.lease, "fatal" if row == "fatal" else "retryable", effect=left)
    return str(told.disposition)


async def test_a_failure_goes_by_its_table(shop: Shop) -> None:
    for row, cells in VERDICTS.items():
        for column, verdict in cells.items():
            if (row, column) not in NEVER:
                found = await fails(shop, row, column)
                assert found == DISPOSITIONS[verdict], f"{row}, {column}: {found}"


# -- endings ----------------------------------------------------------------------------------------------------------


def by_the_rules(*, uncertain: bool, stands: bool, on_failure: str, cancelled: bool) -> str:
    """What an ending comes to."""
    if uncertain:
        return "reconciliation_required"
    if stands and on_failure == "compensate":
        return "cancelling" if cancelled else "failing"
    if stands and on_failure == "reconcile" and not cancelled:
        return "reconciliation_required"
    return "cancelled" if cancelled else "failed"


async def test_an_ending_goes_by_its_rules(shop: Shop) -> None:
    for uncertain, stands, on_failure, cancelled in product(
        (False, True), (False, True), ("fail", "reconcile", "compensate"), (False, True)
    ):
        first = {"effect": "idempotent_write", "compensate": "undo"} if stands else {}
        undo = [step("undo", effect="idempotent_write")] if stands else []
        steps = [step("first", **first), *undo, step("last", effect="idempotent_write")]
        case = await Case.begin(shop, definition={"steps": steps, "on_failure": on_failure})
        await shop.complete(case.lease)
        case.granted = await shop.claim_one(workflow=case.lease.execution.workflow)
        if cancelled:
            await case.cancel()
        await shop.fail(case.lease, "fatal", effect="unknown" if uncertain else "none")
        expected = by_the_rules(uncertain=uncertain, stands=stands, on_failure=on_failure, cancelled=cancelled)
        found = await case.status()
        assert found == expected, f"{uncertain=}, {stands=}, {on_failure=}, {cancelled=}: {found}"


# -- restarts ---------------------------------------------------------------------------------------------------------

FOUND: dict[str, dict[str, tuple[str, str]]] = {
    # What is found, by on_restart: what becomes of the execution and its step. Time passes for the first ones.
    "orphaned write": {
        "fail": ("reconciliation_required", "uncertain"),
        "retry": ("running", "queued"),
        "resume": ("running", "running"),
    },
    "orphaned once": {
        "fail": ("reconciliation_required", "uncertain"),
        "retry": ("reconciliation_required", "uncertain"),
        "resume": ("running", "running"),
    },
    "queued": {
        "fail": ("failed", "cancelled"),
        "retry": ("queued", "queued"),
        "resume": ("queued", "queued"),
    },
    "waiting": {
        "fail": ("failed", "cancelled"),
        "retry": ("waiting", "retry_wait"),
        "resume": ("waiting", "retry_wait"),
    },
    "leased": {
        "fail": ("failed", "cancelled"),
        "retry": ("running", "queued"),
        "resume": ("running", "queued"),
    },
    "running read": {
        "fail": ("failed", "cancelled"),
        "retry": ("running", "queued"),
        "resume": ("running", "running"),
    },
    "running write": {
        "fail": ("reconciliation_required", "uncertain"),
        "retry": ("running", "queued"),
        "resume": ("running", "running"),
    },
    "paused": dict.fromkeys(("fail", "retry", "resume"), ("paused", "queued")),
    "cancelling": dict.fromkeys(("fail", "retry", "resume"), ("cancelling", "running")),
    "reconciliation": dict.fromkeys(("fail", "retry", "resume"), ("reconciliation_required", "uncertain")),
}
EFFECTS = {"leased": "non_idempotent_write", "orphaned once": "non_idempotent_write", "running read": "read_only"}


async def leave(shop: Shop, found: str, on_restart: str) -> Case:
    """An execution as a daemon left it."""
    effect = EFFECTS.get(found, "idempotent_write")
    case = await Case.begin(
        shop,
        claimed=found not in ("queued", "paused"),
        definition={"on_restart": on_restart},
        effect=effect,
        reclaim_seconds=3600,
    )
    match found:
        case "paused":
            await shop.command(case.id, c.Pause(ACTOR))
        case "waiting":
            await shop.fail(case.lease, "retryable", effect="none", retry_in_ms=100_000)
        case "orphaned write" | "orphaned once":
            await case.started()
            await case.pass_time(LEASE_MS)
        case "cancelling":
            await case.cancel()
        case "reconciliation":
            await shop.fail(case.lease, "fatal")
    return case


@pytest.mark.parametrize("killed_after", [None, 7])
async def test_a_start_goes_by_its_table_also_when_it_is_killed_and_run_again(
    shop: Shop, killed_after: int | None
) -> None:
    cases = [(found, how, await leave(shop, found, how)) for found in FOUND for how in FOUND[found]]
    if killed_after is not None:
        for id_ in (await shop.store.open_executions("", 1_000))[:killed_after]:
            await shop.command(id_, c.Recover(1000))
        await shop.reopen()
    await recover(shop.store)
    journals = {}
    for found, how, case in cases:
        journals[case.id] = await shop.journal(case.id)
        assert (await case.status(), await case.step_status()) == FOUND[found][how], f"{found}, {how}"
    await recover(shop.store)
    assert {id_: await shop.journal(id_) for id_ in journals} == journals, "judged twice"
