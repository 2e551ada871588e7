"""Owns a body that is run for what it traces, and the set-ups of OpenTelemetry that a program may have."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stepd_protocol.leases import Lease, Span
from stepd_worker import Workflow
from stepd_worker.bodies import Threads, start_body
from stepd_worker.held import Held
from tests.sdk.peer import lease

TRACE_ID, LEASE_SPAN = "a" * 32, "b" * 16
TRACEPARENT = f"00-{TRACE_ID}-{LEASE_SPAN}-01"
API = trace.get_tracer("a-library")
"""As libraries have it: made at import time, before anybody has set up anything."""

Body = Callable[..., Any]


@dataclass
class Program:
    """A program's own set-up of OpenTelemetry; without one there is nothing to export to."""

    exporter: InMemorySpanExporter | None = None

    def exported(self) -> list[ReadableSpan]:
        return [] if self.exporter is None else list(self.exporter.get_finished_spans())


def provider_of(program: Program, *processors: SpanProcessor) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    program.exporter = InMemorySpanExporter()
    for processor in (*processors, SimpleSpanProcessor(program.exporter)):
        provider.add_span_processor(processor)
    return provider


def set_up(monkeypatch: pytest.MonkeyPatch, provider: trace.TracerProvider | None) -> None:
    """As if the program had called `set_tracer_provider`, which a process may do once."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    monkeypatch.setattr(API, "_real_tracer", None)


@dataclass
class Traced:
    """What a body left."""

    held: Held
    outcome: Any = None
    spans: list[Span] = field(default_factory=list)

    def tree(self) -> dict[str, str | None]:
        """Each span's name, and its parent's; None for the lease's."""
        names = {span.span_id: span.name for span in self.spans}
        return {span.name: span.parent_span_id and names[span.parent_span_id] for span in self.spans}

    def one(self, name: str) -> Span:
        return next(span for span in self.spans if span.name == name)


def traced(body: Body) -> Traced:
    """Runs a body as a worker does, under a lease of a daemon's trace."""
    flow = Workflow("jobs", "1")
    flow.step("work", effect="read_only")(body)
    content = msgspec.json.encode(lease(traceparent=TRACEPARENT))
    held = Held(msgspec.json.decode(content, type=Lease), 0)
    result = Traced(held)

    async def run() -> None:
        threads = Threads(1)
        result.outcome = await start_body(flow.bodies["work"], held, (None,), threads)
        threads.close()

    asyncio.run(run())
    held.spans.tell_dropped("work")
    result.spans = held.spans.all()
    held.spans.close()
    return result


def check_exported(program: Program, result: Traced) -> None:
    """The program's exporters got the same spans, in the lease's trace."""
    if program.exporter is None:
        return
    exported = {
        trace.format_span_id(span.context.span_id): span.parent and trace.format_span_id(span.parent.span_id)
        for span in program.exported()
    }
    assert exported == {span.span_id: span.parent_span_id or LEASE_SPAN for span in result.spans}
    assert {trace.format_trace_id(span.context.trace_id) for span in program.exported()} == {TRACE_ID}


def nested_both_ways(ctx: Any, input: Any) -> None:
    with (
        ctx.span("outer"),
        API.start_as_current_span("plain"),
        ctx.span("inner", kind="client"),
        API.start_as_current_span("innermost"),
    ):
        pass


async def nested_both_ways_async(ctx: Any, input: Any) -> None:
    nested_both_ways(ctx, input)
