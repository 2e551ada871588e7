"""Owns the door for request bodies: size, media type, time and JSON are checked once, before anything looks at them."""

import sys
from typing import Final, NamedTuple

from stepd.engine.canonical import Malformed, check_json
from stepd.http.asgi import ClientGone, Headers, Message, Receive, Scope, received_now
from stepd.http.phase import Phase
from stepd.http.problems import Refusal, stopping
from stepd_protocol.problems import make_problem

FORM_TYPE: Final = "application/x-www-form-urlencoded"
DISCARD_SECONDS: Final = 2.0
DISCARD_BYTES: Final = 16 * 1024 * 1024
"""What is read of a refused body, so that a client that still sends gets to see why it was refused."""


class Bounds(NamedTuple):
    """What a body may be."""

    size: int
    """Bytes."""
    arrival_seconds: float = 10.0
    """A body that has not arrived by then is given up."""


async def read_body(headers: Headers, receive: Receive, phase: Phase, bounds: Bounds) -> bytes:
    """The whole body. Raises Refusal (408, 413, 503) and ClientGone."""
    declared = _declared_size(headers)
    if declared > bounds.size:
        raise _too_large(bounds.size, declared)
    body = _Body(bounds.size)
    while (message := received_now(receive)) is not None:
        if body.is_whole_with(message):
            return body.content()
    try:
        async with phase.deadline(bounds.arrival_seconds):
            while not body.is_whole_with(await receive()):
                pass
            return body.content()
    except TimeoutError:
        if phase.closing.is_set():
            raise stopping() from None
        detail = f"the body did not arrive within {bounds.arrival_seconds:g} s; send it in one piece"
        raise Refusal(make_problem("request_timeout", detail)) from None


def check_body(headers: Headers, body: bytes) -> None:
    """Raises Refusal: 415 unless it is said to be JSON, 400 unless it is."""
    _check_media_type(headers)
    try:
        check_json(body)
    except Malformed as reason:
        raise Refusal(make_problem("malformed_json", f"the body can't be read: {reason}")) from None


def check_form(headers: Headers) -> None:
    """Raises Refusal (415) unless the body is said to be a form."""
    given = b",".join(value for name, value in headers if name == b"content-type").decode("latin-1")
    if given.split(";")[0].strip().lower() != FORM_TYPE:
        detail = f"send the form as Content-Type: {FORM_TYPE}; it says {given[:100]!r}"
        raise Refusal(make_problem("unsupported_media_type", detail))


def is_announced(headers: Headers) -> bool:
    """Whether a media type is given: then there should be a body of it."""
    return any(name == b"content-type" for name, _ in headers)


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


class _Body:
    """A body as far as it has come."""

    __slots__ = ("_chunks", "_size", "_size_max")

    def __init__(self, size_max: int) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._size_max = size_max

    def is_whole_with(self, message: Message) -> bool:
        """Takes one more message; whether it was the last. Raises Refusal (413), ClientGone."""
        if message["type"] != "http.request":
            raise ClientGone
        if chunk := message.get("body", b""):
            self._size += len(chunk)
            if self._size > self._size_max:
                raise _too_large(self._size_max, self._size)
            self._chunks.append(chunk)
        return not message.get("more_body", False)

    def content(self) -> bytes:
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)


def _declared_size(headers: Headers) -> int:
    for name, value in headers:
        if name == b"content-length":
            # More digits than any size has: the server in front of us may not have looked at them.
            return int(value) if value.isdigit() and len(value) <= 20 else sys.maxsize
    return 0


def _check_media_type(headers: Headers) -> None:
    for name, value in headers:
        if name == b"content-type" and value == b"application/json":
            break
    else:
        _look_closer_at_media_type(headers)
    for name, value in headers:
        if name == b"content-encoding" and value != b"identity":
            detail = f"send the body as it is, without Content-Encoding; it says {value.decode('latin-1')[:100]!r}"
            raise Refusal(make_problem("unsupported_media_type", detail))


def _look_closer_at_media_type(headers: Headers) -> None:
    given = b",".join(value for name, value in headers if name == b"content-type").decode("latin-1")
    if not _is_json(given):
        said = f"it says {given[:100]!r}" if given else "it says none"
        detail = f"send the body as Content-Type: application/json, in UTF-8; {said}"
        raise Refusal(make_problem("unsupported_media_type", detail))


def _is_json(media_type: str) -> bool:
    name, *parameters = (part.strip().lower() for part in media_type.split(";"))
    charsets = [part.partition("=")[2].strip('" ') for part in parameters if part.startswith("charset")]
    return name == "application/json" and all(charset in ("utf-8", "utf8") for charset in charsets)


def _too_large(limit: int, size: int) -> Refusal:
    detail = f"the body has {size} bytes or more; {limit} are allowed"
    return Refusal(make_problem("payload_too_large", detail, limit=limit, size=size))
