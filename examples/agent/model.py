"""Owns the way to a model: OpenAI's client, instrumented by OpenTelemetry, and what a refusal of the service means.

Nothing here knows of stepd: the spans that the instrumentation makes reach the run by themselves, tokens included.
`OPENAI_BASE_URL` names the service; without it a stand-in in this process takes its place.
"""

import atexit
import os
from contextlib import ExitStack
from functools import cache
from typing import Any, Final

import openai
from openai import DefaultHttpxClient, OpenAI
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

from examples.agent import mind
from examples.agent.standin import Message, standing_in
from stepd_worker import Retryable

MODEL: Final = os.environ.get("AGENT_MODEL", "example-1")
TOOLS: Final[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": does,
            "parameters": {"type": "object", "properties": parameters, "required": list(parameters)},
        },
    }
    for name, does, parameters in [
        ("add", "Adds two numbers", {"a": {"type": "integer"}, "b": {"type": "integer"}}),
        ("delete", "Deletes something, if a person allows it", {"what": {"type": "string"}}),
    ]
]


def ask(messages: list[Message]) -> Message:
    """The model's next message. Raises Retryable where another attempt may get one."""
    talk: Any = messages
    try:
        completion = client().chat.completions.create(model=MODEL, messages=talk, tools=TOOLS)
    except openai.RateLimitError as busy:
        raise Retryable("The model is busy", retry_after=busy.response.headers.get("Retry-After")) from busy
    except (openai.APIConnectionError, openai.InternalServerError) as away:
        raise Retryable(f"The model's service is away: {type(away).__name__}") from away
    return completion.choices[0].message.model_dump(exclude_none=True)


@cache
def client() -> OpenAI:
    """One for the process; its own retries are off, for a step has some that survive the process."""
    OpenAIInstrumentor().instrument()
    if "OPENAI_BASE_URL" in os.environ:
        return OpenAI(max_retries=0)
    until_exit = ExitStack()
    atexit.register(until_exit.close)
    url = until_exit.enter_context(standing_in(mind.answer))
    return OpenAI(base_url=url, api_key="none", max_retries=0, http_client=DefaultHttpxClient(trust_env=False))
