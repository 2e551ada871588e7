"""Owns the spans of one attempt: which are kept, under which each hangs, and what of them a call carries.

Spans begin and end on any thread, and the heartbeats' thread takes them: each step here is a single operation on a list
or a dict, so that no lock is needed, which a fork could leave locked.
"""

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.trace import SpanContext, TraceFlags

from stepd_protocol.leases import Span, Usage
from stepd_protocol.limits import KIB, MIB, SPAN_BYTES_MAX, Limits
from stepd_protocol.telemetry import usage_from_attributes
from stepd_worker.span_content import Ended, content_of, counts_tokens, lightened

logger = logging.getLogger("stepd_worker")

SPANS_PER_CALL: Final = Limits().spans_per_call
SPANS_PER_ATTEMPT: Final = 5_000
"""So many spans of an attempt are kept, and as many of models besides, for their tokens count."""
WAITING_BYTES_MAX: Final = 16 * MIB
"""While more than this waits to be sent, spans are kept without what makes them large."""
ROOM_BESIDE_OUTCOME: Final = 256 * KIB
DROPPED_SPANS: Final = "stepd.dropped_spans"
"""The attribute of an attempt's last span that says how many more it had."""

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)

_log_of_span: dict[int, "SpanLog"] = {}
"""Where the spans that are open belong, for those that begin under one on a thread that nobody knows."""


@dataclass(slots=True)
class Begun:
    """What is known of a span from its beginning on, beside what OpenTelemetry keeps of it."""

    parent_id: str | None
    """The kept span under which it hangs; None for the lease's."""
    elsewhere: SpanContext | None
    """Its parent, where that one is none of this attempt's spans."""
    is_kept: bool
    usages: list[Usage] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    """What was said of it in any JSON, which OpenTelemetry might not take."""


