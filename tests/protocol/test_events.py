"""The journal as JSON and as server-sent events, from the first event to the last."""

import json
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Http, Json
from tests.support.definitions import AT_ONCE, brief, read, write
from tests.support.flow import Flow, Run
from tests.support.journal import TYPES
from tests.support.stream import Message, Stream
from tests.support.times import instant
from tests.support.wait import beside, moment, together


@pytest.fixture(scope="module")
def ended(flow: MakeFlow) -> Run:
    work = flow(read("a"), read("b"))
    run = work.start()
    for _ in range(2):
        work.claim_one().complete().expect(200)
    return run


def stream(run: Run, query: str = "", **headers: str) -> Stream:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Stream(run.http, f"{run.path}/events{query}", headers=sent)


def test_the_journal_tells_the_whole_story(ended: Run) -> None:
    events = ended.events()
    types = [(event["type"], event["step"]) for event in events]
    expected = [
        ("execution.created", None),
        ("step.queued", "a"),
        ("attempt.leased", "a"),
        ("step.succeeded", "a"),
        ("step.queued", "b"),
        ("attempt.leased", "b"),
        ("step.succeeded", "b"),
        ("execution.completed", None),
    ]
    assert [each for each in types if each in expected] == expected
    assert ("execution.started", None) in types
    leased = next(event for event in events if event["type"] == "attempt.leased")
    assert (leased["worker"], leased["attempt"], leased["index"]) == ("tester", 1, None)
    times = [instant(event["at"]) for event in events]
    assert times == sorted(times)


def test_a_start_is_told_before_its_answer(flow: MakeFlow) -> None:
    run = flow(read()).start()
    assert run.types()[:2] == ["execution.created", "step.queued"]


def test_pages_give_each_event_once(http: Http, ended: Run) -> None:
    whole = ended.events()
    seen: list[Json] = []
    after = 0
    while True:
        page = http.get(f"{ended.path}/events", query={"after": after, "limit": 2}).expect(200)
        assert len(page["items"]) <= 2
        seen += page["items"]
        if page["next"] is None:
            break
        assert page["next"] == page["items"][-1]["seq"]
        after = page["next"]
    assert seen == whole


def test_after_is_where_one_stopped(http: Http, ended: Run) -> None:
    whole = ended.events()
    page = http.get(f"{ended.path}/events", query={"after": 3}).expect(200)
    assert page["items"] == whole[3:]
    last = http.get(f"{ended.path}/events", query={"after": len(whole)}).expect(200)
    assert (last["items"], last["next"]) == ([], None)


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=x", "after="])
def test_a_query_that_is_none_is_refused(http: Http, ended: Run, query: str) -> None:
    http.get(f"{ended.path}/events?{query}").expect_problem(422, "invalid_request")


def test_a_stream_is_the_same_journal_and_ends_with_it(ended: Run) -> None:
    with stream(ended) as opened:
        assert opened.response.status == 200
        assert (opened.response.getheader("content-type") or "").startswith("text/event-stream")
        assert "no-cache" in (opened.response.getheader("cache-control") or "")
        assert opened.response.getheader("x-accel-buffering") == "no"
        messages = list(opened.messages())
    assert [json.loads(message.data or "") for message in messages] == ended.events()
    assert [message.id for message in messages] == [str(event["seq"]) for event in ended.events()]


@pytest.mark.parametrize("last", [1, 3, 5])
def test_a_stream_is_resumed_after_the_last_one_seen(ended: Run, last: int) -> None:
    whole = ended.events()
    with stream(ended, Last_Event_ID=str(last)) as by_header:
        assert [message.id for message in by_header.messages()] == [str(event["seq"]) for event in whole[last:]]
    with stream(ended, f"?after={last}") as by_query:
        assert [message.id for message in by_query.messages()] == [str(event["seq"]) for event in whole[last:]]


