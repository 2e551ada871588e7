"""Examines a PostgreSQL database: whether it can be reached and used by this role, and who serves from it."""

import asyncio
from typing import Final

from stepd.doctor.database import NOBODY, Database, Holding, pulse_finding, schema_finding, shown_size
from stepd.doctor.findings import Finding, counted, ok, warning, wrong
from stepd.settings import Settings
from stepd.store.base import StoreRefused
from stepd.store.postgres.address import without_secrets
from stepd.store.postgres.inspection import Seen, Unreadable, look
from stepd_migrations import HEAD

SPARE_CONNECTIONS: Final = 8
"""What one more daemon takes."""
CLOCKS_APART_MS: Final = 5_000

REACH: Final = "Look at the URL, the server and the network between; serve does not start while it is so."
REFUSES: Final = "Serve refuses to start with it."
BRING_UP: Final = "Bring it up with stepd migrate, as the owner of the schema; take a copy before."
MORE: Final = "Raise max_connections, or close what needs none: each daemon takes up to 8."


def examine_postgres(settings: Settings, now: int) -> Database:
    """Every check of the database. `now`: this machine's clock, ms."""
    where = without_secrets(settings.database)
    try:
        seen = asyncio.run(look(settings.database, HEAD, allow_owner=settings.allow_owner_role))
    except Unreadable as fault:
        return Database([wrong("database", f"{where}: {fault}", REACH)], NOBODY)
    except StoreRefused as refusal:
        return Database([wrong("database", str(refusal), REFUSES)], NOBODY)
    findings = [
        ok("database", f"{where}, {shown_size(seen.size)} on PostgreSQL {seen.server}"),
        _connections(seen),
        _clock(seen, now),
    ]
    is_new = seen.contents.version is None
    if seen.contents.version != HEAD:
        findings.append(schema_finding(seen.contents, where, BRING_UP, by_itself=False))
        return Database(findings, NOBODY, is_new=is_new, now=seen.now)
    if seen.role_refused is not None:
        return Database([*findings, wrong("role", seen.role_refused, REFUSES)], NOBODY, now=seen.now)
    holding = Holding(seen.daemons > 0, counted(seen.daemons, "daemon", "daemons"))
    findings += [
        ok("role", "it can do what a daemon needs" + ("" if settings.allow_owner_role else ", and no more")),
        ok("holder", f"{holding.name} at work" if holding.is_held else "no daemon serves from it"),
        schema_finding(seen.contents, where, BRING_UP, by_itself=False),
        *([pulse_finding(seen.contents, seen.now)] if holding.is_held else ()),
    ]
    return Database(findings, holding, seen.contents, now=seen.now)


def _connections(seen: Seen) -> Finding:
    said = f"{seen.connections} of {seen.connections_max} connections of the server are in use"
    if seen.connections_max - seen.connections < SPARE_CONNECTIONS:
        return warning("connections", said, MORE)
    return ok("connections", said)


def _clock(seen: Seen, now: int) -> Finding:
    apart = (seen.now - now) / 1000
    if abs(apart) * 1000 > CLOCKS_APART_MS:
        way = "ahead of" if apart > 0 else "behind"
        return warning(
            "store-clock",
            f"the server's clock is {abs(apart):.0f} s {way} this machine's",
            "Have both set by a time server; leases and time-outs go by the server's.",
        )
    return ok("store-clock", "the server's clock goes as this machine's")
