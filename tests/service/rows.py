"""Rows with everything that a test doesn't care about filled in."""

from typing import Any

import msgspec

from stepd.engine.model import NO_INDEX, Attempt, Execution, Step

EXECUTION_ID = "01990f0c-7d1a-7c3e-9b5a-2f6d1c8e4a01"
NOW = 1_796_040_000_000

_EXECUTION = Execution(
    id=EXECUTION_ID, workflow="w", version="1", tenant=None, correlation=None, labels=b"{}", principal="me", priority=0,
    traceparent=None, on_restart="resume", exclusive_key=None, status="running", direction=None, graph="q", revision=1,
    seq=1, active=1, flight=0, uncertain=0, cancel_requested=False, cancel_reason=None, forced=False, mismatch=False,
    error=None, input_hash="", created_at=NOW - 60_000, start_at=None, started_at=None, ended_at=None,
    deadline_at=None, due_at=None, remove_at=None, input_tokens=0, cache_read_tokens=0, cache_write_tokens=0,
    output_tokens=0, reasoning_tokens=0,
)  # fmt: skip
_STEP = Step(
    execution_id=EXECUTION_ID, ordinal=0, index=NO_INDEX, step="a", workflow="w", version="1", tenant=None,
    status="queued", parked=0, priority=0, due_at=NOW, execution_created_at=NOW - 60_000, timer_at=None, fence=0,
    spent=0, last_attempt=0, interruptions=0, effect="none", caught=False, lease_id=None, own_input=False,
    input_hash=None, declared_effect="read_only", idempotency_key=f"{EXECUTION_ID}:a", checkpoint=None, error=None,
    shunned=None, has_previous=False, queued_at=NOW - 30_000,
)  # fmt: skip
_ATTEMPT = Attempt(
    id="lease-1", execution_id=EXECUTION_ID, ordinal=0, index=NO_INDEX, number=1, fence=1, status="running",
    begun=False, named=False, principal="me", worker="billing-1", instance="life-1", lease_ms=30_000,
    reclaim_ms=15_000, leased_at=NOW, expires_at=NOW + 30_000, reclaim_at=NOW + 45_000, timeout_at=None, next_at=None,
    ended_at=None, ended_by=None, effect="none", error=None, outcome=None, outcome_digest=None, answer=None,
    stale=False, has_progress=False, usage=None, usage_given=False, span_id="00f067aa0ba902b7",
)  # fmt: skip


def execution(**fields: Any) -> Execution:
    """A running execution of one step."""
    return msgspec.structs.replace(_EXECUTION, **fields)


def step(**fields: Any) -> Step:
    """A step that stands in the queue."""
    return msgspec.structs.replace(_STEP, **fields)


def attempt(**fields: Any) -> Attempt:
    """An attempt in flight."""
    return msgspec.structs.replace(_ATTEMPT, **fields)
