"""Owns what a body records for its trace: spans, the tokens they used, and their tie to OpenTelemetry."""

import logging
import secrets
import threading
import time
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from itertools import accumulate
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from msgspec import Raw
from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.context import attach
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from stepd_protocol.leases import Span, Usage
from stepd_protocol.limits import KIB, SHORT_TEXT_LENGTH_MAX, SPAN_BYTES_MAX, Limits
from stepd_protocol.names import SpanKind, SpanStatus
from stepd_worker.values import Unencodable, encode, text_of

logger = logging.getLogger("stepd_worker")

SPANS_PER_CALL: Final = Limits().spans_per_call

ROOM_BESIDE_OUTCOME: Final = 256 * KIB
UNNAMED: Final = "unnamed"

_parent: ContextVar[str | None] = ContextVar("stepd_parent_span", default=None)
_UNTRACED: Final = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)
_propagator = TraceContextTextMapPropagator()


class SpanLog:
    """The spans of one attempt that have ended, as JSON. What a call could not take waits for the next one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: list[Raw] = []

    def add(self, span: Span) -> None:
        """Keeps a span as it is at its end. One that is too large keeps its tokens and loses its attributes."""
        try:
            content = msgspec.json.encode(span)
            if len(content) > SPAN_BYTES_MAX:
                logger.warning("The attributes of the span %r have %d bytes and are dropped", span.name, len(content))
                content = msgspec.json.encode(replace(span, attributes={}))
        except (TypeError, ValueError, OverflowError) as fault:
            logger.warning("The span %r was dropped: %s", span.name, fault)
            return
        with self._lock:
            self._ended.append(Raw(content))

    def batch(self, room: int) -> list[Raw]:
        """What the next call may carry in so many bytes: the oldest, as many as one call takes."""
        if not self._ended:
            return []
        with self._lock:
            sizes = accumulate(len(bytes(span)) + 1 for span in self._ended[:SPANS_PER_CALL])
            return self._ended[: sum(size <= room for size in sizes)]

    def exceeds_call(self) -> bool:
        """Whether the call that tells an outcome, full as it may be, has no room for all."""
        return len(self.batch(ROOM_BESIDE_OUTCOME)) < len(self)

    def all(self) -> list[Span]:
        """What was not sent yet."""
        with self._lock:
            return [msgspec.json.decode(span, type=Span) for span in self._ended]

    def sent(self, count: int) -> None:
        """So many of a batch have arrived."""
        with self._lock:
            del self._ended[:count]

    def __len__(self) -> int:
        return len(self._ended)


class OpenSpan:
    """A span being recorded: `with ctx.span("model call", kind="client") as span: …`. An error through it marks it."""

    def __init__(self, log: SpanLog, name: str, kind: SpanKind, attributes: dict[str, Any]) -> None:
        self._log = log
        self._name = name
        self._kind: SpanKind = kind
        self._attributes = attributes
        self._usages: list[Usage] = []
        self._status: SpanStatus = "unset"
        self._parent_id: str | None = None
        self._start_ns = 0
        self._token: Token[str | None] | None = None
        self._otel: AbstractContextManager[trace.Span] | None = None
        self.span_id = ""

    def set(self, key: str, value: Any) -> None:
        """Sets an attribute: any JSON value."""
        self._attributes[key] = value

    def usage(
        self,
        *,
        model: str,
        input_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        output_tokens: int = 0,
        reasoning_tokens: int = 0,
    ) -> None:
        """Adds tokens that this span used: five disjoint counts of one model."""
        self._usages.append(
            Usage(
                model=model,
                input_tokens=input_tokens,
                cache_read_tokens=cache_read_tokens,
                cache_write_tokens=cache_write_tokens,
                output_tokens=output_tokens,
                reasoning_tokens=reasoning_tokens,
            )
        )

    def fail(self) -> None:
        """Marks the span as failed."""
        self._status = "error"

    def __enter__(self) -> Self:
        self._parent_id = _parent.get()
        self._open_otel()
        self._token = _parent.set(self.span_id)
        self._start_ns = time.time_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        end_ns = time.time_ns()
        if self._token is not None:
            _parent.reset(self._token)
        if error is not None:
            self.fail()
        if self._otel is not None:
            self._otel.__exit__(kind, error, stack)
        self._log.add(
            Span(
                span_id=self.span_id,
                parent_span_id=self._parent_id,
                name=text_of(self._name)[:SHORT_TEXT_LENGTH_MAX] or UNNAMED,
                kind=self._kind,
                start_unix_nano=str(self._start_ns),
                end_unix_nano=str(max(end_ns, self._start_ns)),
                status=self._status,
                attributes=_as_json(self._attributes),
                usage=self._usages or None,
            )
        )

    def _open_otel(self) -> None:
        """Opens the same span in OpenTelemetry where a program has set that up, and shares its id."""
        if is_traced():
            kind = getattr(trace.SpanKind, self._kind.upper())
            self._otel = trace.get_tracer("stepd_worker").start_as_current_span(
                self._name, kind=kind, attributes=self._attributes
            )
            context = self._otel.__enter__().get_span_context()
            self.span_id = trace.format_span_id(context.span_id)
        if not self.span_id or set(self.span_id) == {"0"}:
            self.span_id = secrets.token_hex(8)


def is_traced() -> bool:
    """Whether the program has set up OpenTelemetry; without, nothing is spent on it."""
    return not isinstance(trace.get_tracer_provider(), _UNTRACED)


def enter_trace(traceparent: str | None) -> None:
    """Makes the lease's span the parent of what a body traces. Call it in the body's own context."""
    if traceparent is not None and is_traced():
        attach(_propagator.extract({"traceparent": traceparent}))


def _as_json(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes that can be sent: what has no JSON becomes text."""
    safe: dict[str, Any] = {}
    for key, value in attributes.items():
        try:
            safe[text_of(key)] = Raw(encode(value))
        except Unencodable:
            safe[text_of(key)] = text_of(value)
    return safe
