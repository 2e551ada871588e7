"""The four refusals of a worker call, in their order, and what is kept of an outcome that is refused."""

from __future__ import annotations

import msgspec

from stepd.engine.commands import Refused
from stepd.engine.model import ENDED, IN_FLIGHT, Attempt, stale_name
from stepd.engine.verdicts import is_write
from stepd.engine.work import Work


def refuse(work: Work, attempt: Attempt, fence: int, *, heartbeat: bool) -> Refused | None:
    """The first of the four reasons that holds, or None where the call is to be accepted."""
    refused = _refused(work, attempt, fence, heartbeat=heartbeat)
    if refused is None:
        return None
    step, traceparent = work.definition.steps[attempt.ordinal].id, work.execution.traceparent
    return msgspec.structs.replace(refused, step=step, attempt=attempt, traceparent=traceparent)


def keep_stale(work: Work, attempt: Attempt, fence: int, outcome: bytes) -> None:
    """Keeps the first outcome refused for an attempt that the daemon ended while a write may have been running."""
    compiled = work.definition.steps[attempt.ordinal]
    may_have_run = attempt.begun or not compiled.start_required
    ended_by_daemon = attempt.ended_by in ("daemon", "ending")
    if attempt.stale or fence != attempt.fence or not ended_by_daemon or not may_have_run or not is_write(compiled):
        return
    attempt = work.change_attempt(attempt.id)
    attempt.stale = True
    work.changes.payloads[stale_name(attempt.id)] = outcome
    if work.execution.status not in ENDED:
        work.emit("attempt.stale_outcome", compiled.id, attempt.index, attempt.number, attempt.worker)


def _refused(work: Work, attempt: Attempt, fence: int, *, heartbeat: bool) -> Refused | None:
    execution = work.execution
    if attempt.ended_by == "holder":
        return Refused(
            "already_settled",
            execution.id,
            execution.status,
            settled_outcome=attempt.status,
            settled_at=attempt.ended_at,
        )
    if execution.status in ENDED or attempt.ended_by == "ending":
        return Refused("execution_ended", execution.id, execution.status)
    if attempt.status not in IN_FLIGHT or fence != attempt.fence:
        return Refused("lease_lost", execution.id, execution.status)
    if heartbeat and work.now >= attempt.expires_at:
        left = max(0, attempt.reclaim_at - work.now)
        return Refused("lease_expired", execution.id, execution.status, reclaim_ms=left)
    return None
