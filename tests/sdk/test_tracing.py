"""What a body traces with the plain OpenTelemetry API: under its lease, once, whether or not a provider is set up."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.context import Context as TraceContext
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, StatusCode, set_span_in_context

from stepd_protocol.leases import Lease, Span
from stepd_worker import Workflow
from stepd_worker.bodies import Threads, start_body
from stepd_worker.held import Held
from stepd_worker.own_tracer import OwnTracerProvider
from stepd_worker.spans import SPANS_PER_ATTEMPT
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


def _provider(program: Program, *processors: SpanProcessor) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    program.exporter = InMemorySpanExporter()
    for processor in (*processors, SimpleSpanProcessor(program.exporter)):
        provider.add_span_processor(processor)
    return provider


@pytest.fixture(params=["no provider", "a provider"])
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Each test runs with and without a provider of the program's own."""
    program = Program()
    set_up(monkeypatch, _provider(program) if request.param == "a provider" else None)
    return program


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


# --- Where spans hang


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


@pytest.mark.parametrize("body", [nested_both_ways, nested_both_ways_async])
def test_spans_of_both_kinds_hang_in_each_other(program: Program, body: Body) -> None:
    result = traced(body)
    assert result.tree() == {"outer": None, "plain": "outer", "inner": "plain", "innermost": "inner"}
    assert len(result.spans) == 4
    assert result.one("inner").kind == "client"
    check_exported(program, result)


def test_tasks_and_threads_of_asyncio(program: Program) -> None:
    def on_thread(name: str) -> None:
        with API.start_as_current_span(name):
            pass

    async def task(name: str) -> None:
        with API.start_as_current_span(name):
            await asyncio.to_thread(on_thread, f"{name} to_thread")
            await asyncio.get_running_loop().run_in_executor(None, on_thread, f"{name} run_in_executor")

    async def body(ctx: Any, input: Any) -> None:
        with ctx.span("all"):
            await asyncio.gather(task("one"), task("two"))

    result = traced(body)
    assert result.tree() == {
        "all": None,
        "one": "all",
        "two": "all",
        "one to_thread": "one",
        "two to_thread": "two",
        "one run_in_executor": "one",
        "two run_in_executor": "two",
    }
    check_exported(program, result)


class OwnRun(threading.Thread):
    def run(self) -> None:
        with API.start_as_current_span("subclass"):
            pass


def in_threads(ctx: Any, input: Any) -> None:
    def work(name: str) -> None:
        with API.start_as_current_span(name):
            pass

    with API.start_as_current_span("body"):
        threads = [threading.Thread(target=work, args=["thread"]), threading.Timer(0, work, ["timer"]), OwnRun()]
        for thread in threads:
            thread.start()
        with ThreadPoolExecutor(1) as pool, ThreadPool(1) as other_pool:
            pool.submit(work, "submitted").result()
            list(pool.map(work, ["mapped"]))
            other_pool.apply(work, ["pool of processes' kind"])
        for thread in threads:
            thread.join()


def test_threads_and_pools_that_a_body_starts(program: Program) -> None:
    result = traced(in_threads)
    tree = result.tree()
    assert tree.pop("body") is None
    assert tree == dict.fromkeys(
        ["thread", "timer", "subclass", "submitted", "mapped", "pool of processes' kind"], "body"
    )
    check_exported(program, result)


def test_work_in_a_shared_pool_belongs_to_who_hands_it_over(program: Program) -> None:
    def work(name: str) -> None:
        with API.start_as_current_span(name):
            pass

    with ThreadPoolExecutor(1) as pool:

        def body(ctx: Any, input: Any, name: str) -> None:
            pool.submit(work, name).result()

        first = traced(lambda ctx, input: body(ctx, input, "first"))
        pool.submit(work, "nobody's").result()
        second = traced(lambda ctx, input: body(ctx, input, "second"))
    assert (first.tree(), second.tree()) == ({"first": None}, {"second": None})
    roots = [span.name for span in program.exported() if span.parent is None]
    assert roots == ([] if program.exporter is None else ["nobody's"])


def test_a_span_under_a_parent_that_was_handed_over(program: Program) -> None:
    """A thread that nobody knows, with the parent handed to it as OpenTelemetry has it done."""

    def body(ctx: Any, input: Any) -> None:
        with API.start_as_current_span("parent") as parent:
            where = set_span_in_context(NonRecordingSpan(parent.get_span_context()), TraceContext())
        done = threading.Event()

        def elsewhere() -> None:
            API.start_span("child", context=where).end()
            done.set()

        with API.start_as_current_span("parent 2") as parent:
            where = set_span_in_context(parent, TraceContext())
            import _thread

            _thread.start_new_thread(elsewhere, ())
            assert done.wait(10)

    result = traced(body)
    assert result.tree() == {"parent": None, "parent 2": None, "child": "parent 2"}


