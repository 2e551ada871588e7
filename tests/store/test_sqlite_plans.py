"""Every query that is asked again and again is answered by an index: what it costs doesn't grow with the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepd.store.base import ExecutionFilter, Scope
from stepd.store.records import AuditFilter
from stepd.store.sqlite import (
    accounts,
    definitions,
    lists,
    loading,
    operating,
    queue,
    records,
    removal,
    rows,
    signals,
    tracing,
    upkeep,
    views,
)
from stepd_migrations import run

BY_KEY = {
    "execution": loading.EXECUTION,
    "attempt": loading.ATTEMPT,
    "step": loading.STEP,
    "steps": loading.ALL_STEPS,
    "own steps": loading.OWN_STEPS,
    "items": loading.ITEMS,
    "outputs": loading.OUTPUTS,
    "unsettled": loading.UNSETTLED,
    "attempts of unsettled": loading.UNSETTLED_ATTEMPTS,
    "payload": loading.PAYLOAD,
    "kept signals": loading.KEPT,
    "signal": loading.SIGNAL,
    "event known": loading.SOURCE,
    "event delivered": signals.DELIVERED,
    "signals not taken": signals.UNTAKEN,
    "correlated": signals.OPEN.format(tenants=""),
    "own attempts": views.OWN_ATTEMPTS,
    "page of items": views.ITEMS,
    "attempts of items": views.ATTEMPTS_OF_ITEMS,
    "items that stand": views.STANDING_ITEMS,
    "some payloads": views.SOME_PAYLOADS,
    "events": views.SOME_EVENTS,
    "attempts of a trace": views.ATTEMPTS_AFTER,
    "spans": views.SPANS_AFTER,
    "attempt of a span": tracing.ATTEMPT_OF_SPAN,
    "kept spans": tracing.KEPT,
    "loose spans": tracing.LOOSE,
    "how many loose spans": tracing.LOOSE_COUNT,
    "started in a trace": tracing.STARTED_IN_TRACE,
    "occupied": operating.OCCUPANT,
    "remembered": records.KEPT,
    "claim": operating.KNOWN_CLAIM,
    "current": definitions.CURRENT,
    "version": definitions.VERSION,
    "queued executions": lists.QUEUED,
    "lives": records.SEEN_SINCE,
    "ended": removal.ENDED,
    "forget claims": removal.FORGET_CLAIMS,
    "forget calls": removal.FORGET_CALLS,
    "forget lives": removal.FORGET_LIVES,
    **{f"slice {number}": statement for number, (statement, _) in enumerate(removal.BELONGINGS)},
    "forget usage": removal.FORGET_USAGE,
    "cut usage": rows.CUT_USAGE,
    "newest prices": accounts.NEWEST,
    "due attempts": upkeep.DUE_ATTEMPTS,
    "due steps": upkeep.DUE_STEPS,
    "due executions": upkeep.DUE_EXECUTIONS,
    **{f"next {number}": statement for number, statement in enumerate(upkeep.NEXT_DUE)},
    "open": upkeep.OPEN,
    "counts": lists.COUNT,
    "flight": lists.FLIGHT,
    "queue": f"{lists.QUEUE} where {lists.CLAIMABLE}",
}
IN_ORDER = {
    "queue of a version": queue.OF_VERSION,
    "queue of a step": queue.OF_STEP,
    "queue of a tenant": queue.OF_TENANT,
    "queue of a tenant's step": queue.OF_TENANTS_STEP,
    "events": views.SOME_EVENTS,
    "due attempts": upkeep.DUE_ATTEMPTS,
    "due steps": upkeep.DUE_STEPS,
    "open": upkeep.OPEN,
    "kept signals": loading.KEPT,
    "attempts of a trace": views.ATTEMPTS_AFTER,
    "spans": views.SPANS_AFTER,
    "correlated": signals.OPEN.format(tenants=" and tenant in (?)"),
    "newest prices": accounts.NEWEST,
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    file: Path = tmp_path_factory.mktemp("plans") / "stepd.db"
    run.upgrade_sqlite(file)
    connection = sqlite3.connect(file)
    yield connection
    connection.close()


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    count = max(statement.count("?"), 1) if ":" not in statement else 0
    parameters = [None] * (1 if "?1" in statement else count) if "?" in statement else []
    return [line[3] for line in connection.execute(f"explain query plan {statement}", parameters)]


@pytest.mark.parametrize("name", BY_KEY)
def test_no_table_is_read_through(connection: sqlite3.Connection, name: str) -> None:
    steps = plan(connection, BY_KEY[name])
    of_memory = ("json_each", "lease", "subquery", "traced")
    scans = [step for step in steps if step.startswith("SCAN") and not any(name in step for name in of_memory)]
    assert all("USING COVERING INDEX" in step or "USING INDEX" in step for step in scans), steps


@pytest.mark.parametrize("name", IN_ORDER)
def test_what_is_asked_for_in_order_is_not_sorted(connection: sqlite3.Connection, name: str) -> None:
    steps = plan(connection, IN_ORDER[name])
    assert not any("USE TEMP B-TREE" in step for step in steps), steps


def test_a_tenants_other_steps_cost_a_look_at_the_index_only(connection: sqlite3.Connection) -> None:
    steps = plan(connection, queue.OF_TENANTS_STEP)
    assert any("COVERING INDEX steps_claimable_by_tenant" in step for step in steps), steps


@pytest.mark.parametrize("filters", ["", "status", "tenant", "workflow", "correlation", "label"])
def test_a_page_of_the_list_starts_at_its_cursor(connection: sqlite3.Connection, filters: str) -> None:
    chosen = {
        "": ExecutionFilter(cursor=(5, "x")),
        "status": ExecutionFilter(statuses=("queued",), cursor=(5, "x")),
        "tenant": ExecutionFilter(tenant="t", cursor=(5, "x")),
        "workflow": ExecutionFilter(workflow="w", cursor=(5, "x")),
        "correlation": ExecutionFilter(correlation="c", cursor=(5, "x")),
        "label": ExecutionFilter(labels=(("k", "v"),), cursor=(5, "x")),
    }[filters]
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    lists.executions(connection, chosen, Scope(), 10)
    connection.set_trace_callback(None)
    steps = plan(connection, seen[-1])
    assert not any(step.startswith("SCAN e") for step in steps), steps
    searches = [step for step in steps if step.startswith("SEARCH") and "(id=?)" not in step]
    assert searches, steps
    assert all("created_at," in step and ")<(?,?)" in step for step in searches), "an index that starts at the cursor"


@pytest.mark.parametrize("filters", [AuditFilter(), AuditFilter(principal="p"), AuditFilter(cursor=(5, 5))])
def test_a_page_of_the_audit_log_is_not_sorted(connection: sqlite3.Connection, filters: AuditFilter) -> None:
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    records.audited(connection, filters, ("a", "b"), 10)
    connection.set_trace_callback(None)
    steps = plan(connection, seen[-1])
    assert [step for step in steps if "audit_at" in step], steps
    assert not any("USE TEMP B-TREE" in step for step in steps), steps


def test_leases_of_some_tenants_are_counted_from_those_in_flight(connection: sqlite3.Connection) -> None:
    steps = plan(connection, records.HELD_OF_TENANTS.format(tenants="'a', 'b'"))
    assert not [step for step in steps if step.startswith("SCAN") and "attempts_next" not in step], steps
