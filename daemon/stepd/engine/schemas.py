"""JSON Schema 2020-12 in a definition: compiled once, bounded, and asked for the first fault of a value."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import Any

import jsonschema_rs

from stepd.engine.pointers import child_pointer

CHECKS_AT_ONE_PLACE_MAX = 1_000
"""Subschemas that one place of a value may be held against, with references followed."""

FAULTS_MAX = 50
MESSAGE_LENGTH_MAX = 300

ANNOTATIONS = frozenset({"title", "description", "examples", "$comment"})
"""Keywords that say nothing about which values fit."""

_ONE = frozenset(
    {"additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_SAME_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})

_HUGE = 10**4_000


class SchemaFault(ValueError):
    """A schema that is none, or that can't be taken; ``str()`` of it says why."""


class Validator:
    """One compiled schema."""

    __slots__ = ("_validator",)

    def __init__(self, schema: Any) -> None:
        """Raises SchemaFault. References to other documents are never fetched, so they are faults."""
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                schema,
                offline=True,
                mask="the value",
                # The engine that works in linear time: it has no look-around and no back-references.
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise SchemaFault(_described(error)) from None
        _check_bounds(schema)

    def first_fault(self, value: Any) -> str | None:
        """Returns None where `value` fits, else a short message that begins with the JSON Pointer of the place."""
        try:
            return self._first_fault(value)
        except ValueError:
            # The library reads no integer of more than 4,300 digits: such a one is judged as a very large one.
            return self._first_fault(_readable(value))

    def faults(self, value: Any) -> list[tuple[str, str]]:
        """Returns every fault of `value`, up to FAULTS_MAX: the JSON Pointer of the place, and a short message."""
        try:
            return self._faults(value)
        except ValueError:
            return self._faults(_readable(value))

    def _faults(self, value: Any) -> list[tuple[str, str]]:
        if self._validator.is_valid(value):
            return []
        errors = islice(self._validator.iter_errors(value), FAULTS_MAX)
        return [(_place(error), error.message[:MESSAGE_LENGTH_MAX]) for error in errors]

    def _first_fault(self, value: Any) -> str | None:
        if self._validator.is_valid(value):
            return None
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return _described(error)
        return "the value does not fit its schema"


def without_annotations(schema: Any) -> Any:
    """Returns a schema without its annotations, wherever a schema stands: a property may well be named `title`."""
    if not isinstance(schema, dict):
        return schema
    return {keyword: _mapped_schemas(keyword, value) for keyword, value in schema.items() if keyword not in ANNOTATIONS}


def _mapped_schemas(keyword: str, value: Any) -> Any:
    if keyword in _ONE:
        return without_annotations(value)
    if keyword in _LISTED and isinstance(value, list):
        return [without_annotations(schema) for schema in value]
    if keyword in _NAMED and isinstance(value, dict):
        return {name: without_annotations(schema) for name, schema in value.items()}
    return value


def _check_bounds(schema: Any) -> None:
    """Refuses schemas that hold one place against too many subschemas: their number may double with each reference."""
    counts = _Counts(schema)
    for subschema in _subschemas(schema):
        if counts.of(subschema) > CHECKS_AT_ONE_PLACE_MAX:
            raise SchemaFault(
                f"it holds one place against more than {CHECKS_AT_ONE_PLACE_MAX} subschemas, or against itself"
            )


class _Counts:
    """Counts what a place is held against by each subschema of one document, references followed."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._counted: dict[int, int] = {}
        self._anchors = {
            subschema[keyword]: subschema
            for subschema in _subschemas(document)
            for keyword in ("$anchor", "$dynamicAnchor")
            if isinstance(subschema.get(keyword), str)
        }

    def of(self, schema: Any) -> int:
        known = self._counted.get(id(schema))
        if known is not None:
            return known
        # Until it is known it counts as too many: who meets it again on the way there goes round in a circle.
        self._counted[id(schema)] = CHECKS_AT_ONE_PLACE_MAX + 1
        count = 1 + sum(self.of(other) for other in self._same_place(schema))
        self._counted[id(schema)] = count
        return count

    def _same_place(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for keyword in _SAME_PLACE & schema.keys():
            yield from _below(keyword, schema[keyword])
        for keyword in ("$ref", "$dynamicRef"):
            target = self._target(schema.get(keyword))
            if isinstance(target, dict):
                yield target

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        if not reference.startswith("#/"):
            return self._document if reference == "#" else self._anchors.get(reference[1:])
        target = self._document
        for token in reference[2:].split("/"):
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and name.isdecimal() and int(name) < len(target):
                target = target[int(name)]
            else:
                target = target.get(name) if isinstance(target, dict) else None
        return target


def _subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    waiting = [schema]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            yield current
            for keyword, value in current.items():
                waiting.extend(_below(keyword, value))


def _below(keyword: str, value: Any) -> Iterator[dict[str, Any]]:
    """Yields the schemas right below a keyword, those that are objects."""
    below: list[Any] = []
    if keyword in _ONE:
        below = [value]
    elif keyword in _LISTED and isinstance(value, list):
        below = value
    elif keyword in _NAMED and isinstance(value, dict):
        below = list(value.values())
    yield from (schema for schema in below if isinstance(schema, dict))


def _described(error: Exception) -> str:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return str(error)[:MESSAGE_LENGTH_MAX]
    return f"{_place(error) or 'the whole'}: {error.message[:MESSAGE_LENGTH_MAX]}"


def _place(error: jsonschema_rs.ValidationError) -> str:
    pointer = ""
    for key in error.instance_path:
        pointer = child_pointer(pointer, key)
    return pointer


def _readable(value: Any) -> Any:
    if isinstance(value, Decimal):
        return _HUGE if value > 0 else -_HUGE
    if isinstance(value, dict):
        return {name: _readable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    return value
