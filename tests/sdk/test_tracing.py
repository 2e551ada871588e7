"""Where the spans of a body hang: under its lease, whichever API and thread made them, provider or none."""

import _thread
import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context as TraceContext
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

from tests.sdk.traced import API, Body, Program, check_exported, nested_both_ways, nested_both_ways_async, traced


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


class Sealed(threading.Thread):
    """A thread whose `run` nobody may put something else in the place of."""

    ran = False

    @property
    def run(self) -> Any:
        return self._work

    def _work(self) -> None:
        Sealed.ran = True


def test_a_thread_that_cannot_be_led_into_the_trace_runs_all_the_same(program: Program) -> None:
    def body(ctx: Any, input: Any) -> None:
        thread = Sealed()
        thread.start()
        thread.join()

    traced(body)
    assert Sealed.ran


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
