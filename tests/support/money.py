"""Prices and usage in a few words, with amounts read exactly."""

import json
from decimal import Decimal

from tests.support.client import Answer, Http, Json
from tests.support.flow import Run

PRICES = "/v1/admin/prices"
USAGE = "/v1/usage"
COUNTS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
KINDS = ("input", "cache_read", "cache_write", "output", "reasoning")


def exact(answer: Answer, status: int = 200) -> Json:
    """The body, with every number that has a fraction as a Decimal of its digits."""
    answer.expect(status)
    return json.loads(answer.body, parse_float=Decimal)


def usage(model: str, *counts: int) -> dict[str, Json]:
    """One entry of a usage; counts in the order of `COUNTS`."""
    return {"model": model, **dict(zip(COUNTS, counts, strict=False))}


def price(model: str, *amounts: str | None, valid_from: str | None = None) -> dict[str, Json]:
    """One price; amounts as decimal text, in the order of `KINDS`."""
    return {"model": model, "valid_from": valid_from, **dict(zip(KINDS, amounts, strict=False))}


def try_prices(http: Http, *prices: Json, currency: str = "USD") -> Answer:
    """Replaces the table of prices."""
    return http.send("PUT", PRICES, {"currency": currency, "prices": list(prices)})


def put_prices(http: Http, *prices: Json) -> Json:
    return exact(try_prices(http, *prices))


def put_raw_prices(http: Http, price: bytes) -> Answer:
    """A table of one price, whose digits are sent as they are."""
    body = b'{"currency":"USD","prices":[' + price + b"]}"
    return http.send("PUT", PRICES, raw=body, headers={"Content-Type": "application/json"})


def used(run: Run) -> Json:
    """An execution's usage."""
    return exact(run.http.get(run.path))["usage"]


def lines(run: Run, step: int = 0) -> list[list[Json]]:
    """What each attempt of a step used."""
    view = exact(run.http.get(run.path, query={"include": "attempts"}))
    return [attempt["usage"] for attempt in view["steps"][step]["attempts"]]


def sums(http: Http, **query: Json) -> list[Json]:
    """Sums of usage, over all pages."""
    found: list[Json] = []
    while True:
        page = exact(http.get(USAGE, query=query))
        found += page["items"]
        if page["next"] is None:
            return found
        query["cursor"] = page["next"]
