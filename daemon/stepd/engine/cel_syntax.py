"""CEL's syntax tree, read from the form in which the runtime hands out what it compiled.

Reading the runtime's own tree, and not the text a second time, means that no two parsers can disagree about what an
expression names. The form is the protocol buffer message `cel.expr.CheckedExpr`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


class UnknownSyntax(Exception):
    """The tree holds something that this module doesn't know; ``str()`` of it says what."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `at` is the number of this and every node, from which `place_of` finds where it stands."""

    value: None | bool | int | float | str | bytes
    at: int


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, or the name of a type."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Selection:
    """`operand.field`, or with `presence` `has(operand.field)`."""

    operand: "Node"
    field: str
    presence: bool
    at: int


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function; a method's target is its first argument."""

    function: str
    arguments: tuple["Node", ...]
    at: int


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list as written."""

    items: tuple["Node", ...]
    at: int


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map as written."""

    entries: tuple[tuple["Node", "Node"], ...]
    at: int


@dataclass(frozen=True, slots=True)
class Fold:
    """What `all`, `exists`, `exists_one`, `map` and `filter` are made of."""

    variable: str
    accumulator: str
    over: "Node"
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"
    over_raw: bytes
    """The runtime's own form of `over`, for `with_root`."""
    at: int

    @property
    def builds_list(self) -> bool:
        """Whether it is a `map` or `filter`."""
        return isinstance(self.start, ListOf)


@dataclass(frozen=True, slots=True)
class Path:
    """A value that an expression names: a base and the constant keys below it."""

    base: tuple[str, ...]
    """`("input",)`, `("steps", id, "output")`, `("steps", id, "status")`, `("execution",)` and so on."""
    keys: tuple[str | int, ...]
    presence: bool = False
    """Whether only the presence of the last key is asked for: `has(input.a)`."""

    def __str__(self) -> str:
        keys = (*self.base[1:], *self.keys)
        return self.base[0] + "".join(f".{key}" if _is_plain(key) else f"[{quoted(key)}]" for key in keys)


@dataclass(frozen=True, slots=True)
class Reference:
    """A path, in place of the nodes that it was written with; the runtime's tree has none."""

    path: Path
    at: int


Node: TypeAlias = Literal | Name | Selection | Call | ListOf | MapOf | Fold | Reference

INDEX = "_[_]"
"""The function that `a[b]` calls."""


def read_tree(serialized: bytes) -> Node:
    """Returns the tree of a serialized expression. Raises UnknownSyntax."""
    return _node(_message(_message(serialized).raw(2)).raw(4))


def place_of(serialized: bytes, at: int) -> int:
    """Returns the place of a node in the text of a serialized expression, in characters from 0."""
    source_info = _message(_message(_message(serialized).raw(2)).raw(5))
    positions = (_message(entry) for entry in source_info.raws(4))
    return next((position.integer(2) for position in positions if position.integer(1) == at), 0)


def without_root(serialized: bytes) -> bytes:
    """Returns what a serialized expression tells of its parts, for `with_root`."""
    checked = _message(_message(serialized).raw(2))
    return b"".join(_written(number, value) for number in (2, 3, 5) for value in checked.raws(number))


def with_root(rootless: bytes, expression: bytes) -> bytes:
    """Returns a serialized expression whose root is a part of another: `over_raw` of one of its folds."""
    type_url = b"type.googleapis.com/cel.expr.CheckedExpr"
    return _written(1, type_url) + _written(2, rootless + _written(4, expression))


