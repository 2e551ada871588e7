"""Prices: a table of versions, read exactly, and what is priced by it, worked out by hand to the nano-unit."""

from decimal import Decimal

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import AT_ONCE, brief, read, unique
from tests.support.flow import Lease, Run
from tests.support.keys import make_key
from tests.support.money import (
    COUNTS,
    PRICES,
    exact,
    lines,
    price,
    put_prices,
    put_raw_prices,
    try_prices,
    usage,
    used,
)
from tests.support.wait import eventually

NOTHING = dict.fromkeys(COUNTS, 0)


@pytest.fixture
def model() -> str:
    """A model that no other test has a price for."""
    return unique()


def begin(flow: MakeFlow, **fields: Json) -> tuple[Run, Lease]:
    return flow(read(retry=AT_ONCE, **fields)).begin()


# -- the table --------------------------------------------------------------------------------------------------------


def test_a_table_is_replaced_by_a_new_version(http: Http, model: str) -> None:
    first = put_prices(http, price(model, "2.5", "0.25", None, "10"))
    assert first["prices"] == [
        {"model": model, "valid_from": None, "input": Decimal("2.5"), "cache_read": Decimal("0.25")}
        | {"cache_write": None, "output": 10, "reasoning": None}
    ]
    assert first["currency"] == "USD"
    second = put_prices(http, price(f"{model}*", "0", valid_from="2026-01-01"))
    assert second["version"] == first["version"] + 1
    assert second["prices"][0]["valid_from"] == "2026-01-01T00:00:00.000Z"
    assert exact(http.get(PRICES)) == second
    assert exact(http.get(PRICES, query={"version": first["version"]})) == first
    assert second.keys() == {"version", "currency", "created_at", "principal", "prices"}


def test_an_unknown_version_is_not_found(http: Http) -> None:
    assert "99999" in http.get(PRICES, query={"version": 99999}).expect_problem(404, "not_found")["detail"]
    for query in ({"version": 0}, {"version": "x"}, {"versions": 1}):
        http.get(PRICES, query=query).expect_problem(422, "invalid_request")


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (b"0.1", b"0.1"),
        (b'"0.10"', b"0.1"),
        (b"0.000000001", b"0.000000001"),
        (b"1e-9", b"0.000000001"),
        (b"123456789.123456789", b"123456789.123456789"),
        (b"0.300000000000", b"0.3"),
        (b"1000000000", b"1000000000"),
        (b"15", b"15"),
        (b"0", b"0"),
        (b"-0.0", b"0"),
        (b"null", b"null"),
    ],
)
def test_an_amount_is_read_and_shown_digit_for_digit(http: Http, model: str, sent: bytes, shown: bytes) -> None:
    answer = put_raw_prices(http, b'{"model":"%b","input":%b}' % (model.encode(), sent))
    answer.expect(200)
    assert b'"input":%b,' % shown in answer.body


@pytest.mark.parametrize(
    "sent", ["-1", "0.0000000001", "1000000000.1", "1e99", '"x"', '""', '"1', "true", "[1]", '" 1"', '"NaN"', '"0x1"']
)
def test_an_amount_that_is_none_is_refused(http: Http, model: str, sent: str) -> None:
    answer = put_raw_prices(http, f'{{"model":"{model}","output":{sent}}}'.encode())
    if answer.status == 400:
        assert sent == '"1', "the only one that is no JSON"
        return
    assert answer.expect_faults(422, "invalid_request").keys() == {"/prices/0/output"}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model": "a*b"}, "/prices/1/model"),
        ({"model": "**"}, "/prices/1/model"),
        ({"model": ""}, "/prices/1/model"),
        ({"model": "x" * 257}, "/prices/1/model"),
        ({"model": "m", "valid_from": "yesterday"}, "/prices/1/valid_from"),
        ({"model": "m", "valid_from": "2026-02-30"}, "/prices/1/valid_from"),
        ({"model": "m", "valid_from": "2026-01-01T00:00:00"}, "/prices/1/valid_from"),
        ({"model": "m", "valid_from": 5}, "/prices/1/valid_from"),
        ({"model": "m", "outputs": 1}, "/prices/1/outputs"),
        ({"input": 1}, "/prices/1/model"),
        ({"model": "twice", "valid_from": "2026-01-01T01:00:00+01:00"}, "/prices/1"),
    ],
)
def test_bad_prices_are_refused_and_nothing_is_replaced(http: Http, fields: Json, path: str) -> None:
    before = exact(http.get(PRICES))
    good = {"model": "twice", "valid_from": "2026-01-01"}
    assert try_prices(http, good, fields).expect_faults(422, "invalid_request").keys() == {path}
    assert exact(http.get(PRICES)) == before


def test_all_faults_are_named_at_once(http: Http) -> None:
    prices = [{"model": "a*b", "input": -1}, {"model": "m", "outputs": 1}, {"model": "m", "valid_from": "x"}, 5]
    answer = http.send("PUT", PRICES, {"currency": "usd", "prices": prices})
    assert answer.expect_faults(422, "invalid_request").keys() == {
        "/currency",
        "/prices/0/model",
        "/prices/0/input",
        "/prices/1/outputs",
        "/prices/2/valid_from",
        "/prices/3",
    }


