"""The table of failures, cell by cell: what becomes of a step by its class, its effect and its budget.

The cells in which the daemon waits for a lease to lapse are played at the same time, each on an execution of its own.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Json
from tests.support.definitions import AT_ONCE, ONCE, brief, read, safe_write, write
from tests.support.flow import Lease, Run
from tests.support.wait import beside, eventually

AGAIN = "again"
UNSPENT = "queued again, unspent"
FAILED = "step failed"
UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: a step, and the effect that its body reports (none: it says nothing)."""

    step: dict[str, Json]
    report: dict[str, str] = field(default_factory=dict)


COLUMNS: dict[str, Column] = {
    "read": Column(read()),
    "read at most once": Column(read(delivery="at_most_once")),
    "read, reported applied": Column(read(), {"effect": "applied"}),
    "safe write, none": Column(safe_write(), {"effect": "none"}),
    "write, none": Column(write(), {"effect": "none"}),
    "safe write at most once, none": Column(safe_write(delivery="at_most_once"), {"effect": "none"}),
    "write, absent": Column(write(), {"effect": "absent"}),
    "safe write, unknown": Column(safe_write(), {"effect": "unknown"}),
    "safe write, not said": Column(safe_write()),
    "write, unknown": Column(write(), {"effect": "unknown"}),
    "write, not said": Column(write()),
    "safe write at most once, unknown": Column(safe_write(delivery="at_most_once")),
    "safe write, applied": Column(safe_write(), {"effect": "applied"}),
    "write, applied": Column(write(), {"effect": "applied"}),
    "safe write at most once, applied": Column(safe_write(delivery="at_most_once"), {"effect": "applied"}),
}
NONE = [name for name in COLUMNS if name.startswith("read") or name.endswith(("none", "absent"))]
SAFE_UNKNOWN = ["safe write, unknown", "safe write, not said"]
SAFE_APPLIED = ["safe write, applied"]
UNSAFE = [name for name in COLUMNS if name not in [*NONE, *SAFE_UNKNOWN, *SAFE_APPLIED]]


def expected(kind: str, column: str, *, budget: bool) -> str:
    """What the table says of a failure that a worker reports after its body started."""
    if column in UNSAFE:
        return UNCERTAIN
    if kind in ("fatal", "card_declined"):
        return FAILED if column in NONE else UNCERTAIN
    if kind == "interrupted":
        return UNSPENT
    if budget:
        return AGAIN
    return FAILED if column in NONE else UNCERTAIN


REPORTED = {
    (kind, column, budget): expected(kind, column, budget=budget)
    for kind in ("retryable", "interrupted", "fatal", "card_declined")
    for column in COLUMNS
    for budget in (True, False)
}

