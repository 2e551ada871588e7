"""Values on their way into CEL's runtime and out: measured, refused where it would harm them, made JSON again."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from re import compile as pattern
from typing import Any, NamedTuple, TypeAlias

from stepd.engine.canonical import encode
from stepd.engine.cel_syntax import Path

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_LONG_INTEGER = pattern(rb"[0-9]{19}")
_ESCAPED_NUL = b"\\u0000"


class Unfit(Exception):
    """A value that the runtime cannot take, or that is no JSON; ``str()`` of it says what and why."""


class Size(NamedTuple):
    """An upper bound of what one value weighs."""

    weight: int
    """Counts members, items and containers, and 32 bytes of text as one more."""
    text: int
    """No text in it has more bytes."""


SCALAR = Size(1, 32)


def size_of(value: Any) -> Size:
    """Returns the size of a decoded JSON value. Raises Unfit where it holds what the runtime would change silently.

    It cuts a text at its first NUL, and has no integers beyond 64 bits.
    """
    if value is None or isinstance(value, bool | float):
        return SCALAR
    if isinstance(value, int):
        _check_int(value)
        return SCALAR
    if isinstance(value, str):
        _check_text(value)
        length = len(value) if value.isascii() else len(value.encode())
        return Size(1 + length // 32, length)
    raw = encode(value)
    if _ESCAPED_NUL in raw or _LONG_INTEGER.search(raw):
        _check_deeply(value)
    members = raw.count(b",") + raw.count(b":") + raw.count(b"[") + raw.count(b"{")
    return Size(1 + members + len(raw) // 32, len(raw))


def heaviest_member(value: Any) -> Size:
    """Returns a bound of what any one member of a container weighs. Raises Unfit as `size_of` does."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    sizes = [size_of(item) for item in members]
    return Size(max((size.weight for size in sizes), default=1), max((size.text for size in sizes), default=1))


def _check_deeply(value: Any) -> None:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                _check_text(text)
            case bool():
                pass
            case int() | Decimal() as number:
                _check_int(number)
            case list() as items:
                waiting.extend(items)
            case dict() as members:
                waiting.extend(members)
                waiting.extend(members.values())
            case _:
                pass


def _check_text(text: str) -> None:
    if "\0" in text:
        raise Unfit("a text with the character U+0000, which a computed expression cannot take")


def _check_int(number: int | Decimal) -> None:
    if not INT64_MIN <= number <= INT64_MAX:
        raise Unfit("an integer beyond 64 bits, which a computed expression cannot take")


PathTree: TypeAlias = "dict[str | int, PathTree] | None"
"""Keys to show below a value; None shows all of it, no keys at all only that it is there."""


def path_tree(paths: Iterable[Path]) -> PathTree:
    """Returns the tree of the keys of paths that have one base."""
    tree: PathTree = {}
    for path in sorted(paths, key=lambda path: (len(path.keys), path.presence)):
        tree = _grown(tree, path.keys, path.presence)
    return tree


def _grown(tree: PathTree, keys: tuple[str | int, ...], presence: bool) -> PathTree:
    if tree is None:
        return None
    if not keys:
        return tree if presence else None
    return {**tree, keys[0]: _grown(tree.get(keys[0], {}), keys[1:], presence)}


def project(value: Any, tree: PathTree) -> Any:
    """Returns what the runtime is shown of a value: no more than its tree of paths leads to.

    Where a path leads nowhere the runtime finds that out by itself, for it may never look there.
    """
    if tree is None:
        return value
    if not tree:
        return True
    if isinstance(value, dict):
        return {key: project(value[key], below) for key, below in tree.items() if key in value}
    if isinstance(value, list):
        places = [key for key in tree if isinstance(key, int) and key >= 0]
        shown: list[Any] = [None] * min(len(value), max(places, default=-1) + 1)
        for place in places:
            if place < len(value):
                shown[place] = project(value[place], tree[place])
        return shown
    return None


def at_path(value: Any, path: Path) -> Any:
    """Returns the value that a path leads to from the value of its base; None where it leads nowhere."""
    for key in path.keys:
        value = member(value, key, None)
        if value is None:
            return None
    return value


def member(container: Any, key: str | int, absent: Any) -> Any:
    """Returns what stands under a key or in a place of a decoded JSON value, else `absent`."""
    if isinstance(key, str):
        return container.get(key, absent) if isinstance(container, dict) else absent
    if isinstance(container, list) and 0 <= key < len(container):
        return container[key]
    return absent


_TEXT = frozenset({str})
_UNCHANGED = frozenset({str, int, bool, type(None)})


def as_json(value: Any) -> Any:
    """Returns a plain value of the runtime as decoded JSON, its maps sorted by name. Raises Unfit where it is none.

    A timestamp becomes RFC 3339 text in UTC, with milliseconds, or microseconds where they say more; a duration becomes
    its seconds.
    """
    kind = type(value)
    if kind in _UNCHANGED:
        return value
    if kind is list:
        return [item if type(item) in _UNCHANGED else as_json(item) for item in value]
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            raise Unfit("a map with keys that are not text, which is no JSON")
        names = sorted(value) if len(value) > 1 else value
        return {name: as_json(value[name]) for name in names}
    return _scalar_as_json(value)


def _scalar_as_json(value: Any) -> Any:
    match value:
        case float():
            if not isfinite(value):
                raise Unfit(f"the number {value}, which is no JSON")
            return value
        case datetime():
            spec = "microseconds" if value.microsecond % 1000 else "milliseconds"
            return value.astimezone(UTC).isoformat(timespec=spec).replace("+00:00", "Z")
        case timedelta():
            seconds = value.total_seconds()
            return int(seconds) if seconds.is_integer() else seconds
        case bytes() | bytearray():
            raise Unfit("bytes, which are no JSON")
        case _:
            raise Unfit("a type, which is no JSON")
