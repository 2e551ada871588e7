"""Owns bodies that a worker process of the tests traces: one forks, one is killed within a span."""

import os
import threading
from typing import Any, Final

from opentelemetry import trace

from stepd_worker import Context, Workflow

NEVER: Final = threading.Event()

tracer = trace.get_tracer("bodies")

forked = Workflow("traced-forked")
killed = Workflow("traced-killed", on_failure="fail")


@forked.step(effect="read_only")
def fork(ctx: Context, input: Any) -> int:
    """The child traces too, and ends within its span."""
    with tracer.start_as_current_span("parent"):
        child = os.fork()
        if child == 0:
            with tracer.start_as_current_span("child"), ctx.span("of the child"):
                raise SystemExit(7)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@killed.step(effect="read_only", delivery="at_most_once")
def work(ctx: Context, input: Any) -> None:
    """Has paid for a model's answer when it is killed."""
    with tracer.start_as_current_span("open"):
        with ctx.span("paid") as span:
            span.usage(model="m-1", output_tokens=5)
        NEVER.wait()
