"""Tokens and money: what executions have used and may use, prices, and the log of usage; sign-ins to the page.

New columns stand at the end of their tables, in the order of the fields at the end of the daemon's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from stepd_migrations.writing import BYTES, INT, TEXT, column, index, nullable, refuse, table

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TABLES = ("prices", "usage", "sessions")
COUNTS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
MOST = 2**63 - 1
EIGHTHS = " + ".join(f"{count} / 8" for count in COUNTS)
UNPRICED = (
    f"update executions set unpriced_tokens = case when {EIGHTHS} >= {MOST // 8} then {MOST} "
    f"else {' + '.join(COUNTS)} end where {' or '.join(f'{count} > 0' for count in COUNTS)}"
)
"""What was used before there were prices has none; a sum stays within what a column holds."""
REFUSED = ("update", "delete")
"""Changes of prices that triggers refuse."""


def upgrade() -> None:
    """Adds what a database of the version before lacks."""
    for table_, columns in (("executions", _executions()), ("steps", _steps()), ("attempts", _pieces())):
        for one in columns:
            op.add_column(table_, one)
    op.execute(UNPRICED)
    # Spans that come by a trace id of the caller's must find its executions.
    is_given = sa.text("traceparent is not null")
    op.create_index(
        "executions_trace",
        "executions",
        [sa.text("substr(traceparent, 4, 32)")],
        postgresql_where=is_given,
        sqlite_where=is_given,
    )
    index("spans_span", "spans", "span_id")
    _prices()
    _usage()
    _sessions()


def downgrade() -> None:
    """Takes it all away again."""
    for name in reversed(TABLES):
        op.drop_table(name)
    if op.get_bind().dialect.name == "postgresql":
        for change in REFUSED:
            op.execute(f"drop function prices_no_{change}()")
    op.drop_index("spans_span", "spans")
    op.drop_index("executions_trace", "executions")
    for table_, columns in (("attempts", _pieces()), ("steps", _steps()), ("executions", _executions())):
        for one in reversed(columns):
            op.drop_column(table_, one.name)


def _executions() -> tuple[sa.Column[Any], ...]:
    return (
        _zero("cost_nano"),
        nullable("currency", TEXT),
        _zero("unpriced_tokens"),
        nullable("below", BYTES),
        nullable("budget_nano", INT),
        nullable("budget_tokens", INT),
        nullable("pause_reason", TEXT),
        _zero("usage_seq"),
        *_pieces(),
        nullable("paused_at", INT),
    )


def _steps() -> tuple[sa.Column[Any], ...]:
    return (nullable("child_usage", BYTES),)


def _pieces() -> tuple[sa.Column[Any], ...]:
    """Which piece of a long span is being written, and the one before it."""
    return (nullable("piece_at", INT), nullable("piece_before", INT))


def _prices() -> None:
    """Every table of prices that ever stood: what was priced by one names it."""
    table(
        "prices",
        "version",
        column("version", INT),
        column("at", INT),
        column("principal", TEXT),
        column("currency", TEXT),
        column("body", BYTES),
    )
    for change in REFUSED:
        refuse("prices", change, "true")


def _usage() -> None:
    """What attempts used, a line a model: outlives the executions, with what sums over it are asked by."""
    table(
        "usage",
        "attempt_id, line",
        column("attempt_id", TEXT),
        column("line", INT),
        column("execution_id", TEXT),
        column("workflow", TEXT),
        column("version", TEXT),
        column("step", TEXT),
        nullable("tenant", TEXT),
        column("labels", BYTES),
        column("at", INT),
        column("model", TEXT),
        column("input_tokens", INT),
        column("cache_read_tokens", INT),
        column("cache_write_tokens", INT),
        column("output_tokens", INT),
        column("reasoning_tokens", INT),
        nullable("cost_nano", INT),
        nullable("currency", TEXT),
        nullable("prices", INT),
        column("unpriced_tokens", INT),
        column("of_model", INT),
    )
    index("usage_at", "usage", "at")


def _sessions() -> None:
    """Who has signed in to the page: the hash of the cookie, and the key it stands for."""
    table(
        "sessions",
        "id_hash",
        column("id_hash", TEXT),
        column("key_id", TEXT),
        column("csrf", TEXT),
        column("created_at", INT),
        column("expires_at", INT),
    )
    index("sessions_expires", "sessions", "expires_at")


def _zero(name: str) -> sa.Column[Any]:
    """A sum, which is nothing in every row that is there."""
    return sa.Column(name, INT, nullable=False, server_default=sa.text("0"))
