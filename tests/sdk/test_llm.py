"""Real LLM-shaped work: an unmodified, instrumented client library in a body, against a stand-in for its service.

The client and its instrumentation are OpenAI's and OpenTelemetry's; nothing of them is set up for stepd.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from opentelemetry import trace
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

from examples.agent.standin import Answer, standing_in
from stepd_worker import Client, Context, Retry, Retryable, Workflow, cel
from tests.sdk.served import serving
from tests.support.client import Http
from tests.support.daemon import Daemon

SECONDS = 20.0
COUNTS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")

tracer = trace.get_tracer("an-agent")


def usage(prompt: int, completion: int, *, cached: int = 0, written: int = 0, reasoning: int = 0) -> dict[str, Any]:
    """As the service tells it: the prompt with what was cached of it, the completion with the reasoning."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def answer(asked: dict[str, Any]) -> Answer:
    """The large model first wants the tool and then knows; the small one sums up; the broken one is no more."""
    if asked["model"] == "small-1":
        return {"content": "a summary in words"}, usage(300_000, 40_000)
    if asked["model"] != "large-1":
        raise ValueError(f"there is no model {asked['model']}")
    if asked["messages"][-1]["role"] == "tool":
        return {"content": "42"}, usage(1_500_000, 200_000, cached=1_000_000, reasoning=150_000)
    call = {"name": "look_up", "arguments": json.dumps({"page": 7})}
    wish = {"id": "call-1", "type": "function", "function": call}
    return {"content": None, "tool_calls": [wish]}, usage(1_000_000, 80_000, written=600_000, reasoning=50_000)


@pytest.fixture(scope="module", autouse=True)
def prices(daemon: Daemon) -> None:
    """What a million tokens cost."""
    large = {"input": 2.5, "cache_read": "0.25", "cache_write": "3.125", "output": 10, "reasoning": 10}
    table = [{"model": "large-1", **large}, {"model": "small-*", "input": 0.15, "output": 0.6}]
    Http(daemon.url).send("PUT", "/v1/admin/prices", {"currency": "USD", "prices": table}).expect(200, 201)


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    """The stand-in, with the client library instrumented as its documentation says."""
    instrumentor = OpenAIInstrumentor()
    is_first = not instrumentor.is_instrumented_by_opentelemetry
    if is_first:
        instrumentor.instrument()
    try:
        with standing_in(answer) as url, pytest.MonkeyPatch.context() as environment:
            environment.setenv("NO_PROXY", "127.0.0.1")
            yield url
    finally:
        if is_first:
            instrumentor.uninstrument()


def client_of(url: str) -> OpenAI:
    return OpenAI(base_url=url, api_key="none", max_retries=0)


def work(model: OpenAI, question: str) -> str:
    """An agent as one writes it: it asks, uses the tool that the model wants, and asks again."""
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        messages: list[Any] = [{"role": "user", "content": question}]
        while True:
            message = model.chat.completions.create(model="large-1", messages=messages).choices[0].message
            if not message.tool_calls:
                return str(message.content)
            messages.append(message)
            for call in message.tool_calls:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": look_up(model)})


@tracer.start_as_current_span("execute_tool look_up")
def look_up(model: OpenAI) -> str:
    """A tool that asks a small model itself, as a stream."""
    options: Any = {"model": "small-1", "stream": True, "stream_options": {"include_usage": True}}
    words = model.chat.completions.create(messages=[{"role": "user", "content": "sum up"}], **options)
    return "".join(chunk.choices[0].delta.content or "" for chunk in words if chunk.choices)


