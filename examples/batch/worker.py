"""A nightly batch: a thousand accounts are billed, so many at once, and those that can't be are listed.

Run `python -m stepd_worker serve examples.batch.worker:nightly`, then
`stepd start nightly --input '{"day": "2026-11-30", "accounts": 1000}' --correlation 2026-11-30 --wait`. With
`--start-at 2026-12-01T02:00:00Z` it begins at night; a second one for the same day is refused while it is open.
"""

from typing import Any

import msgspec

from stepd_worker import Context, Decision, NotApplied, Retry, Rule, StepFailed, Workflow, cel

AT_ONCE = 50


class Night(msgspec.Struct):
    """What an execution is asked for."""

    day: str
    accounts: int = 1_000


nightly = Workflow(
    "nightly",
    input_schema=Night,
    exclusive=True,
    on_failure="fail",
    timeout_seconds=6 * 3_600,
    outcome=Decision(rules=[Rule(id="clean", when="steps.report.output.failed == 0", then="clean")], default="look"),
    output=cel("steps.report.output"),
)


@nightly.step(effect="read_only")
def list_accounts(ctx: Context, night: Night) -> dict[str, Any]:
    """The accounts to bill: ids only, for an output goes through the daemon."""
    return {"accounts": list(range(night.accounts))}


@nightly.step(
    effect="idempotent_write",
    foreach="steps.list_accounts.output.accounts",
    max_parallel=AT_ONCE,
    retry=Retry(max_attempts=5, initial_seconds=0.05),
    # One account that can't be billed keeps nobody else's bill back.
    catch={"no_address": {"cents": 0, "failed": True}},
)
def bill(ctx: Context, account: int) -> dict[str, Any]:
    """Bills one account. Each item has a key of its own, so that a bill is made once however often it is tried."""
    if account % 100 == 99:
        raise NotApplied(StepFailed("no_address", f"Account {account} has no address"))
    return {"cents": 100 + account % 7}


@nightly.step(effect="read_only")
def report(ctx: Context, night: Night, steps: Any) -> dict[str, Any]:
    """Counts what came of it."""
    bills = steps.bill.output
    return {
        "billed": sum(not one.get("failed") for one in bills),
        "failed": sum(bool(one.get("failed")) for one in bills),
        "cents": sum(one["cents"] for one in bills),
    }
