"""Steps that run again and again: each round is made in the transaction that settles the round before it.

What a round is, the step's kind says: see ``_set_off``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stepd.engine.budgets import keeps_from_beginning
from stepd.engine.canonical import decode
from stepd.engine.catching import succeed
from stepd.engine.cel_bounds import Allowance
from stepd.engine.children import arm_child, check_depth
from stepd.engine.definition import CompiledStep
from stepd.engine.effort import Effort
from stepd.engine.environment import CheckpointMismatch, Environment, Inner
from stepd.engine.faults import FAULTS, class_of
from stepd.engine.foreach import begin_whole
from stepd.engine.inputs import store_input, take_input
from stepd.engine.model import Step, checkpoint_of, input_name, output_name
from stepd.engine.newrows import new_row
from stepd.engine.results import fail_whole
from stepd.engine.standing import queue
from stepd.engine.tally import Tally, keep_tally, tally_of
from stepd.engine.unleased import failing_before_lease
from stepd.engine.work import Work
from stepd_protocol.limits import REPEAT_ROUNDS_MAX


def begin_rounds(work: Work, compiled: CompiledStep, row: Step, environment: Environment, allowance: Allowance) -> None:
    """Adds the step's own row and the first round, which takes the step's input. Raises Missing."""
    begin_whole(work, row, Tally(0))
    first = _make_round(work, compiled, 0, lambda made: take_input(work, compiled, made, environment, allowance))
    row.own_input, row.input_hash = first.own_input, first.input_hash
    raw = work.changes.payloads.get(input_name(first.ordinal, first.index))
    if raw is not None:
        work.changes.payloads[input_name(row.ordinal, row.index)] = raw


def go_on(work: Work, compiled: CompiledStep, environment: Environment, effort: Effort) -> bool:
    """When the last round has succeeded: ends the step by ``until`` and ``max``, or makes the next round.

    Answers whether that one has ended already, because its failure was caught.
    """
    whole = work.step(compiled.ordinal)
    assert whole is not None
    tally = tally_of(whole)
    last = work.step(compiled.ordinal, tally.total - 1)
    allowance = Allowance()
    if last is None or last.status not in ("pending", "succeeded"):
        return False
    is_kept = keeps_from_beginning(work.execution, compiled)
    if last.status == "pending":
        if is_kept:
            return False
        row = _begin_again(work, compiled, last, environment, allowance)
    elif (inner := _unless_over(work, compiled, last, tally, environment, allowance)) and not is_kept:
        take = partial(_take_next, work, compiled, before=last, inner=inner, allowance=allowance)
        row = _make_round(work, compiled, tally.total, take)
    else:
        return False
    effort.items += 1
    effort.took(allowance, work.changes.payloads.get(input_name(row.ordinal, row.index), b""))
    return row.status == "succeeded"


def _unless_over(
    work: Work, compiled: CompiledStep, last: Step, tally: Tally, environment: Environment, allowance: Allowance
) -> Inner | None:
    """Ends the step where the last round was its last; else what the next round's input sees."""
    assert compiled.repeat is not None
    whole = work.change_step(compiled.ordinal)
    try:
        inner, raw = _after(work, compiled, last, environment)
        is_over = _is_over(compiled, inner, allowance)
    except FAULTS as fault:
        fail_whole(work, whole, class_of(work, fault), str(fault))
        return None
    if is_over:
        succeed(work, whole, raw)
        work.emit("step.succeeded", compiled.id, data={"items": tally.total})
        return None
    if tally.total - tally.since >= compiled.repeat.max or tally.total >= REPEAT_ROUNDS_MAX:
        message = f"{compiled.repeat.until.source} did not hold after {tally.total} rounds"
        fail_whole(work, whole, "repeat_limit", message)
        return None
    return inner


def _after(work: Work, compiled: CompiledStep, last: Step, environment: Environment) -> tuple[Inner, bytes]:
    """What is seen after a round, and its output. Raises CheckpointMismatch, Missing."""
    raw = work.payload(output_name(last.ordinal, last.index))
    if raw is None or last.checkpoint != checkpoint_of(last.input_hash, last.idempotency_key, compiled.effect or ""):
        raise CheckpointMismatch(compiled.id)
    return Inner(work, environment, {"last": decode(raw), "index": last.index}), raw


def _make_round(work: Work, compiled: CompiledStep, index: int, take: Callable[[Step], None]) -> Step:
    """The row of a round, set off; or failed, where its input can't be had."""
    whole = work.change_step(compiled.ordinal)
    tally = tally_of(whole)
    tally.total = tally.made = tally.begun = index + 1
    tally.counts["pending"] = 1
    keep_tally(whole, tally)
    row = new_row(work, compiled, index)
    work.add_step(row)
    _begin(work, compiled, row, take)
    return row


def _begin_again(
    work: Work, compiled: CompiledStep, known: Step, environment: Environment, allowance: Allowance
) -> Step:
    """The last round, which a resolution has made pending again: with its input, or another try at one."""

    def take(row: Step) -> None:
        if row.input_hash is None and row.index == 0:
            take_input(work, compiled, row, environment, allowance)
        elif row.input_hash is None:
            before = work.step(row.ordinal, row.index - 1)
            assert before is not None
            inner, _ = _after(work, compiled, before, environment)
            _take_next(work, compiled, row, before=before, inner=inner, allowance=allowance)

    row = work.change_step(known.ordinal, known.index)
    _begin(work, compiled, row, take)
    return row


def _begin(work: Work, compiled: CompiledStep, row: Step, take: Callable[[Step], None]) -> None:
    with failing_before_lease(work, row):
        if compiled.kind == "workflow":
            check_depth(work)
        take(row)
        _set_off(work, compiled, row)


def _set_off(work: Work, compiled: CompiledStep, row: Step) -> None:
    """Does with a round what its kind does first."""
    if compiled.kind == "workflow":
        arm_child(work, compiled, row)
    else:
        queue(work, row)


def _is_over(compiled: CompiledStep, inner: Inner, allowance: Allowance) -> bool:
    assert compiled.repeat is not None
    return bool(compiled.repeat.until.evaluate(inner, allowance))


def _take_next(
    work: Work, compiled: CompiledStep, row: Step, *, before: Step, inner: Inner, allowance: Allowance
) -> None:
    """The next round's input: what ``next`` says, else the same again."""
    assert compiled.repeat is not None
    if compiled.repeat.next is not None:
        store_input(work, compiled, row, compiled.repeat.next.render(inner, allowance))
        return
    if before.input_hash is None:  # an operator told its output, and it never had an input
        take_input(work, compiled, row, inner, allowance)
        return
    row.own_input, row.input_hash = before.own_input, before.input_hash
    if before.own_input:
        name = input_name(before.ordinal, before.index)
        work.changes.payloads[input_name(row.ordinal, row.index)] = work.payload(name) or b"null"
