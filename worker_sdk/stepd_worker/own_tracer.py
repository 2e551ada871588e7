"""Owns a small tracer provider, for programs that have set up none: what is traced in a body reaches its run.

Outside of bodies it records nothing, as OpenTelemetry's API does by itself. It is a `ProxyTracerProvider`, so that who
asks whether a provider was set up hears that none was; and as soon as one is, its tracers are that one's.
"""

import functools
import inspect
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar, cast

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import Attributes

from stepd_worker.span_content import EXCEPTION, EXCEPTION_TYPE, type_name
from stepd_worker.spans import Begun, SpanLog

F = TypeVar("F", bound=Callable[..., Any])
FindLog = Callable[[Context | None], SpanLog | None]

logger = logging.getLogger("stepd_worker")

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_NOOP: Final = trace.NoOpTracer()
NOTED_MAX: Final = 128
"""So many events and links of one span are kept in mind."""


class NamedEvent(NamedTuple):
    """What is kept of an event."""

    name: str
    attributes: Mapping[str, Any]


class OwnSpan(trace.Span):
    """A span of one attempt's trace. What is said of it after its end is passed over."""

    def __init__(self, log: SpanLog, name: str, context: SpanContext, options: "SpanOptions") -> None:
        self._log = log
        self._context = context
        self._options = options
        self.name = name
        self.kind = options.kind
        self.attributes: dict[str, Any] = dict(options.attributes or {})
        self.events: list[NamedEvent] = []
        self.links = list(options.links or ())[:NOTED_MAX]
        self.status = Status()
        self.start_time: int | None = time.time_ns() if options.start_time is None else options.start_time
        self.end_time: int | None = None

    def get_span_context(self) -> SpanContext:
        return self._context

    def is_recording(self) -> bool:
        return self.end_time is None

    def set_attribute(self, key: str, value: Any) -> None:
        if self.end_time is None:
            self.attributes[key] = value

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        if self.end_time is None:
            self.attributes.update(attributes)

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        if self.end_time is None and len(self.events) < NOTED_MAX:
            kept = {EXCEPTION_TYPE: attributes[EXCEPTION_TYPE]} if attributes and EXCEPTION_TYPE in attributes else {}
            self.events.append(NamedEvent(name, kept))

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        if self.end_time is None and len(self.links) < NOTED_MAX:
            self.links.append(Link(context))

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        self.add_event(EXCEPTION, {EXCEPTION_TYPE: type_name(exception)})

    def update_name(self, name: str) -> None:
        if self.end_time is None:
            self.name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        code = status.status_code if isinstance(status, Status) else status
        is_final = self.end_time is not None or self.status.status_code is StatusCode.OK
        if not is_final and code in (StatusCode.OK, StatusCode.ERROR):
            self.status = Status(code)

    def end(self, end_time: int | None = None) -> None:
        if self.end_time is None:
            self.end_time = time.time_ns() if end_time is None else end_time
            try:
                self._log.end(self._context, self)
            except Exception:
                logger.exception("The span %r was not kept", self.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        if error is not None:
            if self._options.record_exception:
                self.record_exception(error)
            if self._options.set_status_on_exception:
                self.set_status(StatusCode.ERROR)
        self.end()


@dataclass(frozen=True, slots=True)
class SpanOptions:
    """How a span begins, and what an error through it does."""

    kind: SpanKind = SpanKind.INTERNAL
    attributes: Attributes = None
    links: Sequence[Link] | None = None
    start_time: int | None = None
    record_exception: bool = True
    set_status_on_exception: bool = True


def begin_own(log: SpanLog, name: str, context: Context | None, options: SpanOptions) -> tuple[OwnSpan, Begun]:
    """Begins a span of an attempt, in the lease's trace."""
    parent = trace.get_current_span(context).get_span_context()
    own = SpanContext(log.lease_span.trace_id, secrets.randbits(64) or 1, is_remote=False, trace_flags=_SAMPLED)
    begun = log.begin(own, parent, options.attributes)
    return OwnSpan(log, name, own, options), begun


class OwnTracer(trace.Tracer):
    """Records in bodies, until a provider is set up: from then on it is one of that provider's."""

    def __init__(self, find_log: FindLog, real_tracer: Callable[[], trace.Tracer | None]) -> None:
        self._find_log = find_log
        self._real_tracer = real_tracer

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> trace.Span:
        real = self._real_tracer()
        if real is not None:
            return real.start_span(
                name, context, kind, attributes, links, start_time, record_exception, set_status_on_exception
            )
        log = self._find_log(context)
        if log is None:
            return _NOOP.start_span(name, context)
        options = SpanOptions(kind, attributes, links, start_time, record_exception, set_status_on_exception)
        try:
            return begin_own(log, name, context, options)[0]
        except Exception:  # without the worker it would cost a body nothing: the API by itself looks at no argument
            logger.exception("The span %r was not begun", name)
            return _NOOP.start_span(name, context)

    def start_as_current_span(  # type: ignore[override]  # the API types it by a class that it does not make public
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
    ) -> "CurrentSpan":
        start = functools.partial(
            self.start_span,
            name,
            context,
            kind,
            attributes,
            links,
            start_time,
            record_exception,
            set_status_on_exception,
        )
        return CurrentSpan(start, end_on_exit, record_exception, set_status_on_exception)


class CurrentSpan(AbstractContextManager[trace.Span]):
    """A span that is the current one for the length of a `with` block, or of each call of what it decorates."""

    def __init__(self, start: Callable[[], trace.Span], *use: bool) -> None:
        self._start = start
        self._use = use
        self._used: AbstractContextManager[trace.Span] | None = None

    def __enter__(self) -> trace.Span:
        self._used = trace.use_span(self._start(), *self._use)
        return self._used.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> bool | None:
        return None if self._used is None else self._used.__exit__(kind, error, stack)

    def __call__(self, function: F) -> F:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with CurrentSpan(self._start, *self._use):
                    return await function(*args, **kwargs)

            return cast("F", awaited)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with CurrentSpan(self._start, *self._use):
                return function(*args, **kwargs)

        return cast("F", called)


class OwnTracerProvider(trace.ProxyTracerProvider):
    """Gives out the tracers of a program that has set up no provider, or not yet."""

    def __init__(self, find_log: FindLog, when_set: Callable[[trace.TracerProvider], None]) -> None:
        self._find_log = find_log
        self._when_set = when_set

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Attributes = None,
    ) -> trace.Tracer:
        about = (instrumenting_module_name, instrumenting_library_version, schema_url, attributes)
        real: list[trace.Tracer] = []

        def real_tracer() -> trace.Tracer | None:
            if real:
                return real[0]
            provider = trace.get_tracer_provider()
            if is_unset(provider):
                return None
            self._when_set(provider)
            real.append(provider.get_tracer(*about))
            return real[0]

        return OwnTracer(self._find_log, real_tracer)


def is_unset(provider: trace.TracerProvider) -> bool:
    """Whether this is what stands where a program has set up no provider: the API's own, or the one of this module."""
    return type(provider) in (trace.ProxyTracerProvider, OwnTracerProvider)
