"""Owns the export of traces by OTLP/HTTP: what was committed is handed to a thread, and nothing ever waits for it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_EXPORT_BATCH_SIZE, OTEL_BSP_MAX_QUEUE_SIZE
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext

from stepd.engine.model import Attempt, Execution
from stepd.engine.pieces import Told
from stepd.engine.work import Changes
from stepd.service.otlp import Sent
from stepd.service.spans import attempt_span, execution_span, worker_span
from stepd.service.traces import is_sampled, trace_id
from stepd.store.base import Tell
from stepd.telemetry.metrics import Metrics
from stepd.telemetry.otlp import SAMPLED, daemon_resource, original_span, span_of, worker_resource
from stepd_protocol.leases import Span
from stepd_protocol.limits import MIB

FLUSH_SECONDS: Final = 3.0
"""How long a daemon that stops waits for the collector to take what is left."""
QUEUE: Final = 8_192
"""Spans that wait at most, unless OTEL_BSP_MAX_QUEUE_SIZE says otherwise."""
QUEUE_BYTES: Final = 32 * MIB
"""And so large together at most."""
OWN_BYTES: Final = 2_000
"""About what a span of an execution or attempt keeps in memory while it waits."""

_SOME: Final = SpanContext(1, 1, is_remote=False, trace_flags=SAMPLED)
_span = msgspec.json.Decoder(Span).decode
_log = logging.getLogger(__name__)


class Exports:
    """Spans on their way to a collector. Make it where an endpoint is set: the exporter reads the environment."""

    def __init__(self, service: str, metrics: Metrics, environment: Mapping[str, str] = os.environ) -> None:
        self._metrics = metrics
        self._resource = daemon_resource(service)
        self._size = _whole(environment.get(OTEL_BSP_MAX_QUEUE_SIZE)) or QUEUE
        batch = min(self._size, _whole(environment.get(OTEL_BSP_MAX_EXPORT_BATCH_SIZE)) or 512)
        self._exporter = _Making(OTLPSpanExporter(), metrics)
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=self._size, max_export_batch_size=batch)
        self._given = self._bytes = 0

    def committed(self, tell: Tell) -> None:
        """Takes what a commit ended. Spans are made of it on the thread that sends them."""
        for changes in tell.written:
            if (changes.pieces or changes.spans) and is_sampled(changes.execution):
                for make, size in self._made_of(changes):
                    self.give(make, size)

    def forward(self, sent: Sent) -> None:
        """Takes a span that a worker exported, as it came. As bytes: a message would keep its whole request alive."""
        parts = [part.SerializeToString() for part in (sent.original, sent.resource, sent.scope)]
        self.give(partial(original_span, *parts), sum(map(len, parts)))

    def give(self, make: Callable[[], ReadableSpan], size: int) -> None:
        """Hands over one span of so many bytes, or counts it as dropped where too many, or too large ones, wait."""
        waiting = self._exporter
        if self._given - waiting.taken >= self._size or self._bytes - waiting.bytes_taken >= QUEUE_BYTES:
            self._metrics.spans_dropped.inc()
            return
        self._given += 1
        self._bytes += size
        self._processor.on_end(_Unmade(make, size))

    async def stop(self, seconds: float = FLUSH_SECONDS) -> None:
        """Sends what waits; what the collector has not taken in time is lost."""
        over = asyncio.Event()
        loop = asyncio.get_running_loop()

        def flush() -> None:
            self._processor.shutdown()  # type: ignore[no-untyped-call]  # the library gives it no types
            loop.call_soon_threadsafe(over.set)

        # A thread that doesn't hold the process back, should the collector not answer.
        threading.Thread(target=flush, name="traces-flush", daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                await over.wait()
        except TimeoutError:
            _log.warning("traces: %d spans were not sent within %g s", self._given - self._exporter.sent, seconds)

    def _made_of(self, changes: Changes) -> Iterator[tuple[Callable[[], ReadableSpan], int]]:
        for told in changes.pieces:
            yield partial(self._own, changes.execution, told), OWN_BYTES
        for row in changes.spans:
            attempt = changes.attempts.get(row.attempt_id)
            if row.fresh and attempt is not None:
                yield partial(_workers, changes.execution, attempt, row.body), len(row.body)

    def _own(self, execution: Execution, told: Told) -> ReadableSpan:
        if told.attempt is None or told.step is None:
            view = execution_span(execution, told.piece)
        else:
            view = attempt_span(execution, told.attempt, told.step, told.piece)
        return span_of(trace_id(execution.id, execution.traceparent), view, self._resource)


class _Unmade(ReadableSpan):
    """A span of which only that it is to be sent is known yet."""

    def __init__(self, make: Callable[[], ReadableSpan], size: int) -> None:
        super().__init__("", context=_SOME, resource=worker_resource("", ""))
        self.make = make
        self.size = size


class _Making(SpanExporter):
    """Makes the spans where they are sent, on the processor's thread, and counts what became of them."""

    def __init__(self, exporter: SpanExporter, metrics: Metrics) -> None:
        self._exporter = exporter
        self._metrics = metrics
        self.taken = self.bytes_taken = 0
        """Spans that have left the queue."""
        self.sent = 0
        """Spans of which it is known what became of them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        unmade = [span for span in spans if isinstance(span, _Unmade)]
        self.bytes_taken += sum(span.size for span in unmade)
        made = [span.make() for span in unmade]
        result = self._exporter.export(made)
        is_well = result is SpanExportResult.SUCCESS
        (self._metrics.spans_exported if is_well else self._metrics.spans_failed).inc(len(spans))
        self.sent += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _workers(execution: Execution, attempt: Attempt, body: bytes) -> ReadableSpan:
    """A span from a body, which its worker sent with a call of the lease's."""
    view = worker_span(attempt, None, _span(body))
    return span_of(
        trace_id(execution.id, execution.traceparent), view, worker_resource(attempt.worker, attempt.instance)
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and int(text) > 0 else None
