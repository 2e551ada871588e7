"""Owns the mappings of a catalogue: what of a step's input goes into a request, and what of an answer into its output.

A mapping is any JSON in which an object with one of the marks stands for a value: `{"$input": "/customer/id"}`,
`{"$body": "/id"}`, `{"$header": "Location"}`, `{"$status": true}`. A `default` beside the mark is for a value that
isn't there. The places are JSON Pointers; the empty one is the whole.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

DEFAULT: Final = "default"
MARKS_OF_REQUESTS: Final = frozenset({"$input"})
MARKS_OF_ANSWERS: Final = frozenset({"$body", "$header", "$status"})

Sources = Mapping[str, Callable[[Any], Any]]
"""What finds the value of each mark; raises Missing."""

_ESCAPE: Final = re.compile(r"~(?![01])")


class Missing(LookupError):
    """A mapping names what isn't there, and has no default for it."""


class Template:
    """A mapping that was checked. `marks` are those that it uses."""

    def __init__(self, value: Any, allowed: frozenset[str]) -> None:
        """Raises ValueError for a mark that is not allowed there, or a place that is none."""
        self._value = value
        self.marks = frozenset(_marks(value, allowed))

    def render(self, sources: Sources) -> Any:
        """The value. Raises Missing."""
        return _render(self._value, sources)


def at_pointer(value: Any, pointer: str) -> Any:
    """What stands at a JSON Pointer. Raises Missing."""
    for token in _tokens(pointer):
        found = False
        if isinstance(value, Mapping):
            found = token in value
        elif isinstance(value, list):
            found = re.fullmatch(r"0|[1-9][0-9]{0,8}", token) is not None and int(token) < len(value)
        if not found:
            raise Missing(f"there is nothing at {pointer!r}")
        value = value[token] if isinstance(value, Mapping) else value[int(token)]
    return value


def _tokens(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _marks(value: Any, allowed: frozenset[str]) -> Iterator[str]:
    mark = _mark(value)
    if mark is not None:
        _check(value, mark, allowed)
        yield mark
        return
    for member in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _marks(member, allowed)


def _mark(value: Any) -> str | None:
    """The mark of an object that stands for a value; None for any other."""
    if not isinstance(value, Mapping):
        return None
    return next((name for name in value if isinstance(name, str) and name.startswith("$")), None)


def _check(value: Mapping[str, Any], mark: str, allowed: frozenset[str]) -> None:
    shown = json.dumps(value)
    if mark not in allowed or not value.keys() <= {mark, DEFAULT}:
        known = " or ".join(f'{{"{one}": …}}' for one in sorted(allowed))
        raise ValueError(f"{shown} stands for nothing here: write {known}, with a default beside it or nothing")
    place = value[mark]
    if mark in ("$input", "$body") and (
        not isinstance(place, str) or (place != "" and place[0] != "/") or _ESCAPE.search(place)
    ):
        raise ValueError(f'{shown}: {place!r} is no JSON Pointer, like "/customer/id", or "" for the whole')
    if mark == "$header" and not isinstance(place, str):
        raise ValueError(f"{shown}: {place!r} is no name of a header")
    if mark == "$status" and place is not True:
        raise ValueError(f'{shown}: write {{"$status": true}}')


def _render(value: Any, sources: Sources) -> Any:
    mark = _mark(value)
    if mark is not None:
        try:
            return sources[mark](value[mark])
        except Missing:
            if DEFAULT not in value:
                raise
            return value[DEFAULT]
    if isinstance(value, Mapping):
        return {name: _render(member, sources) for name, member in value.items()}
    return [_render(item, sources) for item in value] if isinstance(value, list) else value
