"""An order: stock is reserved, the card charged, the parcel sent; where that fails, what was done is undone.

Run `python -m stepd_worker serve examples.order.worker:order`, then
`stepd start order --input '{"card": "4711", "items": ["lamp"], "country": "DE"}' --wait`. The card `0000` is declined,
and nothing is sent to `XX`, which is found out when stock and money are taken already.
"""

from typing import Any

import msgspec

from examples.order.outside import bank, carrier, warehouse
from stepd_worker import Context, Decision, NotApplied, Retry, Rule, StepFailed, Workflow, cel


class Order(msgspec.Struct):
    """What an execution is asked for."""

    card: str
    items: list[str]
    country: str = "DE"


order = Workflow(
    "order",
    input_schema=Order,
    on_failure="compensate",
    timeout_seconds=86_400,
    outcome=Decision(
        rules=[
            Rule(id="declined", when="steps.pay.output.receipt == null", then="declined"),
            Rule(id="sent", when="steps.ship.status == 'succeeded'", then="sent"),
        ]
    ),
    output={"receipt": cel("steps.pay.output.receipt"), "parcel": cel("steps.ship.output")},
)


@order.step(effect="read_only")
def price(ctx: Context, order: Order) -> dict[str, int]:
    """What it costs."""
    return {"cents": 1_000 * len(order.items)}


@order.step(effect="idempotent_write", retry=Retry(max_attempts=5, initial_seconds=0.5), compensate="release")
def reserve(ctx: Context, order: Order) -> dict[str, Any]:
    """Takes the items out of stock. The warehouse knows the key, so that it may be asked again."""
    return {"reservation": warehouse.do(ctx.idempotency_key, {"items": order.items})}


# A charge can't be taken back by asking again: where nobody knows whether it happened, an operator decides. A card that
# is declined is no failure, it is an answer, and the bank says that nothing was taken.
@order.step(effect="non_idempotent_write", compensate="refund", catch={"card_declined": {"receipt": None}})
def pay(ctx: Context, order: Order, steps: Any) -> dict[str, Any]:
    """Charges the card."""
    if order.card == "0000":
        raise NotApplied(StepFailed("card_declined", "The bank declined the card"))
    charge = {"card": order.card, "cents": steps.price.output["cents"]}
    return {"receipt": bank.do(ctx.idempotency_key, charge)}


@order.step(effect="idempotent_write", when="steps.pay.output.receipt != null")
def ship(ctx: Context, order: Order) -> dict[str, Any]:
    """Sends the parcel."""
    if order.country == "XX":
        raise NotApplied(StepFailed("no_carrier", f"Nobody goes to {order.country}"))
    return {"parcel": carrier.do(ctx.idempotency_key, {"items": order.items, "to": order.country})}


@order.step("give-back", effect="idempotent_write", needs=pay, when="steps.pay.output.receipt == null")
def give_back(ctx: Context, order: Order, steps: Any) -> None:
    """Gives the stock free that a declined card leaves reserved."""
    warehouse.undo(steps.reserve.output["reservation"])


@order.step(effect="idempotent_write")
def release(ctx: Context, undone: dict[str, Any]) -> None:
    """Undoes `reserve`."""
    warehouse.undo(undone["output"]["reservation"])


@order.step(effect="idempotent_write")
def refund(ctx: Context, undone: dict[str, Any]) -> None:
    """Undoes `pay`."""
    bank.undo(undone["output"]["receipt"])
