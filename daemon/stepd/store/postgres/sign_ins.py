"""Sign-ins to the page."""

from __future__ import annotations

from typing import Final

from stepd.engine.model import Audit
from stepd.store.postgres.connections import Session
from stepd.store.postgres.records import write_audit
from stepd.store.postgres.tables import SIGN_INS
from stepd.store.records import SignInRow

FOUND: Final = f"{SIGN_INS.select} where id_hash = $1"
REMOVE: Final = "delete from sessions where id_hash = $1"


async def sign_in(session: Session, row: SignInRow, audit: Audit) -> None:
    """Keeps a sign-in."""
    await session.execute(SIGN_INS.insert, *SIGN_INS.lists([row]))
    await write_audit(session, [audit])


async def signed_in(session: Session, id_hash: str) -> SignInRow | None:
    """The sign-in, also where its time is over."""
    values = await session.fetchrow(FOUND, id_hash)
    return None if values is None else SIGN_INS.read(values)


async def sign_out(session: Session, id_hash: str) -> None:
    """Ends a sign-in, if it is there."""
    await session.execute(REMOVE, id_hash)
