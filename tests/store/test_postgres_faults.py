"""PostgreSQL when others are in the way, when callers go away, and when it breaks off in the middle."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from stepd.engine.commands import Told
from stepd.engine.work import Settings
from stepd.store.base import Begin, Started, StoreRefused, StoreUnavailable
from stepd.store.marks import from_text, to_text
from stepd.store.postgres.connections import POOL_SIZE
from stepd.store.postgres.errors import Broken, Contended, Locked, Silent, unavailable
from stepd.store.postgres.store import PostgresStore
from tests.store.backends import PostgresBackend
from tests.store.shop import EVERYTHING, Shop, complete, start
from tests.support import postgres

OPEN_TRANSACTIONS = (
    "select count(*) from pg_stat_activity where datname = current_database() "
    "and application_name like 'stepd%' and state like 'idle in transaction%'"
)
CONNECTIONS = (
    "select count(*) from pg_stat_activity where datname = current_database() and application_name like 'stepd%'"
)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Shop]:
    backend = PostgresBackend(tmp_path)
    shop = Shop(backend, Settings())
    await shop.open()
    try:
        yield shop
    finally:
        await shop.close()
        backend.close()


def database_of(shop: Shop) -> postgres.Database:
    assert isinstance(shop.backend, PostgresBackend)
    return shop.backend.database


def count(shop: Shop, statement: str) -> int:
    ((found,),) = postgres.query(database_of(shop).superuser_url, statement)
    return int(found)


@contextlib.contextmanager
def refusing(shop: Shop, code: str, times: int) -> Iterator[None]:
    """Starts fail with this code, so many times."""
    shop.backend.query("create sequence refuse_count")
    shop.backend.query("grant usage on sequence refuse_count to public")
    shop.backend.refuse_inserts("executions", "false")
    shop.backend.query(
        "create or replace function refuse_executions() returns trigger language plpgsql as $$ begin "
        f"if nextval('refuse_count') <= {times} then raise exception 'refused' using errcode = '{code}'; end if; "
        "return new; end $$"
    )
    try:
        yield
    finally:
        shop.backend.allow_inserts("executions")
        shop.backend.query("drop sequence refuse_count")


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_what_others_are_in_the_way_of_is_run_again(here: Shop, code: str) -> None:
    await here.register()
    with refusing(here, code, 3):
        answers = await asyncio.gather(*(here.try_start() for _ in range(3)))
    assert [type(answer) for answer in answers] == [Started] * 3
    assert len(here.backend.query("select id from executions")) == 3


async def test_what_is_in_the_way_for_ever_makes_the_store_unavailable(here: Shop) -> None:
    await here.register()
    with refusing(here, "40001", 1_000), pytest.raises(StoreUnavailable, match="at the same time"):
        await here.start()
    assert here.backend.query("select id from executions") == []
    await here.run_to_end()


async def test_a_row_that_is_held_for_too_long_holds_up_nobody_else(here: Shop) -> None:
    await here.register()
    ids = [await here.start() for _ in range(2)]
    leases = {granted.execution.id: granted for granted in await here.claim(max=2)}
    statement = f"begin; select 1 from executions where id = '{ids[0]}' for update"
    with postgres.holding(database_of(here).url, statement):
        calls = [here.store.submit(complete(leases[id_])) for id_ in ids]
        held, free = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(held, StoreUnavailable)
        assert not isinstance(free, BaseException)
        assert isinstance(free[0], Told)
        assert await here.claim(max=9) == []
    assert isinstance(await here.complete(leases[ids[0]]), Told)


async def test_a_claim_passes_over_what_another_daemon_has_in_hand(here: Shop) -> None:
    await here.register()
    first, second = await here.start(), await here.start()
    statement = f"begin; select 1 from executions where id = '{first}' for update"
    with postgres.holding(database_of(here).url, statement):
        assert (await here.claim_one(max=9)).execution.id == second
    assert (await here.claim_one(max=9)).execution.id == first


async def test_two_stores_at_once_deal_no_step_twice(here: Shop) -> None:
    other = here.backend.make(here.settings, here.clock)
    opening = asyncio.create_task(other.open())
    assert here.store.alone
    await here.store.admit_others()
    await opening
    assert not other.alone
    twin = Shop.__new__(Shop)
    twin.__dict__.update(here.__dict__, store=other)
    await here.register()
    try:
        for _ in range(40):
            await here.start()
        found = await asyncio.gather(*(shop.claim(max=3) for _ in range(8) for shop in (here, twin)))
        given = [granted.execution.id for leases in found for granted in leases]
        given += [granted.execution.id for granted in await here.claim(max=40)]
        assert len(given) == len(set(given)) == 40
    finally:
        await other.close()


async def test_callers_that_go_away_leave_no_transaction_open(here: Shop) -> None:
    await here.register()
    id_ = await here.start()
    for number in range(20):
        calls = [
            asyncio.create_task(call)
            for call in (here.try_start(), here.view(id_), here.store.pulse(), here.store.counts())
        ]
        for _ in range(number % 5):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    assert await here.status(id_) == "queued"
    await here.run_to_end()
    assert count(here, OPEN_TRANSACTIONS) == 0


async def test_many_reads_at_once_share_few_connections(here: Shop) -> None:
    await here.register()
    id_ = await here.start()
    await asyncio.gather(*(here.view(id_) for _ in range(100)))
    assert count(here, CONNECTIONS) <= POOL_SIZE + 2


async def test_a_commit_that_is_not_answered_has_everybody_look(here: Shop) -> None:
    await here.register()
    here.backend.query(
        "create function refuse_commit() returns trigger language plpgsql as $$ begin "
        "perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(1); return new; end $$"
    )
    here.backend.query(
        "create constraint trigger refuse_commit after insert on executions deferrable initially deferred "
        "for each row execute function refuse_commit()"
    )
    with pytest.raises(StoreUnavailable):
        await here.start()
    assert here.told[-1].everything
    here.backend.query("drop function refuse_commit() cascade")
    assert here.backend.query("select id from executions") == []
    await here.run_to_end()


async def test_starts_of_one_id_stand_once(here: Shop) -> None:
    await here.register()
    one = start()
    answers = await asyncio.gather(*(here.store.submit(Begin(one, None)) for _ in range(2)), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["UniqueViolationError", "list"]
    assert await here.store.standing(one.id, EVERYTHING) is not None


async def test_a_server_that_is_not_there_may_come(here: Shop) -> None:
    store = PostgresStore("postgresql://u:hush@127.0.0.1:1/x", Settings())
    with pytest.raises(StoreUnavailable, match="can't be reached") as unavailable_now:
        await store.open()
    assert not any(word in str(unavailable_now.value) for word in ("hush", "127.0.0.1"))
    await store.close()


@pytest.mark.parametrize(
    ("replaced", "by", "says"),
    [
        (":stepd_daemon@", ":wrong@", "does not let this user in"),
        ("//stepd_daemon:", "//nobody_we_know:", "does not let this user in"),
        ("/stepd_", "/nothing_", "no such database"),
        ("@127.0.0.1:", "@127.0.0.1:x", "makes no sense"),
    ],
)
async def test_what_will_never_do_is_refused_without_its_password(
    here: Shop, replaced: str, by: str, says: str
) -> None:
    if postgres.own_server() is not None:
        pytest.skip("the roles are those of the tests' own server")
    url = by.join(database_of(here).daemon_url.rsplit(replaced, 1))
    store = PostgresStore(url, Settings())
    with pytest.raises(StoreRefused, match=says) as refused:
        await store.open()
    assert ":stepd_daemon@" not in str(refused.value)
    await store.close()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (asyncpg.SerializationError, Contended, "at the same time"),
        (asyncpg.DeadlockDetectedError, Contended, "another order"),
        (asyncpg.LockNotAvailableError, Locked, "too long"),
        (asyncpg.QueryCanceledError, StoreUnavailable, "too long"),
        (asyncpg.ReadOnlySQLTransactionError, Broken, "read-only"),
        (asyncpg.AdminShutdownError, Broken, "stopped"),
        (asyncpg.CannotConnectNowError, Broken, "started"),
        (asyncpg.TooManyConnectionsError, Broken, "no connection left"),
        (asyncpg.DiskFullError, StoreUnavailable, "disk"),
        (asyncpg.ConnectionDoesNotExistError, Broken, "lost"),
        (asyncpg.InterfaceError, Broken, "lost"),
        (ConnectionRefusedError, Broken, "reached"),
        (TimeoutError, Silent, "does not answer"),
        (asyncpg.UniqueViolationError, None, ""),
        (asyncpg.SyntaxOrAccessError, None, ""),
        (asyncpg.DataError, None, ""),
    ],
)
def test_errors_are_told_apart_by_their_codes(
    error: type[Exception], kind: type[StoreUnavailable] | None, text: str
) -> None:
    told = unavailable(error("whatever it says"))
    assert type(told) is (type(None) if kind is None else kind)
    assert text in str(told)


@pytest.mark.parametrize("text", ["", "plain", "a\0b", "\0", "\uf8f0", "\uf8f00", "\uf8f01\0", "\0\uf8f0\0"])
def test_any_text_can_be_held(text: str) -> None:
    assert "\0" not in to_text(text)
    assert from_text(to_text(text)) == text
