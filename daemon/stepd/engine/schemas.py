"""JSON Schema 2020-12 validators of a definition: compiled once, asked for their first fault."""

from typing import Any


class Validator:
    """One compiled schema."""

    __slots__ = ("_schema",)

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def first_fault(self, value: Any) -> str | None:
        """Returns None where `value` fits, else a short message that names the place by its JSON Pointer. Never raises."""
        raise NotImplementedError
