"""Owns what a route is: one line of the table that requests are dispatched by and the OpenAPI document is made of."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from stepd.http.call import Call
from stepd.service.base import Reply
from stepd_protocol.names import Scope
from stepd_protocol.problems import Problem, ProblemCode

Part: TypeAlias = Literal["worker_api", "request_api", "admin_api", "ui"]


class Stream(Struct, frozen=True):
    """An answer whose end is not known: server-sent events, each chunk whole ones."""

    chunks: AsyncIterator[bytes]


Handler: TypeAlias = Callable[[Any, Call], Awaitable[Reply | Problem | Stream]]
"""Takes what the application serves from, and one call."""


class Parameter(Struct, frozen=True, kw_only=True):
    """A query parameter or a header of a request, for the document."""

    name: str
    type: Any
    about: str
    place: Literal["query", "header"] = "query"
    required: bool = False
    many: bool = False


class Success(Struct, frozen=True, kw_only=True):
    """One 2xx answer, for the document. `type` None: without content; a tuple: one of these."""

    status: int
    type: Any
    about: str
    media_type: str = "application/json"
    stream: bool = False
    """The same is also to be had as server-sent events."""
    headers: tuple[tuple[str, str], ...] = ()
    """`(name, what it says)`"""


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path. `{name}` stands for one segment of the path."""

    method: str
    path: str
    name: str
    """The operation's name, unique in the table."""
    summary: str
    handler: Handler
    part: Part | None
    """The part it belongs to; None: always on."""
    scopes: tuple[Scope, ...] | None
    """Any of these lets a key in; empty: any key; None: no key is asked for."""
    action: str | None = None
    """Its name in the audit log, where a refusal for want of the scope is written down."""
    body: Any = None
    """The wire type of the request's body; None: there is none."""
    body_required: bool = True
    body_media_types: tuple[str, ...] = ()
    """Where the body may be of other media types than JSON: the handler looks at it, and nobody before."""
    new_work: bool = False
    """Refused while the daemon is draining."""
    for_holders: bool = False
    """Stays open for whoever holds the lease, also without the scope."""
    successes: tuple[Success, ...]
    problems: tuple[ProblemCode, ...] = ()
    """The codes of its own, beside those that every route of its kind has."""
    parameters: tuple[Parameter, ...] = ()
    is_page: bool = False
    """It answers a browser: whoever asks is known by a cookie, a body is a form, any query is taken, and the document
    leaves it out."""

    @property
    def takes_query(self) -> bool:
        """Whether there is any query parameter."""
        return self.is_page or any(parameter.place == "query" for parameter in self.parameters)
