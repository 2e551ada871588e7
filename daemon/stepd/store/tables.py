"""The tables as both stores have them: named, and with the fields of a row type as columns, in their order."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from stepd.engine.work import PARKABLE

Row = TypeVar("Row", bound=msgspec.Struct)

COLUMN_OF: Final = {"index": "idx"}
"""Fields whose names are words of SQL."""

_PARKABLE: Final = ", ".join(f"'{status}'" for status in sorted(PARKABLE))
OPEN_ROWS: Final = f"lease_id is null and status in ({_PARKABLE})"
"""The condition of steps that have not ended and have no attempt."""


class Columns(Generic[Row]):
    """One table and its columns."""

    def __init__(self, name: str, row: type[Row]) -> None:
        self.name = name
        self.row = row
        self.fields = row.__struct_fields__
        self.columns = tuple(COLUMN_OF.get(field, field) for field in self.fields)
        self.listed = ", ".join(self.columns)
        self.select = f"select {self.listed} from {name}"

    def of(self, alias: str) -> str:
        """The columns under an alias of the table, for a select with a join."""
        return ", ".join(f"{alias}.{column}" for column in self.columns)
