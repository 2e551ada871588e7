"""Locks and reads at once what the operations of a whole batch will want to see, so that none has to ask by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stepd.engine import commands as c
from stepd.engine.prefetch import needs_of_call, needs_of_lease, needs_of_next
from stepd.engine.work import Need
from stepd.store.base import Begin, BeginChild, Deal, Decide, Operation
from stepd.store.deals import LEASES_AT_ONCE
from stepd.store.postgres import loading
from stepd.store.postgres.operating import Operating
from stepd.store.postgres.queue import QueueKey, queues_of


async def prefetch(transaction: Operating, operations: Sequence[Operation]) -> None:
    """Holds what the operations want, as far as it can be told before they run."""
    decides = [one for one in operations if isinstance(one, Decide)]
    deals = [one for one in operations if isinstance(one, Deal)]
    await _calls(transaction, operations)
    leases = await _claims(transaction, deals)
    ids = [one.execution_id for one in decides if one.execution_id is not None]
    ids += [one.execution_id for one in operations if isinstance(one, BeginChild)]
    attempts = [id_ for one in decides if (id_ := _attempt_of(one)) is not None] + leases
    await transaction.lock(ids, attempts)
    if deals:
        await _queues(transaction, deals)
    needs = await _needs_of_decides(transaction, decides, dealing=bool(deals))
    if deals:
        needs += await _needs_of_leases(transaction)
    await loading.read(transaction.session, transaction.held, needs)


async def _calls(transaction: Operating, operations: Sequence[Operation]) -> None:
    calls = [one.idempotency for one in operations if isinstance(one, (Begin, Decide)) and one.idempotency is not None]
    if calls:
        keys = [(call.principal, call.target, call.key) for call in calls]
        await loading.read_calls(transaction.session, transaction.held, keys)


async def _claims(transaction: Operating, deals: Sequence[Deal]) -> list[str]:
    """Reads which claims were dealt before; answers the leases that will be renewed."""
    keys = [(request.principal, request.claim_id) for deal in deals for request in deal.requests]
    if not keys:
        return []
    await loading.read_claims(transaction.session, transaction.held, keys)
    return [lease for key in keys for lease in transaction.held.claims[key] or ()]


async def _queues(transaction: Operating, deals: Sequence[Deal]) -> None:
    """Looks into the queues that the claims draw from, deep enough for all of them."""
    depths: Counter[QueueKey] = Counter()
    for deal in deals:
        for request in deal.requests:
            if transaction.held.claims[(request.principal, request.claim_id)] is None:
                depths.update(dict.fromkeys(queues_of(request), request.max))
    await transaction.queue.look(Counter({key: min(depth, LEASES_AT_ONCE) for key, depth in depths.items()}))


async def _needs_of_decides(
    transaction: Operating, decides: Sequence[Decide], *, dealing: bool
) -> list[tuple[str, Need]]:
    needs: list[tuple[str, Need]] = []
    for one in decides:
        attempt = transaction.held.attempts.get(_attempt_of(one) or "")
        execution_id = one.execution_id if attempt is None else attempt.execution_id
        execution = transaction.held.executions.get(execution_id or "")
        definition = None if execution is None else await transaction.definition(execution.workflow, execution.version)
        if execution is None or definition is None:
            continue
        wanted: list[Need] = []
        if isinstance(one.command, c.StepDue):
            wanted.append(Need("step", "", one.command.ordinal, one.command.index))
        elif attempt is not None:
            wanted += needs_of_call(definition, execution, one.command, attempt)
            if isinstance(one.command, c.AttemptDue):
                wanted.append(Need("step", "", attempt.ordinal, attempt.index))
            elif dealing and isinstance(one.command, c.Complete):
                wanted += needs_of_next(definition, execution, attempt.ordinal)
        needs += [(execution.id, need) for need in wanted]
    return needs


def _attempt_of(one: Decide) -> str | None:
    return one.command.attempt_id if isinstance(one.command, c.AttemptDue) else one.attempt_id


async def _needs_of_leases(transaction: Operating) -> list[tuple[str, Need]]:
    needs: list[tuple[str, Need]] = []
    for row in transaction.queue.rows():
        execution = transaction.held.executions.get(row.execution_id)
        definition = None if execution is None else await transaction.definition(row.workflow, row.version)
        if execution is not None and definition is not None:
            needs += [(execution.id, need) for need in needs_of_lease(definition, execution, row)]
    return needs
