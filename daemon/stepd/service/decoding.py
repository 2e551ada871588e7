"""Bodies as wire types: one decode where all is well, and every fault at once, by JSON Pointer, where it isn't."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from stepd.engine import canonical
from stepd_protocol.names import NAME_PATTERN, NEWLINE_GUARD, is_name
from stepd_protocol.problems import FieldFault, Problem, make_problem
from stepd_protocol.times import parse_time

T = TypeVar("T")

NAME_RULE = "a name: 1 to 128 letters, digits, . _ : - after a letter or digit"
SHOWN_LENGTH_MAX = 60
FAULTS_MAX = 100
"""Faults named in one problem; a body with more of them is of no more use to its sender."""


class BodyDecoder(Generic[T]):
    """Decodes checked JSON into one wire type.

    ``further`` finds the faults of a decoded body that its type doesn't tell; ``stand_ins`` are required members with
    values that take the place of faulty ones, so that these are found beside others.
    """

    def __init__(
        self,
        type_: type[T],
        further: Callable[[T], list[FieldFault]] | None = None,
        stand_ins: Mapping[str, Any] | None = None,
    ) -> None:
        self._decode = msgspec.json.Decoder(type_).decode
        self._shape = inspect.type_info(type_)
        self._further = further
        self._stand_ins = stand_ins or {}

    def decode(self, body: bytes) -> T | Problem:
        """The body as the wire type, or a 422 ``invalid_request`` with all its faults."""
        try:
            request = self._decode(body)
        except msgspec.ValidationError as error:
            found = self.faults(body) or [FieldFault(path="", message=str(error).replace("`", ""))]
            return invalid_request(found + self._beside(body, found))
        found = [] if self._further is None else self._further(request)
        return invalid_request(found) if found else request

    def faults(self, body: bytes) -> list[FieldFault]:
        """What is wrong with the body's members; empty where nothing is."""
        found = _faults(canonical.decode(body), self._shape, "")
        return [fault for fault, _ in zip(found, range(FAULTS_MAX), strict=False)]

    def _beside(self, body: bytes, found: list[FieldFault]) -> list[FieldFault]:
        """The further faults of what is left when the faulty members are taken away: each by itself, or, where that
        leaves no valid body, with all that it is part of.
        """
        value = canonical.decode(body)
        if self._further is None or not isinstance(value, dict):
            return []
        paths = {fault.path for fault in found if fault.path}
        for faulty in (paths, {f"/{path.split('/')[1]}" for path in paths}):
            try:
                rest = {**self._stand_ins, **_without(value, faulty, "")}
                return [fault for fault in self._further(self._decode(canonical.encode(rest))) if fault not in found]
            except msgspec.ValidationError:
                continue
        return []


def _without(value: Any, paths: Collection[str], path: str) -> Any:
    """The value without the members at these pointers; what stands in a list keeps its place."""
    if not isinstance(value, dict):
        return value
    members = ((name, member, pointer(path, name)) for name, member in value.items())
    return {name: _without(member, paths, place) for name, member, place in members if place not in paths}


def invalid_request(faults: list[FieldFault]) -> Problem:
    """422 ``invalid_request`` with these faults."""
    return make_problem("invalid_request", summary(faults), errors=faults)


def summary(faults: list[FieldFault]) -> str:
    """The faults in one line, for the problem's ``detail``."""
    first = f"{faults[0].path or 'the body'}: {faults[0].message}"
    return first if len(faults) == 1 else f"{first} (and {len(faults) - 1} more)"


def shown(text: str) -> str:
    """What somebody sent, quoted and short enough to be said back."""
    return ascii(text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}...")


def pointer(path: str, member: str | int) -> str:
    """The JSON Pointer (RFC 6901) of a member below ``path``."""
    return f"{path}/{str(member).replace('~', '~0').replace('/', '~1')}"


# -- the collector: the same rules as the decoder's, but it goes on after a fault ------------------------------------


def _faults(value: Any, shape: inspect.Type, path: str) -> Iterator[FieldFault]:
    match shape:
        case inspect.Metadata():
            yield from _faults_with_format(value, shape, path)
        case inspect.UnionType():
            yield from _union_faults(value, shape, path)
        case inspect.StructType():
            yield from _struct_faults(value, shape, path)
        case inspect.ListType():
            yield from _list_faults(value, shape, path)
        case inspect.DictType():
            yield from _dict_faults(value, shape, path)
        case _:
            message = _scalar_fault(value, shape)
            if message is not None:
                yield FieldFault(path=path, message=message)


