"""Owns the schemas of the OpenAPI document: those of the wire types, without what only Python's reader needs."""

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from stepd_protocol.leases import NextClaim, Span, Usage
from stepd_protocol.names import NEWLINE_GUARD

Json: TypeAlias = dict[str, Any]

REFERENCE: Final = "#/components/schemas/{name}"
# What passes through as its own bytes has no type in Python; of these, only objects are taken.
OBJECTS: Final = (("StartRequest", "state"), ("Complete", "state"))
# What is read by itself, so that a fault in it never refuses the call, and what it should hold.
LENIENT_IN: Final = ("Heartbeat", "Complete", "Fail")
LENIENT: Final[dict[str, Any]] = {
    "next": NextClaim,
    "usage": list[Usage],
    "spans": list[Span],
    "retry_after": float | str,
}
_LIST_NAME: Final = re.compile(r"ListAnswer[_\[](\w+?)[_\]]$")


class Schemas:
    """The schemas of some types, and the components that they refer to."""

    def __init__(self, types: Iterable[Any]) -> None:
        distinct = {repr(kind): kind for group in types for kind in _alternatives(group)}
        schemas, components = msgspec.json.schema_components(distinct.values(), ref_template=REFERENCE)
        self._by_type: dict[str, Json] = {
            name: _cleaned(schema) for name, schema in zip(distinct, schemas, strict=True)
        }
        self._components = {_name(name): _cleaned(schema) for name, schema in components.items()}
        for name, member in OBJECTS:
            if name in self._components:
                self._components[name]["properties"][member]["type"] = "object"
        for name in LENIENT_IN:
            if name in self._components:
                self._say_lenient(self._components[name]["properties"])

    def of(self, kind: Any) -> Json:
        """The schema of one of the types, or of a tuple of alternatives."""
        schemas = [self._by_type[repr(one)] for one in _alternatives(kind)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def components(self) -> Json:
        """What the schemas refer to, by name in alphabetical order."""
        return dict(sorted(self._components.items()))

    def _say_lenient(self, properties: Json) -> None:
        for member, kind in LENIENT.items():
            if member not in properties:
                continue
            schema, components = msgspec.json.schema_components([kind], ref_template=REFERENCE)
            self._components |= {_name(name): _cleaned(one) for name, one in components.items()}
            properties[member] = {**properties[member], **_cleaned(schema[0])}


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _cleaned(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_cleaned(part) for part in schema]
    if isinstance(schema, dict):
        return {key: _member(key, value) for key, value in schema.items()}
    return schema


def _member(key: str, value: Any) -> Any:
    match key, value:
        case "pattern", str():
            return value.removesuffix(NEWLINE_GUARD)
        case "$ref", str():
            return REFERENCE.format(name=_name(value.rpartition("/")[2]))
        case "title", str():
            return _name(value)
        case "description", str():
            return " ".join(value.split())
    return _cleaned(value)


def _name(name: str) -> str:
    """A list's name says what it lists."""
    return _LIST_NAME.sub(r"\1List", name)
