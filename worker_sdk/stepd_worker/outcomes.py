"""Owns how a body ended: what it returned or raised, as what the worker will say of it."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from stepd_protocol.names import ReportedEffect, is_name
from stepd_worker.errors import Applied, Cancelled, NotApplied, Retryable, StepFailed
from stepd_worker.held import Held
from stepd_worker.values import Unencodable, described, encode, text_of

logger = logging.getLogger("stepd_worker")

MESSAGE_CHARACTERS_MAX: Final = 4_000
"""The daemon cuts at 4 KiB; more than this is not worth the way."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The body returned this output, and left this patch of the state, as JSON; no patch for none."""

    output: bytes
    patch: bytes | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The body, or what stands around it, failed. `effect` is what is known; None: unknown for a write."""

    class_: str
    message: str
    effect: ReportedEffect | None = None
    details: bytes | None = None
    retry_after: float | str | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The body ended because it was told to. What is said of that depends on why it was told."""

    effect: ReportedEffect | None = None


Outcome: TypeAlias = Completed | Failed | Stopped

NOT_BEGUN: Final = Failed("interrupted", "The worker is stopping", effect="none")
TOO_LATE: Final = Failed("interrupted", "The lease had lapsed before its body could begin", effect="none")


def returned(value: Any, changed_state: Callable[[], bytes | None], held: Held) -> Outcome:
    """The outcome of a body that returned. A value without JSON is an invalid output, of work that was done."""
    try:
        return Completed(encode(value), changed_state())
    except Unencodable as fault:
        message = f"The step {held.lease.step!r} returned, or put into the state, what is no JSON: {fault}"
        return Failed("invalid_output", _cut(message), effect="applied" if held.is_write else None)


def raised(error: BaseException, held: Held) -> Outcome:
    """The outcome of a body that raised. The stack of what it did not mean to raise is logged, and goes no further."""
    effect: ReportedEffect | None = None if held.started else "none"
    whole = error
    if isinstance(error, NotApplied):
        effect = "absent" if error.any_attempt else "none"
        error = error.error
    elif isinstance(error, Applied):
        effect, error = "applied", error.error
    if isinstance(error, Retryable):
        return Failed("retryable", _message(error), effect, _details(error, held), _wait(error, held))
    if isinstance(error, StepFailed):
        return _typed(error, effect, held)
    told = held.cancellation.is_set()
    if isinstance(error, asyncio.CancelledError | Cancelled):
        return Stopped(effect) if told else Failed("fatal", "The body was cancelled, but nobody asked for it", effect)
    lease = held.lease
    logger.error(
        "The body of step %r failed (execution %s, attempt %d)",
        lease.step,
        lease.execution.id,
        lease.attempt,
        exc_info=whole,
    )
    return Stopped(effect) if told else Failed("fatal", _cut(described(error)), effect)


def invalid_input(fault: Exception) -> Failed:
    """The outcome of a lease whose input the body's type can't be made of; the body never ran."""
    return Failed("invalid_input", _cut(described(fault)), effect="none")


def _typed(error: StepFailed, effect: ReportedEffect | None, held: Held) -> Failed:
    message, class_ = _message(error), cast("object", error.class_)
    if not isinstance(class_, str) or not is_name(class_):
        wrong = f"StepFailed was raised with {text_of(class_)!r}, which is no name for a class"
        return Failed("fatal", _cut(f"{wrong}: {message}"), effect, _details(error, held))
    return Failed(class_, message, effect, _details(error, held))


def _message(error: Exception) -> str:
    return _cut(text_of(error) or type(error).__name__)


def _cut(text: str) -> str:
    return text[:MESSAGE_CHARACTERS_MAX]


def _wait(error: Retryable, held: Held) -> float | str | None:
    """The wait that was asked for; None where it is neither a number nor text."""
    try:
        encode(error.retry_after)
    except Unencodable as fault:
        logger.warning("The retry_after of step %r was dropped: %s", held.lease.step, fault)
        return None
    return error.retry_after


def _details(error: Retryable | StepFailed, held: Held) -> bytes | None:
    if error.details is None:
        return None
    try:
        return encode(error.details)
    except Unencodable as fault:
        logger.warning("The details of a failure of step %r were dropped: %s", held.lease.step, fault)
        return None