def nested_nodes(node: Node) -> Iterator[Node]:
    """Yields the node and everything below it, in no promised order."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(children(current))


def children(node: Node) -> tuple[Node, ...]:
    """Returns the nodes right below `node`."""
    match node:
        case Literal() | Name() | Reference():
            return ()
        case Selection():
            return (node.operand,)
        case Call():
            return node.arguments
        case ListOf():
            return node.items
        case MapOf():
            return tuple(part for entry in node.entries for part in entry)
        case Fold():
            return (node.over, node.start, node.condition, node.step, node.result)


def quoted(key: str | int) -> str:
    """Returns a key as it is written in brackets."""
    return f'"{key}"' if isinstance(key, str) else str(key)


def _is_plain(key: str | int) -> bool:
    return isinstance(key, str) and key.isidentifier() and key.isascii()


def _node(data: bytes) -> Node:
    """Reads a `cel.expr.Expr` message; the numbers are those of its fields."""
    message = _message(data)
    at = message.integer(2)
    kind = message.last
    body = message.raw(kind)
    match kind:
        case 3:
            return Literal(_constant(_message(body)), at)
        case 4:
            return Name(_message(body).text(1), at)
        case 5:
            selection = _message(body)
            return Selection(_node(selection.raw(1)), selection.text(2), selection.integer(3) == 1, at)
        case 6:
            call = _message(body)
            arguments = (*call.raws(1), *call.raws(3))
            return Call(call.text(2), tuple(_node(argument) for argument in arguments), at)
        case 7:
            return ListOf(tuple(_node(item) for item in _message(body).raws(1)), at)
        case 8:
            return _map(_message(body), at)
        case 9:
            return _fold(_message(body), at)
        case _:
            raise UnknownSyntax(f"part {kind} of the runtime's tree")


def _map(body: "_Message", at: int) -> MapOf:
    if body.text(1):
        raise UnknownSyntax(f"a message of the type {body.text(1)}")
    entries = [_message(entry) for entry in body.raws(2)]
    return MapOf(tuple((_node(entry.raw(3)), _node(entry.raw(4))) for entry in entries), at)


def _fold(body: "_Message", at: int) -> Fold:
    if body.text(8):
        raise UnknownSyntax("a comprehension with two variables")
    over = body.raw(2)
    start, condition, step, result = (_node(body.raw(number)) for number in (4, 5, 6, 7))
    return Fold(body.text(1), body.text(3), _node(over), start, condition, step, result, over, at)


def _constant(body: "_Message") -> None | bool | int | float | str | bytes:
    match body.last:
        case 1:
            return None
        case 2:
            return body.integer(2) == 1
        case 3:
            value = body.integer(3)
            return value - 2**64 if value >= 2**63 else value
        case 4:
            return body.integer(4)
        case 5:
            (double,) = struct.unpack("<d", body.raw(5))
            return float(double)
        case 6:
            return body.text(6)
        case 7:
            return body.raw(7)
        case number:
            raise UnknownSyntax(f"constant {number} of the runtime's tree")


# --- the wire form of protocol buffers -------------------------------------------------------------------------------


class _Message:
    """The fields of one message, by number."""

    __slots__ = ("_fields", "last")

    def __init__(self, fields: dict[int, list[int | bytes]], last: int) -> None:
        self._fields = fields
        self.last = last
        """The number of the last field."""

    def integer(self, number: int) -> int:
        """The value of a field, 0 where it is left out."""
        value = self._fields.get(number, _NO_INTEGER)[0]
        return value if isinstance(value, int) else 0

    def raw(self, number: int) -> bytes:
        """The value of a field, empty where it is left out."""
        value = self._fields.get(number, _NO_BYTES)[0]
        return value if isinstance(value, bytes) else b""

    def text(self, number: int) -> str:
        """The value of a field, empty where it is left out."""
        return self.raw(number).decode()

    def raws(self, number: int) -> list[bytes]:
        """The values of a repeated field."""
        return [value for value in self._fields.get(number, []) if isinstance(value, bytes)]


_NO_INTEGER: list[int | bytes] = [0]
_NO_BYTES: list[int | bytes] = [b""]


def _message(data: bytes) -> _Message:
    fields: dict[int, list[int | bytes]] = {}
    at = number = 0
    end = len(data)
    while at < end:
        tag, at = (data[at], at + 1) if data[at] < 0x80 else _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        value: int | bytes
        if wire_type == 2:
            length, at = (data[at], at + 1) if data[at] < 0x80 else _varint(data, at)
            value = data[at : at + length]
            at += length
        elif wire_type == 0:
            value, at = (data[at], at + 1) if data[at] < 0x80 else _varint(data, at)
        elif wire_type == 1:
            value = data[at : at + 8]
            at += 8
        else:
            raise UnknownSyntax(f"wire type {wire_type} in the runtime's tree")
        fields.setdefault(number, []).append(value)
    return _Message(fields, number)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _written(number: int, value: bytes) -> bytes:
    return _varint_bytes(number << 3 | 2) + _varint_bytes(len(value)) + value


def _varint_bytes(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
