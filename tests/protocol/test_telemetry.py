"""Usage, spans and progress: what is counted and shown, and that a fault in them never refuses an outcome."""

import json
from collections.abc import Callable

import pytest

from tests.protocol.conftest import MakeFlow
from tests.support.client import Answer, Json
from tests.support.definitions import AT_ONCE, brief, read, write
from tests.support.flow import Lease, Run

COUNTS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


def usage(*counts: int, model: str = "m-1") -> dict[str, Json]:
    return {"model": model, **dict(zip(COUNTS, counts, strict=False))}


def span(number: int, **fields: Json) -> dict[str, Json]:
    return {
        "span_id": f"{number:016x}",
        "name": "model call",
        "kind": "client",
        "start_unix_nano": "1764504000000000000",
        "end_unix_nano": "1764504001000000000",
        "status": "ok",
        "attributes": {},
        **fields,
    }


def counted(run: Run) -> tuple[int, ...]:
    return tuple(run.view()["usage"][name] for name in COUNTS)


def spans_of(run: Run) -> list[Json]:
    return list(run.http.get(f"{run.path}/spans").expect(200)["items"])


CALLS: dict[str, Callable[..., Answer]] = {
    "heartbeat": Lease.heartbeat,
    "complete": Lease.complete,
    "fail": lambda lease, **fields: lease.fail("fatal", effect="none", **fields),
}
BAD: dict[str, dict[str, Json]] = {
    "usage no list": {"usage": 5},
    "usage of texts": {"usage": ["x"]},
    "usage without model": {"usage": [{"input_tokens": 1}]},
    "negative tokens": {"usage": [usage(-1)]},
    "half a token": {"usage": [{"model": "m", "input_tokens": 1.5}]},
    "tokens as text": {"usage": [{"model": "m", "input_tokens": "5"}]},
    "too many tokens": {"usage": [usage(10**40)]},
    "unknown field of usage": {"usage": [{**usage(1), "cost": 5}]},
    "spans no list": {"spans": "x"},
    "201 spans": {"spans": [span(number + 1) for number in range(201)]},
    "a span without id": {"spans": [{key: value for key, value in span(1).items() if key != "span_id"}]},
    "a short span id": {"spans": [span(1, span_id="abc")]},
    "a span id in no hex": {"spans": [span(1, span_id="z" * 16)]},
    "an unknown kind": {"spans": [span(1, kind="sideways")]},
    "an unknown status": {"spans": [span(1, status="fine")]},
    "a time that is none": {"spans": [span(1, start_unix_nano="yesterday")]},
    "a time as number": {"spans": [span(1, end_unix_nano=5)]},
    "attributes no object": {"spans": [span(1, attributes=[])]},
    "unknown field of a span": {"spans": [span(1, colour="red")]},
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", BAD)
def test_bad_telemetry_is_dropped_with_a_warning(flow: MakeFlow, kind: str, call: str) -> None:
    work = flow(write())
    run, lease = work.begin()
    lease.begin()
    answer = CALLS[call](lease, **BAD[kind]).expect(200)
    field = next(iter(BAD[kind]))
    assert any(field in str(warning) for warning in answer["warnings"]), answer
    expected = {"heartbeat": "running", "complete": "completed", "fail": "failed"}[call]
    assert run.view()["status"] == expected


def test_progress_too_large_is_dropped_with_a_warning(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE))
    _, lease = work.begin()
    assert lease.heartbeat(progress="x" * 65534).expect(200)["warnings"] == []
    answer = lease.heartbeat(progress="y" * 65535).expect(200)
    assert any("progress" in str(warning) for warning in answer["warnings"])
    lease.fail().expect(200)
    assert work.claim_one().data["previous"]["progress"] == "x" * 65534


