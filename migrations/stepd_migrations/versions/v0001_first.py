"""The first schema: executions with all that is theirs, definitions, keys, and what the service knows of itself.

Columns stand in the order of the fields of the daemon's rows. Texts compare byte by byte on both databases, so that
cursors and queues have one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INT = sa.BigInteger()
BYTES = sa.LargeBinary()
BOOL = sa.Boolean()

TABLES = (
    "executions", "labels", "steps", "attempts", "payloads", "events", "spans", "leavings",
    "claims", "idempotency", "versions", "current_versions", "workers", "keys", "service_config", "pulse",
    "audit", "audit_retention", "ledger",
)  # fmt: skip

REFUSED = (
    ("audit", "update", "true"),
    ("audit", "delete", "old.at >= (select kept_from from audit_retention)"),
    ("ledger", "update", "true"),
    ("ledger", "delete", "true"),
)
"""Changes that triggers refuse: the table, the change, the rows."""


def upgrade() -> None:
    """Makes every table."""
    _executions()
    _labels()
    _steps()
    _attempts()
    _belongings()
    _calls()
    _definitions()
    _service()
    _records()


def downgrade() -> None:
    """Drops every table, and their triggers with them."""
    for name in reversed(TABLES):
        op.drop_table(name)
    if op.get_bind().dialect.name == "postgresql":
        for table, change, _ in REFUSED:
            op.execute(f"drop function {table}_no_{change}()")


def _executions() -> None:
    op.create_table(
        "executions",
        _column("id", TEXT),
        _column("workflow", TEXT),
        _column("version", TEXT),
        _nullable("tenant", TEXT),
        _nullable("correlation", TEXT),
        _column("labels", BYTES),
        _column("principal", TEXT),
        _column("priority", INT),
        _nullable("traceparent", TEXT),
        _column("on_restart", TEXT),
        _nullable("exclusive_key", TEXT),
        _column("status", TEXT),
        _nullable("direction", TEXT),
        _column("graph", TEXT),
        _column("revision", INT),
        _column("seq", INT),
        _column("active", INT),
        _column("flight", INT),
        _column("uncertain", INT),
        _column("cancel_requested", BOOL),
        _nullable("cancel_reason", TEXT),
        _column("forced", BOOL),
        _column("mismatch", BOOL),
        _nullable("error", BYTES),
        _column("input_hash", TEXT),
        _column("state_size", INT),
        _column("created_at", INT),
        _nullable("start_at", INT),
        _nullable("started_at", INT),
        _nullable("ended_at", INT),
        _nullable("deadline_at", INT),
        _nullable("due_at", INT),
        _nullable("remove_at", INT),
        _column("input_tokens", INT),
        _column("cache_read_tokens", INT),
        _column("cache_write_tokens", INT),
        _column("output_tokens", INT),
        _column("reasoning_tokens", INT),
        sa.PrimaryKeyConstraint("id", name="executions_pk"),
        sqlite_with_rowid=False,
    )
    _index("executions_exclusive", "executions", "exclusive_key", where="exclusive_key is not null", unique=True)
    _index("executions_due", "executions", "due_at", where="due_at is not null")
    _index("executions_remove", "executions", "remove_at", where="remove_at is not null")
    _index("executions_open", "executions", "workflow, version, id", where="ended_at is null")
    _index("executions_created", "executions", "created_at, id")
    _index("executions_status", "executions", "status, created_at, id")
    _index("executions_workflow", "executions", "workflow, created_at, id")
    _index("executions_correlation", "executions", "correlation, created_at, id", where="correlation is not null")
    _index("executions_tenant", "executions", "tenant, created_at, id", where="tenant is not null")


def _labels() -> None:
    op.create_table(
        "labels",
        _column("key", TEXT),
        _column("value", TEXT),
        _column("created_at", INT),
        _column("execution_id", TEXT),
        sa.PrimaryKeyConstraint("key", "value", "created_at", "execution_id", name="labels_pk"),
        sqlite_with_rowid=False,
    )


def _steps() -> None:
    op.create_table(
        "steps",
        _column("execution_id", TEXT),
        _column("ordinal", INT),
        _column("idx", INT),
        _column("step", TEXT),
        _column("workflow", TEXT),
        _column("version", TEXT),
        _nullable("tenant", TEXT),
        _column("status", TEXT),
        _column("parked", INT),
        _column("priority", INT),
        _nullable("due_at", INT),
        _column("execution_created_at", INT),
        _nullable("timer_at", INT),
        _column("fence", INT),
        _column("spent", INT),
        _column("last_attempt", INT),
        _column("interruptions", INT),
        _column("effect", TEXT),
        _column("caught", BOOL),
        _nullable("lease_id", TEXT),
        _column("own_input", BOOL),
        _nullable("input_hash", TEXT),
        _column("declared_effect", TEXT),
        _column("idempotency_key", TEXT),
        _nullable("checkpoint", TEXT),
        _nullable("error", BYTES),
        _nullable("shunned", BYTES),
        _column("has_previous", BOOL),
        _nullable("queued_at", INT),
        sa.PrimaryKeyConstraint("execution_id", "ordinal", "idx", name="steps_pk"),
        sqlite_with_rowid=False,
    )
    order = "priority desc, due_at, execution_created_at, execution_id, ordinal, idx"
    claimable = "status = 'queued' and parked = 0"
    # The last columns let a narrowed claim pass over others' steps without reading their rows.
    _index("steps_claimable", "steps", f"workflow, version, {order}, step, tenant", where=claimable)
    # A worker of one tenant must not have to walk past another tenant's full queue.
    _index(
        "steps_claimable_by_tenant",
        "steps",
        f"workflow, version, tenant, {order}, step",
        where=f"{claimable} and tenant is not null",
    )
    _index("steps_timer", "steps", "timer_at", where="timer_at is not null and parked = 0")


def _attempts() -> None:
    op.create_table(
        "attempts",
        _column("id", TEXT),
        _column("execution_id", TEXT),
        _column("ordinal", INT),
        _column("idx", INT),
        _column("number", INT),
        _column("fence", INT),
        _column("status", TEXT),
        _column("begun", BOOL),
        _column("named", BOOL),
        _column("principal", TEXT),
        _column("worker", TEXT),
        _column("instance", TEXT),
        _column("lease_ms", INT),
        _column("reclaim_ms", INT),
        _column("leased_at", INT),
        _column("expires_at", INT),
        _column("reclaim_at", INT),
        _nullable("timeout_at", INT),
        _nullable("next_at", INT),
        _nullable("ended_at", INT),
        _nullable("ended_by", TEXT),
        _column("effect", TEXT),
        _nullable("error", BYTES),
        _nullable("outcome", TEXT),
        _nullable("outcome_digest", TEXT),
        _nullable("answer", BYTES),
        _column("stale", BOOL),
        _column("has_progress", BOOL),
        _nullable("usage", BYTES),
        _column("usage_given", BOOL),
        _column("span_id", TEXT),
        sa.PrimaryKeyConstraint("id", name="attempts_pk"),
        sqlite_with_rowid=False,
    )
    _index("attempts_execution", "attempts", "execution_id, id")
    _index("attempts_next", "attempts", "next_at", where="next_at is not null")


def _belongings() -> None:
    """What hangs on an execution beside its steps and attempts."""
    op.create_table(
        "payloads",
        _column("execution_id", TEXT),
        _column("name", TEXT),
        _column("body", BYTES),
        sa.PrimaryKeyConstraint("execution_id", "name", name="payloads_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        _column("execution_id", TEXT),
        _column("seq", INT),
        _column("at", INT),
        _column("type", TEXT),
        _nullable("step", TEXT),
        _nullable("idx", INT),
        _nullable("attempt", INT),
        _nullable("worker", TEXT),
        _column("data", BYTES),
        sa.PrimaryKeyConstraint("execution_id", "seq", name="events_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "spans",
        _column("execution_id", TEXT),
        _column("attempt_id", TEXT),
        _column("span_id", TEXT),
        _column("body", BYTES),
        sa.PrimaryKeyConstraint("execution_id", "attempt_id", "span_id", name="spans_pk"),
        sqlite_with_rowid=False,
    )
    # Executions that retention has removed, while their rows in the tables above are still being removed in slices.
    op.create_table(
        "leavings",
        _column("execution_id", TEXT),
        sa.PrimaryKeyConstraint("execution_id", name="leavings_pk"),
        sqlite_with_rowid=False,
    )


def _calls() -> None:
    """What is remembered of calls, so that they can be sent again."""
    op.create_table(
        "claims",
        _column("principal", TEXT),
        _column("claim_id", TEXT),
        _column("leases", TEXT),  # a JSON list of lease ids
        _column("dealt_at", INT),
        sa.PrimaryKeyConstraint("principal", "claim_id", name="claims_pk"),
        sqlite_with_rowid=False,
    )
    _index("claims_dealt", "claims", "dealt_at")
    op.create_table(
        "idempotency",
        _column("principal", TEXT),
        _column("target", TEXT),
        _column("key", TEXT),
        _column("body_hash", TEXT),
        _column("status", INT),
        _nullable("location", TEXT),
        _column("body", BYTES),
        _column("created_at", INT),
        sa.PrimaryKeyConstraint("principal", "target", "key", name="idempotency_pk"),
        sqlite_with_rowid=False,
    )
    _index("idempotency_created", "idempotency", "created_at")


def _definitions() -> None:
    op.create_table(
        "versions",
        _column("workflow", TEXT),
        _column("version", TEXT),
        _column("digest", TEXT),
        _column("definition", BYTES),
        _column("registered_at", INT),
        _column("number", INT),
        sa.PrimaryKeyConstraint("workflow", "version", name="versions_pk"),
        sa.UniqueConstraint("number", name="versions_number"),
    )
    op.create_table(
        "current_versions",
        _column("workflow", TEXT),
        _column("version", TEXT),
        _column("chosen", BOOL),  # somebody said so; a newly registered version does not take its place
        sa.PrimaryKeyConstraint("workflow", name="current_versions_pk"),
    )


def _service() -> None:
    op.create_table(
        "workers",
        _column("principal", TEXT),
        _column("worker", TEXT),
        _column("instance", TEXT),
        _column("serves", BYTES),
        _column("tenants", BYTES),
        _column("last_seen_at", INT),
        sa.PrimaryKeyConstraint("principal", "worker", "instance", name="workers_pk"),
    )
    _index("workers_seen", "workers", "last_seen_at")
    op.create_table(
        "keys",
        _column("id", TEXT),
        _column("name", TEXT),
        _column("secret_hash", TEXT),
        _column("scopes", BYTES),
        _column("tenants", BYTES),
        _column("source", TEXT),
        _column("created_at", INT),
        _nullable("revoked_at", INT),
        sa.PrimaryKeyConstraint("id", name="keys_pk"),
    )
    # Both have one row, which the number 1 in front keeps so.
    op.create_table(
        "service_config",
        _column("one", INT),
        _column("id", TEXT),
        _column("name", TEXT),
        _column("settings", BYTES),
        sa.PrimaryKeyConstraint("one", name="service_config_pk"),
        sa.CheckConstraint("one = 1", name="service_config_one"),
    )
    op.create_table(
        "pulse",
        _column("one", INT),
        _column("at", INT),
        sa.PrimaryKeyConstraint("one", name="pulse_pk"),
        sa.CheckConstraint("one = 1", name="pulse_one"),
    )


def _records() -> None:
    """What nobody may change afterwards."""
    op.create_table(
        "audit",
        _column("id", TEXT),
        _column("at", INT),
        _column("principal", TEXT),
        _nullable("key_id", TEXT),
        _column("action", TEXT),
        _column("object", TEXT),
        _nullable("tenant", TEXT),
        _nullable("remote", TEXT),
        _column("outcome", TEXT),
        sa.PrimaryKeyConstraint("id", name="audit_pk"),
        sqlite_with_rowid=False,
    )
    _index("audit_at", "audit", "at, id")
    # Rows before ``kept_from`` have served their time: retention moves it, and may then delete them.
    op.create_table(
        "audit_retention",
        _column("one", INT),
        _column("kept_from", INT),
        sa.PrimaryKeyConstraint("one", name="audit_retention_pk"),
        sa.CheckConstraint("one = 1", name="audit_retention_one"),
    )
    op.execute("insert into audit_retention (one, kept_from) values (1, 0)")
    op.create_table(
        "ledger",
        _column("id", TEXT),
        _column("execution_id", TEXT),
        _column("at", INT),
        _column("operator", TEXT),
        _column("key", TEXT),
        _column("command_hash", TEXT),
        _column("command", BYTES),
        _column("answer", BYTES),
        sa.PrimaryKeyConstraint("id", name="ledger_pk"),
        sa.UniqueConstraint("execution_id", "key", name="ledger_key"),
    )
    for table, change, condition in REFUSED:
        _refuse(table, change, condition)


def _refuse(table: str, change: str, condition: str) -> None:
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


def _column(name: str, type_: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=False)


def _nullable(name: str, type_: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=True)


def _index(name: str, table: str, columns: str, *, where: str | None = None, unique: bool = False) -> None:
    condition = sa.text(where) if where else None
    op.create_index(
        name,
        table,
        [sa.text(column) for column in columns.split(", ")],
        unique=unique,
        postgresql_where=condition,
        sqlite_where=condition,
    )