@pytest.mark.parametrize("currency", ["usd", "US", "DOLLAR", "", None, "USD\n"])
def test_a_currency_is_three_capital_letters(http: Http, currency: Json) -> None:
    answer = http.send("PUT", PRICES, {"currency": currency, "prices": []})
    assert answer.expect_faults(422, "invalid_request").keys() == {"/currency"}


def test_a_currency_stays_once_something_was_priced(http: Http, flow: MakeFlow, model: str) -> None:
    put_prices(http, price(model, "1"))
    _, lease = begin(flow)
    lease.complete(usage=[usage(model, 5)]).expect(200)
    faults = try_prices(http, price(model, "1"), currency="EUR").expect_faults(422, "invalid_request")
    assert "USD" in faults["/currency"]
    assert exact(http.get(PRICES))["currency"] == "USD"


def test_prices_are_an_administrator_s(http: Http, model: str) -> None:
    if http.key is None:
        pytest.skip("needs STEPD_TEST_KEY: the first key would end open mode")
    for scope in ("worker", "execute", "read", "write", "operate"):
        key = make_key(http, scope)
        assert key.http.get(PRICES).expect_problem(403, "forbidden")["scope"] == "admin"
        assert try_prices(key.http, price(model, "1")).expect_problem(403, "forbidden")["scope"] == "admin"
    some = make_key(http, "admin", tenants=["acme"])
    some.http.get(PRICES).expect(200)
    try_prices(some.http, price(model, "1")).expect_problem(403, "forbidden")


def test_putting_prices_is_audited(http: Http, model: str) -> None:
    put = put_prices(http, price(model, "1"))
    newest = http.get("/v1/admin/audit", query={"action": "prices.put", "limit": 1}).expect(200)["items"][0]
    assert (newest["target"], newest["outcome"]) == (str(put["version"]), "done")


# -- what is priced ---------------------------------------------------------------------------------------------------


def test_each_count_is_priced_to_the_nano_unit(http: Http, flow: MakeFlow, model: str) -> None:
    version = put_prices(http, price(model, "2.5", "0.25", "3.125", "10", "12.000001"))["version"]
    run, lease = begin(flow)
    lease.complete(usage=[usage(model, 812, 64, 7, 33, 5)]).expect(200)
    # 812 × 2.5 + 64 × 0.25 + 7 × 3.125 + 33 × 10 + 5 × 12.000001 = 2457.875005 millionths of a dollar
    cost = Decimal("0.002457875")
    counts = dict(zip(COUNTS, (812, 64, 7, 33, 5), strict=True))
    assert used(run) == {**counts, "cost": cost, "currency": "USD", "unpriced_tokens": 0}
    line = {"model": model, **counts, "cost": cost, "currency": "USD", "unpriced_tokens": 0}
    assert lines(run) == [[{**line, "prices_version": version}]]


def test_half_a_nano_unit_is_rounded_to_even(http: Http, flow: MakeFlow, model: str) -> None:
    put_prices(http, price(model, "0.0005"))
    run, lease = begin(flow)
    lease.complete(usage=[usage(model, count) for count in (1, 3, 5)]).expect(200)
    # 0.5, 1.5 and 2.5 nano-units
    assert [line["cost"] for line in lines(run)[0]] == [0, Decimal("2e-9"), Decimal("2e-9")]
    assert used(run)["cost"] == Decimal("4e-9")


def test_what_has_no_price_is_unpriced(http: Http, flow: MakeFlow, model: str) -> None:
    put_prices(http, price(model, "1", None, None, "2"))
    run, lease = begin(flow)
    lease.heartbeat(usage=[usage(f"{model}-other", 1, 2, 3, 4, 5)]).expect(200)
    assert used(run) | NOTHING == {**NOTHING, "cost": None, "currency": None, "unpriced_tokens": 15}
    lease.complete(usage=[usage(f"{model}-other", 1), usage(model, 1, 10, 0, 1, 100)]).expect(200)
    spent = used(run)
    assert (spent["cost"], spent["currency"], spent["unpriced_tokens"]) == (Decimal("0.000003"), "USD", 111)


def test_nothing_used_of_a_model_with_a_price_costs_nothing(http: Http, flow: MakeFlow, model: str) -> None:
    put_prices(http, price(model, "1"))
    run, lease = begin(flow)
    lease.complete(usage=[usage(model)]).expect(200)
    assert (used(run)["cost"], used(run)["unpriced_tokens"]) == (0, 0)


