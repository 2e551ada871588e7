"""Attempts and their errors as callers see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, cast

import msgspec
from msgspec import UNSET, Raw

from stepd.engine.definition import Compiled, CompiledStep
from stepd.engine.model import IN_FLIGHT, NO_INDEX, Attempt, Event, progress_name, stale_name
from stepd.service.money import usage_views
from stepd.store.base import ExecutionRows
from stepd_protocol.executions import AttemptView, StaleOutcome
from stepd_protocol.fields import NULL, Payload
from stepd_protocol.leases import ErrorInfo
from stepd_protocol.names import AttemptStatus, KnownEffect, ReportedEffect
from stepd_protocol.times import format_time


class _StoredError(msgspec.Struct):
    class_: str = msgspec.field(name="class")
    message: str
    details: Raw = NULL


class _StoredAnswer(msgspec.Struct):
    """Of what the settling call was answered, what views show."""

    late: bool = False


class _StoredStale(msgspec.Struct):
    """An outcome that came too late, as it is kept."""

    outcome: Literal["complete", "fail"]
    class_: str | None = msgspec.field(name="class", default=None)
    message: str | None = None
    effect: ReportedEffect | None = None
    output: Payload = UNSET
    at: int | None = None


_error = msgspec.json.Decoder(_StoredError).decode
_answer = msgspec.json.Decoder(_StoredAnswer).decode
_stale = msgspec.json.Decoder(_StoredStale).decode


def error_info(raw: bytes) -> ErrorInfo:
    """An error as rows keep it, as views and later attempts see it."""
    stored = _error(raw)
    return ErrorInfo(class_=stored.class_, message=stored.message, details=stored.details)


class Moments(msgspec.Struct, frozen=True):
    """What only the journal tells of attempts: when each began, and when its late outcome came (ms, by attempt id)."""

    begun: Mapping[str, int] = {}
    stale: Mapping[str, int] = {}


def needs_journal(attempts: Iterable[Attempt]) -> bool:
    """Whether the moments of these attempts have to be read from the journal."""
    return any(attempt.begun or attempt.stale for attempt in attempts)


def moments_of(definition: Compiled, attempts: Iterable[Attempt], events: Iterable[Event]) -> Moments:
    """The moments that a journal tells. A number may come again, so that the time says which attempt is meant."""
    by_name: dict[tuple[str | None, int | None, int | None, str | None], list[Attempt]] = {}
    for attempt in attempts:
        step = definition.steps[attempt.ordinal].id
        index = None if attempt.index == NO_INDEX else attempt.index
        by_name.setdefault((step, index, attempt.number, attempt.worker), []).append(attempt)
    begun: dict[str, int] = {}
    stale: dict[str, int] = {}
    for event in events:
        for attempt in by_name.get((event.step, event.index, event.attempt, event.worker), ()):
            ended_at = event.at if attempt.ended_at is None else attempt.ended_at
            if event.type == "attempt.started" and attempt.leased_at <= event.at <= ended_at:
                begun.setdefault(attempt.id, event.at)
            elif event.type == "attempt.stale_outcome" and attempt.stale and ended_at <= event.at:
                stale.setdefault(attempt.id, event.at)
    return Moments(begun, stale)


def attempt_views(
    compiled: CompiledStep, index: int, rows: ExecutionRows, moments: Moments, *, payloads: bool
) -> list[AttemptView]:
    """The attempts of one step, or of one item of it, oldest first."""
    own = [attempt for attempt in rows.attempts if (attempt.ordinal, attempt.index) == (compiled.ordinal, index)]
    own.sort(key=lambda attempt: attempt.fence)
    return [_attempt_view(attempt, compiled, rows, moments, payloads) for attempt in own]


def _attempt_view(
    attempt: Attempt,
    compiled: CompiledStep,
    rows: ExecutionRows,
    moments: Moments,
    payloads: bool,
) -> AttemptView:
    in_flight = attempt.status in IN_FLIGHT
    kept, currency = rows.payloads, rows.execution.currency
    progress = kept.get(progress_name(attempt.id)) if payloads else None
    started_at = moments.begun.get(attempt.id) if compiled.start_required else attempt.leased_at
    return AttemptView(
        attempt=attempt.number,
        status=cast(AttemptStatus, attempt.status),
        worker=attempt.worker,
        instance=attempt.instance,
        leased_at=format_time(attempt.leased_at),
        started_at=None if started_at is None else format_time(started_at),
        ended_at=None if attempt.ended_at is None else format_time(attempt.ended_at),
        late=attempt.answer is not None and _answer(attempt.answer).late,
        effect=None if in_flight else cast(KnownEffect, attempt.effect),
        error=None if attempt.error is None else error_info(attempt.error),
        progress=NULL if progress is None else Raw(progress),
        usage=usage_views(attempt, currency),
        stale_outcome=_stale_outcome(attempt, kept.get(stale_name(attempt.id)), moments, payloads),
    )


def _stale_outcome(attempt: Attempt, raw: bytes | None, moments: Moments, payloads: bool) -> StaleOutcome | None:
    if raw is None:
        return None
    stored = _stale(raw)
    at = stored.at or moments.stale.get(attempt.id) or attempt.ended_at or attempt.leased_at
    return StaleOutcome(
        outcome=stored.outcome,
        at=format_time(at),
        class_=stored.class_,
        message=stored.message,
        effect=stored.effect,
        output=stored.output if payloads else UNSET,
    )
