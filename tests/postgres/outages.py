"""Ways in which PostgreSQL can't be had for a while; each is a `with` block, after which it can again."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from tests.postgres.relay import Relay
from tests.support.postgres import Cluster, query

WRITES = "?default_transaction_read_only=off"
BACKENDS = "select pid from pg_stat_activity where application_name like 'stepd%'"


class Server(Struct, frozen=True):
    """A server of the test's own, a database in it, and the network before it."""

    cluster: Cluster
    relay: Relay
    name: str
    url: str
    """Of the database, for a daemon, through the network."""

    def query(self, statement: str) -> list[tuple[object, ...]]:
        """Runs a statement as the superuser, past the network."""
        return query(self.cluster.url(self.name) + WRITES, statement)

    def terminate(self, condition: str = "true") -> int:
        """Ends the connections of daemons for which the condition holds; how many there were."""
        return len(self.query(f"select pg_terminate_backend(pid) from ({BACKENDS} and {condition}) as theirs"))


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """The server is stopped at once, as its machine would be, and started again."""
    server.cluster.stop()
    try:
        yield
    finally:
        server.cluster.start()


@contextmanager
def read_only(server: Server) -> Iterator[None]:
    """It takes no writes, as a standby."""
    server.query("alter system set default_transaction_read_only = on")
    server.query("select pg_reload_conf()")
    try:
        yield
    finally:
        server.query("alter system reset default_transaction_read_only")
        server.query("select pg_reload_conf()")


@contextmanager
def silent(server: Server) -> Iterator[None]:
    """Nothing passes the network, and nobody is told so."""
    server.relay.silence()
    try:
        yield
    finally:
        server.relay.mend()
