"""The whole definition language, children of workflow steps, signals, and the resolving of doubtful executions.

New columns stand at the end of their tables, in the order of the fields at the end of the daemon's rows. What is in the
database already gets the value that says that there is nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from stepd_migrations.writing import BOOL, BYTES, INT, TEXT, column, index, nullable, table

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


AUDIT_KEPT_MS = 365 * 86_400_000
REMOVALS = ("remove_events(text, bigint)", "remove_audit(bigint, bigint)", "store_ms()")


def upgrade() -> None:
    """Adds what a database of the version before lacks."""
    _add("executions", *_executions())
    _add("steps", *_steps())
    index("executions_news", "executions", "news_at", where="news_at is not null")
    index("executions_blocked_child", "executions", "id", where="blocked_child is not null")
    index("steps_errands", "steps", "errand", where="errand is not null")
    index("attempts_items", "attempts", "execution_id, ordinal, idx", where="idx >= 0")
    _add("ledger", *_ledger())
    _note_standing_writes()
    _signals()
    if op.get_bind().dialect.name == "postgresql":
        _removals()


def downgrade() -> None:
    """Takes it all away again."""
    if op.get_bind().dialect.name == "postgresql":
        for function in REMOVALS:
            op.execute(f"drop function {function}")
    op.drop_index("steps_standing", "steps")
    _drop("ledger", *_ledger())
    op.drop_table("signals")
    op.drop_index("executions_correlation_open", "executions")
    op.drop_index("attempts_items", "attempts")
    op.drop_index("steps_errands", "steps")
    op.drop_index("executions_blocked_child", "executions")
    op.drop_index("executions_news", "executions")
    _drop("steps", *_steps())
    _drop("executions", *_executions())


def _executions() -> tuple[sa.Column[Any], ...]:
    return (
        nullable("parent_id", TEXT),
        nullable("parent_step", TEXT),
        nullable("parent_index", INT),
        _filled("depth", INT, "0"),
        _filled("children", INT, "0"),
        nullable("blocked_child", TEXT),
        nullable("news_at", INT),
        _filled("standing", TEXT, "''"),
        _filled("leave_standing", BOOL, "false"),
        _filled("signals", INT, "0"),
        _filled("signals_kept", INT, "0"),
        _filled("leaves_writes", BOOL, "false"),
    )


def _steps() -> tuple[sa.Column[Any], ...]:
    return (
        nullable("child_id", TEXT),
        _filled("child_open", BOOL, "false"),
        _filled("child_seq", INT, "0"),
        nullable("child_blocked_at", INT),
        nullable("errand", TEXT),
        nullable("standing_seq", INT),
        _filled("fresh_fence", INT, "0"),
        nullable("items", BYTES),
    )


def _ledger() -> tuple[sa.Column[Any], ...]:
    return (nullable("tenant", TEXT),)


def _note_standing_writes() -> None:
    """Writes of open executions that have succeeded stand; the later in the definition is undone first."""
    op.execute(
        "update steps set standing_seq = ordinal - 1000 where status = 'succeeded' and not caught "
        "and declared_effect in ('idempotent_write', 'non_idempotent_write') "
        "and execution_id in (select id from executions where ended_at is null)"
    )
    index("steps_standing", "steps", "execution_id, standing_seq", where="standing_seq is not null")


def _signals() -> None:
    table(
        "signals",
        "execution_id, number",
        column("execution_id", TEXT),
        column("number", INT),
        column("name", TEXT),
        nullable("source", TEXT),
        column("received_at", INT),
        nullable("taken_by", INT),
        column("fits", TEXT),
        column("payload", BYTES),
    )
    index("signals_kept", "signals", "execution_id, name, number", where="taken_by is null")
    index("signals_source", "signals", "source, execution_id", where="source is not null", unique=True)
    # An event finds the open executions of its correlation, however many have ended.
    is_open = "correlation is not null and ended_at is null"
    index("executions_correlation_open", "executions", "correlation, id", where=is_open)


def _removals() -> None:
    """Functions that remove what has served its time from journal and audit, where a daemon's role can't delete.

    They run as the owner of the schema, and let nothing go that has not: the journal of an execution that is there, and
    audit rows of the last year.
    """
    schema = op.get_bind().exec_driver_sql("select quote_ident(current_schema())").scalar_one()
    as_owner = f"language plpgsql security definer set search_path = {schema}, pg_temp"
    op.execute(
        "create function store_ms() returns bigint language sql volatile as "
        "$$ select (extract(epoch from clock_timestamp()) * 1000)::bigint $$"
    )
    op.execute(
        f"create function remove_events(of_execution text, at_most bigint) returns bigint {as_owner} as $$ "
        "declare removed bigint; begin "
        "if exists (select from executions where id = of_execution) then "
        "raise exception 'the journal of an execution that is there stays' using errcode = '42501'; end if; "
        "delete from events where (execution_id, seq) in "
        "(select execution_id, seq from events where execution_id = of_execution limit at_most); "
        "get diagnostics removed = row_count; return removed; end $$"
    )
    op.execute(
        f"create function remove_audit(before bigint, at_most bigint) returns bigint {as_owner} as $$ "
        f"declare removed bigint; served bigint := least(before, store_ms() - {AUDIT_KEPT_MS}); begin "
        "if not exists (select from audit where at < served) then return 0; end if; "
        "update audit_retention set kept_from = served where kept_from < served; "
        "delete from audit where id in (select id from audit where at < served order by at, id limit at_most); "
        "get diagnostics removed = row_count; return removed; end $$"
    )
    for function in REMOVALS:
        op.execute(f"revoke all on function {function} from public")


def _filled(name: str, type_: sa.types.TypeEngine[Any], value: str) -> sa.Column[Any]:
    """A column that every row fills, those that are there already with this value."""
    return sa.Column(name, type_, nullable=False, server_default=sa.text(value))


def _add(table: str, *columns: sa.Column[Any]) -> None:
    for one in columns:
        op.add_column(table, one)


def _drop(table: str, *columns: sa.Column[Any]) -> None:
    for one in reversed(columns):
        op.drop_column(table, one.name)
