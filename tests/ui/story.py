"""A service as it might be on any day: what the pages show in tests of their looks, and in the pictures of README."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tests.support.client import Http
from tests.support.definitions import AT_ONCE, read, safe_write, wait, write
from tests.support.flow import Flow, Run, make_flow

PRICES = {
    "currency": "USD",
    "prices": [{"model": "m-large*", "input": "2.50", "cache_read": "0.25", "output": "10", "reasoning": "10"}],
}
COUNTS = {"input_tokens": 9_120, "cache_read_tokens": 4_000, "output_tokens": 1_204, "reasoning_tokens": 310}
USAGE = COUNTS | {"model": "m-large-2"}
UNPRICED = COUNTS | {"model": "m-new"}


@dataclass(frozen=True)
class Story:
    """What there is to look at."""

    running: Run
    waiting: Run
    failed: Run
    completed: Run
    doubtful: Run
    workflow: str


def tell(admin: Http) -> Story:
    """Prices, two workflows, and executions in all the states that matter."""
    admin.send("PUT", "/v1/admin/prices", PRICES).expect(200)
    support = make_flow(
        admin,
        read("classify", retry={"max_attempts": 3, "initial_seconds": 0.05}),
        read("search", needs=["classify"]),
        read("history", needs=["classify"]),
        read("draft", needs=["search", "history"], retry=AT_ONCE),
        wait("approved", event="approval", needs=["draft"]),
        safe_write("reply", needs=["approved"]),
        name="support",
    )
    refunds = make_flow(admin, read("check", retry=AT_ONCE), write("charge", needs=["check"]), name="refunds")
    admin.post("/v1/executions", {"workflow": "support", "start_at": "2100-01-01T00:00:00Z"}).expect(202)
    support.start(correlation="ticket-4701", tenant="acme", labels={"team": "billing"}).cancel(reason="asked twice")
    completed = _answered(support, "ticket-4702", "acme")
    failed = refunds.start(correlation="order-881", tenant="acme", labels={"team": "billing"}, input={"order": 881})
    _take(refunds, "check").fail("fatal", message="order 881 is not paid, so that nothing can be refunded").expect(200)
    doubtful = refunds.start(correlation="order-902", tenant="acme", input={"order": 902, "amount": "19.00"})
    _take(refunds, "check").complete({"paid": True}).expect(200)
    charge = _take(refunds, "charge").begin()
    charge.heartbeat(progress={"request": "sent to the provider"}).expect(200)
    charge.fail("retryable", message="the provider's answer did not come", effect="unknown").expect(200)
    waiting = _drafted(support, "ticket-4711", "globex")
    asked = _question("Where is my invoice?")
    running = support.start(correlation="ticket-4715", tenant="acme", labels={"team": "billing"}, input=asked)
    _take(support, "classify").complete({"label": "billing"}).expect(200)
    _take(support, "search", spans=True)
    return Story(running, waiting, failed, completed, doubtful, "support")


def _answered(flow: Flow, correlation: str, tenant: str) -> Run:
    run = _drafted(flow, correlation, tenant)
    run.signal("approval", {"by": "dana", "yes": True}).expect(202)
    _take(flow, "reply").complete({"sent": True}).expect(200)
    run.until("completed")
    return run


def _drafted(flow: Flow, correlation: str, tenant: str) -> Run:
    """An execution that waits for its approval; its first attempt went wrong."""
    asked = _question("My parcel is late.")
    run = flow.start(correlation=correlation, tenant=tenant, labels={"team": "support"}, input=asked)
    _take(flow, "classify").fail("retryable", message="the model is overloaded").expect(200)
    _take(flow, "classify").complete({"label": "delivery"}, usage=[USAGE], spans=_spans("model call")).expect(200)
    _take(flow, "search").complete({"articles": [17, 21]}, spans=_spans("query the index")).expect(200)
    _take(flow, "history").complete({"tickets": 2}).expect(200)
    _take(flow, "draft").complete({"text": "Dear customer, your parcel …"}, usage=[USAGE, UNPRICED]).expect(200)
    run.until("waiting")
    return run


def _take(flow: Flow, step: str, *, spans: bool = False) -> Any:
    """The lease of that step, begun by a worker of a name."""
    lease = flow.claim_step(step, worker="worker-a", instance="1")
    if spans:
        lease.heartbeat(spans=_spans("query the index")).expect(200)
    return lease


def _question(text: str) -> dict[str, Any]:
    return {"question": text, "channel": "mail", "customer": {"id": 118, "plan": "pro"}}


def _spans(name: str) -> list[dict[str, Any]]:
    now = time.time_ns()
    return [
        {
            "span_id": f"{now:016x}"[-16:],
            "name": name,
            "kind": "client",
            "start_unix_nano": str(now - 8_000_000),
            "end_unix_nano": str(now),
            "status": "ok",
            "attributes": {"server.address": "models.internal"},
        }
    ]
