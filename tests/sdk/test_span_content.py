"""What is told of a body's spans, and what is too much of them."""

import asyncio
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.trace import Link, SpanContext, StatusCode

from stepd_protocol.leases import Lease, Span
from stepd_worker import Workflow
from stepd_worker.bodies import Threads, start_body
from stepd_worker.held import Held
from stepd_worker.spans import SPANS_PER_ATTEMPT
from tests.sdk.peer import lease
from tests.sdk.traced import API, TRACEPARENT, Program, set_up, traced

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


def test_what_no_span_can_be_begun_with_costs_a_body_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    set_up(monkeypatch, None)
    wrong: Any = object()

    def body(ctx: Any, input: Any) -> int:
        API.start_span("attributes", attributes=wrong).end()
        API.start_span("kind", kind=wrong).end()
        API.start_span("times", start_time=wrong, links=[wrong]).end(wrong)
        with API.start_as_current_span(wrong) as span:
            span.set_status(wrong)
            span.add_event(wrong)
            span.set_attribute(wrong, wrong)
        return 1

    result = traced(body)
    assert result.outcome.output == b"1"
    assert len(result.spans) == 1
    assert "was not begun" in caplog.text


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
