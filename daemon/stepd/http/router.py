"""Owns the way from a path to a route: segment by segment, on the path as it came, so that nothing else opens it."""

from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

from stepd.http.problems import Refusal, method_not_allowed, no_such_path
from stepd.http.table import Route


class _Node:
    """What follows one segment of a path."""

    __slots__ = ("any", "named", "routes")

    def __init__(self) -> None:
        self.named: dict[bytes, _Node] = {}
        self.any: _Node | None = None
        self.routes: dict[str, Route] = {}

    def grow(self, segment: str) -> "_Node":
        if segment.startswith("{"):
            self.any = self.any or _Node()
            return self.any
        return self.named.setdefault(segment.encode(), _Node())


class Router:
    """Finds routes in a few dictionary look-ups, however many there are."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            for segment in route.path.split("/")[1:]:
                node = node.grow(segment)
            node.routes[route.method] = route

    def find(self, method: str, raw_path: bytes) -> tuple[Route, tuple[str, ...]]:
        """The route and the variable parts of the path, decoded. HEAD goes where GET goes.

        Raises Refusal: 404 where there is no such path, 405 where it does not know the method.
        """
        node, values = self._follow(raw_path)
        route = node.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            raise _no_method(method, raw_path, node.routes)
        return route, values

    def _follow(self, raw_path: bytes) -> tuple[_Node, tuple[str, ...]]:
        node = self._root
        values: list[str] = []
        for segment in raw_path.split(b"/")[1:]:
            following = node.named.get(segment)
            if following is None:
                following, value = node.any, _value(segment)
                if following is None or value is None:
                    raise no_such_path(raw_path.decode("latin-1"))
                values.append(value)
            node = following
        return node, tuple(values)


def _no_method(method: str, raw_path: bytes, routes: dict[str, Route]) -> Refusal:
    if not routes:
        return no_such_path(raw_path.decode("latin-1"))
    methods = {*routes, "HEAD"} if "GET" in routes else set(routes)
    return method_not_allowed(method, ", ".join(sorted(methods)))


def _value(segment: bytes) -> str | None:
    """One variable part, decoded; None where it can't name anything: empty, not UTF-8, or with `/` or a control."""
    try:
        text = (unquote_to_bytes(segment) if b"%" in segment else segment).decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() and text and "/" not in text else None
