"""JSON Pointers (RFC 6901) into the state, as a definition's `updates` use them."""

from collections.abc import Iterable
from typing import Any, Final

from stepd_protocol.limits import JSON_DEPTH_MAX

SHOWN_LENGTH_MAX: Final = 60


class PointerFault(ValueError):
    """An update that cannot be applied; ``str()`` of it names the pointer, the place and why."""


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Returns the unescaped tokens of a pointer. Raises PointerFault where it is none, or has the token `-`."""
    if not pointer.startswith("/"):
        raise PointerFault(f"{_shown(pointer)} is no pointer into the state: it begins with /")
    tokens = pointer[1:].split("/")
    if any("~" in token.replace("~0", "").replace("~1", "") for token in tokens):
        raise PointerFault(f"{_shown(pointer)} holds a ~ that is neither ~0 nor ~1")
    if "-" in tokens:
        raise PointerFault(
            f"{_shown(pointer)} names the place behind an array's last item with -: only existing places can be set"
        )
    if len(tokens) >= JSON_DEPTH_MAX:
        raise PointerFault(f"{_shown(pointer)} names a place {len(tokens)} levels deep: a value has {JSON_DEPTH_MAX}")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


def child_pointer(pointer: str, key: str | int) -> str:
    """Returns the pointer to what stands under `key`, or in that place, of what `pointer` names."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def apply_updates(state: dict[str, Any], updates: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a copy of the state with each value set at its pointer, one after the other.

    An object takes any name, and objects that are missing on the way are made. An array takes existing places only.
    Raises PointerFault where a place cannot be set.
    """
    updated = dict(state)
    for pointer, value in updates:
        _set(updated, pointer, value)
    return updated


def _set(state: dict[str, Any], pointer: str, value: Any) -> None:
    tokens = parse_pointer(pointer)
    parent: Any = state
    for token in tokens[:-1]:
        key = _key(parent, token, pointer)
        child = parent[key] if isinstance(parent, list) else parent.get(key, {})
        # Each container on the way is copied, for the state and the values are shared with other readers.
        parent[key] = child = _copied(child, token, pointer)
        parent = child
    parent[_key(parent, tokens[-1], pointer)] = value


def _copied(child: Any, token: str, pointer: str) -> Any:
    if isinstance(child, dict):
        return dict(child)
    if isinstance(child, list):
        return list(child)
    raise PointerFault(f"{_shown(pointer)} goes through {_shown(token)}, which is neither an object nor an array")


def _key(parent: Any, token: str, pointer: str) -> Any:
    if isinstance(parent, dict):
        return token
    if not (token.isascii() and token.isdigit()) or (len(token) > 1 and token[0] == "0") or len(token) > 9:
        raise PointerFault(f"{_shown(pointer)} goes through an array, and {_shown(token)} is no place in it")
    if int(token) >= len(parent):
        raise PointerFault(
            f"{_shown(pointer)} names place {token} of an array that has {len(parent)}: only existing places can be set"
        )
    return int(token)


def _shown(text: str) -> str:
    """The text, quoted and cut to what a message can bear."""
    return repr(text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}...")