def test_last_event_id_wins_over_after(ended: Run) -> None:
    with stream(ended, "?after=1", Last_Event_ID="4") as opened:
        assert next(iter(opened.messages())).id == "5"


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "1000000", "9" * 40, "0x1", "1 2"])
def test_a_last_event_id_that_cannot_be_is_400(ended: Run, last: str) -> None:
    with stream(ended, Last_Event_ID=last) as opened:
        assert opened.response.status == 400
        assert (opened.response.getheader("content-type") or "").startswith("application/problem+json")
        assert json.loads(opened.response.read())["status"] == 400


def test_a_last_event_id_beyond_the_last_of_an_open_execution_is_400(flow: MakeFlow) -> None:
    run = flow(read()).start()
    with stream(run, Last_Event_ID=str(len(run.events()) + 1)) as opened:
        assert opened.response.status == 400


def test_after_the_end_there_is_no_content(ended: Run) -> None:
    last = len(ended.events())
    for opened in (stream(ended, Last_Event_ID=str(last)), stream(ended, f"?after={last}")):
        with opened:
            assert opened.response.status == 204
            assert opened.response.read() == b""


def test_a_stream_follows_what_happens(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    run = work.start()
    with stream(run) as opened:
        messages = opened.messages()
        assert first(messages) == "execution.created"
        assert first(messages) == "step.queued"
        lease = work.claim_one()
        assert first(messages) in ("attempt.leased", "execution.started")
        lease.fail("retryable").expect(200)
        work.claim_one().complete().expect(200)
        rest = [each["type"] for each in (json.loads(message.data or "") for message in messages)]
    assert rest[-1] == "execution.completed"
    assert "step.retry_scheduled" in rest


def first(messages: Iterator[Message]) -> str:
    return str(json.loads(next(messages).data or "")["type"])


def test_many_streams_each_get_everything_once(flow: MakeFlow) -> None:
    work = flow(read("a"), read("b"), read("c"))
    run = work.start()

    def follow() -> list[str | None]:
        with stream(run) as opened:
            return [message.id for message in opened.messages()]

    followers: list[Future[list[str | None]]] = [beside(follow) for _ in range(15)]
    for _ in range(3):
        moment(0.05)
        work.claim_one().complete().expect(200)
    expected = [str(event["seq"]) for event in run.events()]
    assert [future.result(10) for future in followers] == [expected] * 15


def test_a_stream_of_nothing_is_not_found(http: Http) -> None:
    with Stream(http, "/v1/executions/00000000-0000-7000-8000-000000000000/events") as opened:
        assert opened.response.status == 404


def test_an_uncertain_execution_keeps_its_stream_open(flow: MakeFlow) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    lease.fail("fatal").expect(200)
    seen = [event["type"] for event in run.events()]
    assert seen[-1] == "execution.reconciliation_required"
    with Stream(run.http, f"{run.path}/events", seconds=1) as opened:
        messages = opened.messages()
        for type in seen:
            assert first(messages) == type
        with pytest.raises(TimeoutError):
            next(messages)


def test_journals_are_gapless_under_many_writers(flow: MakeFlow) -> None:
    steps = [read(f"s{number}", needs=[], retry=AT_ONCE, **brief(5)) for number in range(20)]
    work: Flow = flow(*steps)
    run = work.start()
    leases = work.claim(max=20)
    together([lease.heartbeat for lease in leases for _ in range(2)])
    together([lease.complete for lease in leases])
    events = run.events()
    assert events[-1]["type"] == "execution.completed"
    assert sum(event["type"] == "step.succeeded" for event in events) == 20


def test_every_event_a_failing_write_leaves_is_known(flow: MakeFlow) -> None:
    work = flow(write(**brief(0.5, 0)))
    run, lease = work.begin()
    lease.begin()
    run.until("reconciliation_required")
    types = run.types()
    assert set(types) <= TYPES
    order = ["attempt.leased", "attempt.started", "attempt.orphaned", "attempt.lost", "step.uncertain"]
    assert [type for type in types if type in order] == order
    assert types[-1] == "execution.reconciliation_required"


def test_a_quiet_stream_gets_a_comment_every_fifteen_seconds(quiet: "Future[tuple[float, str]]") -> None:
    seconds, comment = quiet.result(30)
    assert comment is not None
    assert 10 < seconds < 20
