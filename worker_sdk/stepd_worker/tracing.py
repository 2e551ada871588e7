"""Owns the tie to OpenTelemetry: which attempt a span belongs to, and how the spans of its bodies are come by.

A program with a tracer provider of its own keeps it: a span processor is added to it, once. A program with none is
given a small one that hinders no other.
"""

import logging
import threading
from typing import Final, Protocol

from opentelemetry import trace
from opentelemetry.context import Context, attach, create_key, get_current, get_value, set_value
from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from stepd_worker.own_tracer import OwnTracerProvider, is_unset
from stepd_worker.span_content import Ended
from stepd_worker.spans import SpanLog, log_of_span
from stepd_worker.thread_context import inherit_in_threads

logger = logging.getLogger("stepd_worker")

_LOG: Final = create_key("stepd-span-log")
_SPAN: Final[str] = next(iter(set_span_in_context(trace.INVALID_SPAN, Context())))
"""Under which key a context has its span: most bodies trace nothing, so that their context is made in one go."""


def enter_trace(log: SpanLog) -> None:
    """Makes the lease's span the parent of what a body traces. Call it in the body's own context."""
    watch_provider()
    attach(Context({_SPAN: NonRecordingSpan(log.lease_span), _LOG: log}))


def context_of(log: SpanLog) -> Context:
    """The current context, if it is one of this attempt; else that of its lease, for a thread that has none."""
    current = get_current()
    return current if get_value(_LOG, current) is log else _under_lease(log, current)


def find_log(context: Context | None) -> SpanLog | None:
    """The attempt that a span belongs to which begins in this context, or in the current one; None for no body's.

    First what the given context says, then where its parent belongs, last who begins it here.
    """
    log = get_value(_LOG, context)
    if log is None:
        log = log_of_span(trace.get_current_span(context).get_span_context())
    if log is None and context is not None:
        log = get_value(_LOG)
    return log if isinstance(log, SpanLog) and not log.is_closed else None


def watch_provider(provider: trace.TracerProvider | None = None) -> None:
    """Has the spans that bodies make with a tracer provider sent with their attempts.

    A worker does so itself for the one that `set_tracer_provider` was called with, whenever that was. Call it for any
    other, which is handed to instrumentations by hand.
    """
    given = trace.get_tracer_provider() if provider is None else provider
    if given is not _watched.latest:
        _watched.watch(given)


class StartedSpan(Ended, Protocol):
    """A span as a processor gets it."""

    @property
    def parent(self) -> trace.SpanContext | None: ...
    def get_span_context(self) -> trace.SpanContext: ...


class LeaseSpans:
    """A span processor, by its methods: it keeps the spans that belong to an attempt. No fault of it leaves it."""

    def on_start(self, span: StartedSpan, parent_context: Context | None = None) -> None:
        try:
            log = find_log(parent_context)
            if log is not None:
                log.begin(span.get_span_context(), span.parent, span.attributes)
        except Exception:
            logger.exception("A span was not noticed")

    def on_end(self, span: StartedSpan) -> None:
        try:
            context = span.get_span_context()
            log = log_of_span(context)
            if log is not None:
                log.end(context, span)
        except Exception:
            logger.exception("The span %r was not kept", span.name)

    def _on_ending(self, span: StartedSpan) -> None:
        """Called by newer SDKs before `on_end`."""

    def shutdown(self) -> None:
        """Holds nothing."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


class _Watched:
    """The providers whose spans are noticed."""

    def __init__(self) -> None:
        self.latest: trace.TracerProvider | None = None
        self._all: list[trace.TracerProvider] = []
        self._own = OwnTracerProvider(find_log, self.watch)
        self._processor = LeaseSpans()
        self._lock = threading.RLock()

    def watch(self, provider: trace.TracerProvider) -> None:
        """Adds the processor to a provider, once; where a program has none, sets the small one."""
        with self._lock:
            inherit_in_threads(_is_in_body)
            if is_unset(provider):
                provider = self._set_own(provider)
            elif not any(known is provider for known in self._all):
                self._all.append(provider)
                self._add_processor(provider)
            self.latest = provider

    def _set_own(self, provider: trace.TracerProvider) -> trace.TracerProvider:
        if provider is self._own:
            return provider
        # Not by `set_tracer_provider`, which is heard once only: that one call is the program's.
        if getattr(trace, "_TRACER_PROVIDER", self) is None:
            trace._TRACER_PROVIDER = self._own
        else:  # an API whose inside is another one
            trace.set_tracer_provider(self._own)
        return trace.get_tracer_provider()

    def _add_processor(self, provider: trace.TracerProvider) -> None:
        add = getattr(provider, "add_span_processor", None)
        if add is not None:
            add(self._processor)
        elif not isinstance(provider, trace.NoOpTracerProvider):
            logger.warning("%s takes no span processor: of bodies only ctx.span() is seen", type(provider).__name__)


def _is_in_body() -> bool:
    return find_log(None) is not None


def _under_lease(log: SpanLog, context: Context) -> Context:
    return set_value(_LOG, log, set_span_in_context(NonRecordingSpan(log.lease_span), context))


_watched: Final = _Watched()