def test_history_never_changes(http: Http, flow: MakeFlow, model: str) -> None:
    old = put_prices(http, price(model, "1"))["version"]
    work = flow(read(retry=AT_ONCE))
    run, lease = work.begin()
    lease.fail(usage=[usage(model, 100)]).expect(200)
    again = work.claim_one()
    again.heartbeat(usage=[usage(model, 10)]).expect(200)
    new = put_prices(http, price(model, "5"))["version"]
    assert used(run)["cost"] == Decimal("0.00011")
    again.complete(usage=[usage(model, 10), usage(model, 1)]).expect(200)
    assert used(run)["cost"] == Decimal("0.000115"), "what was reported before keeps its price"
    assert [[line["prices_version"] for line in each] for each in lines(run)] == [[old], [old, new]]


@pytest.mark.parametrize(
    ("suffix", "cost"),
    [("-large", "4"), ("-large-2026", "3"), ("-small", "2"), ("", "2"), ("x", "2")],
)
def test_a_name_may_stand_for_all_that_begin_so(http: Http, flow: MakeFlow, model: str, suffix: str, cost: str) -> None:
    put_prices(
        http, price("*", "1"), price(f"{model}*", "2"), price(f"{model}-large*", "3"), price(f"{model}-large", "4")
    )
    run, lease = begin(flow)
    lease.complete(usage=[usage(model + suffix, 1_000_000), usage("any", 1_000_000)]).expect(200)
    assert [line["cost"] for line in lines(run)[0]] == [int(cost), 1]


def test_a_price_counts_from_its_day_on(http: Http, flow: MakeFlow, model: str) -> None:
    put_prices(
        http,
        price(model, "1"),
        price(model, "2", valid_from="2020-01-01"),
        price(model, "3", valid_from="2020-01-01T00:00:01+01:00"),
        price(model, "4", valid_from="2200-01-01"),
        price(f"{model}-new", "5", valid_from="2200-01-01"),
        price(f"{model}-*", "6"),
    )
    run, lease = begin(flow)
    lease.complete(usage=[usage(model, 1_000_000), usage(f"{model}-new", 1_000_000)]).expect(200)
    assert [line["cost"] for line in lines(run)[0]] == [2, 6]


def test_spans_are_priced_too(http: Http, flow: MakeFlow, model: str) -> None:
    put_prices(http, price(model, "1", "0.1", None, "2"))
    run, lease = begin(flow)
    attributes = {
        "gen_ai.request.model": "asked-for",
        "gen_ai.response.model": model,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.output_tokens": 7,
    }
    one = {"span_id": "00000000000000a1", "name": "chat", "start_unix_nano": "1", "end_unix_nano": "2"}
    other = {**one, "span_id": "00000000000000a2", "attributes": attributes}
    lease.heartbeat(spans=[{**one, "attributes": attributes}]).expect(200)
    lease.complete(spans=[other]).expect(200)
    # twice 60 × 1 + 40 × 0.1 + 7 × 2 = 78 millionths
    assert used(run)["cost"] == Decimal("0.000156")
    assert [(line["input_tokens"], line["cost"]) for line in lines(run)[0]] == [(120, Decimal("0.000156"))]


def test_lost_and_failed_attempts_cost_too(http: Http, flow: MakeFlow, model: str) -> None:
    put_prices(http, price(model, "1"))
    work = flow(read(retry=AT_ONCE, **brief(0.4, 0)))
    run, lease = work.begin()
    lease.heartbeat(usage=[usage(model, 1)]).expect(200)
    failing = work.claim_one()
    failing.fail(usage=[usage(model, 10)]).expect(200)
    work.claim_one().fail("fatal", usage=[usage(model, 100)]).expect(200)
    assert used(run)["cost"] == Decimal("0.000111")


def test_sums_stay_at_the_most_that_a_store_holds(http: Http, flow: MakeFlow, model: str) -> None:
    put_prices(http, price(f"{model}*", *["1000000000"] * 5))
    run, lease = begin(flow)
    most = [usage(f"{model}{number}", *[2**53] * 5) for number in range(200)]
    assert lease.complete(usage=most).expect(200)["warnings"] == []
    spent = used(run)
    assert spent["cost"] == Decimal(2**63 - 1) / 10**9
    assert spent["input_tokens"] == 200 * 2**53
    assert spent["unpriced_tokens"] == 0


def test_a_parent_shows_what_its_children_cost(http: Http, flow: MakeFlow, model: str) -> None:
    put_prices(http, price(model, "1"))
    low = flow(read())
    middle = flow({"id": "sub", "kind": "workflow", "workflow": low.name}, read("own"))
    run = flow({"id": "sub", "kind": "workflow", "workflow": middle.name}).start()
    lease = low.claim_one(wait_seconds=5)
    lease.heartbeat(usage=[usage(model, 5)]).expect(200)
    eventually(lambda: used(run)["cost"] == Decimal("0.000005"), seconds=5, what="the cost two levels up")
    lease.complete(usage=[usage(model, 7)]).expect(200)
    middle.claim_one(wait_seconds=5).complete(usage=[usage(model, 100)]).expect(200)
    run.until("completed")
    assert used(run) == NOTHING | {
        "input_tokens": 107,
        "cost": Decimal("0.000107"),
        "currency": "USD",
        "unpriced_tokens": 0,
    }
