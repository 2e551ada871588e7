"""How the versions write tables, so that one set of them serves SQLite and PostgreSQL.

Released versions build on these helpers: what one of them makes of given arguments never changes.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

INT = sa.BigInteger()
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A key that the database counts up by itself; none is given twice."""
BYTES = sa.LargeBinary()
BOOL = sa.Boolean()
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Compares byte by byte on both, so that cursors and queues have one order."""


def table(name: str, key: str, *parts: sa.schema.SchemaItem) -> None:
    """A table. On SQLite its rows lie in the order of their key, without the detour by a row number."""
    primary = sa.PrimaryKeyConstraint(*key.split(", "), name=f"{name}_pk")
    numbered = any(isinstance(part, sa.Column) and part.type is NUMBER for part in parts)
    op.create_table(name, *parts, primary, sqlite_with_rowid=numbered, sqlite_autoincrement=numbered)


def column(name: str, type_: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    """A column that every row fills."""
    return sa.Column(name, type_, nullable=False)


def nullable(name: str, type_: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    """A column that a row may leave empty."""
    return sa.Column(name, type_, nullable=True)


def index(name: str, table: str, columns: str, *, where: str | None = None, unique: bool = False) -> None:
    """An index, over the rows for which the condition holds where one is given."""
    condition = sa.text(where) if where else None
    op.create_index(
        name,
        table,
        [sa.text(column) for column in columns.split(", ")],
        unique=unique,
        postgresql_where=condition,
        sqlite_where=condition,
    )


def refuse(table: str, change: str, condition: str) -> None:
    """A trigger that refuses this kind of change to the rows for which the condition holds."""
    name, message = f"{table}_no_{change}", f"{table} is append-only"
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            f"create trigger {name} before {change} on {table} when {condition} "
            f"begin select raise(abort, '{message}'); end"
        )
    else:
        op.execute(
            f"create function {name}() returns trigger language plpgsql as $$ begin "
            f"if {condition} then raise exception '{message}'; end if; return old; end $$"
        )
        op.execute(f"create trigger {name} before {change} on {table} for each row execute function {name}()")
