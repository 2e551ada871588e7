"""PostgreSQL for tests: a throw-away server of one's own a process, and a database for each test that asks.

With STEPD_TEST_POSTGRES the server is the one that it names. Its database's name must end in `_test`, and each test
gets a schema of its own there, which is dropped afterwards.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import asyncpg
from msgspec import Struct

from stepd.store.postgres.migrating import migrate
from stepd_migrations.run import upgrade_postgres

T = TypeVar("T")

OWN_SERVER: Final = "STEPD_TEST_POSTGRES"
OWNER: Final = "stepd_owner"
"""The role that tests migrate as: it owns the database, and is no superuser."""
DAEMON: Final = "stepd_daemon"
"""The role that tests serve as: it may do what a daemon needs."""
TEMPLATE: Final = "stepd_template"
ANSWER_SECONDS: Final = 60.0
EMPTY: Final = """
    do $$ declare name text; begin
        perform set_config('session_replication_role', 'replica', true);  -- append-only tables too
        for name in select proname from pg_proc where proname like 'refuse\\_%' loop
            execute format('drop function %I cascade', name);
        end loop;
        for name in select tablename from pg_tables where schemaname = 'public'
            and tablename not in ('alembic_version', 'audit_retention') loop
            execute format('delete from %I', name);
        end loop;
    end $$"""
_numbers = count(1)
_idle: list[Database] = []


class Cluster:
    """A throw-away server of this process; its programs, files and processes go with the process, however it ends."""

    def __init__(self, *, durable: bool = False) -> None:
        program = Path(__file__).with_name("cluster.py")
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", program, *(["durable"] if durable else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What ends the tests' process group lets the keeper clean up.
            start_new_session=True,
            text=True,
        )
        self._where = self._answer()
        atexit.register(self.close)

    @property
    def version(self) -> str:
        return str(self._where["version"])

    @property
    def pid(self) -> int:
        """The process that accepts connections, and is the parent of all others."""
        return int(self._where["pid"])

    @property
    def port(self) -> int:
        return int(self._where["port"])

    @property
    def programs(self) -> Path:
        """The directory of the server's programs."""
        return Path(self._where["bin"])

    @property
    def log(self) -> Path:
        """What the server says; its directory is the server's own."""
        return Path(self._where["log"])

    def url(self, database: str = "postgres", user: str | None = None, password: str | None = None) -> str:
        """Where the database is, for the superuser unless a user is named."""
        if user is None:
            user, password = str(self._where["user"]), str(self._where["password"])
        return f"postgresql://{user}:{password or user}@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        """Stops the server at once, as a crash of its machine would."""
        self._command("stop")

    def start(self) -> None:
        """Starts it again, on the same port and files."""
        self._where |= self._command("start")

    def close(self) -> None:
        """Ends the server and removes its files."""
        atexit.unregister(self.close)
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(ANSWER_SECONDS)
        self._keeper.stdout.close()

    def _command(self, word: str) -> dict[str, Any]:
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{word}\n")
        self._keeper.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._keeper.stdout is not None
        answer: dict[str, Any] = json.loads(self._keeper.stdout.readline() or '{"error": "it ended"}')
        assert "error" not in answer, f"no PostgreSQL for the tests: {answer['error']}"
        return answer


class Database(Struct, frozen=True):
    """A place for one test's data. Empty, or with the newest schema in it."""

    url: str
    """For the owner of the schema."""
    name: str
    """Of the database, or of the schema on a server of one's own."""
    daemon_url: str
    """For a daemon; on a server of one's own it is the owner's."""

    @property
    def superuser_url(self) -> str:
        """For who may end other roles' connections; on a server of one's own it is the owner's."""
        return cluster().url(self.name) if own_server() is None else self.url

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Runs one statement as the owner and commits; parameters are `$1`, `$2`, …"""
        return query(self.url, statement, *parameters)

    def drop(self) -> None:
        """Removes it, whoever is still connected."""
        if own_server() is None:
            query(cluster().url(), f"drop database if exists {self.name} with (force)")
        else:
            query(self.url, f"drop schema if exists {self.name} cascade")


@contextmanager
def database(*, empty: bool = False) -> Iterator[Database]:
    """A database for the length of a `with` block, with the newest schema in it unless it shall be empty."""
    made = make_database(empty=empty)
    try:
        yield made
    finally:
        made.drop()


def make_database(*, empty: bool = False) -> Database:
    """A database that its caller drops."""
    if (own := own_server()) is not None:
        return _own_schema(own, empty)
    return _copy(empty)


@contextmanager
def cluster_database(*, empty: bool = False) -> Iterator[Database]:
    """The same, but always in the throw-away server, where a test may make roles and be its superuser."""
    made = _copy(empty)
    try:
        yield made
    finally:
        query(cluster().url(), f"drop database if exists {made.name} with (force)")


def emptied_database() -> Database:
    """A database with the newest schema and nothing in it, which its caller gives back: it is used again and again."""
    made = _idle.pop() if _idle else make_database()
    if own_server() is None:
        query(cluster().url(made.name), EMPTY)
    return made


def give_back(database: Database) -> None:
    """Lets another test have the database."""
    if own_server() is None:
        _idle.append(database)
    else:
        database.drop()


@cache
def cluster() -> Cluster:
    """The throw-away server of this process, started on first use. Nobody stops it; for that make a `Cluster`."""
    server = Cluster()
    prepare(server)
    return server


def prepare(server: Cluster) -> None:
    """Gives a new server the role that owns the tests' databases."""
    query(server.url(), f"create role {OWNER} login createrole password '{OWNER}'")
    query(server.url(), f"create role {DAEMON} login password '{DAEMON}'")