def _faults_with_format(value: Any, shape: inspect.Metadata, path: str) -> Iterator[FieldFault]:
    found = list(_faults(value, shape.type, path))
    if not found and (shape.extra_json_schema or {}).get("format") == "date-time":
        try:
            parse_time(value)
        except ValueError as error:
            found = [FieldFault(path=path, message=str(error))]
    yield from found


def _union_faults(value: Any, shape: inspect.UnionType, path: str) -> Iterator[FieldFault]:
    """A union here is one type, a list of some, or null; the faults are those of the type that was meant."""
    others = [other for other in shape.types if not isinstance(other, inspect.NoneType)]
    if value is None and len(others) < len(shape.types):
        return
    is_list = isinstance(value, list)
    meant = next((other for other in others if isinstance(other, inspect.ListType) == is_list), others[0])
    yield from _faults(value, meant, path)


def _struct_faults(value: Any, shape: inspect.StructType, path: str) -> Iterator[FieldFault]:
    if not isinstance(value, dict):
        yield FieldFault(path=path, message="must be an object")
        return
    for field in shape.fields:
        place = pointer(path, field.encode_name)
        if field.encode_name in value:
            yield from _faults(value[field.encode_name], field.type, place)
        elif field.required:
            yield FieldFault(path=place, message="is required")
    if shape.forbid_unknown_fields:
        known = {field.encode_name for field in shape.fields} | {shape.tag_field}
        for name in value:
            if name not in known:
                yield FieldFault(path=pointer(path, name), message="no such field")


def _list_faults(value: Any, shape: inspect.ListType, path: str) -> Iterator[FieldFault]:
    if not isinstance(value, list):
        yield FieldFault(path=path, message="must be a list")
        return
    if len(value) < (shape.min_length or 0):
        yield FieldFault(path=path, message="must not be empty")
    for place, item in enumerate(value):
        yield from _faults(item, shape.item_type, pointer(path, place))


def _dict_faults(value: Any, shape: inspect.DictType, path: str) -> Iterator[FieldFault]:
    if not isinstance(value, dict):
        yield FieldFault(path=path, message="must be an object")
        return
    for name, item in value.items():
        place = pointer(path, name)
        yield from (
            FieldFault(path=place, message=f"the key {fault.message}") for fault in _faults(name, shape.key_type, place)
        )
        yield from _faults(item, shape.value_type, place)


def _scalar_fault(value: Any, shape: inspect.Type) -> str | None:
    match shape:
        case inspect.StrType():
            return _text_fault(value, shape)
        case inspect.IntType():
            return _number_fault(value, shape, (int, Decimal), "a whole number")
        case inspect.FloatType():
            return _number_fault(value, shape, (int, float, Decimal), "a number")
        case inspect.BoolType():
            return None if isinstance(value, bool) else "must be true or false"
        case inspect.LiteralType():
            return None if value in shape.values else f"must be one of {', '.join(map(str, shape.values))}"
        case _:
            return None


def _text_fault(value: Any, shape: inspect.StrType) -> str | None:
    if not isinstance(value, str):
        return "must be text"
    if shape.pattern == NAME_PATTERN + NEWLINE_GUARD:
        return None if is_name(value) else f"must be {NAME_RULE}, not {shown(value)}"
    if len(value) < (shape.min_length or 0):
        return "must not be empty"
    if shape.max_length is not None and len(value) > shape.max_length:
        return f"has {len(value)} characters, {shape.max_length} are allowed"
    fits = shape.pattern is None or re.search(shape.pattern, value) is not None
    return None if fits else f"must match {shape.pattern}"


def _number_fault(
    value: Any, shape: inspect.IntType | inspect.FloatType, kinds: tuple[type, ...], what: str
) -> str | None:
    low, high = shape.ge, shape.le
    if isinstance(value, kinds) and not isinstance(value, bool) and _is_within(value, shape):
        return None
    if low is not None and low == high:
        return f"must be {_plain(low)}"
    if low is not None and high is not None:
        return f"must be {what} from {_plain(low)} to {_plain(high)}"
    return f"must be {what}" if low is None else f"must be {what}, {_plain(low)} or more"


def _is_within(value: Any, shape: inspect.IntType | inspect.FloatType) -> bool:
    if shape.ge is not None and value < shape.ge:
        return False
    return not (shape.le is not None and value > shape.le) and not (shape.lt is not None and value >= shape.lt)


def _plain(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)
