"""Spans beside OpenTelemetry: the program's own set-up gets them too, under the lease's trace."""

import subprocess
import sys

PROGRAM = """
import asyncio, contextlib, msgspec
from opentelemetry import trace
from stepd_protocol.leases import Lease
from stepd_worker import Workflow
from stepd_worker.bodies import Threads, start_body
from stepd_worker.held import Held
from tests.sdk.peer import lease

opened = []

class Tracer(trace.NoOpTracer):
    @contextlib.contextmanager
    def start_as_current_span(self, name, **options):
        parent = trace.get_current_span().get_span_context()
        own = trace.SpanContext(parent.trace_id, len(opened) + 1, False)
        opened.append((name, options["kind"].name, format(parent.trace_id, "032x"), parent.span_id))
        with trace.use_span(trace.NonRecordingSpan(own)) as span:
            yield span

class Provider(trace.TracerProvider):
    def get_tracer(self, *names, **options):
        return Tracer()

trace.set_tracer_provider(Provider())
flow = Workflow("jobs", "1")

@flow.step("work", effect="read_only")
BODY

async def main():
    dealt = lease(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    held = Held(msgspec.json.decode(msgspec.json.encode(dealt), type=Lease), 0)
    await start_body(flow.bodies["work"], held, (None,), Threads(1))
    print(opened)
    print([(span.name, span.span_id, span.parent_span_id) for span in held.spans.all()])
    print(trace.get_current_span().get_span_context().trace_id)

asyncio.run(main())
"""

ASYNC_BODY = """async def body(ctx, input):
    with ctx.span("outer", kind="client"):
        with ctx.span("inner"):
            pass"""


def _printed(body: str) -> list[str]:
    program = PROGRAM.replace("BODY", body)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_async_body_traces_under_its_lease() -> None:
    _check(_printed(ASYNC_BODY))


def test_a_plain_body_traces_under_its_lease() -> None:
    _check(_printed(ASYNC_BODY.removeprefix("async ")))


def _check(printed: list[str]) -> None:
    opened, spans, left = printed
    trace_id, lease_span = "a" * 32, int("b" * 16, 16)
    assert opened == str([("outer", "CLIENT", trace_id, lease_span), ("inner", "INTERNAL", trace_id, 1)])
    first, second = f"{1:016x}", f"{2:016x}"
    assert spans == str([("inner", second, first), ("outer", first, None)])
    assert left == "0"
