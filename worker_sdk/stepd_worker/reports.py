"""Owns what is sent of an outcome: the bytes of complete and fail, and those that follow where they are refused."""

import logging
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stepd_protocol.leases import Complete, Fail
from stepd_protocol.limits import Limits
from stepd_protocol.names import ReportedEffect
from stepd_worker.held import Held
from stepd_worker.outcomes import MESSAGE_CHARACTERS_MAX, Completed, Failed, Outcome, Stopped
from stepd_worker.values import Unencodable, encode

Call: TypeAlias = Literal["complete", "fail"]

logger = logging.getLogger("stepd_worker")

DEFAULTS: Final = Limits()
MESSAGE_BYTES_MAX: Final = 6 * MESSAGE_CHARACTERS_MAX  # each written as an escape
FIELDS_BYTES: Final = 1_000
"""What a call has besides: the names of its fields, fence, class, effect."""
STOPPED_MESSAGE = "The body stopped because it was asked to"


@dataclass(frozen=True, slots=True)
class Report:
    """One call that settles a lease. `is_last_try`: it is what follows a refusal, and nothing follows it."""

    call: Call
    body: bytes
    effect: ReportedEffect | None
    spans: int = 0
    is_last_try: bool = False


def report(
    held: Held, outcome: Completed | Failed, next_claim: bytes | None = None, limits: Limits = DEFAULTS
) -> Report:
    """What is sent of an outcome that the daemon waits for, or wants as evidence.

    Telemetry takes the room that the outcome leaves, so that it never costs an outcome its way.
    """
    usage, spans = telemetry_of(held, limits.request_bytes - _size(outcome, next_claim))
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
        details=_details(held, outcome, limits),
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


def telemetry_of(held: Held, room: int) -> tuple[Raw | UnsetType, list[Raw]]:
    """Usage, and the spans that fit beside it, in so many bytes. What cannot be sent is dropped with a warning."""
    if not held.usage and not held.spans:
        return UNSET, []
    usage: Raw | UnsetType = UNSET
    try:
        usage = Raw(encode(list(held.usage.values()))) if held.usage else UNSET
    except Unencodable as fault:
        logger.warning("The usage of step %r was dropped: %s", held.lease.step, fault)
    size = 0 if usage is UNSET else len(bytes(usage))
    if size > room:
        logger.warning("The usage of step %r has %d bytes and was dropped", held.lease.step, size)
        usage, size = UNSET, 0
    return usage, held.spans.batch(room - size)


def _size(outcome: Completed | Failed, next_claim: bytes | None) -> int:
    if isinstance(outcome, Completed):
        size = len(outcome.output) + len(outcome.patch or b"")
    else:
        size = MESSAGE_BYTES_MAX + len(outcome.details or b"")
    return size + len(next_claim or b"") + FIELDS_BYTES


def _details(held: Held, outcome: Failed, limits: Limits) -> Raw | UnsetType:
    if outcome.details is None:
        return UNSET
    if len(outcome.details) > limits.details_bytes:
        logger.warning("The details of step %r have %d bytes: dropped", held.lease.step, len(outcome.details))
        return UNSET
    return Raw(outcome.details)
