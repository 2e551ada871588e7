"""Owns what a handler sees of one request."""

from urllib.parse import parse_qsl

from stepd.http.asgi import Headers, Scope, header
from stepd.http.departure import Departure
from stepd.http.problems import invalid_request
from stepd.service.base import Caller

QUERY_PARAMETERS_MAX = 300
"""Room for a page of repeated ones."""


class Call:
    """One admitted request: who asks, the path's variable parts, the checked body, and the rest on demand."""

    __slots__ = ("_headers", "_path", "_query", "body", "caller", "gone", "method", "path")

    def __init__(self, scope: Scope, caller: Caller, path: tuple[str, ...], body: bytes, gone: Departure) -> None:
        self.caller = caller
        self.path = path
        self.body = body
        self.method: str = scope["method"]
        self.gone = gone
        self._headers: Headers = scope["headers"]
        self._query: bytes = scope["query_string"]
        self._path: bytes = scope["raw_path"]

    @property
    def target(self) -> str:
        """The path and the query as they came."""
        return (self._path + (b"?" + self._query if self._query else b"")).decode("latin-1")

    @property
    def query(self) -> list[tuple[str, str]]:
        """The query's parameters in order. Raises Refusal (422)."""
        if not self._query:
            return []
        try:
            text = self._query.decode("ascii")
            return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=QUERY_PARAMETERS_MAX)
        except UnicodeDecodeError:
            raise invalid_request("", "the query is not percent-encoded UTF-8") from None
        except ValueError:
            raise invalid_request("", f"the query has more than {QUERY_PARAMETERS_MAX} parameters") from None

    def header(self, name: bytes) -> str | None:
        """The header of this (lower-case) name. Raises Refusal (422) where it stands more than once."""
        try:
            return header(self._headers, name)
        except ValueError as fault:
            raise invalid_request("", str(fault)) from None

    def prefers(self, first: str, second: str) -> bool:
        """Whether the Accept header names media type `first`, and before `second` if it names both."""
        accept = ",".join(value.decode("latin-1") for key, value in self._headers if key == b"accept")
        named = [name for name in _accepted(accept) if name in (first, second)]
        return named[:1] == [first]


def _accepted(accept: str) -> list[str]:
    """Media types of an Accept header, the best first; refused ones (q=0) left out."""
    weighed: list[tuple[float, str]] = []
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weights = [parameter[2:] for parameter in parameters if parameter.startswith("q=")]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            weight = 1.0
        if name and weight > 0:
            weighed.append((weight, name))
    return [name for _, name in sorted(weighed, key=lambda pair: -pair[0])]