# What the daemon itself finds: the body started, then it was silent. It knows nothing of the effect.
SILENT: dict[tuple[str, str, bool], str] = {
    (kind, name, budget): outcome
    for kind in ("lost", "timeout")
    for name, budget, outcome in (
        ("read", True, AGAIN),
        ("read", False, FAILED),
        ("read at most once", True, FAILED),
        ("read at most once", False, FAILED),
        ("safe write", True, AGAIN),
        ("safe write", False, UNCERTAIN),
        ("safe write at most once", True, UNCERTAIN),
        ("safe write at most once", False, UNCERTAIN),
        ("safe write, applied before", True, AGAIN),
        ("safe write, absent before", False, UNCERTAIN),
        ("write", True, UNCERTAIN),
        ("write", False, UNCERTAIN),
    )
}
SILENT_STEPS = {
    "read": read(),
    "read at most once": read(delivery="at_most_once"),
    "safe write": safe_write(),
    "safe write at most once": safe_write(delivery="at_most_once"),
    "safe write, applied before": safe_write(),
    "safe write, absent before": safe_write(),
    "write": write(),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a step."""

    outcome: str
    disposition: str | None
    execution: str
    error: Json


def what_became(run: Run, attempt: int, claim: Callable[[], list[Lease]]) -> Seen:
    """Looks at the step until it is settled or queued again; a step queued again is claimed to see its budget."""

    def look() -> Json:
        view = run.view()
        return view if view["status"] in ("failed", "reconciliation_required") else claim() or None

    found = eventually(look, seconds=20, what=f"{run.id} is settled or queued again")
    if isinstance(found, list):
        outcome = UNSPENT if found[0].attempt == attempt else AGAIN
        assert found[0].attempt in (attempt, attempt + 1)
        return Seen(outcome, None, run.view()["status"], None)
    status = found["steps"][0]["status"]
    assert status in ("failed", "uncertain"), found
    return Seen(FAILED if status == "failed" else UNCERTAIN, None, found["status"], found["error"])


def play_reported(flow: MakeFlow, kind: str, column: Column, *, budget: bool) -> Seen:
    work = flow({**column.step, "retry": AT_ONCE if budget else ONCE})
    run, lease = work.begin()
    lease.begin()
    disposition = lease.fail(kind, **column.report).expect(200)["disposition"]
    seen = what_became(run, lease.attempt, work.claim)
    return Seen(seen.outcome, disposition, seen.execution, seen.error)


def play_silent(flow: MakeFlow, kind: str, name: str, *, budget: bool) -> Seen:
    times = brief(0.8, 0) if kind == "lost" else {"timeout_seconds": 0.8}
    before = name.endswith("before")
    attempts = (2 if before else 1) + (1 if budget else 0)
    work = flow({**SILENT_STEPS[name], **times, "retry": {"max_attempts": attempts, "initial_seconds": 0}})
    run, lease = work.begin()
    if before:
        effect = "applied" if "applied" in name else "absent"
        lease.fail("retryable", effect=effect).expect(200)
        lease = work.claim_one()
    lease.begin()
    return what_became(run, lease.attempt, work.claim)


DISPOSITIONS = {AGAIN: "retry_scheduled", UNSPENT: "requeued", FAILED: "step_failed", UNCERTAIN: "uncertain"}


@pytest.fixture(scope="module")
def silent(flow: MakeFlow) -> dict[tuple[str, str, bool], "Future[Seen]"]:
    return {cell: beside(partial(play_silent, flow, cell[0], cell[1], budget=cell[2])) for cell in SILENT}


def name_of(cell: tuple[str, str, bool]) -> str:
    return f"{cell[0]}: {cell[1]}, {'budget left' if cell[2] else 'out of attempts'}"


def check_execution(seen: Seen, kind: str) -> None:
    """The execution's status and error are what the step's outcome makes of them."""
    if seen.outcome in (AGAIN, UNSPENT):
        assert seen.execution == "running"
        return
    assert seen.execution == ("failed" if seen.outcome == FAILED else "reconciliation_required")
    assert (seen.error["class"], seen.error["step"]) == (kind, "work")


@pytest.mark.parametrize("cell", REPORTED, ids=name_of)
def test_what_a_worker_reports(flow: MakeFlow, cell: tuple[str, str, bool]) -> None:
    kind, column, budget = cell
    seen = play_reported(flow, kind, COLUMNS[column], budget=budget)
    assert seen.outcome == REPORTED[cell]
    assert seen.disposition == DISPOSITIONS[REPORTED[cell]]
    check_execution(seen, kind)


@pytest.mark.parametrize("cell", SILENT, ids=name_of)
def test_what_the_daemon_finds(
    silent: dict[tuple[str, str, bool], "Future[Seen]"], cell: tuple[str, str, bool]
) -> None:
    seen = silent[cell].result(60)
    assert seen.outcome == SILENT[cell]
    check_execution(seen, cell[0])


@pytest.mark.parametrize("column", COLUMNS)
def test_unservable_before_the_start_costs_nothing(flow: MakeFlow, column: str) -> None:
    work = flow({**COLUMNS[column].step, "retry": ONCE})
    _, lease = work.begin()
    assert lease.fail("unservable").expect(200)["disposition"] == "requeued"
    assert work.claim_one(instance="another").attempt == 1
