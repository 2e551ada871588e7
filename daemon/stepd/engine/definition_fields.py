"""Reads the fields of one object of a definition: type, bounds and default of each, every fault with its pointer."""

from collections.abc import Collection
from decimal import Decimal
from typing import Any, TypeVar

from stepd.engine.canonical import encode
from stepd.engine.pointers import child_pointer
from stepd.engine.schemas import SchemaFault, Validator, without_annotations
from stepd_protocol import limits
from stepd_protocol.names import is_name
from stepd_protocol.problems import FieldFault

Choice = TypeVar("Choice", bound=str)


class Fields:
    """One object as it was given. What each read returns is a value that can be worked with, after a fault the default.

    `full` is the object with every default written out: what the digest is made of.
    """

    def __init__(self, given: dict[str, Any], pointer: str, faults: list[FieldFault]) -> None:
        self.given = given
        self.pointer = pointer
        self.faults = faults
        self.full: dict[str, Any] = {}

    def at(self, field: str) -> str:
        """Returns the pointer to a field."""
        return child_pointer(self.pointer, field)

    def fault(self, field: str | None, message: str) -> None:
        """Notes a fault of a field, or of the object."""
        path = self.pointer if field is None else self.at(field)
        self.faults.append(FieldFault(path=path, message=message))

    def has(self, field: str) -> bool:
        """Whether the field was given."""
        return field in self.given

    def refuse_others(self, known: Collection[str], explain: dict[str, str] | None = None) -> None:
        """Notes a fault for each field that isn't known; `explain` has better words for some."""
        for field in self.given:
            if field not in known:
                self.fault(field, (explain or {}).get(field, f"there is no such field: {shown(field)}"))

    def take(self, field: str, default: Any) -> Any:
        """Returns a field unchecked."""
        value = self.given.get(field, default)
        self.full[field] = value
        return value

    def required(self, field: str) -> bool:
        """Whether a field that must be given is there; notes a fault where it isn't."""
        if field not in self.given:
            self.fault(field, f"{field} is missing")
        return field in self.given

    def name(self, field: str) -> str | None:
        """A name, or null."""
        value = self.take(field, None)
        return None if value is None else self.checked_name(field, value)

    def required_name(self, field: str) -> str | None:
        """A name that must be there; None where it is not, or is none."""
        if not self.required(field):
            return None
        return self.checked_name(field, self.take(field, None))

    def checked_name(self, field: str, value: Any) -> str | None:
        """Returns the value where it is a name; else notes a fault of the field."""
        if isinstance(value, str) and is_name(value):
            return value
        self.fault(field, f"{shown(value)} is no name: 1 to 128 of A-Z a-z 0-9 . _ : - after a first letter or digit")
        return None

    def names(self, field: str) -> list[str] | None:
        """A list of names, None where it was not given."""
        if field not in self.given:
            self.full[field] = None
            return None
        value = self.take(field, None)
        if not isinstance(value, list):
            self.fault(field, f"{shown(value)} is no list of names")
            return None
        below = Fields({}, self.at(field), self.faults)
        return [name for place, item in enumerate(value) if (name := below.checked_name(str(place), item)) is not None]

    def choice(self, field: str, choices: tuple[Choice, ...], default: Choice) -> Choice:
        """One of a closed list."""
        value = self.take(field, default)
        for choice in choices:
            if value == choice:
                return choice
        self.fault(field, f"{shown(value)} is none of {', '.join(choices)}")
        return default

    def boolean(self, field: str, default: bool) -> bool:
        """True or false."""
        value = self.take(field, default)
        if isinstance(value, bool):
            return value
        self.fault(field, f"{shown(value)} is neither true nor false")
        return default

    def text(self, field: str) -> str | None:
        """Any text, or null."""
        value = self.take(field, None)
        if value is None or isinstance(value, str):
            return value
        self.fault(field, f"{shown(value)} is no text")
        return None

    def integer(self, field: str, low: int, high: int, default: int) -> int:
        """A number without a fraction, in bounds."""
        value = self.take(field, default)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.fault(field, f"{shown(value)} is no whole number from {low} to {high}")
        return default

    def number(self, field: str, low: float, high: float, default: float) -> float:
        """A number in bounds."""
        value = self.take(field, default)
        if _is_number(value) and low <= value <= high:
            return float(value)
        self.fault(field, f"{shown(value)} is no number from {low:g} to {high:g}")
        return default

    def milliseconds(self, field: str, default: float, zero: bool = False) -> int:
        """Seconds in bounds, as milliseconds; `zero` allows 0 too."""
        value = self.take(field, default)
        return _milliseconds(value if self._are_seconds(field, value, zero) else default)

    def milliseconds_or_none(self, field: str, default: float | None = None) -> int | None:
        """Seconds in bounds, as milliseconds, or null."""
        value = self.take(field, default)
        return None if value is None or not self._are_seconds(field, value, False) else _milliseconds(value)

    def own_milliseconds(self, field: str, zero: bool = False) -> int | None:
        """Seconds in bounds, as milliseconds; None where they were left out, so that the daemon's hold."""
        value = self.take(field, None)
        given = field in self.given and self._are_seconds(field, value, zero)
        return _milliseconds(value) if given else None

    def objects(self, field: str) -> list["Fields"]:
        """A list of objects; `full` has to be put together by who reads them."""
        value = self.take(field, [])
        if not isinstance(value, list):
            self.fault(field, f"{shown(value)} is no list of objects")
            return []
        pointer = self.at(field)
        found: list[Fields] = []
        for place, item in enumerate(value):
            if isinstance(item, dict):
                found.append(Fields(item, child_pointer(pointer, place), self.faults))
            else:
                message = f"{shown(item)} is no object"
                self.faults.append(FieldFault(path=child_pointer(pointer, place), message=message))
        return found

    def object(self, field: str) -> "Fields | None":
        """An object, or None where it was left out, is null, or is no object."""
        value = self.take(field, None)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fault(field, f"{shown(value)} is no object")
            return None
        return Fields(value, self.at(field), self.faults)

    def schema(self, field: str) -> Validator | None:
        """A JSON Schema, or null."""
        value = self.take(field, None)
        if value is None:
            return None
        try:
            validator = Validator(value)
        except SchemaFault as fault:
            self.fault(field, f"it is no JSON Schema 2020-12 that can be used here: {fault}")
            return None
        self.full[field] = without_annotations(value)
        return validator

    def _are_seconds(self, field: str, value: Any, zero: bool) -> bool:
        if _is_number(value) and (limits.SECONDS_MIN <= value <= limits.SECONDS_MAX or (zero and value == 0)):
            return True
        least = f"0, or from {limits.SECONDS_MIN}" if zero else f"from {limits.SECONDS_MIN}"
        self.fault(field, f"{shown(value)} is no number of seconds {least} to {limits.SECONDS_MAX:,}")
        return False


def _milliseconds(seconds: float) -> int:
    return round(float(seconds) * 1_000)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """Returns a value as JSON, cut to what a message can bear."""
    text = encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
