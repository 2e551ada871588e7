"""Views are made from rows alone: every mark of the graph, every error, every count has its place in them."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from stepd.engine.definition import Compiled, compile_definition
from stepd.engine.model import Attempt, Event, Execution, Parked, Step
from stepd.service.attempts import moments_of
from stepd.service.lives import Work
from stepd.service.views import Shown, execution_summary, execution_view
from stepd.store.base import ExecutionRows
from stepd_protocol.executions import BlockedView, ExecutionView
from stepd_protocol.fields import NULL
from stepd_protocol.limits import Limits
from stepd_protocol.times import format_time
from tests.service.rows import NOW, attempt, execution, step

READ = {"id": "a", "effect": "read_only"}
WRITE = {"id": "b", "effect": "idempotent_write"}
ONCE = {"id": "c", "effect": "non_idempotent_write"}


class Nobody:
    """Nobody serves anything."""

    def blocked(self, row: Step, now_ms: int) -> BlockedView | None:
        return BlockedView(code="no_worker", since=format_time(row.queued_at or 0)) if row.status == "queued" else None

    def blocked_work(self, work: Work, since_ms: int, now_ms: int) -> BlockedView | None:
        return BlockedView(code="no_worker", since=format_time(since_ms), detail=work.step)


def definition(*steps: dict[str, Any]) -> Compiled:
    compiled = compile_definition("w", json.dumps({"version": "1", "steps": steps}).encode(), Limits())
    assert isinstance(compiled, Compiled)
    return compiled


def view(
    row: Execution, *steps: Step, attempts: Sequence[Attempt] = (), payloads: dict[str, bytes] | None = None
) -> ExecutionView:
    rows = ExecutionRows(row, list(steps), list(attempts), payloads or {})
    return execution_view(Shown(rows, definition(READ, WRITE, ONCE), Nobody(), NOW, ("attempts", "payloads")))


@pytest.mark.parametrize(
    ("mark", "status"),
    [("p", "pending"), ("k", "skipped"), ("c", "cancelled"), ("s", "succeeded"), ("C", "succeeded")],
)
def test_a_step_without_a_row_has_the_status_of_its_mark(mark: str, status: str) -> None:
    shown = view(execution(graph=f"pp{mark}"))
    assert [found.status for found in shown.steps] == ["pending", "pending", status]
    assert [found.id for found in shown.steps] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("status", "direction", "held"),
    [
        ("running", None, False),
        ("failing", "forward", True),
        ("cancelling", "cancel", True),
        ("reconciliation_required", "forward", True),
        ("failed", "forward", False),
    ],
)
def test_what_is_pending_is_held_while_an_execution_is_ending(status: str, direction: str | None, held: bool) -> None:
    shown = view(execution(graph="spk", status=status, direction=direction))
    assert [found.held for found in shown.steps] == [False, held, False]


def test_a_held_row_keeps_its_status() -> None:
    shown = view(execution(graph="qpp"), step(status="retry_wait", parked=int(Parked.HELD), due_at=NOW + 5_000))
    assert (shown.steps[0].status, shown.steps[0].held) == ("retry_wait", True)
    assert shown.steps[0].next_attempt_at == format_time(NOW + 5_000)


def test_writes_that_succeeded_stand_and_caught_ones_do_not() -> None:
    assert [standing.step for standing in view(execution(graph="sss")).standing_writes] == ["b", "c"]
    assert view(execution(graph="sCu")).standing_writes == []


def test_an_execution_is_blocked_since_its_first_blocked_step_is() -> None:
    late, early = step(queued_at=NOW), step(ordinal=1, step="b", queued_at=NOW - 1_000)
    shown = view(execution(graph="qqp"), late, early)
    assert shown.blocked == shown.steps[1].blocked
    assert view(execution(graph="rpp"), step(status="running")).blocked is None


@pytest.mark.parametrize(
    ("status", "blocked"), [("queued", True), ("running", True), ("paused", False), ("failing", False)]
)
def test_a_line_of_a_list_tells_what_stands_from_the_graph(status: str, blocked: bool) -> None:
    compiled = definition(READ, WRITE, ONCE)
    shown = execution_summary(execution(graph="sqp", status=status), compiled, Nobody(), NOW)
    assert (shown.blocked is not None) == blocked
    assert execution_summary(execution(graph="srp"), compiled, Nobody(), NOW).blocked is None


def test_an_error_has_its_step_and_its_cause() -> None:
    cause = {"class": "card_declined", "message": "no", "details": {"code": 51}}
    error = json.dumps({"class": "execution_timeout", "message": "over", "step": None, "cause": cause}).encode()
    shown = view(execution(graph="ppp", error=error)).error
    assert shown is not None
    assert (shown.class_, shown.step) == ("execution_timeout", None)
    assert shown.cause is not None
    assert (shown.cause.class_, bytes(shown.cause.details)) == ("card_declined", b'{"code": 51}')
    bare = view(execution(graph="ppp", error=b'{"class":"x","message":"y","details":null,"step":"a"}')).error
    assert bare is not None
    assert (bare.step, bare.cause) == ("a", None)


def test_tokens_without_a_price_are_counted_as_such() -> None:
    usage = view(execution(graph="ppp", input_tokens=5, unpriced_tokens=5)).usage
    assert (usage.unpriced_tokens, usage.cost, usage.currency) == (5, NULL, None)


def test_payloads_are_those_of_the_step_or_of_the_execution() -> None:
    rows = (step(own_input=True, status="succeeded"), step(ordinal=1, step="b"))
    shown = view(execution(graph="sqp"), *rows, payloads={"in:0:-1": b"1", "out:0:-1": b"2", "input": b'{"x": 1.0}'})
    assert bytes(shown.steps[0].input) == b"1"  # type: ignore[arg-type] # it was asked for
    assert bytes(shown.steps[0].output) == b"2"  # type: ignore[arg-type] # it was asked for
    assert bytes(shown.steps[1].input) == b'{"x": 1.0}'  # type: ignore[arg-type] # it was asked for
    assert bytes(shown.input) == b'{"x": 1.0}'
    assert bytes(shown.output) == b"null"


def event(type_: str, at: int, number: int = 1) -> Event:
    return Event(seq=1, at=at, type=type_, step="c", index=None, attempt=number, worker="billing-1", data=b"{}")


def test_the_journal_tells_when_which_attempt_began() -> None:
    """A number comes again after an unspent attempt, so that the time has to tell the two apart."""
    first = attempt(id="one", ordinal=2, fence=1, leased_at=NOW, ended_at=NOW + 10, begun=True)
    second = attempt(id="two", ordinal=2, fence=2, leased_at=NOW + 20, stale=True, ended_at=NOW + 40)
    events = [
        event("attempt.started", NOW + 5),
        event("attempt.started", NOW + 25),
        event("attempt.stale_outcome", NOW + 90),
        event("attempt.started", NOW + 25, number=2),
    ]
    moments = moments_of(definition(READ, WRITE, ONCE), [first, second], events)
    assert moments.begun == {"one": NOW + 5, "two": NOW + 25}
    assert moments.stale == {"two": NOW + 90}


def test_attempts_stand_in_the_order_of_their_fences() -> None:
    attempts = [
        attempt(id="two", fence=2, status="lost", effect="unknown", ended_at=NOW, answer=None),
        attempt(id="one", fence=1, status="failed", ended_at=NOW, answer=b'{"late":true,"execution_id":"x"}'),
        attempt(id="three", fence=3),
    ]
    shown = view(execution(graph="rpp"), step(status="running"), attempts=attempts).steps[0].attempts
    assert isinstance(shown, list)
    assert [found.status for found in shown] == ["failed", "lost", "running"]
    assert [found.late for found in shown] == [True, False, False]
    assert [found.effect for found in shown] == ["none", "unknown", None]
