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
    """A constant; `at` is the place in the text, in characters, of this and every node."""

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
    """The runtime's own form of `over`."""
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
    checked = _checked(serialized)
    return _Reader(_positions(_message(checked, 5))).node(_message(checked, 4))


def with_root(serialized: bytes, expression: bytes) -> bytes:
    """Returns the serialized expression with another root: a part of it, in the runtime's own form."""
    kept = b"".join(_written(number, value) for number, value in _fields(_checked(serialized)) if number != 4)
    type_url = _message(serialized, 1)
    return _written(1, type_url) + _written(2, kept + _written(4, expression))


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


class _Reader:
    """Reads `cel.expr.Expr` messages; the numbers are those of their fields."""

    def __init__(self, positions: dict[int, int]) -> None:
        self._positions = positions

    def node(self, message: bytes) -> Node:
        at, kind, body = 0, 0, b""
        for number, value in _fields(message):
            if number == 2 and isinstance(value, int):
                at = self._positions.get(value, 0)
            elif isinstance(value, bytes):
                kind, body = number, value
        match kind:
            case 3:
                return Literal(_constant(body), at)
            case 4:
                return Name(_text(body, 1), at)
            case 5:
                return Selection(self.node(_message(body, 1)), _text(body, 2), _number(body, 3) == 1, at)
            case 6:
                return self._call(body, at)
            case 7:
                return ListOf(tuple(self.node(item) for item in _messages(body, 1)), at)
            case 8:
                return self._map(body, at)
            case 9:
                return self._fold(body, at)
            case _:
                raise UnknownSyntax(f"part {kind} of the runtime's tree")

    def _call(self, body: bytes, at: int) -> Call:
        arguments = (*_messages(body, 1), *_messages(body, 3))
        return Call(_text(body, 2), tuple(self.node(argument) for argument in arguments), at)

    def _map(self, body: bytes, at: int) -> MapOf:
        if _text(body, 1):
            raise UnknownSyntax(f"a message of the type {_text(body, 1)}")
        entries = _messages(body, 2)
        return MapOf(tuple((self.node(_message(entry, 3)), self.node(_message(entry, 4))) for entry in entries), at)

    def _fold(self, body: bytes, at: int) -> Fold:
        if _text(body, 8):
            raise UnknownSyntax("a comprehension with two variables")
        over = _message(body, 2)
        start, condition, step, result = (self.node(_message(body, number)) for number in (4, 5, 6, 7))
        return Fold(_text(body, 1), _text(body, 3), self.node(over), start, condition, step, result, over, at)


def _constant(body: bytes) -> None | bool | int | float | str | bytes:
    for number, value in _fields(body):
        match number, value:
            case 1, int():
                return None
            case 2, int():
                return value == 1
            case 3, int():
                return value - 2**64 if value >= 2**63 else value
            case 4, int():
                return value
            case 5, bytes():
                (double,) = struct.unpack("<d", value)
                return float(double)
            case 6, bytes():
                return value.decode()
            case 7, bytes():
                return value
            case _:
                raise UnknownSyntax(f"constant {number} of the runtime's tree")
    raise UnknownSyntax("a constant without a value")


def _positions(source_info: bytes) -> dict[int, int]:
    return {_number(entry, 1): _number(entry, 2) for entry in _messages(source_info, 4)}


def _checked(serialized: bytes) -> bytes:
    return _message(serialized, 2)


# --- the wire form of protocol buffers -------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                length, at = _varint(data, at)
                yield tag >> 3, data[at : at + length]
                at += length
            case wire_type:
                raise UnknownSyntax(f"wire type {wire_type} in the runtime's tree")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _written(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint_bytes(number << 3) + _varint_bytes(value)
    return _varint_bytes(number << 3 | 2) + _varint_bytes(len(value)) + value


def _varint_bytes(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _messages(data: bytes, number: int) -> list[bytes]:
    return [value for found, value in _fields(data) if found == number and isinstance(value, bytes)]


def _message(data: bytes, number: int) -> bytes:
    return next((value for found, value in _fields(data) if found == number and isinstance(value, bytes)), b"")


def _text(data: bytes, number: int) -> str:
    return _message(data, number).decode()


def _number(data: bytes, number: int) -> int:
    return next((value for found, value in _fields(data) if found == number and isinstance(value, int)), 0)
