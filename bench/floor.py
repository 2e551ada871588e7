"""A bare server under the same hypercorn: it decodes a complete and encodes its answer, and knows no rules."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
from hypercorn.asyncio import serve
from hypercorn.config import Config

from stepd_protocol.executions import StartRequest
from stepd_protocol.leases import Complete

WAIT_SECONDS = 60.0
ANSWER = {
    "late": False,
    "replayed": False,
    "execution": {"id": "019ad000-0000-7000-8000-000000000000", "status": "running"},
    "leases": [{"id": "019ad000-0000-7000-8000-000000000001", "input": {"pad": "x" * 250}, "steps": {}, "state": {}}],
    "held_seconds": 0,
    "service": "019ad000-0000-7000-8000-000000000002",
    "warnings": [],
}
_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    "/complete": msgspec.json.Decoder(Complete),
    "/start": msgspec.json.Decoder(StartRequest),
}
_encode = msgspec.json.Encoder().encode


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """``POST /complete`` and ``/start`` decode and encode; ``POST /wait`` parks; anything else is answered at once."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    path = scope["path"]
    if path in _decoders:
        _decoders[path].decode(body)
    elif path == "/wait":
        await asyncio.sleep(WAIT_SECONDS)
    answer = _encode(ANSWER)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def main() -> None:
    """Serves on the port given until it is told to stop."""
    config = Config()
    config.bind = [f"127.0.0.1:{int(sys.argv[1])}"]
    config.keep_alive_timeout = 75
    config.keep_alive_max_requests = 10**9
    config.max_app_queue_size = 0
    config.include_server_header = False
    config.backlog = 1024
    config.accesslog = None
    asyncio.run(serve(app, config))  # type: ignore[arg-type]  # hypercorn's own protocol types are narrower than ASGI's


if __name__ == "__main__":
    main()
