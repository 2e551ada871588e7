"""The store on PostgreSQL, for one daemon or many."""

from stepd.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
