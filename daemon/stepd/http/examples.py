"""Owns the examples of the OpenAPI document: one request body for each operation that has one to show."""

from typing import Any, Final

_CLAIM: Final[dict[str, Any]] = {
    "worker": "billing-1",
    "instance": "9d0c7e0e-5f0b-4a57-9f5c-0a1f4f7f2b11",
    "claim_id": "3f0a6f0e-6a34-4d55-8f2b-7d2f2b1f9a10",
    "serves": [{"workflow": "support", "version": "3"}],
}

REQUESTS: Final[dict[str, Any]] = {
    "register_workflow": {
        "version": "3",
        "steps": [
            {"id": "classify", "effect": "read_only", "retry": {"max_attempts": 5}},
            {
                "id": "refund",
                "effect": "non_idempotent_write",
                "when": "steps.classify.output.label == 'billing'",
                "input": {"amount": {"$cel": "input.amount"}},
            },
        ],
        "output": {"label": {"$cel": "steps.classify.output.label"}},
    },
    "claim_leases": {**_CLAIM, "max": 8, "wait_seconds": 30},
    "export_traces": {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "billing"}}]},
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "0193816d8f6a7c1e9f0a5b6c7d8e9f01",
                                "spanId": "b7ad6b7169203331",
                                "parentSpanId": "93816d8f6a5c2e1f",
                                "name": "chat m-1",
                                "kind": 3,
                                "startTimeUnixNano": "1796040000000000000",
                                "endTimeUnixNano": "1796040001000000000",
                                "attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "812"}}],
                            }
                        ]
                    }
                ],
            }
        ]
    },
    "heartbeat": {"fence": 3, "started": True, "progress": {"pages": 4}},
    "complete": {
        "fence": 3,
        "output": {"label": "billing"},
        "state": {"label": "billing"},
        "usage": [{"model": "m-1", "input_tokens": 812, "output_tokens": 64}],
        "next": {**_CLAIM, "claim_id": "5b9b3a7e-90f5-4a6c-b1a4-3f1df8b0c7d2"},
    },
    "fail": {
        "fence": 3,
        "class": "retryable",
        "message": "the provider is busy",
        "retry_after": 30,
        "effect": "none",
    },
    "start_execution": {
        "workflow": "support",
        "input": {"ticket": 4711, "amount": 12},
        "correlation": "ticket-4711",
        "labels": {"team": "billing"},
    },
    "signal_execution": {"name": "approval", "payload": {"by": "ann"}},
    "publish_event": {"name": "paid", "correlation": "order 17", "payload": {"amount": 12.5}},
    "cancel_execution": {"reason": "the customer withdrew", "force": False},
    "resolve_execution": {
        "action": "resume",
        "results": [{"step": "refund", "outcome": "succeeded", "output": {"id": "re_1"}}],
        "evidence": {"reference": "case 4711", "reason": "seen in the provider's ledger"},
    },
    "pause_execution": {},
    "resume_execution": {"budget": {"cost": 7.5, "tokens": 2000000}},
    "use_version": {"version": "3"},
    "simulate_workflow": {
        "input": {"ticket": 4711},
        "steps": {
            "classify": {"output": {"label": "billing"}},
            "refund": [{"fail": {"class": "retryable"}}, {"output": {"refunded": 12}}],
        },
        "signals": [{"name": "approval", "payload": {"by": "ann"}}],
    },
    "put_prices": {
        "currency": "USD",
        "prices": [
            {"model": "m-1", "input": 2.5, "cache_read": "0.25", "output": 10, "reasoning": 10},
            {"model": "m-1", "valid_from": "2027-01-01", "input": 2, "cache_read": "0.2", "output": 8, "reasoning": 8},
            {"model": "m-1-mini*", "input": 0.15, "output": 0.6},
        ],
    },
    "create_key": {"name": "billing", "scopes": ["worker"], "tenants": ["acme"]},
}
