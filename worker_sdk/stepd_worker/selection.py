"""Owns the reading of templates without a daemon: the values that are only selected, not computed."""

import re
from collections.abc import Mapping
from typing import Any, Final

_ROOT: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)")
_PART: Final = re.compile(r"""\s*(?:\.\s*([A-Za-z_][A-Za-z0-9_]*)|\[\s*(?:"([^"\\]*)"|'([^'\\]*)'|(\d+))\s*\])""")


class NeedsDaemon(Exception):
    """An expression computes, and only the daemon does that; the message says what to give in its place."""


def resolve(template: Any, variables: Mapping[str, Any], place: str, way_out: str) -> Any:
    """A template's value. Raises NeedsDaemon where a part of it computes, LookupError where there is no such value."""
    if isinstance(template, Mapping):
        if template.keys() == {"$cel"}:
            return select(template["$cel"], variables, place, way_out)
        return {key: resolve(value, variables, place, way_out) for key, value in template.items()}
    if isinstance(template, list):
        return [resolve(value, variables, place, way_out) for value in template]
    return template


def select(expression: str, variables: Mapping[str, Any], place: str, way_out: str) -> Any:
    """The value that an expression like `steps.fetch.output.rows[0]` selects."""
    root = _ROOT.match(expression)
    if root is None or root[1] not in variables:
        raise NeedsDaemon(f"{place} computes {expression!r}, which only the daemon does: {way_out}")
    value, position = variables[root[1]], root.end()
    while position < len(expression.rstrip()):
        part = _PART.match(expression, position)
        if part is None:
            raise NeedsDaemon(f"{place} computes {expression!r}, which only the daemon does: {way_out}")
        name, double, single, index = part.groups()
        key: Any = (
            int(index) if index is not None else next(text for text in (name, double, single) if text is not None)
        )
        try:
            value = value[key]
        except (LookupError, TypeError):
            raise LookupError(f"{place} selects {expression!r}, but there is no {key!r} in {value!r}") from None
        position = part.end()
    return value
