"""Owns one call of another service: it is made once, without redirects, and is read to a bound.

What is learned of it is told as what the step's failure means: whether another attempt may help, and whether anything
can have happened there. The answer itself goes no further than the mapping.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from aiohttp import ClientTimeout, DummyCookieJar, TCPConnector
from yarl import URL

from stepd_worker.errors import Applied, NotApplied, Retryable, StepFailed
from stepd_worker.http.catalogue import ANSWER_BYTES_MAX, Capability
from stepd_worker.http.mapping import Missing, at_pointer
from stepd_worker.resolving import Resolver
from stepd_worker.values import Unencodable, encode

RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})
_NOT_BUILT: Final = "invalid_input"
_NOT_READ: Final = "invalid_output"


@dataclass(frozen=True)
class Request:
    """All that is sent."""

    url: URL
    headers: dict[str, str]
    body: bytes | None


@dataclass(frozen=True)
class Answer:
    """All that came back. `body` ends where the bound is; `is_whole` says whether it does not."""

    status: int
    headers: Any
    body: bytes
    is_whole: bool


def build_request(capability: Capability, value: Any, idempotency_key: str) -> Request:
    """The request for a step's input. Raises NotApplied where the input lacks what the mapping names."""
    sources = {"$input": partial(at_pointer, value)}
    try:
        query = {name: _query_text(name, one.render(sources)) for name, one in capability.query.items()}
        body = None if capability.body is None else encode(capability.body.render(sources))
    except (Missing, Unencodable, ValueError) as fault:
        raise NotApplied(StepFailed(_NOT_BUILT, f"{capability.key}: the input does not fit: {fault}")) from None
    headers = {"User-Agent": "stepd-worker", "Accept-Encoding": "identity", **capability.headers}
    if body is not None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    if capability.idempotency_header is not None:
        headers[capability.idempotency_header] = idempotency_key
    text = urlencode({name: one for name, one in query.items() if one is not None}, quote_via=quote)
    joined = f"{capability.url}{'&' if '?' in capability.url else '?'}{text}" if text else capability.url
    return Request(URL(joined, encoded=True), headers, body)


async def call(capability: Capability, request: Request, seconds: float) -> Answer:
    """Makes the call, which ends within so many seconds. Raises NotApplied where no connection was made, else Retryable
    where no whole answer came."""
    timeout = ClientTimeout(total=seconds, connect=min(capability.connect_seconds, seconds))
    # A connection of its own for each call: whether it was made is what tells that nothing can have happened.
    connector = TCPConnector(force_close=True, resolver=Resolver())
    made = asyncio.Event()
    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(partial(_note, made))
    session = aiohttp.ClientSession(
        connector=connector, cookie_jar=DummyCookieJar(), auto_decompress=False, trace_configs=[trace]
    )
    try:
        async with (
            session,
            session.request(
                capability.method,
                request.url,
                headers=request.headers,
                data=request.body,
                timeout=timeout,
                allow_redirects=False,
            ) as response,
        ):
            body = await _read(response.content)
            return Answer(response.status, response.headers, body[:ANSWER_BYTES_MAX], len(body) <= ANSWER_BYTES_MAX)
    except (aiohttp.ClientError, TimeoutError, OSError) as fault:
        what = "took too long" if isinstance(fault, TimeoutError) else type(fault).__name__
        if not made.is_set():
            raise NotApplied(Retryable(f"{capability.key}: no connection was made ({what})")) from None
        raise Retryable(f"{capability.key}: no whole answer came ({what})") from None


def output_of(capability: Capability, answer: Answer) -> Any:
    """What the step's output is. Raises what the answer's status means, and what it means that it can't be read."""
    if not _is_success(capability, answer.status):
        raise _failure(capability, answer)
    document = _document(answer) if "$body" in capability.output.marks else None
    sources: dict[str, Callable[[Any], Any]] = {
        "$status": lambda _: answer.status,
        "$header": partial(_header, answer),
        "$body": lambda pointer: at_pointer(document, pointer),
    }
    if isinstance(document, _Unreadable):
        raise _unreadable(capability, document.why)
    try:
        return capability.output.render(sources)
    except Missing as fault:
        raise _unreadable(capability, f"in the answer {fault}") from None


async def _note(made: asyncio.Event, *_: Any) -> None:
    made.set()


async def _read(content: aiohttp.StreamReader) -> bytes:
    """The body, to one byte beyond the bound."""
    read = bytearray()
    while len(read) <= ANSWER_BYTES_MAX:
        chunk = await content.read(ANSWER_BYTES_MAX + 1 - len(read))
        if not chunk:
            break
        read += chunk
    return bytes(read)


def _query_text(name: str, value: Any) -> str | None:
    """A value as a query has it; None leaves it out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return msgspec.json.encode(value).decode()
    raise ValueError(f"what goes into the query as {name!r} is no text, number or boolean")


def _is_success(capability: Capability, status: int) -> bool:
    return status in capability.success if capability.success else 200 <= status <= 299


def _failure(capability: Capability, answer: Answer) -> Exception:
    status, message = answer.status, f"{capability.key}: the answer was {answer.status}"
    error: Exception = StepFailed(f"http_{status}", message)
    if status in RETRYABLE_STATUSES or status >= 500:
        error = Retryable(message, retry_after=answer.headers.get("Retry-After"))
    return NotApplied(error) if status in capability.not_applied else error


@dataclass(frozen=True)
class _Unreadable:
    why: str


def _document(answer: Answer) -> Any:
    """The JSON of an answer; null where it is empty."""
    if not answer.is_whole:
        return _Unreadable(f"the answer is longer than {ANSWER_BYTES_MAX // 1024} KiB")
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        return _Unreadable("the answer is encoded, which was not asked for")
    if not answer.body.strip():
        return None
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError):
        return _Unreadable("the answer is no JSON")


def _header(answer: Answer, name: str) -> str:
    found = answer.headers.get(name)
    if found is None:
        raise Missing(f"there is no header {name}")
    return str(found)


def _unreadable(capability: Capability, why: str) -> Exception:
    """The call was taken, so that a write was done; only its answer is of no use."""
    error = StepFailed(_NOT_READ, f"{capability.key}: {why}")
    return error if capability.effect == "read_only" else Applied(error)