def spans_of(daemon: Daemon, view: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Http(daemon.url).get(f"/v1/executions/{view['id']}/spans").expect(200)["items"]
    return found


def tree(items: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The spans of an execution by the name of what they hang under, in order."""
    names = {item["span_id"]: item["name"] for item in items}
    below: dict[str, list[str]] = {}
    for item in sorted(items, key=lambda item: int(item["start_unix_nano"])):
        below.setdefault(names.get(item["parent_span_id"], ""), []).append(item["name"])
    return below


def test_an_agent_with_a_tool_that_asks_a_model_too(daemon: Daemon, client: Client, model_url: str) -> None:
    flow = Workflow("llm", output=cel("steps.answer.output"))

    @flow.step(effect="read_only")
    def answer(ctx: Context, input: Any) -> str:
        with client_of(model_url) as model:
            return work(model, input["question"])

    with serving(client, flow):
        view = client.wait(client.start("llm", {"question": "why?"})["id"], timeout_seconds=SECONDS)
    assert (view["status"], view["output"]) == ("completed", "42")
    # large-1: 2,500 thousand in, of which 1,000 were cached and 600 written; 280 out, of which 200 were reasoning.
    # small-1: 300 in, 40 out.
    assert [view["usage"][name] for name in COUNTS] == [1_200_000, 1_000_000, 600_000, 120_000, 200_000]
    # large-1: 0.9 x 2.50 + 1.0 x 0.25 + 0.6 x 3.125 + 0.08 x 10 + 0.2 x 10 = 7.175; small-1: 0.3 x 0.15 + 0.04 x 0.60.
    assert (view["usage"]["cost"], view["usage"]["currency"]) == (7.244, "USD")
    assert view["usage"]["unpriced_tokens"] == 0
    below = tree(spans_of(daemon, view))
    assert below["invoke_agent"] == ["chat large-1", "execute_tool look_up", "chat large-1"]
    assert below["execute_tool look_up"] == ["chat small-1"]


def test_side_by_side_and_streamed(daemon: Daemon, client: Client, model_url: str) -> None:
    flow = Workflow("llm-streams")

    @flow.step(effect="read_only")
    async def ask(ctx: Context, input: Any) -> list[str]:
        async with AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0) as model:

            async def one() -> str:
                options: Any = {"model": "small-1", "stream": True, "stream_options": {"include_usage": True}}
                words = await model.chat.completions.create(messages=[{"role": "user", "content": "x"}], **options)
                return "".join([c.choices[0].delta.content or "" async for c in words if c.choices])

            with ctx.span("all of them"):
                return list(await asyncio.gather(*(one() for _ in range(5))))

    with serving(client, flow):
        view = client.wait(client.start("llm-streams")["id"], timeout_seconds=SECONDS)
    assert view["status"] == "completed"
    assert [view["usage"][name] for name in COUNTS] == [5 * 300_000, 0, 0, 5 * 40_000, 0]
    assert tree(spans_of(daemon, view))["all of them"] == ["chat small-1"] * 5


def test_what_a_failed_attempt_used_counts_too(daemon: Daemon, client: Client, model_url: str) -> None:
    flow = Workflow("llm-fails")

    @flow.step(effect="read_only", retry=Retry(max_attempts=2, initial_seconds=0))
    def ask(ctx: Context, input: Any) -> str:
        with client_of(model_url) as model:
            model.chat.completions.create(model="small-1", messages=[{"role": "user", "content": "x"}])
            try:
                model.chat.completions.create(model="broken", messages=[{"role": "user", "content": "my secret"}])
            except openai.BadRequestError as error:
                raise Retryable("the model is gone") from error
        return "never"

    with serving(client, flow):
        view = client.wait(client.start("llm-fails")["id"], timeout_seconds=SECONDS)
    assert (view["status"], view["usage"]["input_tokens"], view["usage"]["output_tokens"]) == (
        "failed",
        600_000,
        80_000,
    )
    spans = spans_of(daemon, view)
    broken = [span for span in spans if span["name"] == "chat broken"]
    assert [(span["status"], span["attributes"]["error.type"]) for span in broken] == [
        ("error", "openai.BadRequestError")
    ] * 2
    assert "my secret" not in json.dumps(spans)
