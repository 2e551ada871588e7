"""What a daemon's role may do in PostgreSQL, and which roles and schemas it refuses to serve with."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import Any

import asyncpg
import pytest
from msgspec import Struct

from stepd.store.base import StoreRefused
from stepd.store.postgres import roles, standing
from stepd.store.postgres.address import without_secrets
from stepd.store.postgres.migrating import migrate
from stepd_migrations import HEAD, run
from tests.support.postgres import OWNER, Database, cluster, cluster_database, query, wait_for

YEAR_MS = 365 * 86_400_000
_numbers = count(1)


class Place(Struct, frozen=True):
    """A database with the newest schema, and a role that was let do what a daemon needs."""

    database: Database
    role: str

    def as_owner(self, statement: str) -> list[tuple[Any, ...]]:
        return self.database.query(statement)

    def as_superuser(self, statement: str) -> list[tuple[Any, ...]]:
        return query(cluster().url(self.database.name), statement)

    def as_daemon(self, statement: str) -> list[tuple[Any, ...]]:
        return query(self.url, statement)

    @property
    def url(self) -> str:
        return cluster().url(self.database.name, self.role)

    def check(self, *, allow_owner: bool = False, url: str | None = None) -> None:
        """As a daemon does before it serves."""
        wait_for(_on(url or self.url, lambda connection: roles.check_role(connection, allow_owner=allow_owner)))


@pytest.fixture(scope="module")
def shared() -> Iterator[Place]:
    """For tests that leave the database as it is."""
    role = make_role()
    with cluster_database() as database:
        wait_for(migrate(database.url, role))
        yield Place(database, role)


@pytest.fixture
def place(shared: Place) -> Place:
    """For tests that change what a role may do."""
    role = make_role()
    wait_for(_on(shared.database.url, lambda connection: roles.grant(connection, role)))
    return Place(shared.database, role)


@pytest.fixture
def own_place() -> Iterator[Place]:
    """For tests that change the database."""
    role = make_role()
    with cluster_database() as database:
        wait_for(migrate(database.url, role))
        yield Place(database, role)


def make_role() -> str:
    name = f"daemon_{next(_numbers)}"
    query(cluster().url(), f"create role {name} login password '{name}'")
    return name


def test_every_table_and_function_of_the_schema_is_granted_on_purpose(shared: Place) -> None:
    tables = shared.as_owner("select tablename from pg_tables where schemaname = current_schema()")
    assert sorted(roles.TABLES) == sorted(name for (name,) in tables), "roles.py says who may do what with each table"
    functions = shared.as_owner(
        "select replace(oid::regprocedure::text, ',', ', ') from pg_proc "
        "where pronamespace = current_schema()::regnamespace and prorettype <> 'trigger'::regtype"
    )
    assert sorted(roles.FUNCTIONS) == sorted(name for (name,) in functions)


def test_a_granted_role_is_taken(own_place: Place) -> None:
    own_place.check()
    own_place.as_daemon("insert into audit (at, principal, action, object, outcome) values (1, 'p', 'a', 'o', 'done')")
    own_place.as_daemon("insert into pulse values (1, 5)")
    own_place.as_daemon("update pulse set at = 6")
    assert own_place.as_daemon("select id from audit") == [(1,)]


@pytest.mark.parametrize(
    "statement",
    [
        "update audit set principal = 'q'",
        "delete from audit",
        "truncate audit",
        "update audit_retention set kept_from = 9",
        "update ledger set operator = 'q'",
        "delete from ledger",
        "update events set type = 'x'",
        "delete from events",
        "update alembic_version set version_num = '9'",
        "create table mine (x int)",
        "drop table events",
        "alter table audit disable trigger all",
        "create or replace function store_ms() returns bigint language sql as 'select 1'",
    ],
)
def test_a_granted_role_cannot_change_what_it_has_done(shared: Place, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        shared.as_daemon(statement)


def test_the_journal_goes_with_its_execution_only(place: Place) -> None:
    columns = place.as_owner(
        "select column_name, data_type from information_schema.columns "
        "where table_name = 'executions' and table_schema = current_schema() and is_nullable = 'NO'"
    )
    filler = {"bigint": "0", "boolean": "false", "bytea": "''", "text": "'x'"}
    names, values = ", ".join(name for name, _ in columns), ", ".join(filler[kind] for _, kind in columns)
    place.as_daemon(f"insert into executions ({names}) values ({values})")
    place.as_daemon("insert into events select 'x', n, 1, 't', null, null, null, null, '' from generate_series(1, 5) n")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="stays"):
        place.as_daemon("select remove_events('x', 10)")
    place.as_daemon("delete from executions")
    assert place.as_daemon("select remove_events('x', 3)") == [(3,)]
    assert place.as_daemon("select remove_events('x', 3)") == [(2,)]


def test_audit_rows_of_the_last_year_stay_whatever_a_daemon_asks(own_place: Place) -> None:
    own_place.as_daemon(
        "insert into audit (at, principal, action, object, outcome) "
        f"select store_ms() - {YEAR_MS} + at, 'p', 'a', at::text, 'done' "
        "from unnest('{-90000, -80000, 90000}'::int[]) at"
    )
    assert own_place.as_daemon("select remove_audit(9223372036854775807, 1)") == [(1,)]
    assert own_place.as_daemon("select remove_audit(store_ms(), 10)") == [(1,)]
    assert own_place.as_daemon("select remove_audit(store_ms(), 10)") == [(0,)]
    assert own_place.as_daemon("select object from audit") == [("90000",)]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("grant update (principal) on audit to {role}", "can update in the table audit"),
        ("grant delete on ledger to {role}", "can delete in the table ledger"),
        ("grant delete on events to {role}", "can delete in the table events"),
        ("grant create on schema public to {role}", "can create in the schema public"),
        ("grant " + OWNER + " to {role}", "owns the table"),
        ("alter role {role} superuser", "is a superuser"),
    ],
)
def test_a_role_that_can_do_more_is_refused(place: Place, statement: str, says: str) -> None:
    place.as_superuser(statement.format(role=place.role))
    with pytest.raises(StoreRefused, match=rf"{place.role} {says}.*stepd migrate .*--runtime-role.*--allow-owner-role"):
        place.check()
    place.check(allow_owner=True)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("revoke insert on events from {role}", "insert in the table events"),
        ("revoke update on steps from {role}", "update in the table steps"),
        ("revoke execute on function remove_audit(bigint, bigint) from {role}", "call the function remove_audit"),
        ("revoke usage on sequence audit_id_seq from {role}", "number the rows of the table audit"),
    ],
)
def test_a_role_that_can_do_less_is_refused(place: Place, statement: str, says: str) -> None:
    place.as_superuser(statement.format(role=place.role))
    for allow_owner in (False, True):
        with pytest.raises(StoreRefused, match=says):
            place.check(allow_owner=allow_owner)


def test_what_a_role_was_granted_beyond_is_taken_back(place: Place) -> None:
    place.as_owner(f"grant all on all tables in schema public to {place.role}")
    wait_for(migrate(place.database.url, place.role))
    place.check()


def test_roles_that_cannot_be_a_daemons_get_nothing(own_place: Place) -> None:
    with pytest.raises(StoreRefused, match=r'there is no such role.*create role "no one"'):
        wait_for(migrate(own_place.database.url, "no one"))
    with pytest.raises(StoreRefused, match=f"{OWNER}: it owns the table"):
        wait_for(migrate(own_place.database.url, OWNER))
    other = make_role()
    own_place.as_superuser("grant create on schema public to public")
    with pytest.raises(StoreRefused, match=r"can create in the schema.*revoke create on schema public from public"):
        wait_for(migrate(own_place.database.url, other))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        query(cluster().url(own_place.database.name, other), "select * from pulse")


def test_a_schema_that_is_not_this_programs_is_refused(own_place: Place) -> None:
    own_place.as_owner("update alembic_version set version_num = '0001'")
    with pytest.raises(StoreRefused, match=f"version 0001, and this stepd needs {HEAD}.*stepd migrate --database"):
        check_schema(own_place.url)
    own_place.as_owner("update alembic_version set version_num = '9999'")
    with pytest.raises(StoreRefused, match=f"9999, and this stepd knows up to {HEAD}"):
        check_schema(own_place.url)
    with pytest.raises(StoreRefused, match=f"9999, and this stepd knows up to {HEAD}"):
        wait_for(migrate(own_place.database.url, None))


def test_a_database_without_a_schema_of_stepd_is_refused() -> None:
    with cluster_database(empty=True) as database:
        with pytest.raises(StoreRefused, match=r"no schema of stepd yet.*stepd migrate --database"):
            check_schema(database.url)
        with pytest.raises(StoreRefused, match=r"no schema for this role.*\?search_path=NAME"):
            check_schema(f"{database.url}?search_path=nowhere")
        database.query("create table theirs (x int)")
        with pytest.raises(StoreRefused, match="is another program's"):
            wait_for(migrate(database.url, None))
        database.query("create schema ours")
        assert wait_for(migrate(f"{database.url}?search_path=ours", None)) is None
        check_schema(f"{database.url}?search_path=ours")
        assert database.query("select count(*) from pg_tables where schemaname = 'public'") == [(1,)]


def test_an_old_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "OLDEST", 99)
    with pytest.raises(StoreRefused, match=rf"PostgreSQL {cluster().version}.*99 or newer"):
        wait_for(_on(cluster().url(), standing.check_server))


def test_tables_that_somebody_uses_are_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def migrate_beside_a_reader(url: str) -> None:
        reader = await asyncpg.connect(url)
        try:
            async with reader.transaction():
                await reader.fetch("select * from steps")
                await migrate(url, None)
        finally:
            await reader.close()

    monkeypatch.setattr(run, "LOCK_WAIT", "50ms")
    with cluster_database(empty=True) as database:
        wait_for(run.upgrade_postgres(database.url, "0001"))
        with pytest.raises(StoreRefused, match=r"Somebody uses the tables.*stop the daemons.*Nothing was changed"):
            wait_for(migrate_beside_a_reader(database.url))
        assert database.query("select version_num from alembic_version") == [("0001",)]


def test_what_an_older_schema_held_is_still_there_after_going_up() -> None:
    with cluster_database(empty=True) as database:
        wait_for(run.upgrade_postgres(database.url, "0001"))
        database.query("insert into ledger values ('a', 'x', 10, 'p', 'k', 'h', '', '')")
        assert wait_for(migrate(database.url, None)) == "0001"
        assert database.query("select id, operator from ledger") == [("a", "p")]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:hush@host:5432/db", "postgresql://u:…@host:5432/db"),
        ("postgresql://u:hu@sh@host/db", "postgresql://u:…@host/db"),
        ("postgresql://u:hu/sh@host/db", "postgresql://u:…@host/db"),
        ("postgresql://u:hu?sh@host/db", "postgresql://…"),
        ("postgresql://host/db?password=hush&search_path=a", "postgresql://host/db?password=…&search_path=a"),
        ("postgresql://host/db?sslmode=verify-full", "postgresql://host/db?sslmode=verify-full"),
        ("postgresql:///db", "postgresql:///db"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


def check_schema(url: str) -> None:
    wait_for(_on(url, standing.check_schema))


async def _on(url: str, act: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    connection = await asyncpg.connect(url)
    try:
        await act(connection)
    finally:
        await connection.close()
