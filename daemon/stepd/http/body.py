"""Owns the door for request bodies: size, media type, time and JSON are checked once, before anything looks at them."""

import sys
from typing import Final, NamedTuple

from stepd.engine.canonical import Malformed, check_json
from stepd.http.asgi import ClientGone, Headers, Receive, Scope
from stepd.http.phase import Phase
from stepd.http.problems import Refusal, stopping
from stepd_protocol.problems import make_problem

DISCARD_SECONDS: Final = 2.0
DISCARD_BYTES: Final = 16 * 1024 * 1024
"""What is read of a refused body, so that a client that still sends gets to see why it was refused."""


class Bounds(NamedTuple):
    """What a body may be."""

    size: int
    """Bytes."""
    arrival_seconds: float = 10.0
    """A body that has not arrived by then is given up."""


async def decode_body(headers: Headers, receive: Receive, phase: Phase, bounds: Bounds, *, required: bool) -> bytes:
    """The body as checked JSON; `{}` where there is none and none is required.

    Raises Refusal (400, 408, 413, 415, 503) and ClientGone.
    """
    length, media_type, encoding = _described(headers)
    if length is not None and length > bounds.size:
        raise _too_large(bounds.size, length)
    body = await _arrive(receive, phase, bounds)
    if not body and not required:
        return b"{}"
    _check_media_type(media_type, encoding)
    try:
        check_json(body)
    except Malformed as reason:
        raise Refusal(make_problem("malformed_json", f"the body can't be read: {reason}")) from None
    return body


def may_have_body(scope: Scope) -> bool:
    """Whether a body may follow. HTTP/2 announces none beforehand."""
    if scope["http_version"] == "2":
        return True
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


async def discard_body(receive: Receive, phase: Phase) -> bool:
    """Reads what is left of a body that nobody wants, within bounds; whether that was all of it."""
    size = 0
    try:
        async with phase.deadline(DISCARD_SECONDS):
            while size <= DISCARD_BYTES:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return bool(message["type"] == "http.request")
                size += len(message.get("body", b""))
    except TimeoutError:
        pass
    return False


async def _arrive(receive: Receive, phase: Phase, bounds: Bounds) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async with phase.deadline(bounds.arrival_seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                if chunk := message.get("body", b""):
                    size += len(chunk)
                    if size > bounds.size:
                        raise _too_large(bounds.size, size)
                    chunks.append(chunk)
                if not message.get("more_body", False):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    except TimeoutError:
        if phase.closing.is_set():
            raise stopping() from None
        detail = f"the body did not arrive within {bounds.arrival_seconds:g} s; send it in one piece"
        raise Refusal(make_problem("request_timeout", detail)) from None


def _described(headers: Headers) -> tuple[int | None, bytes, bytes]:
    """The declared length, the media type and the encoding of a body."""
    length: int | None = None
    media_type = encoding = b""
    for name, value in headers:
        if name == b"content-length":
            # More digits than any size has: the server in front of us may not have looked at them.
            length = int(value) if value.isdigit() and len(value) <= 20 else sys.maxsize
        elif name == b"content-type":
            media_type = value
        elif name == b"content-encoding":
            encoding = value
    return length, media_type, encoding


def _check_media_type(media_type: bytes, encoding: bytes) -> None:
    if media_type != b"application/json" and not _is_json(media_type.decode("latin-1")):
        said = f"it says {media_type.decode('latin-1')[:100]!r}" if media_type else "it says none"
        detail = f"send the body as Content-Type: application/json, in UTF-8; {said}"
        raise Refusal(make_problem("unsupported_media_type", detail))
    if encoding not in (b"", b"identity"):
        detail = f"send the body as it is, without Content-Encoding; it says {encoding.decode('latin-1')[:100]!r}"
        raise Refusal(make_problem("unsupported_media_type", detail))


def _is_json(media_type: str) -> bool:
    name, *parameters = (part.strip().lower() for part in media_type.split(";"))
    charsets = [part.partition("=")[2].strip('" ') for part in parameters if part.startswith("charset")]
    return name == "application/json" and all(charset in ("utf-8", "utf8") for charset in charsets)


def _too_large(limit: int, size: int) -> Refusal:
    detail = f"the body has {size} bytes or more; {limit} are allowed"
    return Refusal(make_problem("payload_too_large", detail, limit=limit, size=size))
