"""Every query that is asked again and again on PostgreSQL can be answered by an index, in the order it is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from stepd.store.postgres import (
    accounts,
    commits,
    definitions,
    lists,
    loading,
    queue,
    records,
    removal,
    tracing,
    upkeep,
    views,
)
from stepd.store.postgres.tables import CUT_USAGE, EXECUTIONS
from tests.support import postgres

BY_INDEX = {
    "lock": loading.LOCK,
    "some attempts": loading.SOME_ATTEMPTS,
    "some steps": loading.SOME_STEPS,
    "all steps": loading.ALL_STEPS,
    "unsettled": loading.UNSETTLED,
    "payloads": loading.PAYLOADS,
    "claims": loading.CLAIMS,
    "calls": loading.CALLS,
    "execution": views.EXECUTION,
    "own steps": views.OWN_STEPS,
    "items": views.ITEMS,
    "attempts of items": views.ATTEMPTS_OF_ITEMS,
    "standing items": views.STANDING_ITEMS,
    "events": views.SOME_EVENTS,
    "attempts of a trace": views.ATTEMPTS_AFTER,
    "spans": views.SPANS_AFTER,
    "attempts of spans": tracing.ATTEMPTS_OF_SPANS,
    "kept spans": tracing.KEPT,
    "loose spans": tracing.LOOSE,
    "how many loose spans": tracing.LOOSE_COUNT,
    "started in a trace": tracing.STARTED_IN_TRACE,
    "version": definitions.VERSION,
    "remembered": records.KEPT,
    "lives": records.SEEN_SINCE,
    "held": records.HELD,
    "counts": lists.COUNTS,
    "flight": lists.FLIGHT,
    "queued executions": lists.QUEUED,
    "ended": removal.ENDED,
    "forget claims": removal.FORGET_CLAIMS,
    "forget calls": removal.FORGET_CALLS,
    "forget lives": removal.FORGET_LIVES,
    "forget usage": removal.FORGET_USAGE,
    "newest prices": accounts.NEWEST,
    "due": upkeep.DUE,
    "next due": upkeep.NEXT_DUE,
    "errands": upkeep.STEP_ERRANDS,
    "children's news": upkeep.CHILD_NEWS,
    "blocked": upkeep.BLOCKED,
    "open": upkeep.OPEN,
    **{f"queue by {shape}": statement for shape, statement in queue.LOOKS.items()},
}
WHILE_DECIDING = {
    "lock": loading.LOCK,
    "attempts": loading.ATTEMPTS_AND_NOW,
    "steps": loading.SOME_STEPS,
    "all steps": loading.ALL_STEPS,
    "unsettled": loading.UNSETTLED,
    "payloads": loading.PAYLOADS,
    "claims": loading.CLAIMS,
    "calls": loading.CALLS,
    "changed executions": EXECUTIONS.update,
    "cut usage": CUT_USAGE,
    **{f"queue by {shape}": statement for shape, statement in queue.LOOKS.items()},
}
IN_ORDER = {
    "events": views.SOME_EVENTS,
    "open": upkeep.OPEN,
    "attempts of a trace": views.ATTEMPTS_AFTER,
    "spans": views.SPANS_AFTER,
    "ended": removal.ENDED,
    **{f"queue by {shape}": statement for shape, statement in queue.LOOKS.items()},
}


@pytest.fixture(scope="module")
def database() -> Iterator[postgres.Database]:
    made = postgres.emptied_database()
    yield made
    postgres.give_back(made)


def plan(database: postgres.Database, statement: str) -> list[str]:
    """How it would be answered if reading a table through, or sorting, were done only where nothing else will do."""
    mark = "&" if "?" in database.url else "?"
    url = f"{database.url}{mark}enable_seqscan=off&enable_sort=off&enable_bitmapscan=off"
    return postgres.explain(url, statement)


@pytest.mark.parametrize("name", BY_INDEX)
def test_no_table_is_read_through(database: postgres.Database, name: str) -> None:
    lines = plan(database, BY_INDEX[name])
    assert not [line for line in lines if "Seq Scan" in line], lines


@pytest.mark.parametrize("name", IN_ORDER)
def test_what_is_asked_for_in_order_is_not_sorted(database: postgres.Database, name: str) -> None:
    lines = plan(database, IN_ORDER[name])
    assert not [line for line in lines if "Sort" in line], lines


@pytest.mark.parametrize("name", WHILE_DECIDING)
def test_a_decision_goes_by_an_index_also_where_it_was_planned_on_empty_tables(
    database: postgres.Database, name: str
) -> None:
    mark = "&" if "?" in database.url else "?"
    settings = "&".join(f"{setting}={value}" for setting, value in commits.ONCE_PLANNED.items())
    lines = postgres.explain(f"{database.url}{mark}{settings}", WHILE_DECIDING[name])
    assert not [line for line in lines if re.search(r"Seq Scan|(Hash|Merge) .*Join", line)], lines
