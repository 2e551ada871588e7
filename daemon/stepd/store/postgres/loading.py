"""Reads rows into what a transaction holds, for many executions with one statement a kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from stepd.engine.model import Ledger, outputs_span
from stepd.engine.work import Need
from stepd.store.postgres.connections import Session
from stepd.store.postgres.held import Held
from stepd.store.postgres.tables import ATTEMPTS, EXECUTIONS, IDEMPOTENCY, LEDGER, SIGNALS, STEPS, columns, unnested
from stepd.store.signals import SIGNAL_HEADS

MS: Final = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
"""The server's clock as it stands, not as it stood when the transaction began."""
NOW: Final = f"select {MS}"

LOCK: Final = (
    f"{EXECUTIONS.select} where id = any(array("
    "select unnest($1::text[]) union select execution_id from attempts where id = any($2::text[]))) "
    "order by id for update"
)
"""Executions by their ids or by those of attempts, always locked in one order."""
ATTEMPTS_AND_NOW: Final = (
    f"select {MS}, {ATTEMPTS.of('a')} from (values (1)) as one left join attempts a on a.id = any($1::text[])"
)
SOME_ATTEMPTS: Final = f"{ATTEMPTS.select} where id = any($1::text[])"
SOME_STEPS: Final = (
    f"select {STEPS.of('s')} from {unnested('text[]', 'bigint[]', 'bigint[]')} as w (execution_id, ordinal, idx) "
    "join steps s on s.execution_id = w.execution_id and s.ordinal = w.ordinal and s.idx = w.idx"
)
ALL_STEPS: Final = f"{STEPS.select} where execution_id = any($1::text[])"
OWN_STEPS: Final = f"{STEPS.select} where execution_id = any($1::text[]) and idx = -1"
ITEMS: Final = f"{STEPS.select} where execution_id = $1 and ordinal = $2 and idx >= 0"
OUTPUTS: Final = "select name, body from payloads where execution_id = $1 and name >= $2 and name < $3"
UNSETTLED: Final = (
    f"{STEPS.select} where execution_id = any($1::text[]) and (lease_id is not null "
    "or (status in ('queued', 'retry_wait', 'waiting') and effect <> 'none')) order by ordinal, idx"
)
PAYLOADS: Final = (
    f"select p.execution_id, p.name, p.body from {unnested('text[]', 'text[]')} as w (execution_id, name) "
    "join payloads p on p.execution_id = w.execution_id and p.name = w.name"
)
KEPT: Final = (
    f"select {SIGNAL_HEADS}, ''::bytea as payload from signals "
    "where execution_id = $1 and name = $2 and taken_by is null order by number"
)
SIGNAL: Final = f"{SIGNALS.select} where execution_id = $1 and number = $2"
SOURCE: Final = "select true from signals where source = $1 and execution_id = $2"
ATTEMPTS_OF: Final = f"{ATTEMPTS.select} where execution_id = $1 order by id"
RESOLUTION: Final = f"{LEDGER.select} where execution_id = $1 and key = $2"
SUCCESS: Final = (
    f"{STEPS.select} where execution_id = $1 and standing_seq < $2 "
    "and ordinal in (select jsonb_array_elements_text($3::text::jsonb)::bigint) order by standing_seq desc limit 1"
)
CLAIMS: Final = (
    f"select c.principal, c.claim_id, c.leases from {unnested('text[]', 'text[]')} as w (principal, claim_id) "
    "join claims c on c.principal = w.principal and c.claim_id = w.claim_id"
)
CALLS: Final = (
    f"select {IDEMPOTENCY.of('i')} from {unnested('text[]', 'text[]', 'text[]')} as w (principal, target, key) "
    "join idempotency i on i.principal = w.principal and i.target = w.target and i.key = w.key"
)


async def lock(
    session: Session, held: Held, execution_ids: Sequence[str], attempt_ids: Sequence[str], clock: bool
) -> int | None:
    """Locks the executions, and reads the attempts; the server's time once all are locked, if ``clock``."""
    if execution_ids or attempt_ids:
        for values in await session.fetch(LOCK, execution_ids, attempt_ids):
            row = EXECUTIONS.read(values)
            held.executions.setdefault(row.id, row)
    for id_ in execution_ids:
        held.executions.setdefault(id_, None)
    if not attempt_ids:
        now: int | None = await session.fetchval(NOW) if clock else None
        return now
    found = await session.fetch(ATTEMPTS_AND_NOW, attempt_ids)
    for _, *values in found:
        if values[0] is not None:
            attempt = ATTEMPTS.read(values)
            held.attempts.setdefault(attempt.id, attempt)
    for id_ in attempt_ids:
        held.attempts.setdefault(id_, None)
    return int(found[0][0]) if clock else None


async def read(session: Session, held: Held, needs: Iterable[tuple[str, Need]]) -> None:
    """Reads what is needed of which executions, as far as it is missing; these must be locked."""
    missing: dict[str, list[tuple[str, Need]]] = defaultdict(list)
    for id_, need in needs:
        if held.missing(id_, need):
            missing[need.kind].append((id_, need))
    if whole := missing["rows"]:
        await _read_all_steps(session, held, [id_ for id_, _ in whole])
    if own := missing["own_rows"]:
        await _read_own_steps(session, held, [id_ for id_, _ in own])
    if steps := [(id_, need) for id_, need in missing["step"] if held.missing(id_, need)]:
        await _read_steps(session, held, steps)
    if unsettled := missing["unsettled"]:
        await _read_unsettled(session, held, [id_ for id_, _ in unsettled])
    if attempts := missing["attempt"]:
        await _read_attempts(session, held, [need.name for _, need in attempts])
    if payloads := missing["payload"]:
        await _read_payloads(session, held, [(id_, need.name) for id_, need in payloads])
    for kind in ("items", "kept", "signal", "source", "attempts", "ledger", "success"):
        for id_, need in missing[kind]:
            await _search(session, held, id_, need)


