"""Owns the look-up of the daemon's name: on a thread of its own, since bodies may hold all of the loop's pool."""

import asyncio
import socket
import threading
from functools import partial
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult


class Resolver(AbstractResolver):
    """Asks the system. Look-ups are rare: the connector keeps their answers."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host. Raises OSError where there are none."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Any] = loop.create_future()
        threading.Thread(target=_look_up, args=(loop, found, host, port, family), daemon=True).start()
        return [
            ResolveResult(
                hostname=host,
                host=address[0],
                port=address[1],
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in await found
        ]

    async def close(self) -> None:
        """Nothing is kept."""


def _look_up(
    loop: asyncio.AbstractEventLoop,
    found: "asyncio.Future[Any]",
    host: str,
    port: int,
    family: socket.AddressFamily,
) -> None:
    try:
        infos = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        settle = partial(_settle, found, infos, None)
    except OSError as fault:
        settle = partial(_settle, found, None, fault)
    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the loop is closed: nobody waits any more
        pass


def _settle(found: "asyncio.Future[Any]", infos: Any, fault: OSError | None) -> None:
    if found.done():
        return
    if fault is None:
        found.set_result(infos)
    else:
        found.set_exception(fault)