def test_a_span_of_another_trace_is_kept_under_the_lease_and_linked(program: Program) -> None:
    remote = SpanContext(0xC, 0xD, is_remote=True, trace_flags=trace.TraceFlags(1))

    def body(ctx: Any, input: Any) -> None:
        API.start_span("consumed", context=set_span_in_context(NonRecordingSpan(remote), TraceContext())).end()

    result = traced(body)
    assert result.tree() == {"consumed": None}
    assert result.one("consumed").attributes["stepd.links"] == [f"{0xC:032x}-{0xD:016x}"]


def test_outside_of_bodies_nothing_is_kept(program: Program) -> None:
    traced(nested_both_ways)
    before = len(program.exported())
    with API.start_as_current_span("outside") as span:
        assert span.is_recording() is (program.exporter is not None)
    assert len(program.exported()) - before == (program.exporter is not None)


def test_a_callback_for_a_cancellation_traces_where_it_was_asked_for(program: Program) -> None:
    def body(ctx: Any, input: Any) -> None:
        called = threading.Event()

        def callback() -> None:
            with API.start_as_current_span("cleaning up"):
                called.set()

        with ctx.span("body"):
            ctx.on_cancel(callback)
            threading.Thread(target=ctx._held.cancel, args=["cancel_requested"]).start()
            assert called.wait(10)

    assert traced(body).tree() == {"body": None, "cleaning up": "body"}


# --- What is told of a span


class OddError(Exception):
    pass


def test_what_a_span_says_of_itself(program: Program) -> None:
    def body(ctx: Any, input: Any) -> None:
        link = Link(SpanContext(0xE, 0xF, is_remote=False))
        options: dict[str, Any] = {"kind": trace.SpanKind.PRODUCER, "links": [link], "start_time": 5}
        span = API.start_span("old name", attributes={"gen_ai.request.model": "m-1"}, **options)
        span.set_attributes({"gen_ai.usage.input_tokens": 7, "flags": [True, False], "share": 0.5})
        span.add_event("first token", {"secret": "prompt"})
        span.update_name("new name")
        span.set_status(StatusCode.OK)
        span.end(9)

    span = traced(body).one("new name")
    assert (span.kind, span.status, span.start_unix_nano, span.end_unix_nano) == ("producer", "ok", "5", "9")
    assert span.attributes == {
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 7,
        "flags": [True, False],
        "share": 0.5,
        "stepd.events": ["first token"],
        "stepd.links": [f"{0xE:032x}-{0xF:016x}"],
    }
    assert span.usage is not None
    assert (span.usage[0].model, span.usage[0].input_tokens) == ("m-1", 7)


def test_an_exception_leaves_the_name_of_its_type_and_no_stack(program: Program) -> None:
    def body(ctx: Any, input: Any) -> None:
        def fail() -> None:
            raise OddError("the password is 1234")

        for name, opened in (("plain", API.start_as_current_span("plain")), ("own", ctx.span("own"))):
            with pytest.raises(OddError, match="1234"), opened:
                fail()
            assert name
        with pytest.raises(OddError), API.start_span("block"):
            fail()
        with API.start_as_current_span("set by hand") as span:
            span.set_attribute("exception.stacktrace", "Traceback: 1234")

    result = traced(body)
    assert {span.name: span.status for span in result.spans} == {
        "plain": "error",
        "own": "error",
        "block": "error",
        "set by hand": "unset",
    }
    for span in result.spans[:3]:
        assert span.attributes == {"exception.type": f"{__name__}.OddError"}
    assert "1234" not in str(result.spans)


def test_ctx_span_takes_any_json_and_its_tokens(program: Program) -> None:
    def body(ctx: Any, input: Any) -> None:
        with ctx.span("call", kind="client", wanted={"deep": [1, {"er": 2}]}, count=2**70) as span:
            span.set("nothing", None)
            span.set("odd", object)
            span.usage(model="m-1", output_tokens=3)
            trace.get_current_span().set_attribute("from the library", "x")

    span = traced(body).one("call")
    assert span.attributes["wanted"] == '{"deep":[1,{"er":2}]}'
    assert span.attributes["count"] == 2**70
    assert (span.attributes["nothing"], span.attributes["from the library"]) == (None, "x")
    assert span.attributes["odd"] == "<class 'object'>"
    assert span.usage is not None
    assert span.usage[0].output_tokens == 3