async def resolution(session: Session, execution_id: str, key: str) -> Ledger | None:
    """The resolution of an execution that was made with this key."""
    values = await session.fetchrow(RESOLUTION, execution_id, key)
    return None if values is None else LEDGER.read(values)


async def _search(session: Session, held: Held, id_: str, need: Need) -> None:
    """Looks for what is seldom needed."""
    match need.kind:
        case "items":
            await _read_items(session, held, id_, need.ordinal)
        case "kept":
            kept = [SIGNALS.read(values) for values in await session.fetch(KEPT, id_, need.name)]
            held.kept.setdefault(id_, {})[need.name] = kept
        case "signal":
            signal = SIGNALS.read(await session.fetchrow(SIGNAL, id_, need.ordinal))
            held.signals.setdefault(id_, {})[need.ordinal] = signal
        case "source":
            found = await session.fetchval(SOURCE, need.name, id_)
            held.sources.setdefault(id_, {})[need.name] = found is not None
        case "attempts":
            attempts = [ATTEMPTS.read(values) for values in await session.fetch(ATTEMPTS_OF, id_)]
            for attempt in attempts:
                held.attempts.setdefault(attempt.id, attempt)
            held.all_attempts[id_] = [attempt.id for attempt in attempts]
        case "ledger":
            held.ledger.setdefault(id_, {})[need.name] = await resolution(session, id_, need.name)
        case "success":
            values = await session.fetchrow(SUCCESS, id_, need.item, need.name)
            row = None if values is None else STEPS.read(values)
            if row is not None:
                held.keep_step(row)
            held.successes.setdefault(id_, {})[need] = None if row is None else (row.ordinal, row.index)


async def read_claims(session: Session, held: Held, keys: Sequence[tuple[str, str]]) -> None:
    """Reads which leases these claims, by principal and id, were dealt."""
    held.claims.update(dict.fromkeys(keys))
    for principal, claim_id, leases in await session.fetch(CLAIMS, *columns(keys)):
        held.claims[(principal, claim_id)] = msgspec.json.decode(leases, type=list[str])


async def read_calls(session: Session, held: Held, keys: Sequence[tuple[str, str, str]]) -> None:
    """Reads what was first answered to calls with these keys."""
    held.calls.update(dict.fromkeys(keys))
    for values in await session.fetch(CALLS, *columns(keys)):
        row = IDEMPOTENCY.read(values)
        held.calls[(row.principal, row.target, row.key)] = row


async def _read_all_steps(session: Session, held: Held, ids: list[str]) -> None:
    for values in await session.fetch(ALL_STEPS, ids):
        held.keep_step(STEPS.read(values))
    held.whole.update(ids)


async def _read_own_steps(session: Session, held: Held, ids: list[str]) -> None:
    for values in await session.fetch(OWN_STEPS, ids):
        held.keep_step(STEPS.read(values))
    held.own.update(ids)


async def _read_items(session: Session, held: Held, id_: str, ordinal: int) -> None:
    for values in await session.fetch(ITEMS, id_, ordinal):
        held.keep_step(STEPS.read(values))
    for name, body in await session.fetch(OUTPUTS, id_, *outputs_span(ordinal)):
        held.payloads.setdefault((id_, name), body)
    held.items.add((id_, ordinal))


async def _read_steps(session: Session, held: Held, steps: list[tuple[str, Need]]) -> None:
    keys = [(id_, need.ordinal, need.item) for id_, need in steps]
    for values in await session.fetch(SOME_STEPS, *columns(keys)):
        held.keep_step(STEPS.read(values))
    for id_, ordinal, item in keys:
        held.steps.setdefault(id_, {}).setdefault((ordinal, item), None)


async def _read_unsettled(session: Session, held: Held, ids: list[str]) -> None:
    held.unsettled.update({id_: [] for id_ in ids})
    attempts = []
    for values in await session.fetch(UNSETTLED, ids):
        row = STEPS.read(values)
        held.keep_step(row)
        held.unsettled[row.execution_id].append((row.ordinal, row.index))
        if row.lease_id is not None and row.lease_id not in held.attempts:
            attempts.append(row.lease_id)
    if attempts:
        await _read_attempts(session, held, attempts)


async def _read_attempts(session: Session, held: Held, ids: list[str]) -> None:
    for values in await session.fetch(SOME_ATTEMPTS, ids):
        attempt = ATTEMPTS.read(values)
        held.attempts.setdefault(attempt.id, attempt)
    for id_ in ids:
        held.attempts.setdefault(id_, None)


async def _read_payloads(session: Session, held: Held, keys: list[tuple[str, str]]) -> None:
    for id_, name, body in await session.fetch(PAYLOADS, *columns(keys)):
        held.payloads.setdefault((id_, name), body)
    for key in keys:
        held.payloads.setdefault(key, None)