@cache
def own_server() -> str | None:
    """The URL of one's own server, where the environment names one."""
    url = os.environ.get(OWN_SERVER) or None
    if url is not None:
        name = urlsplit(url).path.removeprefix("/")
        assert name.endswith("_test"), f"{OWN_SERVER}: the database {name!r} must have a name that ends in _test"
    return url


def query(url: str, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Runs one statement on a connection of its own and commits; also from within a running loop."""
    return wait_for(_query(url, statement, parameters))


def explain(url: str, statement: str) -> list[str]:
    """The lines of the plan that a statement has whatever its parameters are."""
    nulls = ", ".join(["null"] * max(map(int, re.findall(r"\$(\d+)", statement)), default=0))

    async def ask() -> list[str]:
        connection = await asyncpg.connect(url, server_settings={"plan_cache_mode": "force_generic_plan"})
        try:
            await connection.execute(f"prepare asked as {statement}")
            lines = await connection.fetch(f"explain (costs off) execute asked {f'({nulls})' if nulls else ''}")
            return [str(line) for (line,) in lines]
        finally:
            await connection.close()

    return wait_for(ask())


@contextmanager
def holding(url: str, statement: str) -> Iterator[None]:
    """A connection that has run one statement, and stays open for the length of a `with` block."""
    connection = wait_for(asyncpg.connect(url))
    try:
        wait_for(connection.execute(statement))
        yield
    finally:
        wait_for(connection.close())


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """What the coroutine comes to, on a loop beside the caller's."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result(ANSWER_SECONDS)


async def _query(url: str, statement: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        prepared = await connection.prepare(statement)
        return [tuple(row) for row in await prepared.fetch(*parameters)]
    finally:
        await connection.close()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="postgres of the tests", daemon=True)
    thread.start()

    def end() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_SECONDS)
        loop.close()

    atexit.register(end)
    return loop


def make_in(server: Cluster, name: str) -> Database:
    """A database with the newest schema in a server that was prepared."""
    query(server.url(), f"create database {name} template template0 owner {OWNER}")
    wait_for(migrate(server.url(name, OWNER), DAEMON))
    return Database(server.url(name, OWNER), name, server.url(name, DAEMON))


@cache
def _template() -> str:
    """A database with the newest schema, copied for each test: that is faster than the migrations."""
    return make_in(cluster(), TEMPLATE).name


def _copy(empty: bool) -> Database:
    server, name = cluster(), f"stepd_{next(_numbers)}"
    template = "template0" if empty else _template()
    query(server.url(), f"create database {name} template {template} strategy file_copy owner {OWNER}")
    return Database(server.url(name, OWNER), name, server.url(name, DAEMON))


def _own_schema(url: str, empty: bool) -> Database:
    name = f"stepd_{os.getpid()}_{next(_numbers)}"
    query(url, f"create schema {name}")
    mark = "&" if urlsplit(url).query else "?"
    place = f"{url}{mark}search_path={quote(name)}"
    made = Database(place, name, place)
    if not empty:
        wait_for(upgrade_postgres(made.url))
    return made
