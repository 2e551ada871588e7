"""Owns `ctx.span()`: a span of OpenTelemetry, of the program's provider or the worker's own, and the tokens it used."""

import logging
from contextvars import Token
from types import TracebackType
from typing import Any, Self

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import StatusCode, set_span_in_context

from stepd_protocol.leases import Usage
from stepd_protocol.names import SpanKind
from stepd_worker.own_tracer import OwnSpan, SpanOptions, begin_own
from stepd_worker.spans import Begun, SpanLog
from stepd_worker.tracing import context_of, watch_provider
from stepd_worker.values import text_of

logger = logging.getLogger("stepd_worker")

TRACER = "stepd_worker"


class OpenSpan:
    """A span being recorded: `with ctx.span("model call", kind="client") as span: …`. An error through it marks it.

    Within the block it is OpenTelemetry's current span: what is traced there hangs under it.
    """

    def __init__(self, log: SpanLog, name: str, kind: SpanKind, attributes: dict[str, Any]) -> None:
        self._log = log
        self._name = text_of(name)
        self._kind = getattr(trace.SpanKind, kind.upper())
        self._attributes = attributes
        self._usages: list[Usage] = []
        self._has_failed = False
        self._span: trace.Span | None = None
        self._begun: Begun | None = None
        self._token: Token[Context] | None = None
        self.span_id = ""

    def set(self, key: str, value: Any) -> None:
        """Sets an attribute: any JSON value."""
        if self._span is None or self._begun is None:
            self._attributes[key] = value
        elif isinstance(self._span, OwnSpan) or _is_plain(value):
            self._span.set_attribute(key, value)
        else:
            self._begun.attributes[key] = value

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
        self._has_failed = True

    def __enter__(self) -> Self:
        watch_provider()
        context = context_of(self._log)
        plain = {key: value for key, value in self._attributes.items() if _is_plain(value)}
        self._span, self._begun = self._begin(context, plain)
        self._begun.usages = self._usages
        self._begun.attributes |= {key: value for key, value in self._attributes.items() if key not in plain}
        self.span_id = trace.format_span_id(self._span.get_span_context().span_id)
        self._token = attach(set_span_in_context(self._span, context))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        span = self._span
        if self._token is None or span is None:
            return
        detach(self._token)
        try:
            if error is not None:
                span.record_exception(error)
            if error is not None or self._has_failed:
                span.set_status(StatusCode.ERROR)
            span.end()
        except Exception:
            logger.exception("OpenTelemetry failed at the end of the span %r", self._name)
        context = span.get_span_context()
        if self._log.begun(context) is not None:
            # Another processor failed before the worker's was asked.
            self._log.end(context, span)  # type: ignore[arg-type]  # whoever calls a processor has the SDK's span

    def _begin(self, context: Context, attributes: dict[str, Any]) -> tuple[trace.Span, Begun]:
        """A span of the program's provider, so that its exporters get it too; the worker's own where that has none."""
        try:
            span = trace.get_tracer(TRACER).start_span(self._name, context, self._kind, attributes)
            begun = self._log.begun(span.get_span_context()) if span.is_recording() else None
            if begun is not None:
                return span, begun
        except Exception:
            logger.exception("OpenTelemetry failed at the start of the span %r", self._name)
        return begin_own(self._log, self._name, context, SpanOptions(self._kind, attributes))


def _is_plain(value: Any) -> bool:
    """Whether OpenTelemetry takes it for an attribute: text, a truth, a number, or a list of one kind of these."""
    if isinstance(value, list | tuple):
        kinds = {type(item) for item in value}
        return len(kinds) <= 1 and kinds <= {str, bool, int, float}
    return isinstance(value, str | bool | int | float)
