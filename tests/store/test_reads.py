"""Reads: lists with their filters and cursors, the journal, the queue, spans, counts."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.engine import commands as c
from stepd.engine.landings import DropLoose, KeepLoose, LandSpans, loose_key, loose_owner
from stepd.store.base import Decide, ExecutionFilter, QueueLine, Scope
from stepd.store.reads import SpanLine, Traced
from tests.store.shop import EVERYTHING, NOON, Shop, heartbeat, step


async def listed(shop: Shop, scope: Scope = EVERYTHING, limit: int = 100, **filters: Any) -> list[str]:
    found = await shop.store.executions(ExecutionFilter(**filters), scope, limit)
    return [row.id for row in found]


async def some(shop: Shop) -> dict[str, str]:
    """Five executions that differ, by name, a millisecond apart; ``d`` and ``e`` have ended."""
    await shop.register()
    await shop.register("other")
    ids = {}
    ended: dict[str, dict[str, Any]] = {
        "d": {"tenant": "t1", "labels": {"team": "x"}},
        "e": {"tenant": "t2", "labels": {"team": "x", "env": "prod"}, "principal": "p"},
    }
    for name, more in ended.items():
        ids[name] = await shop.run_to_end(**more)
        shop.clock.at += 1
    still_open: dict[str, dict[str, Any]] = {
        "a": {"tenant": "t1", "correlation": "c1", "labels": {"team": "x", "env": "prod"}},
        "b": {"tenant": "t2", "correlation": "c1", "principal": "p", "labels": {"team": "y"}},
        "c": {"workflow": "other"},
    }
    for name, more in still_open.items():
        ids[name] = await shop.start(**more)
        shop.clock.at += 1
    return ids


async def test_filters_narrow_the_list(shop: Shop) -> None:
    ids = await some(shop)
    names = {id_: name for name, id_ in ids.items()}
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "cbaed"),
        ({"oldest_first": True}, "deabc"),
        ({"workflow": "other"}, "c"),
        ({"workflow": "flow", "version": "1"}, "baed"),
        ({"version": "2"}, ""),
        ({"statuses": ("completed",)}, "ed"),
        ({"statuses": ("completed", "queued")}, "cbaed"),
        ({"statuses": ("completed", "queued", "completed"), "oldest_first": True}, "deabc"),
        ({"statuses": ("paused",)}, ""),
        ({"correlation": "c1"}, "ba"),
        ({"tenant": "t1"}, "ad"),
        ({"tenant": "t3"}, ""),
        ({"labels": (("team", "x"),)}, "aed"),
        ({"labels": (("team", "x"), ("env", "prod"))}, "ae"),
        ({"labels": (("env", "prod"), ("team", "x")), "oldest_first": True}, "ea"),
        ({"labels": (("team", "z"),)}, ""),
        ({"labels": (("team", "x"),), "statuses": ("queued",), "tenant": "t1"}, "a"),
        ({"created_after": NOON + 1}, "cba"),
        ({"created_before": NOON + 1}, "d"),
        ({"ids": (ids["a"], ids["d"], "none")}, "ad"),
        ({"ids": ()}, ""),
    ]
    for filters, expected in cases:
        assert "".join(names[id_] for id_ in await listed(shop, **filters)) == expected, filters


async def test_a_list_shows_only_what_is_in_scope(shop: Shop) -> None:
    ids = await some(shop)
    names = {id_: name for name, id_ in ids.items()}
    cases: list[tuple[Scope, dict[str, Any], str]] = [
        (Scope(("t1",)), {}, "ad"),
        (Scope(("t1", "t2")), {}, "baed"),
        (Scope(("t1", "t2")), {"statuses": ("queued", "running")}, "ba"),
        (Scope(("t1", "t2")), {"labels": (("team", "x"),)}, "aed"),
        (Scope(("t1",)), {"tenant": "t2"}, ""),
        (Scope(()), {}, ""),
        (Scope(None, "p"), {}, "be"),
        (Scope(("t2",), "p"), {"statuses": ("completed",)}, "e"),
        (Scope(tuple(f"t{n}" for n in range(100))), {"statuses": ("queued", "completed")}, "baed"),
    ]
    for scope, filters, expected in cases:
        found = await listed(shop, scope, **filters)
        assert "".join(names[id_] for id_ in found) == expected, (scope, filters)


async def test_a_cursor_goes_on_where_it_left_off_while_rows_come_in(shop: Shop) -> None:
    await shop.register()
    ids = []
    for number in range(12):
        ids.append(await shop.start(labels={"team": "x"}))
        shop.clock.at += number % 3 == 0  # several of one millisecond
    different: list[dict[str, Any]] = [{}, {"statuses": ("queued", "running")}, {"labels": (("team", "x"),)}]
    for filters in different:
        for oldest_first in (False, True):
            seen: list[str] = []
            cursor = None
            for _ in range(4):
                found = await shop.store.executions(
                    ExecutionFilter(cursor=cursor, oldest_first=oldest_first, **filters),
                    EVERYTHING,
                    5,
                )
                seen += [row.id for row in found]
                cursor = (found[-1].created_at, found[-1].id) if found else cursor
                if not oldest_first:
                    shop.clock.at += 1
                    await shop.start(workflow="flow", labels={"team": "x"})
            wanted = [id_ for id_ in seen if id_ in ids]
            assert wanted == (ids if oldest_first else ids[::-1]), (filters, oldest_first)


async def test_one_execution_is_seen_in_scope_only(shop: Shop) -> None:
    ids = await some(shop)
    for scope, sees in (
        (EVERYTHING, "abcde"),
        (Scope(("t1",)), "ad"),
        (Scope(None, "p"), "be"),
        (Scope(("t1",), "p"), ""),
    ):
        for name, id_ in ids.items():
            expected = name in sees
            assert (await shop.store.execution(id_, scope) is not None) is expected
            assert (await shop.store.execution(id_, scope, attempts=True) is not None) is expected
            assert (await shop.store.standing(id_, scope) is not None) is expected
    assert await shop.store.execution("nothing", EVERYTHING) is None
    assert await shop.store.standing("nothing", EVERYTHING) is None


async def test_a_view_with_many_steps_is_whole(shop: Shop) -> None:
    await shop.register(steps=[step(f"s{n:03}", needs=[]) for n in range(200)])
    rows = await shop.view(await shop.start())
    assert [row.step for row in rows.steps] == [f"s{n:03}" for n in range(200)]
    assert set(rows.payloads) == {"input", "state"}


async def test_the_journal_is_read_page_by_page(shop: Shop) -> None:
    await shop.register(steps=[step(f"s{n}") for n in range(5)])
    id_ = await shop.run_to_end()
    whole = await shop.store.events(id_, 0, 1000)
    pages = [event for after in range(0, len(whole), 4) for event in await shop.store.events(id_, after, 4)]
    assert pages == whole
    assert await shop.store.events(id_, len(whole), 10) == []
    assert await shop.store.events("nothing", 0, 10) == []
    assert [(event.step, event.worker, event.index) for event in whole if event.type == "attempt.leased"] == [
        (f"s{n}", "w", None) for n in range(5)
    ]


async def test_the_queue_is_counted_by_what_could_be_claimed(shop: Shop) -> None:
    await shop.register(steps=[step("x", needs=[]), step("y", needs=[])])
    await shop.start(tenant="a")
    shop.clock.at += 5
    await shop.start(tenant="a", principal="p")
    await shop.start()
    held = await shop.start(tenant="a")
    await shop.command(held, c.Pause(c.Actor("p")))
    await shop.claim_one(steps={"x"})
    lines = [
        QueueLine("flow", "1", "x", None, 1, NOON + 5),
        QueueLine("flow", "1", "x", "a", 1, NOON + 5),
        QueueLine("flow", "1", "y", None, 1, NOON + 5),
        QueueLine("flow", "1", "y", "a", 2, NOON),
    ]
    assert await shop.store.queue(EVERYTHING) == lines
    assert await shop.store.queue(Scope(("a",))) == [lines[1], lines[3]]
    assert [line.count for line in await shop.store.queue(Scope(None, "p"))] == [1, 1]


async def test_executions_with_a_claimable_step_are_found(shop: Shop) -> None:
    await shop.register(steps=[step("x"), step("y")])
    first, second, third = await shop.start(tenant="a"), await shop.start(), await shop.start()
    await shop.complete(await shop.claim_one(tenants=("a",)))
    find = shop.store.queued_executions
    assert await find([("flow", "1", "y", "a")], 10) == [first]
    assert sorted(await find([("flow", "1", "x", None)], 10)) == sorted([second, third])
    assert len(await find([("flow", "1", "x", None), ("flow", "1", "y", "a")], 2)) == 2
    assert await find([("flow", "1", "x", "a"), ("flow", "2", "x", None)], 10) == []
    assert await find([], 10) == []


async def test_executions_are_counted_by_status(shop: Shop) -> None:
    await some(shop)
    assert await shop.store.counts() == {"completed": 2, "queued": 3}


async def test_spans_come_with_their_attempts_and_the_last_one_sent_wins(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start()
    first = await shop.claim_one()
    assert await shop.store.spans(id_, ("", ""), 10) == [SpanLine(first.attempt.id, "", first.attempt)]
    for body in (b'{"n":1}', b'{"n":2}'):
        span = c.SpanReport("a" * 16, None, body, None)
        await shop.store.submit(heartbeat(first, reported=c.Reported(spans=(span,))))
    await shop.fail(first, "interrupted")
    second = await shop.claim_one()
    found = await shop.store.spans(id_, ("", ""), 10)
    keys = [(first.attempt.id, ""), (first.attempt.id, "a" * 16), (second.attempt.id, "")]
    assert [line.key for line in found] == keys
    assert [line.body for line in found] == [b"", b'{"n":2}', b""]
    for place, key in enumerate(keys):
        assert await shop.store.spans(id_, key, 10) == found[place + 1 :]
        assert await shop.store.spans(id_, ("", ""), place) == found[:place]


async def test_spans_and_traces_are_found_by_their_ids(shop: Shop) -> None:
    await shop.register()
    given, lost = f"00-{'c' * 32}-{'d' * 16}-01", f"00-{'e' * 32}-{'d' * 16}-01"
    own = await shop.start(tenant="a")
    first = await shop.claim_one()
    span = c.SpanReport("a" * 16, None, b"{}", None)
    await shop.store.submit(heartbeat(first, reported=c.Reported(spans=(span,))))
    in_trace = [await shop.start(traceparent=given) for _ in range(2)]
    own_trace = own.replace("-", "")

    async def traced(*ids: str, tenants: tuple[str, ...] | None = None) -> Traced:
        return await shop.store.traced([own_trace, "c" * 32, lost[3:35]], ids, Scope(tenants))

    found = await traced(first.attempt.span_id, "a" * 16, "b" * 16)
    assert list(found.attempts) == [first.attempt.id]
    assert found.kept == [(own, first.attempt.id, "a" * 16)]
    assert found.executions.keys() == {own, *in_trace}
    assert found.of_trace[own_trace] == [own]
    assert sorted(found.of_trace["c" * 32]) == in_trace
    assert found.of_trace["e" * 32] == []
    assert list((await traced("a" * 16)).attempts) == [first.attempt.id], "by the span that is kept under it"
    assert (await traced(first.attempt.span_id, tenants=("b",))).executions == {}


async def test_leases_in_flight_are_counted_by_life(shop: Shop) -> None:
    await shop.register()
    for _ in range(4):
        await shop.start()
    await shop.claim(max=2)
    await shop.claim_one(instance="w-2")
    await shop.complete(await shop.claim_one(instance="w-2"))
    assert await shop.store.held_leases() == {("hand", "w", "w-1"): 2, ("hand", "w", "w-2"): 1}


async def test_any_text_is_found_as_label_tenant_and_correlation(shop: Shop) -> None:
    await shop.register()
    for text in ("ä😀", "with 'quotes'", 'and "more"', "a\nb", "x" * 256, "a\0b", "\uf8f0", "\uf8f00"):
        id_ = await shop.start(labels={"k": text}, tenant=text, correlation=text)
        assert await listed(shop, tenant=text) == await listed(shop, correlation=text) == [id_]
        assert await listed(shop, Scope((text,))) == [id_]
        assert [granted.execution.tenant for granted in await shop.claim(tenants=(text,))] == [text]
        assert sum((await shop.store.held_leases((text,))).values()) == 1
        assert await listed(shop, labels=(("k", text),)) == [id_]
        row = await shop.store.standing(id_, EVERYTHING)
        assert row is not None
        assert msgspec.json.decode(row.labels) == {"k": text}


async def test_loose_spans_are_kept_moved_and_counted(shop: Shop) -> None:
    await shop.register()
    id_ = await shop.start()
    held = await shop.claim_one()
    store, attempt, mine = shop.store, held.attempt, loose_owner("hand")
    above, below = loose_key("hand", "a" * 16), loose_key("other", None)

    def span(digit: str) -> c.SpanReport:
        return c.SpanReport(digit * 16, None, b"{}", None)

    async def give(command: c.Command) -> Any:
        return (await store.submit(Decide(command, execution_id=id_)))[0]

    await give(KeepLoose(((above, span("1")), (above, span("2")), (below, span("3")))))
    assert [line.key for line in await store.loose_spans(id_, [above])] == [(above, "1" * 16), (above, "2" * 16)]
    assert [line.key for line in await store.loose_spans(id_, [above, below, "@"])][2:] == [(below, "3" * 16)]
    assert (await store.loose_count(id_, mine, 10), await store.loose_count(id_, mine, 1)) == (2, 1)
    landed = await give(LandSpans(attempt.id, "hand", c.Reported(spans=(span("1"),)), ((above, "1" * 16),)))
    assert (landed.fresh, landed.beyond) == ({"1" * 16}, set())
    assert await give(LandSpans(attempt.id, "another", c.Reported(spans=(span("4"),)))) == c.NotFound()
    await give(DropLoose(((above, "2" * 16),)))
    assert await store.loose_spans(id_, [above]) == []
    lines = await store.spans(id_, ("", ""), 10)
    assert [line.key for line in lines] == [(attempt.id, ""), (attempt.id, "1" * 16), (below, "3" * 16)]
    assert [line.attempt is None for line in lines] == [False, False, True]
