"""Sums of usage: grouped, filtered, over pages, of the key's tenants only, and nothing twice."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import AT_ONCE, read, unique
from tests.support.flow import Flow
from tests.support.keys import make_key
from tests.support.money import COUNTS, USAGE, exact, price, put_prices, sums, usage
from tests.support.times import instant
from tests.support.wait import eventually

ZERO = dict.fromkeys(COUNTS, 0)


def use(work: Flow, *entries: Json, **start: Any) -> None:
    """One execution, whose only attempt uses this."""
    _, lease = work.begin(**start)
    lease.complete(usage=list(entries)).expect(200)


def brief(found: list[Json], *names: str) -> list[tuple[Json, ...]]:
    """Of each group these members, its input tokens and its cost."""
    return [(*(one[name] for name in names), one["input_tokens"], one["cost"]) for one in found]


@pytest.fixture
def work(flow: MakeFlow) -> Flow:
    return flow(read(retry=AT_ONCE))


def test_without_groups_there_is_one_sum(http: Http, work: Flow) -> None:
    assert sums(http, workflow=work.name) == [
        {**ZERO, "cost": None, "currency": None, "unpriced_tokens": 0, "attempts": 0}
    ]
    model = unique()
    put_prices(http, price(model, "2", None, None, "4"))
    _, lease = work.begin()
    lease.fail(usage=[usage(model, 1, 10, 0, 3)]).expect(200)
    work.claim_one().complete(usage=[usage(model, 5), usage(unique(), 100)]).expect(200)
    # (1 + 5) × 2 + 3 × 4 = 24 millionths
    assert sums(http, workflow=work.name) == [
        {**ZERO, "input_tokens": 106, "cache_read_tokens": 10, "output_tokens": 3}
        | {"cost": Decimal("0.000024"), "currency": "USD", "unpriced_tokens": 110, "attempts": 2}
    ]


def test_sums_may_be_grouped(http: Http, flow: MakeFlow) -> None:
    first, second, tenant = unique("a"), unique("b"), unique()
    put_prices(http, price(first, "1"))
    work = flow(read(), read("more"), version="7")
    _, lease = work.begin(tenant=tenant, labels={"team": "blue", "x.y": "1"})
    lease.complete(usage=[usage(first, 1), usage(second, 10)]).expect(200)
    work.claim_one().complete(usage=[usage(first, 100)]).expect(200)
    use(work, usage(first, 1000), tenant=tenant, labels={"team": "red"})
    day = datetime.now(UTC).date()
    assert brief(sums(http, tenant=tenant, group_by="model"), "model") == [
        (first, 1101, Decimal("0.001101")),
        (second, 10, None),
    ]
    assert brief(sums(http, tenant=tenant, group_by="workflow,version,step"), "workflow", "version", "step") == [
        (work.name, "7", "more", 100, Decimal("0.0001")),
        (work.name, "7", "work", 1011, Decimal("0.001001")),
    ]
    assert brief(sums(http, tenant=tenant, group_by="label:team,label:x.y"), "labels") == [
        ({"team": "blue", "x.y": "1"}, 111, Decimal("0.000101")),
        ({"team": "red", "x.y": None}, 1000, Decimal("0.001")),
    ]
    (by_day,) = sums(http, tenant=tenant, group_by="day,tenant")
    assert by_day["tenant"] == tenant
    assert by_day["day"] in {str(day), str(day + timedelta(days=1))}


def test_sums_of_none_have_no_tenant(http: Http, work: Flow) -> None:
    use(work, usage("m", 1))
    (found,) = sums(http, workflow=work.name, group_by="tenant,label:team")
    assert (found["tenant"], found["labels"]) == (None, {"team": None})


def test_sums_may_be_filtered(http: Http, work: Flow) -> None:
    tenant = unique()
    before = datetime.now(UTC) - timedelta(minutes=1)
    use(work, usage("m", 1), usage("n", 10), tenant=tenant, labels={"a": "1", "b": "x:y"})
    use(work, usage("m", 100), labels={"a": "1"})
    soon = datetime.now(UTC) + timedelta(minutes=1)

    def count(**query: Any) -> int:
        (found,) = sums(http, workflow=work.name, **query)
        return int(found["input_tokens"])

    assert count() == 111
    assert count(tenant=tenant) == 11
    assert count(model="m") == 101
    assert count(label="a:1") == 111
    assert count(label="b:x:y") == 11
    assert count(after=before.isoformat(), before=soon.isoformat()) == 111
    assert count(after=soon.isoformat()) == 0
    assert count(before=before.isoformat()) == 0
    both = [("workflow", work.name), ("label", "a:1"), ("label", "b:x:y")]
    assert exact(http.get(USAGE, query=both))["items"][0]["input_tokens"] == 11


def test_usage_counts_when_it_was_last_reported(http: Http, work: Flow) -> None:
    run, lease = work.begin()
    lease.heartbeat(usage=[usage("m", 5)]).expect(200)
    lease.heartbeat(usage=[usage("m", 7)]).expect(200)
    (found,) = sums(http, workflow=work.name)
    assert (found["input_tokens"], found["attempts"]) == (7, 1)
    begun = instant(run.view()["created_at"])
    (found,) = sums(http, workflow=work.name, after=begun.isoformat())
    assert found["input_tokens"] == 7


def test_children_are_not_counted_with_their_parents(http: Http, flow: MakeFlow) -> None:
    below = flow(read())
    above = flow({"id": "sub", "kind": "workflow", "workflow": below.name}, read("own"))
    run = above.start()
    below.claim_one(wait_seconds=5).complete(usage=[usage("m", 5)]).expect(200)
    above.claim_one(wait_seconds=5).complete(usage=[usage("m", 100)]).expect(200)
    run.until("completed")
    eventually(lambda: run.view()["usage"]["input_tokens"] == 105, seconds=5, what="the sum of both")
    assert [one["input_tokens"] for one in sums(http, workflow=above.name)] == [100]
    assert [one["input_tokens"] for one in sums(http, workflow=below.name)] == [5]


def test_pages_hold_their_filters(http: Http, work: Flow) -> None:
    models = sorted(unique(str(number)) for number in range(5))
    use(work, *(usage(model, number + 1) for number, model in enumerate(models)), labels={"l": "v"})
    query = {"workflow": work.name, "group_by": "day,model,label:l", "limit": 2}
    first = exact(http.get(USAGE, query=query))
    assert len(first["items"]) == 2
    rest = exact(http.get(USAGE, query={"cursor": first["next"], "limit": 200}))
    assert rest["next"] is None
    assert [one["model"] for one in first["items"] + rest["items"]] == models
    other = {"cursor": first["next"], "workflow": "another"}
    assert http.get(USAGE, query=other).expect_faults(422, "invalid_request").keys() == {"/workflow"}


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({"group_by": "hour"}, "/group_by"),
        ({"group_by": "day,day"}, "/group_by"),
        ({"group_by": ""}, "/group_by"),
        ({"group_by": "label:"}, "/group_by"),
        ({"group_by": "label:a b"}, "/group_by"),
        ({"group_by": "label:a'b"}, "/group_by"),
        ({"group_by": ",".join(f"label:l{number}" for number in range(9))}, "/group_by"),
        ({"after": "yesterday"}, "/after"),
        ({"label": "team"}, "/label"),
        ({"limit": 0}, "/limit"),
        ({"limit": 201}, "/limit"),
        ({"cursor": "x"}, "/cursor"),
        ({"cursor": "eyJncm91cCI6WyJhIl0sImFza2VkIjp7Imdyb3VwX2J5IjpbImRheSJdfX0"}, "/cursor"),
        ({"cursor": "eyJncm91cCI6W10sImFza2VkIjp7Imdyb3VwX2J5IjpbImRheSJdfX0"}, "/cursor"),
        ({"workflows": "w"}, "/workflows"),
        ([("model", "a"), ("model", "b")], "/model"),
    ],
)
def test_a_bad_question_is_refused(http: Http, query: Any, path: str) -> None:
    assert http.get(USAGE, query=query).expect_faults(422, "invalid_request").keys() == {path}


def test_a_key_sees_the_usage_of_its_tenants(http: Http, work: Flow) -> None:
    if http.key is None:
        pytest.skip("needs STEPD_TEST_KEY: the first key would end open mode")
    mine, theirs = unique(), unique()
    use(work, usage("m", 1), tenant=mine)
    use(work, usage("m", 10), tenant=theirs)
    use(work, usage("m", 100))
    reader = make_key(http, "read", tenants=[mine]).http
    assert brief(sums(reader, workflow=work.name, group_by="tenant"), "tenant") == [(mine, 1, None)]
    assert sums(reader, workflow=work.name, tenant=theirs)[0]["attempts"] == 0
    for scope in ("worker", "execute"):
        key = make_key(http, scope)
        assert key.http.get(USAGE).expect_problem(403, "forbidden")["scope"] == "read"
