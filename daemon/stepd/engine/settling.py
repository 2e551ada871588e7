"""How a holder settles its attempt: complete and fail, said once or again, in time or late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from stepd.engine.accepting import output_faults, patched
from stepd.engine.advance import advance
from stepd.engine.catching import succeed
from stepd.engine.commands import Complete, Fail, NotFound, Refused, Told
from stepd.engine.failing import Failure, Kind, settle_failure
from stepd.engine.model import Attempt, Step
from stepd.engine.refusals import keep_stale, refuse
from stepd.engine.reports import take_report
from stepd.engine.standing import end_attempt, is_ending, note_success, refresh_status, revise
from stepd.engine.verdicts import INTERRUPTIONS_MAX, is_write, retry_after_ms, worst
from stepd.engine.work import Work

Settles = TypeVar("Settles", Complete, Fail)

FAULTS_TOLD = 5
"""So many faults of an output are named in the failure's message; the answer names all."""
SHUN_MS = 60_000
"""How long a step isn't offered to an instance that called it unservable."""


def complete(work: Work, command: Complete) -> Told | Refused | NotFound:
    """The body succeeded: its output is the step's checkpoint, and what is ready now is queued.

    An output that does not fit settles the attempt as failed, class ``invalid_output``; ``Told.faults`` says why.
    """
    answer = _early_answer(work, command, "complete", _complete_as_told)
    if answer is not None:
        return answer
    attempt, row, late = _accept(work, command, "complete")
    state = patched(work.payload("state") or b"{}", command.state) if command.state else None
    faults = output_faults(work, attempt.ordinal, command.output, state)
    if faults:
        attempt.effect = "applied" if is_write(work.definition.steps[attempt.ordinal]) else "none"
        row.effect = worst(row.effect, attempt.effect)
        failure = Failure(
            "fatal", "invalid_output", "; ".join(f"{path}: {fault}" for path, fault in faults[:FAULTS_TOLD])
        )
        settlement = settle_failure(work, attempt, row, failure, "failed", "holder")
        return _answer(work, attempt, late, settlement.disposition, faults=faults)
    end_attempt(work, attempt, row, "completed", "holder")
    attempt.effect = "applied" if is_write(work.definition.steps[attempt.ordinal]) else "none"
    if state is not None:
        work.changes.payloads["state"] = state
        revise(work)
    note_success(work, row)
    succeed(work, row, command.output)
    work.emit("step.succeeded", row.step, row.index, attempt.number, attempt.worker)
    advance(work, row.ordinal)
    return _answer(work, attempt, late)


def fail(work: Work, command: Fail) -> Told | Refused | NotFound:
    """The body failed, or could not run: the failure table says what becomes of the step."""
    answer = _early_answer(work, command, "fail", _fail_as_told)
    if answer is not None:
        return answer
    attempt, row, late = _accept(work, command, "fail")
    attempt.effect = _reported_effect(work, attempt, command)
    row.effect = worst(row.effect, attempt.effect)
    if command.effect == "absent":
        row.effect, row.fresh_fence = "none", row.fence
    kind = _kind(work, attempt, row, command.class_)
    if kind == "unservable":
        _shun(work, row, attempt)
    wait_ms = retry_after_ms(command.retry_in_ms, command.retry_at, work.now)
    failure = Failure(kind, command.class_, command.message, command.details, wait_ms, command.jitter)
    settlement = settle_failure(work, attempt, row, failure, "stopped" if kind == "cancelled" else "failed", "holder")
    return _answer(work, attempt, late, settlement.disposition, settlement.next_attempt_at)


def _early_answer(
    work: Work, command: Settles, outcome: str, as_told: Callable[[Settles], bytes]
) -> Told | Refused | NotFound | None:
    """The first answer where this outcome was said before, else the first refusal that holds, else None.

    An outcome that is refused may be kept as evidence.
    """
    attempt = work.attempt(command.attempt_id)
    if attempt is None or attempt.principal != command.principal:
        return NotFound()
    told = _said_again(work, attempt, command.fence, outcome, command.digest)
    if told is not None:
        return told
    refused = refuse(work, attempt, command.fence, heartbeat=False)
    if refused is not None:
        keep_stale(work, attempt, command.fence, as_told(command))
    return refused


def _said_again(work: Work, attempt: Attempt, fence: int, outcome: str, digest: str) -> Told | None:
    """The first answer, for an outcome with the lease's own fence that equals the settled one."""
    if attempt.ended_by != "holder" or attempt.answer is None or fence != attempt.fence:
        return None
    if attempt.outcome != outcome or attempt.outcome_digest != digest:
        return None
    told = msgspec.json.decode(attempt.answer, type=Told)
    return msgspec.structs.replace(told, replayed=True, execution_status=work.execution.status)


def _accept(work: Work, command: Complete | Fail, outcome: str) -> tuple[Attempt, Step, bool]:
    attempt = work.change_attempt(command.attempt_id)
    row = work.change_step(attempt.ordinal, attempt.index)
    late = work.now >= attempt.expires_at
    attempt.named = True
    attempt.outcome, attempt.outcome_digest = outcome, command.digest
    take_report(work, attempt, command.reported)
    if late:
        work.emit("attempt.late", row.step, row.index, attempt.number, attempt.worker, {"outcome": outcome})
    return attempt, row, late


def _answer(
    work: Work,
    attempt: Attempt,
    late: bool,
    disposition: str | None = None,
    next_attempt_at: int | None = None,
    faults: Sequence[tuple[str, str]] = (),
) -> Told:
    refresh_status(work)
    told = Told(
        execution_id=work.execution.id,
        execution_status=work.execution.status,
        late=late,
        disposition=disposition,
        next_attempt_at=next_attempt_at,
        settled_at=work.now,
        faults=tuple(faults),
    )
    attempt.answer = msgspec.json.encode(told)
    return told


def _reported_effect(work: Work, attempt: Attempt, command: Fail) -> str:
    """What this attempt left behind: a read nothing, nor a write whose body never ran unless it says ``applied``."""
    if not is_write(work.definition.steps[attempt.ordinal]) or command.effect == "absent":
        return "none"
    never_ran = command.class_ == "unservable" and not attempt.begun
    if attempt.status == "leased" or never_ran:
        return "applied" if command.effect == "applied" else "none"
    return command.effect or "unknown"


def _kind(work: Work, attempt: Attempt, row: Step, class_: str) -> Kind:
    if class_ == "unservable":
        return "fatal" if attempt.begun else "unservable"
    if class_ == "interrupted":
        row.interruptions += 1
        return "retryable" if row.interruptions >= INTERRUPTIONS_MAX else "interrupted"
    if class_ == "cancelled":
        return "cancelled" if is_ending(work, row.ordinal) else "fatal"
    return "retryable" if class_ == "retryable" else "fatal"


def _shun(work: Work, row: Step, attempt: Attempt) -> None:
    kept = [] if row.shunned is None else [entry for entry in msgspec.json.decode(row.shunned) if entry[2] > work.now]
    row.shunned = msgspec.json.encode([*kept, [attempt.principal, attempt.instance, work.now + SHUN_MS]])


def _complete_as_told(command: Complete) -> bytes:
    return msgspec.json.encode({"outcome": "complete", "output": msgspec.Raw(command.output), "state": command.state})


def _fail_as_told(command: Fail) -> bytes:
    details = None if command.details is None else msgspec.Raw(command.details)
    told = {
        "outcome": "fail",
        "class": command.class_,
        "message": command.message,
        "effect": command.effect,
        "details": details,
    }
    return msgspec.json.encode(told)
