"""Sign-ins to the page."""

from __future__ import annotations

import sqlite3
from typing import Final

from msgspec.structs import astuple

from stepd.engine.model import Audit
from stepd.store.records import SignInRow
from stepd.store.sqlite.records import audit
from stepd.store.sqlite.rows import SIGN_INS
from stepd.store.sqlite.transaction import Transaction

FOUND: Final = f"{SIGN_INS.select} where id_hash = ?"
REMOVE: Final = "delete from sessions where id_hash = ?"


def sign_in(transaction: Transaction, row: SignInRow, audit_row: Audit) -> None:
    """Keeps a sign-in."""
    transaction.connection.execute(SIGN_INS.insert, astuple(row))
    audit(transaction, [audit_row])


def signed_in(connection: sqlite3.Connection, id_hash: str) -> SignInRow | None:
    """The sign-in, also where its time is over."""
    values = connection.execute(FOUND, (id_hash,)).fetchone()
    return None if values is None else SIGN_INS.read(values)


def sign_out(transaction: Transaction, id_hash: str) -> None:
    """Ends a sign-in, if it is there."""
    transaction.connection.execute(REMOVE, (id_hash,))