def test_decorators(program: Program) -> None:
    @API.start_as_current_span("plain")
    def plain() -> int:
        return 1

    tracer = trace.get_tracer("late")

    @tracer.start_as_current_span("awaited")
    async def awaited() -> int:
        await asyncio.sleep(0)
        with API.start_as_current_span("within"):
            return 2

    async def body(ctx: Any, input: Any) -> None:
        assert (plain(), plain(), await awaited(), await awaited()) == (1, 1, 2, 2)

    result = traced(body)
    assert sorted(span.name for span in result.spans) == ["awaited", "awaited", "plain", "plain", "within", "within"]
    assert result.tree()["within"] == "awaited"


@pytest.mark.parametrize("name", ["", "\x00\ud800<script>", "x" * 1_000, "\u202etxt.exe"])
def test_hostile_text(program: Program, name: str) -> None:
    def body(ctx: Any, input: Any) -> None:
        with API.start_as_current_span(name) as span:
            span.set_attribute(name or "empty", name)
        with ctx.span(name, **{name or "empty": name}):
            pass

    spans = traced(body).spans
    assert len(spans) == 2
    assert all(0 < len(span.name) <= 256 for span in spans)
    assert msgspec.json.decode(msgspec.json.encode(spans), type=list[Span]) == spans


@pytest.mark.parametrize("value", [b"\xff", {"a": {"b": 1}}, [1, "a"], object(), float("nan"), {1, 2}, None])
def test_odd_attributes_never_cost_a_span(program: Program, value: Any) -> None:
    def body(ctx: Any, input: Any) -> None:
        with API.start_as_current_span("plain") as span:
            span.set_attribute("odd", value)
        with ctx.span("own", odd=value):
            pass

    spans = traced(body).spans
    assert [span.name for span in spans] == ["plain", "own"]
    assert all(not isinstance(span.attributes.get("odd"), dict) for span in spans)


# --- What is too much


def test_of_very_many_spans_a_bounded_number_is_kept(program: Program, caplog: pytest.LogCaptureFixture) -> None:
    many = SPANS_PER_ATTEMPT + 1_000

    def body(ctx: Any, input: Any) -> None:
        for _ in range(many):
            API.start_span("small").end()
        with API.start_as_current_span("too late"), API.start_as_current_span("chat", attributes={"gen_ai.x": 1}):
            pass
        with ctx.span("also too late") as span:
            span.usage(model="m", output_tokens=1)

    result = traced(body)
    by_id = {span.span_id: span for span in result.spans}
    assert len(by_id) == SPANS_PER_ATTEMPT + 2
    assert result.tree()["chat"] is None
    assert result.one("also too late").usage
    assert result.spans[-1].attributes["stepd.dropped_spans"] == 1_001
    assert "1001 spans more" in caplog.text


def test_what_is_too_large_keeps_what_tells_of_tokens(program: Program) -> None:
    def body(ctx: Any, input: Any) -> None:
        with API.start_as_current_span("chat") as span:
            span.set_attributes({"gen_ai.request.model": "m", "gen_ai.usage.output_tokens": 5, "small": 1})
            span.set_attribute("gen_ai.input.messages", "x" * 70_000)

    span = traced(body).one("chat")
    assert span.attributes == {
        "gen_ai.request.model": "m",
        "gen_ai.usage.output_tokens": 5,
        "small": 1,
        "stepd.dropped_attributes": 1,
    }
    assert span.usage
    assert span.usage[0].output_tokens == 5


def test_spans_end_until_the_outcome_is_on_its_way(program: Program) -> None:
    opened: list[trace.Span] = []

    def body(ctx: Any, input: Any) -> None:
        opened.extend([API.start_span("in time"), API.start_span("too late")])

    flow = Workflow("jobs", "1")
    flow.step("work", effect="read_only")(body)
    content = msgspec.json.encode(lease(traceparent=TRACEPARENT))
    held = Held(msgspec.json.decode(content, type=Lease), 0)

    async def run() -> None:
        await start_body(flow.bodies["work"], held, (None,), Threads(1))

    asyncio.run(run())
    opened[0].end()
    held.spans.close()
    opened[1].end()
    assert [span.name for span in held.spans.all()] == ["in time"]


# --- Providers


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
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", _provider(program))

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
            monkeypatch.setattr(trace, "_TRACER_PROVIDER", _provider(program))
            with API.start_as_current_span("after"):
                pass

    result = traced(body)
    assert result.tree() == {"before": None, "after": "before"}
    assert [span.name for span in program.exported()] == ["after"]


def test_set_tracer_provider_is_still_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, None)
    traced(nested_both_ways)
    program = Program()
    provider = _provider(program)
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
    set_up(monkeypatch, _provider(Program(), Failing(method)))

    def body(ctx: Any, input: Any) -> int:
        with ctx.span("call") as span:
            span.usage(model="m", output_tokens=1)
        return 1

    result = traced(body)
    assert result.outcome.output == b"1"
    assert [(span.name, bool(span.usage)) for span in result.spans] == [("call", True)]
    assert f"{method} is broken" in caplog.text
