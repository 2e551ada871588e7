"""Owns which problems a route may answer with: those of its own, and those that its kind brings along."""

from typing import Any, Final, TypeAlias

from stepd.http.table import Route
from stepd_protocol.problems import CONTENT_TYPE, PROBLEMS, ProblemCode

Json: TypeAlias = dict[str, Any]

OF_KEYS: Final[tuple[ProblemCode, ...]] = ("unauthenticated", "forbidden")
OF_BODIES: Final[tuple[ProblemCode, ...]] = (
    "malformed_json",
    "request_timeout",
    "payload_too_large",
    "unsupported_media_type",
    "invalid_request",
)
OF_THE_SERVICE: Final[tuple[ProblemCode, ...]] = ("too_busy", "unavailable")
_HEADERS: Final[dict[int, Json]] = {
    401: {"WWW-Authenticate": {"description": "How to authenticate.", "schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}},
    503: {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}}},
}


def problems_of(route: Route) -> list[ProblemCode]:
    """The codes that a route may answer with, in the table's order."""
    codes = {*route.problems}
    if route.scopes is None:
        # In open mode even what is public is not there for foreign hosts and pages.
        codes.add("forbidden")
    else:
        codes |= {*OF_KEYS, *OF_THE_SERVICE, "invalid_request"}
    if route.body is not None:
        codes |= {*OF_BODIES}
    if "{" in route.path:
        codes.add("not_found")
    return [code for code in PROBLEMS if code in codes]


class ProblemResponses:
    """The responses with problems, each said once among the components."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._components: dict[str, Json] = {}

    def of(self, route: Route) -> Json:
        """The route's responses with problems, by status."""
        by_status: dict[int, list[ProblemCode]] = {}
        for code in problems_of(route):
            by_status.setdefault(PROBLEMS[code].status, []).append(code)
        return {str(status): self._reference(status, codes) for status, codes in by_status.items()}

    def components(self) -> Json:
        """The responses that were referred to, by name in alphabetical order."""
        return dict(sorted(self._components.items()))

    def _reference(self, status: int, codes: list[ProblemCode]) -> Json:
        name = "Or".join("".join(word.capitalize() for word in code.split("_")) for code in codes)
        if name not in self._components:
            self._components[name] = self._response(status, codes)
        return {"$ref": f"#/components/responses/{name}"}

    def _response(self, status: int, codes: list[ProblemCode]) -> Json:
        response: Json = {"description": "; ".join(f"`{code}`: {PROBLEMS[code].title}" for code in codes) + "."}
        if status in _HEADERS:
            response["headers"] = _HEADERS[status]
        response["content"] = {CONTENT_TYPE: {"schema": self._schema}}
        return response
