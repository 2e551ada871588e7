"""Providers of the program's: set early, late, within a body, broken, or deaf to span processors."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from stepd_worker import watch_provider
from stepd_worker.own_tracer import OwnTracerProvider
from tests.sdk.traced import API, Program, check_exported, nested_both_ways, provider_of, set_up, traced


def test_a_provider_that_is_set_late_gets_the_spans_too(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, None)
    tracers: list[trace.Tracer] = []

    def body(ctx: Any, input: Any) -> None:
        tracers.append(trace.get_tracer("early"))
        nested_both_ways(ctx, input)

    assert len(traced(body).spans) == 4
    assert isinstance(trace.get_tracer_provider(), OwnTracerProvider)
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    program = Program()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider_of(program))

    def later(ctx: Any, input: Any) -> None:
        with tracers[0].start_as_current_span("early"):
            nested_both_ways(ctx, input)

    result = traced(later)
    assert len(result.spans) == 5
    check_exported(program, result)


def test_a_provider_that_is_set_within_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, None)
    program = Program()

    def body(ctx: Any, input: Any) -> None:
        with API.start_as_current_span("before"):
            monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider_of(program))
            with API.start_as_current_span("after"):
                pass

    result = traced(body)
    assert result.tree() == {"before": None, "after": "before"}
    assert [span.name for span in program.exported()] == ["after"]


def test_set_tracer_provider_is_still_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, None)
    traced(nested_both_ways)
    program = Program()
    provider = provider_of(program)
    once = type(trace._TRACER_PROVIDER_SET_ONCE)()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", once)
    trace.set_tracer_provider(provider)
    assert trace.get_tracer_provider() is provider
    result = traced(nested_both_ways)
    assert len(result.spans) == 4
    check_exported(program, result)


def test_without_sampling_ctx_span_is_kept_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    assert traced(nested_both_ways).tree() == {"outer": None, "inner": None}


def test_a_provider_that_takes_no_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, trace.NoOpTracerProvider())
    assert traced(nested_both_ways).tree() == {"outer": None, "inner": "outer"}


class Failing(SpanProcessor):
    """A span processor of the program's that is broken."""

    def __init__(self, *methods: str) -> None:
        for method in methods:
            setattr(self, method, partial(self.fail, method))

    def fail(self, method: str, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"{method} is broken")


@pytest.mark.parametrize("method", ["on_start", "on_end"])
def test_a_broken_processor_of_the_program_costs_ctx_span_nothing(
    monkeypatch: pytest.MonkeyPatch, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    set_up(monkeypatch, provider_of(Program(), Failing(method)))

    def body(ctx: Any, input: Any) -> int:
        with ctx.span("call") as span:
            span.usage(model="m", output_tokens=1)
        return 1

    result = traced(body)
    assert result.outcome.output == b"1"
    assert [(span.name, bool(span.usage)) for span in result.spans] == [("call", True)]
    assert f"{method} is broken" in caplog.text


def test_a_provider_that_is_handed_around_is_watched_when_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, None)
    program = Program()
    provider = provider_of(program)
    watch_provider(provider)
    watch_provider(provider)

    def body(ctx: Any, input: Any) -> None:
        vendors = provider.get_tracer("a-vendor")
        with ctx.span("outer"), vendors.start_as_current_span("handed around"), API.start_as_current_span("inner"):
            pass

    result = traced(body)
    assert result.tree() == {"outer": None, "handed around": "outer", "inner": "handed around"}
    assert [span.name for span in program.exported()] == ["handed around"]


def test_two_bodies_at_once_know_their_own(program: Program) -> None:
    both = threading.Barrier(2)

    def body(ctx: Any, input: Any, name: str) -> None:
        with API.start_as_current_span(name):
            both.wait(10)
            with ctx.span(f"in {name}"):
                both.wait(10)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda name: traced(lambda ctx, input: body(ctx, input, name)), ["a", "b"]))
    assert [result.tree() for result in results] == [{"a": None, "in a": "a"}, {"b": None, "in b": "b"}]
