"""Owns what is sent of an outcome: the bytes of complete and fail, and those that follow where they are refused."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stepd_protocol.leases import Complete, Fail
from stepd_protocol.names import ReportedEffect
from stepd_worker.held import Held
from stepd_worker.outcomes import Completed, Failed, Outcome, Stopped
from stepd_worker.values import encode

Call: TypeAlias = Literal["complete", "fail"]

STOPPED_MESSAGE = "The body stopped because it was asked to"


@dataclass(frozen=True, slots=True)
class Report:
    """One call that settles a lease. `is_last_try`: it is what follows a refusal, and nothing follows it."""

    call: Call
    body: bytes
    effect: ReportedEffect | None
    spans: int = 0
    is_last_try: bool = False


def report(held: Held, outcome: Completed | Failed, next_claim: bytes | None = None) -> Report:
    """What is sent of an outcome that the daemon waits for, or wants as evidence."""
    usage, spans = _usage(held), held.spans.batch()
    telemetry = UNSET if not spans else Raw(msgspec.json.encode(spans))
    following = UNSET if next_claim is None else Raw(next_claim)
    if isinstance(outcome, Completed):
        complete = Complete(
            fence=held.lease.fence,
            output=Raw(outcome.output),
            state=UNSET if outcome.patch is None else Raw(outcome.patch),
            usage=usage,
            spans=telemetry,
            next=following,
        )
        return Report("complete", msgspec.json.encode(complete), None, len(spans))
    fail = Fail(
        fence=held.lease.fence,
        class_=outcome.class_,
        message=outcome.message,
        details=UNSET if outcome.details is None else Raw(outcome.details),
        retry_after=UNSET if outcome.retry_after is None else Raw(encode(outcome.retry_after)),
        effect=outcome.effect,
        usage=usage,
        spans=telemetry,
        next=following,
    )
    return Report("fail", msgspec.json.encode(fail), outcome.effect, len(spans))


def after_refusal(held: Held, refused: Report, why: str) -> Report | None:
    """What follows a report whose bytes were refused, the lease being as it was; None where it is given up.

    The work of a refused complete was done: it becomes an invalid output. A refused fail is said once more, bare.
    """
    if refused.call == "complete":
        effect: ReportedEffect | None = "applied" if held.is_write else None
        fail = Fail(fence=held.lease.fence, class_="invalid_output", message=why, effect=effect)
        return Report("fail", msgspec.json.encode(fail), effect)
    if refused.is_last_try:
        return None
    bare = {"fence": held.lease.fence, "class": "fatal"}
    if refused.effect is not None:
        bare["effect"] = refused.effect
    return Report("fail", msgspec.json.encode(bare), refused.effect, is_last_try=True)


def wanted(held: Held, outcome: Outcome) -> Completed | Failed | None:
    """What is said of an outcome, now that it is known why its body ended and what became of the lease; None: nothing.

    Of an attempt that the daemon ended, a read's outcome is dropped; a write's is sent as evidence, if its body began.
    Of a body that ran out of time there is nothing to say before the daemon's word, which ends its attempt.
    """
    if held.over == "already_settled":
        return None
    if held.over is not None and not (held.is_write and held.started):
        return None
    if not isinstance(outcome, Stopped):
        return outcome
    if held.timed_out and held.over is None:
        return None
    interrupted = held.over is None and held.cancellation.reason in ("shutting_down", "lease_lost")
    return Failed("interrupted" if interrupted else "cancelled", STOPPED_MESSAGE, outcome.effect)


def _usage(held: Held) -> Raw | UnsetType:
    return Raw(msgspec.json.encode(list(held.usage.values()))) if held.usage else UNSET