class SpanLog:
    """The spans of one attempt. Those that have ended wait as JSON for the next call that has room."""

    def __init__(self, traceparent: str | None = None) -> None:
        self._traceparent = traceparent
        self.is_closed = False
        self._begun: dict[int, Begun] = {}
        self._ended: list[Raw] = []
        self._waiting_bytes = 0
        self._kept_ids: set[int] = set()
        self._kept = 0
        self._kept_of_models = 0
        self._dropped = 0
        self._last: Span | None = None

    # --- A span's life

    @cached_property
    def lease_span(self) -> SpanContext:
        """Where the body stands in its execution's trace; a trace of its own where the lease names none."""
        lease_span = _read(self._traceparent)
        _log_of_span[lease_span.span_id] = self
        return lease_span

    def begin(self, span: SpanContext, parent: SpanContext | None, attributes: Mapping[str, Any] | None) -> Begun:
        """Counts a span, and decides whether it is kept. What begins under a dropped one hangs under the next above."""
        parent_id, elsewhere = None, None
        if parent is not None and parent.is_valid and parent.span_id != self.lease_span.span_id:
            above = self._begun.get(parent.span_id)
            if parent.span_id in self._kept_ids:
                parent_id = trace.format_span_id(parent.span_id)
            elif above is not None:
                parent_id = above.parent_id
            else:
                elsewhere = parent
        begun = Begun(parent_id, elsewhere, self._has_room(attributes))
        if begun.is_kept:
            self._kept_ids.add(span.span_id)
        if not self.is_closed:
            self._begun[span.span_id] = begun
            _log_of_span[span.span_id] = self
        return begun

    def begun(self, span: SpanContext) -> Begun | None:
        """What is known of a span that began here and has not ended."""
        return self._begun.get(span.span_id)

    def end(self, span: SpanContext, ended: Ended) -> None:
        """Keeps a span as it is at its end; does nothing for one that never began here, or too late."""
        _log_of_span.pop(span.span_id, None)
        begun = self._begun.pop(span.span_id, None)
        if begun is None or self.is_closed:
            return
        if not begun.is_kept and not self._has_room_for_tokens(begun.usages or counts_tokens(ended.attributes)):
            self._dropped += 1
            return
        self.add(
            content_of(
                ended,
                span.span_id,
                begun.parent_id,
                elsewhere=begun.elsewhere,
                attributes=begun.attributes,
                usages=begun.usages,
            )
        )

    def add(self, span: Span) -> None:
        """Keeps a span that has ended. One that is too large keeps its tokens and loses its attributes."""
        try:
            content = msgspec.json.encode(span)
            is_too_large = len(content) > SPAN_BYTES_MAX
            if is_too_large:
                logger.warning("The attributes of the span %r have %d bytes and are dropped", span.name, len(content))
            if is_too_large or self._waiting_bytes > WAITING_BYTES_MAX:
                span = lightened(span)
                content = msgspec.json.encode(span)
        except (TypeError, ValueError, OverflowError) as fault:
            logger.warning("The span %r was dropped: %s", span.name, fault)
            return
        self._last = span
        self._waiting_bytes += len(content)
        self._ended.append(Raw(content))

    # --- What is sent

    def batch(self, room: int) -> list[Raw]:
        """What the next call may carry in so many bytes: the oldest, as many as one call takes."""
        if not self._ended:
            return []
        waiting = self._ended[:SPANS_PER_CALL]
        sizes = accumulate(len(bytes(span)) + 1 for span in waiting)
        return waiting[: sum(size <= room for size in sizes)]

    def exceeds_call(self) -> bool:
        """Whether the call that tells an outcome, full as it may be, has no room for all."""
        return len(self.batch(ROOM_BESIDE_OUTCOME)) < len(self)

    def sent(self, count: int) -> None:
        """So many of a batch have arrived."""
        if count:
            del self._ended[:count]
            self._waiting_bytes = sum(len(bytes(span)) for span in self._ended)

    def all(self) -> list[Span]:
        """What was not sent yet, with the tokens that the daemon counts for it."""
        return [_counted(msgspec.json.decode(span, type=Span)) for span in self._ended]

    def __len__(self) -> int:
        return len(self._ended)

    # --- The end

    def tell_dropped(self, step: str) -> None:
        """Says how many spans were too many: in the log, and on the last one, which replaces what was sent of it."""
        if self._dropped and self._last is not None:
            kept = self._kept + self._kept_of_models
            logger.warning("Step %r made %d spans more than the %d that were kept", step, self._dropped, kept)
            self.add(replace(self._last, attributes={**self._last.attributes, DROPPED_SPANS: self._dropped}))

    def close(self) -> None:
        """Takes no more: the outcome is on its way."""
        self.is_closed = True
        if "lease_span" not in vars(self):
            return  # no body began
        for span_id in [self.lease_span.span_id, *self._begun]:
            _log_of_span.pop(span_id, None)
        self._begun.clear()

    # --- What is too many

    def _has_room(self, attributes: Mapping[str, Any] | None) -> bool:
        if self._kept < SPANS_PER_ATTEMPT:
            self._kept += 1
            return True
        return self._has_room_for_tokens(counts_tokens(attributes))

    def _has_room_for_tokens(self, counts: object) -> bool:
        if not counts or self._kept_of_models >= SPANS_PER_ATTEMPT:
            return False
        self._kept_of_models += 1
        return True


def log_of_span(span: SpanContext) -> SpanLog | None:
    """Where a span that is open, or a lease's, belongs."""
    return _log_of_span.get(span.span_id)


def _read(traceparent: str | None) -> SpanContext:
    try:
        _, trace_id, span_id, flags = (traceparent or "").split("-")[:4]
        return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
    except ValueError:
        return SpanContext(secrets.randbits(128) or 1, secrets.randbits(64) or 1, is_remote=True, trace_flags=_SAMPLED)


def _counted(span: Span) -> Span:
    usage = None if span.usage is not None else usage_from_attributes(span.attributes)
    return span if usage is None else replace(span, usage=[usage])