def test_good_telemetry_beside_bad_is_kept(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    answer = lease.complete(usage=[usage(5)], spans="nonsense").expect(200)
    assert len(answer["warnings"]) == 1
    assert counted(run)[0] == 5


def test_usage_is_summed_over_models_and_attempts(flow: MakeFlow) -> None:
    work = flow(read(retry=AT_ONCE), read("more"))
    run, lease = work.begin()
    lease.fail("retryable", usage=[usage(1, 2, 3, 4, 5), usage(10, model="m-2")]).expect(200)
    assert counted(run) == (11, 2, 3, 4, 5), "a failed attempt's counts"
    work.claim_one().complete(usage=[usage(100)]).expect(200)
    work.claim_one().complete(usage=[usage(0, 0, 0, 1000)]).expect(200)
    assert counted(run) == (111, 2, 3, 1004, 5)
    assert run.view()["usage"].keys() >= {*COUNTS, "cost", "currency", "unpriced_tokens"}


def test_the_last_usage_sent_replaces_what_was_sent_before(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.heartbeat(usage=[usage(50)]).expect(200)
    assert counted(run)[0] == 50
    lease.heartbeat(usage=[usage(20)]).expect(200)
    lease.heartbeat().expect(200)
    assert counted(run)[0] == 20
    lease.complete(usage=[usage(30)]).expect(200)
    assert counted(run)[0] == 30


def test_a_lost_attempt_s_usage_counts(flow: MakeFlow) -> None:
    work = flow(read(**brief(0.4, 0)))
    run, lease = work.begin()
    lease.heartbeat(usage=[usage(7)]).expect(200)
    work.claim_one().complete(usage=[usage(1)]).expect(200)
    assert counted(run)[0] == 8


def test_usage_left_out_is_the_sum_over_the_spans(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.heartbeat(spans=[span(1, usage=usage(1, 2, 3, 4, 5))]).expect(200)
    lease.complete(spans=[span(2, usage=usage(10, 20, 30, 40, 50))]).expect(200)
    assert counted(run) == (11, 22, 33, 44, 55)


def test_usage_given_replaces_that_sum(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.complete(usage=[usage(3)], spans=[span(1, usage=usage(1000))]).expect(200)
    assert counted(run)[0] == 3


def test_a_span_counts_once_and_the_last_one_sent_wins(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.heartbeat(spans=[span(1, usage=usage(1))]).expect(200)
    lease.heartbeat(spans=[span(1, usage=usage(5), name="renamed")]).expect(200)
    lease.complete(spans=[span(2, usage=usage(10))]).expect(200)
    assert counted(run)[0] == 15
    names = [each["name"] for each in spans_of(run) if each["span_id"] == f"{1:016x}"]
    assert names == ["renamed"]


def test_a_span_above_one_that_counts_does_not_count_itself(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    spans = [
        span(1, usage=usage(100)),
        span(2, parent_span_id=f"{1:016x}"),
        span(3, parent_span_id=f"{2:016x}", usage=usage(7)),
        span(4, usage=usage(1000)),
    ]
    lease.complete(spans=spans).expect(200)
    assert counted(run)[0] == 1007


def test_attributes_are_read_where_a_span_has_no_usage(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    attributes = {
        "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "gen_ai.usage.cache_creation.input_tokens": 10,
    }
    lease.complete(spans=[span(1, attributes=attributes)]).expect(200)
    assert counted(run) == (60, 30, 10, 20, 0), "the cached ones are taken out of the input"


def test_spans_are_shown_as_a_flat_list(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    attributes = {"text": "x", "number": 1.5, "list": ["a"], "yes": True}
    sent = [span(1, attributes=attributes), span(2, parent_span_id=f"{1:016x}", status="error", kind="internal")]
    lease.complete(spans=sent).expect(200)
    shown = {each["span_id"]: each for each in spans_of(run)}
    for each in sent:
        seen = shown[each["span_id"]]
        assert {name: seen[name] for name in each} == each
    own = lease.data["traceparent"].split("-")[2]
    assert shown[f"{1:016x}"]["parent_span_id"] == own, "a span without a parent is below the lease's"


def test_two_hundred_spans_a_call_are_accepted(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    assert lease.heartbeat(spans=[span(number + 1) for number in range(200)]).expect(200)["warnings"] == []
    assert lease.complete(spans=[span(number + 201) for number in range(200)]).expect(200)["warnings"] == []
    ids = {each["span_id"] for each in spans_of(run)}
    assert ids >= {f"{number + 1:016x}" for number in range(400)}


def test_spans_hold_no_secret_of_the_lease(flow: MakeFlow) -> None:
    work = flow(read())
    run, lease = work.begin()
    lease.complete(spans=[span(1)]).expect(200)
    text = json.dumps(spans_of(run))
    assert "fence" not in text
    assert "claim" not in text
