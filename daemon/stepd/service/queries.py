"""Query strings as values: unknown and repeated single parameters are refused, all faults at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias, TypeVar

from stepd.service.decoding import NAME_RULE, invalid_request, pointer, shown
from stepd_protocol.names import is_name
from stepd_protocol.problems import FieldFault, Problem
from stepd_protocol.times import parse_time

Query: TypeAlias = Sequence[tuple[str, str]]

T = TypeVar("T")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{0,20})?")


class QueryReader:
    """Takes the parameters of one call out of its query string; ``problem`` tells what was wrong with them."""

    def __init__(self, query: Query, *, single: Collection[str] = (), many: Collection[str] = ()) -> None:
        self._values: dict[str, list[str]] = {}
        self._faults: list[FieldFault] = []
        for name, value in query:
            self._values.setdefault(name, []).append(value)
        for name, values in self._values.items():
            if name not in single and name not in many:
                self.refuse(name, "no such parameter")
            elif len(values) > 1 and name not in many:
                self.refuse(name, f"may stand once, not {len(values)} times")

    @property
    def problem(self) -> Problem | None:
        """422 ``invalid_request`` with every fault so far."""
        return invalid_request(self._faults) if self._faults else None

    def refuse(self, name: str, message: str) -> None:
        """Adds a fault of the parameter ``name``."""
        self._faults.append(FieldFault(path=pointer("", name), message=message))

    def given(self) -> frozenset[str]:
        """The names of the parameters that were given."""
        return frozenset(self._values)

    def texts(self, name: str) -> list[str]:
        """The values of a parameter as they came, sorted."""
        return sorted(self._values.get(name, ()))

    def all(self, name: str, read: Callable[[str], T]) -> list[T]:
        """Every readable value of a parameter, in order."""
        found = []
        for text in self._values.get(name, ()):
            try:
                found.append(read(text))
            except ValueError as fault:
                self.refuse(name, str(fault))
        return found

    def one(self, name: str, read: Callable[[str], T]) -> T | None:
        """The value of a parameter; None where it was left out or is not readable."""
        found = self.all(name, read)
        return found[0] if found else None


# -- how one value is read: each raises ValueError with a message for the sender ------------------------------------


def name(text: str) -> str:
    """A name."""
    if not is_name(text):
        raise ValueError(f"must be {NAME_RULE}, not {shown(text)}")
    return text


def short_text(text: str) -> str:
    """A text of 1 to 256 characters."""
    if not 1 <= len(text) <= 256:
        raise ValueError(f"must have 1 to 256 characters, not {len(text)}")
    return text


def flag(text: str) -> bool:
    """``true`` or ``false``."""
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def time(text: str) -> int:
    """An RFC 3339 time with an offset, as ms since the epoch. A ``+`` that came unescaped reads as a space."""
    return parse_time(text.replace(" ", "+"))


def whole(low: int, high: int) -> Callable[[str], int]:
    """A whole number within bounds."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 19 and low <= int(text) <= high):
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return read


def seconds(high: int) -> Callable[[str], float]:
    """Seconds, from 0 to a bound."""

    def read(text: str) -> float:
        value = float(text) if _SECONDS.fullmatch(text) else -1.0
        if not 0 <= value <= high:
            raise ValueError(f"must be a number of seconds from 0 to {high}")
        return value

    return read


def choice(options: Collection[str]) -> Callable[[str], str]:
    """One word of a closed list."""

    def read(text: str) -> str:
        if text not in options:
            raise ValueError(f"must be one of {', '.join(options)}")
        return text

    return read


def choices(options: Collection[str]) -> Callable[[str], frozenset[str]]:
    """Words of a closed list, separated by commas."""
    one = choice(options)
    return lambda text: frozenset(one(word) for word in text.split(","))


def label(text: str) -> tuple[str, str]:
    """``key:value``; the key ends at the first colon."""
    key, colon, value = text.partition(":")
    if not colon or not is_name(key) or not 1 <= len(value) <= 256:
        raise ValueError("must be key:value")
    return key, value
