"""Lists of executions: order, filters, pages and their cursors."""

from datetime import timedelta
from functools import partial

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import read, unique, write
from tests.support.flow import Flow, Run, listed
from tests.support.times import instant
from tests.support.wait import together


def ids(items: list[Json]) -> list[str]:
    return [item["id"] for item in items]


@pytest.fixture(scope="module")
def five(flow: MakeFlow) -> tuple[Flow, list[Run]]:
    """A workflow with five executions, and these from the oldest to the newest."""
    work = flow(read())
    return work, [work.start(input=number, labels={"n": str(number)}) for number in range(5)]


def test_the_newest_is_first(five: tuple[Flow, list[Run]]) -> None:
    work, runs = five
    page = work.list()
    assert ids(page["items"]) == [run.id for run in reversed(runs)]
    assert page["next"] is None
    assert ids(work.list(order="oldest")["items"]) == [run.id for run in runs]


def test_items_are_views_without_payloads_and_steps(five: tuple[Flow, list[Run]]) -> None:
    work, _ = five
    item = work.list(limit=1)["items"][0]
    assert not {"steps", "input", "output", "state"} & item.keys()
    assert item.keys() >= {"id", "workflow", "version", "status", "created_at", "labels", "correlation", "tenant"}


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 200])
def test_pages_give_each_once_in_order(five: tuple[Flow, list[Run]], order: str, limit: int) -> None:
    work, runs = five
    query = {"workflow": work.name, "limit": limit} | ({"order": "oldest"} if order == "oldest" else {})
    expected = [run.id for run in runs]
    assert ids(listed(work.http, query)) == (expected if order == "oldest" else expected[::-1])


def test_a_cursor_alone_holds_its_filters(http: Http, five: tuple[Flow, list[Run]]) -> None:
    work, runs = five
    page = work.list(limit=2, order="oldest")
    rest = http.get("/v1/executions", query={"cursor": page["next"]}).expect(200)
    assert set(ids(rest["items"])) <= {run.id for run in runs[2:]}
    assert ids(rest["items"])[0] == runs[2].id


def test_other_filters_than_the_cursor_s_are_refused(http: Http, five: tuple[Flow, list[Run]]) -> None:
    work, _ = five
    cursor = work.list(limit=2)["next"]
    others: list[dict[str, str]] = [
        {"workflow": unique()},
        {"workflow": work.name, "status": "failed"},
        {"workflow": work.name, "order": "oldest"},
        {"workflow": work.name, "correlation": "c"},
        {"workflow": work.name, "label": "n:1"},
    ]
    for other in others:
        answer = http.get("/v1/executions", query={**other, "limit": "2", "cursor": cursor})
        answer.expect_problem(422, "invalid_request")


@pytest.mark.parametrize("cursor", ["x", "", "AAAA", "..", "é", "a" * 5000])
def test_a_cursor_that_is_none_is_refused(http: Http, cursor: str) -> None:
    http.get("/v1/executions", query={"cursor": cursor}).expect_problem(422, "invalid_request")


def test_a_cursor_stays_stable_while_rows_come_in(flow: MakeFlow) -> None:
    work = flow(read())
    before = [work.start().id for _ in range(6)]
    seen: list[str] = []
    query: dict[str, str] = {}
    while True:
        page = work.list(limit=2, **query)
        seen += ids(page["items"])
        together([work.start for _ in range(3)])
        if page["next"] is None or len(seen) > 20:
            break
        query = {"cursor": page["next"]}
    assert seen == before[::-1]


def test_a_forward_cursor_reaches_what_came_in(flow: MakeFlow) -> None:
    work = flow(read())
    first = [work.start().id for _ in range(3)]
    page = work.list(order="oldest", limit=2)
    later = work.start().id
    rest = work.list(order="oldest", limit=2, cursor=page["next"])
    assert ids(page["items"]) + ids(rest["items"]) == [*first, later]


def test_a_status_that_changes_between_pages_gives_nothing_twice(flow: MakeFlow) -> None:
    work = flow(read())
    runs = [work.start() for _ in range(4)]
    page = work.list(limit=2, status="queued")
    assert runs[3].cancel().status == 202
    rest = work.list(limit=2, status="queued", cursor=page["next"])
    assert ids(page["items"]) + ids(rest["items"]) == [run.id for run in reversed(runs)]


def test_filters_by_what_an_execution_is(flow: MakeFlow) -> None:
    work = flow(read(), version="1")
    flow(write(), version="2", name=work.name)
    case = unique("case")
    old = work.start(version="1", correlation=case, labels={"team": "blue", "x": "a:b"})
    new = work.start(version="2", tenant="acme", labels={"team": "red"})
    both = [new.id, old.id]
    assert ids(work.list()["items"]) == both
    assert ids(work.list(version="1")["items"]) == [old.id]
    assert ids(work.list(version="3")["items"]) == []
    assert ids(work.list(correlation=case)["items"]) == [old.id]
    assert ids(work.list(tenant="acme")["items"]) == [new.id]
    assert ids(work.list(label="team:blue")["items"]) == [old.id]
    assert ids(work.list(label="x:a:b")["items"]) == [old.id], "what is behind the first colon is the value"
    assert ids(work.list(label="team:green")["items"]) == []
    assert ids(work.list(version="1", label="team:red")["items"]) == []


def test_a_filter_by_status_may_be_repeated(http: Http, flow: MakeFlow) -> None:
    work = flow(read())
    done, failed, cancelled, queued = (work.start(priority=9 - number) for number in range(4))
    work.claim_one().complete().expect(200)
    work.claim_one().fail("fatal").expect(200)
    cancelled.cancel().expect(202)

    def by(*statuses: str) -> list[str]:
        query = [("workflow", work.name), *(("status", status) for status in statuses)]
        return ids(http.get("/v1/executions", query=query).expect(200)["items"])

    assert by("completed") == [done.id]
    assert by("failed") == [failed.id]
    assert by("queued", "cancelled") == [queued.id, cancelled.id]
    assert by("running") == []
    query = [("workflow", work.name), ("status", "finished")]
    http.get("/v1/executions", query=query).expect_problem(422, "invalid_request")


def test_filters_by_creation(flow: MakeFlow) -> None:
    work = flow(read())
    first = work.start()
    at = first.view()["created_at"]
    earlier, later = ((instant(at) + timedelta(seconds=by)).isoformat() for by in (-5, 5))
    assert ids(work.list(created_after=earlier, created_before=later)["items"]) == [first.id]
    assert ids(work.list(created_after=later)["items"]) == []
    assert ids(work.list(created_before=earlier)["items"]) == []
    shifted = (instant(at) - timedelta(seconds=5)).astimezone().isoformat()
    assert ids(work.list(created_after=shifted)["items"]) == [first.id]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "201"},
        {"limit": "-1"},
        {"limit": "many"},
        {"limit": ""},
        {"order": "sideways"},
        {"created_after": "2030-01-01T00:00:00"},
        {"created_before": "yesterday"},
        {"label": "no-colon"},
        {"blocked": "perhaps"},
        {"workflow": "a b"},
    ],
)
def test_a_filter_that_is_none_is_refused(http: Http, query: dict[str, str]) -> None:
    http.get("/v1/executions", query=query).expect_problem(422, "invalid_request")


def test_nothing_is_missed_when_many_start_at_once(flow: MakeFlow) -> None:
    work = flow(read())
    started = {run.id for run in together([partial(work.start, input=number) for number in range(30)])}
    seen = ids(listed(work.http, {"workflow": work.name, "limit": 7}))
    assert len(seen) == 30
    assert set(seen) == started
