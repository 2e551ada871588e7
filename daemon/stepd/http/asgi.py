"""Owns the few words of ASGI that the edge speaks, as types and as prepared values."""

from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Coroutine[Any, Any, Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]


class ClientGone(Exception):
    """The client's connection ended, or its stream was reset: nobody waits for an answer."""


def received_now(receive: Receive) -> Message | None:
    """What has come already; None where one would have to wait for it.

    Takes one step of `receive` by hand, where a task or a time-out would cost more than all the rest of a call.
    """
    step = receive()
    try:
        step.send(None)
    except StopIteration as done:
        message: Message = done.value
        return message
    step.close()
    return None


def header(headers: Headers, name: bytes) -> str | None:
    """The value of the one header of this (lower-case) name; None where there is none.

    Raises ValueError where it stands more than once.
    """
    found: bytes | None = None
    for key, value in headers:
        if key == name:
            if found is not None:
                raise ValueError(f"the header {name.decode()} stands more than once")
            found = value
    return None if found is None else found.decode("latin-1")
