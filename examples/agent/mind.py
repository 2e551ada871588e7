"""Owns what the stand-in's model thinks: it does sums step by step, and wants to delete what it is told to.

It counts words for tokens. What it read before it takes from its cache, and a wish for a tool it has reasoned about.
"""

import json
from typing import Any, Final

from examples.agent.standin import Answer, Message

REASONING_TOKENS: Final = 16


def answer(asked: dict[str, Any]) -> Answer:
    """The next message of a talk, and what it used."""
    messages: list[Message] = asked["messages"]
    message = _next(messages)
    completion = _words([message]) + (REASONING_TOKENS if "tool_calls" in message else 0)
    return message, {
        "prompt_tokens": _words(messages),
        "completion_tokens": completion,
        "total_tokens": _words(messages) + completion,
        "prompt_tokens_details": {"cached_tokens": _words(messages[:-2])},
        "completion_tokens_details": {"reasoning_tokens": REASONING_TOKENS if "tool_calls" in message else 0},
    }


def _next(messages: list[Message]) -> Message:
    words = messages[0]["content"].split()
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if words[0] == "delete" and not results:
        return _wish("delete", {"what": words[1]}, len(results))
    if words[0] == "add" and len(results) < len(words) - 1:
        so_far = int(results[-1]) if results else 0
        return _wish("add", {"a": so_far, "b": int(words[len(results) + 1])}, len(results))
    if words[0] == "wander":
        return _wish("add", {"a": 1, "b": 1}, len(results))
    return {"content": results[-1] if results else "nothing to do"}


def _wish(tool: str, arguments: dict[str, Any], number: int) -> Message:
    call = {"id": f"call-{number}", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    return {"content": None, "tool_calls": [call]}


def _words(messages: list[Message]) -> int:
    return sum(len(json.dumps(message).split()) for message in messages)
