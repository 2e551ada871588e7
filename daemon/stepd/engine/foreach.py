"""Steps that run once an item of a list: their items are made in slices, begun as room comes, and gathered at the end.

What one item's end costs does not depend on how many there are: they are counted in the step's own row.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from stepd.engine.canonical import decode, encode, is_too_deep
from stepd.engine.catching import succeed
from stepd.engine.cel_bounds import Allowance
from stepd.engine.definition import CompiledStep
from stepd.engine.effort import Effort
from stepd.engine.environment import CheckpointMismatch, Environment, Inner
from stepd.engine.expressions import ExpressionFailed
from stepd.engine.faults import class_of
from stepd.engine.inputs import store_input
from stepd.engine.model import NO_INDEX, Parked, Step, checkpoint_of, input_name, item_name, state_name
from stepd.engine.newrows import new_row
from stepd.engine.results import fail_whole
from stepd.engine.standing import queue, set_status
from stepd.engine.tally import Tally, keep_tally, tally_of
from stepd.engine.unleased import failing_before_lease
from stepd.engine.work import Work
from stepd_protocol.limits import FOREACH_ITEMS_MAX, JSON_DEPTH_MAX

_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def keep_list(work: Work, compiled: CompiledStep, row: Step, environment: Environment, allowance: Allowance) -> None:
    """Evaluates the list, once, and keeps it; its items are made by ``go_on``. Raises ExpressionFailed, Missing."""
    assert compiled.foreach is not None
    source = compiled.foreach.items.source
    values = compiled.foreach.items.evaluate(environment, allowance)
    if not isinstance(values, list):
        raise ExpressionFailed(f"{source}: foreach runs over a list, and this is none")
    if len(values) > FOREACH_ITEMS_MAX:
        raise ExpressionFailed(f"{source}: {len(values):,} items, of which a foreach has at most {FOREACH_ITEMS_MAX:,}")
    raw = encode(values)
    row.own_input, row.input_hash = True, sha256(raw).hexdigest()
    work.changes.payloads[input_name(row.ordinal, row.index)] = raw
    begin_whole(work, row, Tally(len(values), counts={"pending": len(values)} if values else {}))


def begin_whole(work: Work, row: Step, tally: Tally) -> None:
    """Adds the own row of a step with items: it is never claimed itself."""
    row.parked, row.queued_at = int(Parked.ITEMS), work.now
    keep_tally(row, tally)
    work.add_step(row)
    set_status(work, row, "queued")
    work.emit("step.queued", row.step, data={"items": tally.total})


def go_on(work: Work, compiled: CompiledStep, environment: Environment, effort: Effort, *, make: bool) -> bool:
    """Makes the next items where ``make``, begins as many as have room, and ends the step when all have succeeded.

    Answers whether there are more to make.
    """
    if make:
        _make_items(work, compiled, environment, effort)
    _begin_items(work, compiled)
    tally = _tally(work, compiled)
    if work.execution.direction is not None:
        return False
    if tally.count("succeeded") == tally.total:
        _gather(work, compiled, tally)
        return False
    return make and tally.made < tally.total


def _tally(work: Work, compiled: CompiledStep) -> Tally:
    row = work.step(compiled.ordinal)
    assert row is not None
    return tally_of(row)


def _make_items(work: Work, compiled: CompiledStep, environment: Environment, effort: Effort) -> None:
    """Gives the next items their rows and inputs, by the state as it stood when the step became ready."""
    tally = _tally(work, compiled)
    if tally.made:
        _make_again(work, compiled, environment, tally.made - 1, effort)
    if tally.made == tally.total or work.execution.direction is not None:
        return
    ordinal = compiled.ordinal
    items = _read_list(work.payload(input_name(ordinal, NO_INDEX)) or b"[]")
    names = {"state": state_name(ordinal)} if _reads_state(compiled) and tally.made else {}
    made = tally.made
    while made < tally.total and not effort.spent() and work.execution.direction is None:
        inner = Inner(work, environment, {"item": decode(bytes(items[made])), "index": made}, names)
        _make_item(work, compiled, inner, made, effort)
        made += 1
    if _reads_state(compiled) and not tally.made and made < tally.total:
        work.changes.payloads[state_name(ordinal)] = work.payload("state") or b"{}"


def _make_again(work: Work, compiled: CompiledStep, environment: Environment, index: int, effort: Effort) -> None:
    """Evaluates the item anew that was the last to be made because it failed, by the state as it is now.

    So are those that come behind it.
    """
    row = work.step(compiled.ordinal, index)
    if row is None or row.status != "pending" or row.input_hash is not None:
        return
    items = _read_list(work.payload(input_name(row.ordinal, NO_INDEX)) or b"[]")
    inner = Inner(work, environment, {"item": decode(bytes(items[index])), "index": index})
    if _reads_state(compiled):
        work.changes.payloads[state_name(row.ordinal)] = work.payload("state") or b"{}"
    _take_item(work, compiled, work.change_step(row.ordinal, index), inner, effort)


def _reads_state(compiled: CompiledStep) -> bool:
    return compiled.input is not None and "state" in compiled.input.references.roots


def _make_item(work: Work, compiled: CompiledStep, inner: Inner, index: int, effort: Effort) -> None:
    row = new_row(work, compiled, index)
    work.add_step(row)
    whole = work.change_step(compiled.ordinal)
    tally = tally_of(whole)
    tally.made += 1
    keep_tally(whole, tally)
    _take_item(work, compiled, row, inner, effort)


def _take_item(work: Work, compiled: CompiledStep, row: Step, inner: Inner, effort: Effort) -> None:
    """Evaluates and stores the input of an item, or fails it."""
    item = inner.root("item")
    if compiled.keeps_items:
        work.changes.payloads[item_name(row.ordinal, row.index)] = encode(item)
    allowance = Allowance()
    with failing_before_lease(work, row):
        store_input(work, compiled, row, item if compiled.input is None else compiled.input.render(inner, allowance))
    effort.items += 1
    effort.took(allowance, work.changes.payloads.get(input_name(row.ordinal, row.index), b""))


def _begin_items(work: Work, compiled: CompiledStep) -> None:
    """Queues items in their order, as many as may be under way at a time."""
    assert compiled.foreach is not None
    most = compiled.foreach.max_parallel
    while work.execution.direction is None:
        tally = _tally(work, compiled)
        if tally.begun == tally.made or (most is not None and tally.under_way >= most):
            return
        row = work.change_step(compiled.ordinal, tally.begun)
        whole = work.change_step(compiled.ordinal)
        tally.begun += 1
        keep_tally(whole, tally)
        if row.status == "pending":
            queue(work, row)


def _gather(work: Work, compiled: CompiledStep, tally: Tally) -> None:
    """The outputs of all items, in order, are the step's."""
    row = work.change_step(compiled.ordinal)
    size = tally.bytes + max(tally.total - 1, 0) + len(b"[]")
    limit = work.settings.foreach_outputs_bytes
    if size > limit:
        fail_whole(work, row, "invalid_output", f"the list of outputs has {size} bytes, {limit} are allowed")
        return
    try:
        raw = b"[%b]" % b",".join(_outputs(work, compiled, tally.total))
    except CheckpointMismatch as mismatch:
        fail_whole(work, row, class_of(work, mismatch), f"the stored output of {mismatch.step} does not belong to it")
        return
    if raw.count(b"[") + raw.count(b"{") > JSON_DEPTH_MAX and is_too_deep(raw, decode(raw)):
        message = f"the list of outputs is nested deeper than {JSON_DEPTH_MAX} levels"
        fail_whole(work, row, "invalid_output", message)
        return
    succeed(work, row, raw)
    work.emit("step.succeeded", row.step, data={"items": tally.total})


def _outputs(work: Work, compiled: CompiledStep, count: int) -> list[bytes]:
    """The items' checkpoints. Raises CheckpointMismatch for one that was not made for its item."""
    found = []
    for index, (row, output) in enumerate(work.items(compiled.ordinal, count)):
        if row is None or output is None or not _belongs(row, compiled):
            raise CheckpointMismatch(f"item {index} of step {compiled.id}")
        found.append(output)
    return found


def _belongs(row: Step, compiled: CompiledStep) -> bool:
    effect = compiled.effect or ""
    expected = checkpoint_of(row.input_hash, row.idempotency_key, effect)
    return row.checkpoint == expected and row.declared_effect == effect
