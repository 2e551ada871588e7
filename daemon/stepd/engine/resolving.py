"""How an operator resolves an execution that needs reconciliation: what he says is judged first, then carried out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import assert_never

import msgspec

from stepd.engine.closing import close
from stepd.engine.commands import Conflict, Resolve
from stepd.engine.control import audit
from stepd.engine.model import NO_INDEX, Ledger
from stepd.engine.resolutions import Close, KeyUsed, Resolved, ResumeWith, Unresolvable
from stepd.engine.resuming import resume_with
from stepd.engine.standing import refresh_status, standing_writes
from stepd.engine.work import Work

ACTION = "execution.resolve"


def resolve(work: Work, command: Resolve) -> Resolved | KeyUsed | Conflict | Unresolvable:
    """Carries out a resolution, or tells the first answer again to who sends the same.

    The ledger's row is written with what the resolution changes. A refusal changes nothing.
    """
    kept = work.resolution(command.key)
    if kept is not None:
        return answer_again(kept, command.actor.principal, command.digest)
    execution = work.execution
    if execution.status != "reconciliation_required":
        return Conflict("not_resolvable", execution.status, execution.id)
    if command.expected_revision not in (None, execution.revision):
        why = f"its revision is {execution.revision}, not {command.expected_revision}: look at it again"
        return Conflict("not_resolvable", execution.status, execution.id, why)
    refused = _carry_out(work, command)
    if refused is not None:
        return refused
    refresh_status(work)
    standing = standing_writes(work)
    answer = Resolved(
        execution_id=execution.id,
        status=execution.status,
        direction=execution.direction or "forward",
        revision=execution.revision,
        standing_writes=tuple(standing),
        standing_items=tuple(_standing_items(work, standing)),
        resolution_id=command.resolution_id,
        at=work.now,
        operator=command.actor.principal,
    )
    audit(work, command.actor, ACTION)
    work.changes.ledger.append(_ledger_row(work, command, answer))
    return answer


def answer_again(kept: Ledger, operator: str, digest: str) -> Resolved | KeyUsed:
    """What a call is answered whose key a resolution of this execution had: the same command by the same operator gets
    the first answer.
    """
    if (kept.operator, kept.command_hash) != (operator, digest):
        return KeyUsed()
    answer = msgspec.json.decode(kept.answer, type=Resolved)
    return msgspec.structs.replace(answer, replayed=True)


def _carry_out(work: Work, command: Resolve) -> Conflict | Unresolvable | None:
    """Says why it is refused; None where it was carried out."""
    match command.resolution:
        case ResumeWith():
            return resume_with(work, command, command.resolution)
        case Close():
            return close(work, command, command.resolution)
        case _:
            assert_never(command.resolution)


def _standing_items(work: Work, standing: Collection[str]) -> Iterator[tuple[str, int]]:
    for row in work.rows():
        if row.step in standing and row.index != NO_INDEX and row.standing_seq is not None:
            yield row.step, row.index


def _ledger_row(work: Work, command: Resolve, answer: Resolved) -> Ledger:
    return Ledger(
        id=command.resolution_id,
        execution_id=work.execution.id,
        at=work.now,
        operator=command.actor.principal,
        key=command.key,
        command_hash=command.digest,
        command=command.body,
        answer=msgspec.json.encode(answer),
        tenant=work.execution.tenant,
    )
