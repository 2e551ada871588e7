"""The first schema: executions with all that is theirs, definitions, keys, and what the service knows of itself.

Columns stand in the order of the fields of the daemon's rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from stepd_migrations.writing import BOOL, BYTES, INT, NUMBER, TEXT, column, index, nullable, refuse, table

revision = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

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
        for name, change, _ in REFUSED:
            op.execute(f"drop function {name}_no_{change}()")


def _executions() -> None:
    table(
        "executions",
        "id",
        column("id", TEXT),
        column("workflow", TEXT),
        column("version", TEXT),
        nullable("tenant", TEXT),
        nullable("correlation", TEXT),
        column("labels", BYTES),
        column("principal", TEXT),
        column("priority", INT),
        nullable("traceparent", TEXT),
        column("on_restart", TEXT),
        nullable("exclusive_key", TEXT),
        column("status", TEXT),
        nullable("direction", TEXT),
        column("graph", TEXT),
        column("revision", INT),
        column("seq", INT),
        column("active", INT),
        column("flight", INT),
        column("uncertain", INT),
        column("cancel_requested", BOOL),
        nullable("cancel_reason", TEXT),
        column("forced", BOOL),
        column("mismatch", BOOL),
        nullable("error", BYTES),
        column("input_hash", TEXT),
        column("created_at", INT),
        nullable("start_at", INT),
        nullable("started_at", INT),
        nullable("ended_at", INT),
        nullable("deadline_at", INT),
        nullable("due_at", INT),
        nullable("remove_at", INT),
        column("input_tokens", INT),
        column("cache_read_tokens", INT),
        column("cache_write_tokens", INT),
        column("output_tokens", INT),
        column("reasoning_tokens", INT),
    )
    index("executions_exclusive", "executions", "exclusive_key", where="exclusive_key is not null", unique=True)
    index("executions_due", "executions", "due_at", where="due_at is not null")
    index("executions_remove", "executions", "remove_at", where="remove_at is not null")
    index("executions_open", "executions", "id, workflow, version, ended_at", where="ended_at is null")
    index("executions_created", "executions", "created_at, id")
    index("executions_status", "executions", "status, created_at, id")
    index("executions_workflow", "executions", "workflow, created_at, id")
    index("executions_correlation", "executions", "correlation, created_at, id", where="correlation is not null")
    index("executions_tenant", "executions", "tenant, status, created_at, id", where="tenant is not null")


def _labels() -> None:
    table(
        "labels",
        "key, value, created_at, execution_id",
        column("key", TEXT),
        column("value", TEXT),
        column("created_at", INT),
        column("execution_id", TEXT),
    )


def _steps() -> None:
    table(
        "steps",
        "execution_id, ordinal, idx",
        column("execution_id", TEXT),
        column("ordinal", INT),
        column("idx", INT),
        column("step", TEXT),
        column("workflow", TEXT),
        column("version", TEXT),
        nullable("tenant", TEXT),
        column("status", TEXT),
        column("parked", INT),
        column("priority", INT),
        nullable("due_at", INT),
        column("execution_created_at", INT),
        nullable("timer_at", INT),
        column("fence", INT),
        column("spent", INT),
        column("last_attempt", INT),
        column("interruptions", INT),
        column("effect", TEXT),
        column("caught", BOOL),
        nullable("lease_id", TEXT),
        column("own_input", BOOL),
        nullable("input_hash", TEXT),
        column("declared_effect", TEXT),
        column("idempotency_key", TEXT),
        nullable("checkpoint", TEXT),
        nullable("error", BYTES),
        nullable("shunned", BYTES),
        column("has_previous", BOOL),
        nullable("queued_at", INT),
    )
    order = "priority desc, due_at, execution_created_at, execution_id, ordinal, idx"
    claimable = "status = 'queued' and parked = 0"
    index("steps_claimable", "steps", f"workflow, version, {order}", where=claimable)
    # A claim for some steps, or of one tenant, must not have to walk past a full queue of others. With the last columns
    # the index alone answers queries that name them.
    by_step = f"workflow, version, step, {order}, tenant, status, parked"
    index("steps_claimable_by_step", "steps", by_step, where=claimable)
    by_tenant = f"workflow, version, tenant, {order}, step, status, parked"
    index("steps_claimable_by_tenant", "steps", by_tenant, where=f"{claimable} and tenant is not null")
    index("steps_timer", "steps", "timer_at", where="timer_at is not null and parked = 0")


def _attempts() -> None:
    table(
        "attempts",
        "id",
        column("id", TEXT),
        column("execution_id", TEXT),
        column("ordinal", INT),
        column("idx", INT),
        column("number", INT),
        column("fence", INT),
        column("status", TEXT),
        column("begun", BOOL),
        column("named", BOOL),
        column("principal", TEXT),
        column("worker", TEXT),
        column("instance", TEXT),
        column("lease_ms", INT),
        column("reclaim_ms", INT),
        column("leased_at", INT),
        column("expires_at", INT),
        column("reclaim_at", INT),
        nullable("timeout_at", INT),
        nullable("next_at", INT),
        nullable("ended_at", INT),
        nullable("ended_by", TEXT),
        column("effect", TEXT),
        nullable("error", BYTES),
        nullable("outcome", TEXT),
        nullable("outcome_digest", TEXT),
        nullable("answer", BYTES),
        column("stale", BOOL),
        column("has_progress", BOOL),
        nullable("usage", BYTES),
        column("usage_given", BOOL),
        column("span_id", TEXT),
    )
    index("attempts_execution", "attempts", "execution_id, id")
    index("attempts_next", "attempts", "next_at", where="next_at is not null")


def _belongings() -> None:
    """What hangs on an execution beside its steps and attempts."""
    table(
        "payloads",
        "execution_id, name",
        column("execution_id", TEXT),
        column("name", TEXT),
        column("body", BYTES),
    )
    table(
        "events",
        "execution_id, seq",
        column("execution_id", TEXT),
        column("seq", INT),
        column("at", INT),
        column("type", TEXT),
        nullable("step", TEXT),
        nullable("idx", INT),
        nullable("attempt", INT),
        nullable("worker", TEXT),
        column("data", BYTES),
    )
    table(
        "spans",
        "execution_id, attempt_id, span_id",
        column("execution_id", TEXT),
        column("attempt_id", TEXT),
        column("span_id", TEXT),
        column("body", BYTES),
    )
    # Executions that retention has removed, while their rows in the tables above are still being removed in slices.
    table(
        "leavings",
        "execution_id",
        column("execution_id", TEXT),
    )


def _calls() -> None:
    """What is remembered of calls, so that they can be sent again."""
    table(
        "claims",
        "principal, claim_id",
        column("principal", TEXT),
        column("claim_id", TEXT),
        column("leases", TEXT),  # a JSON list of lease ids
        column("dealt_at", INT),
    )
    index("claims_dealt", "claims", "dealt_at")
    table(
        "idempotency",
        "principal, target, key",
        column("principal", TEXT),
        column("target", TEXT),
        column("key", TEXT),
        column("body_hash", TEXT),
        column("status", INT),
        nullable("location", TEXT),
        column("body", BYTES),
        column("created_at", INT),
    )
    index("idempotency_created", "idempotency", "created_at")


def _definitions() -> None:
    table(
        "versions",
        "workflow, version",
        column("workflow", TEXT),
        column("version", TEXT),
        column("digest", TEXT),
        column("definition", BYTES),
        column("registered_at", INT),
        column("number", INT),
        sa.UniqueConstraint("number", name="versions_number"),
    )
    table(
        "current_versions",
        "workflow",
        column("workflow", TEXT),
        column("version", TEXT),
        column("chosen", BOOL),  # somebody said so; a newly registered version does not take its place
    )


def _service() -> None:
    table(
        "workers",
        "principal, worker, instance",
        column("principal", TEXT),
        column("worker", TEXT),
        column("instance", TEXT),
        column("serves", BYTES),
        column("tenants", BYTES),
        column("last_seen_at", INT),
    )
    index("workers_seen", "workers", "last_seen_at")
    table(
        "keys",
        "id",
        column("id", TEXT),
        column("name", TEXT),
        column("secret_hash", TEXT),
        column("scopes", BYTES),
        column("tenants", BYTES),
        column("source", TEXT),
        column("created_at", INT),
        nullable("revoked_at", INT),
    )
    # Both have one row, which the number 1 in front keeps so.
    table(
        "service_config",
        "one",
        column("one", INT),
        column("id", TEXT),
        column("name", TEXT),
        column("settings", BYTES),
        sa.CheckConstraint("one = 1", name="service_config_one"),
    )
    table(
        "pulse",
        "one",
        column("one", INT),
        column("at", INT),
        sa.CheckConstraint("one = 1", name="pulse_one"),
    )


def _records() -> None:
    """What nobody may change afterwards."""
    table(
        "audit",
        "id",
        column("id", NUMBER),
        column("at", INT),
        column("principal", TEXT),
        nullable("key_id", TEXT),
        column("action", TEXT),
        column("object", TEXT),
        nullable("tenant", TEXT),
        nullable("remote", TEXT),
        column("outcome", TEXT),
    )
    index("audit_at", "audit", "at, id")
    # Rows before ``kept_from`` have served their time: retention moves it, and may then delete them.
    table(
        "audit_retention",
        "one",
        column("one", INT),
        column("kept_from", INT),
        sa.CheckConstraint("one = 1", name="audit_retention_one"),
    )
    op.execute("insert into audit_retention (one, kept_from) values (1, 0)")
    table(
        "ledger",
        "id",
        column("id", TEXT),
        column("execution_id", TEXT),
        column("at", INT),
        column("operator", TEXT),
        column("key", TEXT),
        column("command_hash", TEXT),
        column("command", BYTES),
        column("answer", BYTES),
        sa.UniqueConstraint("execution_id", "key", name="ledger_key"),
    )
    for name, change, rows in REFUSED:
        refuse(name, change, rows)
