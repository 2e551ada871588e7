"""Owns how a refusal looks on the wire: a problem's status comes from the one table, its headers from here."""

from typing import Any, Final

import msgspec

from stepd.http.asgi import Headers
from stepd_protocol.problems import CONTENT_TYPE, FieldFault, Problem, make_problem

RETRY_SECONDS: Final = 1
"""How long a client should wait where nothing better is known."""

_encode = msgspec.json.Encoder().encode
_CONTENT_TYPE = (b"content-type", CONTENT_TYPE.encode())


class Refusal(Exception):
    """Ends a request with a problem before, or in place of, the service's answer."""

    def __init__(self, problem: Problem, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(problem.code)
        self.problem = problem
        self.headers = headers


def encode_problem(problem: Problem) -> tuple[Headers, bytes]:
    """The headers and the body of a problem, without its length."""
    headers = [_CONTENT_TYPE]
    match problem.status:
        case 401:
            headers.append((b"www-authenticate", b'Bearer realm="stepd"'))
        case 429 | 503:
            headers.append((b"retry-after", b"%d" % RETRY_SECONDS))
    return headers, _encode(problem)


def no_such_path(path: str) -> Refusal:
    return Refusal(make_problem("not_found", f"there is nothing at {_shortened(path)}"))


def method_not_allowed(method: str, allowed: str) -> Refusal:
    detail = f"{_shortened(method)} is not among the methods of this path: {allowed}"
    return Refusal(make_problem("method_not_allowed", detail), (b"allow", allowed.encode()))


def unauthenticated(detail: str) -> Refusal:
    return Refusal(make_problem("unauthenticated", detail))


def forbidden(detail: str, **members: Any) -> Refusal:
    return Refusal(make_problem("forbidden", detail, **members))


def invalid_request(path: str, message: str) -> Refusal:
    return Refusal(make_problem("invalid_request", message, errors=[FieldFault(path=path, message=message)]))


def stopping() -> Refusal:
    return unavailable("the daemon is stopping; nothing was done")


def unavailable(detail: str, retry_seconds: int = RETRY_SECONDS) -> Refusal:
    problem = make_problem("unavailable", detail)
    if retry_seconds == RETRY_SECONDS:
        return Refusal(problem)
    return Refusal(problem, (b"retry-after", b"%d" % retry_seconds))


def _shortened(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."
