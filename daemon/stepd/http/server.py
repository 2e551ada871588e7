"""Owns the HTTP server: hypercorn with the settings its pitfalls ask for, and an end that comes in bounded time."""

import asyncio
import logging
from typing import Any, Final, cast

from hypercorn.asyncio import serve
from hypercorn.config import Config
from hypercorn.typing import ASGIFramework

from stepd.http.app import App
from stepd.http.connections import use_our_connections
from stepd.http.phase import Phase
from stepd.http.sockets import BACKLOG, Listening

GRACEFUL_SECONDS: Final = 1.5
"""How long connections may take to end once the daemon closes."""
CLOSE_SECONDS: Final = 2.0
"""When the server is given up: from Python 3.12 on it waits for every connection first, however long that takes."""
KEEP_ALIVE_SECONDS: Final = 75
"""Longer than the pools of ordinary clients keep theirs, so that none sends into a closing connection."""

_log = logging.getLogger(__name__)


async def run_server(app: App, listening: Listening, phase: Phase, certificate: str | None, key: str | None) -> None:
    """Serves until the phase is `closing`, then for `CLOSE_SECONDS` at most. Takes the socket over."""
    use_our_connections()
    task = asyncio.create_task(
        serve(
            cast("ASGIFramework", app),
            make_config(listening.socket.detach(), certificate, key),
            shutdown_trigger=phase.closing.wait,
            mode="asgi",
        ),
        name="server",
    )
    closing = asyncio.create_task(phase.closing.wait())
    try:
        await asyncio.wait({task, closing}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({task}, timeout=CLOSE_SECONDS)
    finally:
        closing.cancel()
        task.cancel()
        await asyncio.wait({task})
    if task.cancelled() or (error := task.exception()) is None:
        return
    # Hypercorn stumbles over itself when it is given up while it waits for clients that don't read.
    if not phase.closing.is_set():
        raise error
    _log.debug("the server was given up", exc_info=error)


def make_config(descriptor: int, certificate: str | None, key: str | None) -> Config:
    """Hypercorn's settings for a socket that listens already."""
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.backlog = BACKLOG
    config.certfile, config.keyfile = certificate, key
    config.graceful_timeout = GRACEFUL_SECONDS
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.keep_alive_max_requests = 10**9
    # With a bound, a body that the app leaves unread keeps its connection and task for ever; we bound bodies ourselves.
    config.max_app_queue_size = 0
    # A value would cut long polls off.
    config.read_timeout = None
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = logging.getLogger("hypercorn")
    return config


def log_unawaited(context: dict[str, Any]) -> None:
    """Logs what nobody awaited, but for broken handshakes and connections, and what was cancelled on purpose."""
    if not isinstance(context.get("exception"), (OSError, asyncio.CancelledError)):
        _log.error("%s", context.get("message", "unhandled"), exc_info=context.get("exception"))
