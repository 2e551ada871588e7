"""What is known of a database once it was examined, and what is found in the same way on every store."""

from typing import Final

from msgspec import Struct

from stepd.doctor.findings import Finding, ok, warning, wrong
from stepd.store.contents import Contents
from stepd_migrations import HEAD

MIB: Final = 1_048_576
PULSE_STALE_MS: Final = 5_000
ANOTHER: Final = "Name another one with --database."


class Holding(Struct, frozen=True):
    """Whether daemons have the database, and which."""

    is_held: bool
    name: str
    """Of the daemons, for a person; without one, of the last that had it."""
    is_sure: bool = True
    """False where a holder could not be seen from here."""


NOBODY: Final = Holding(False, "")


class Database(Struct, frozen=True):
    """What is known of the database once it was examined."""

    findings: list[Finding]
    held: Holding
    contents: Contents | None = None
    """None where there is nothing to read, or it can't be read."""
    is_new: bool = False
    """There is no database yet, or an empty one."""
    now: int | None = None
    """The time of the database's own clock, ms; None where it has none."""


def schema_finding(contents: Contents, where: object, bring_up: str, *, by_itself: bool) -> Finding:
    """Whether this program can use the schema; `by_itself`: a start brings an older one up."""
    if contents.version == HEAD:
        return ok("schema", f"version {HEAD}, which is this program's")
    if contents.version is None and contents.tables:
        return wrong("schema", f"{where} is a database of another program", ANOTHER)
    if contents.version is None or contents.version < HEAD:
        told = warning if by_itself else wrong
        return told("schema", f"version {contents.version or 'none'}, older than this program's {HEAD}", bring_up)
    return wrong(
        "schema",
        f"version {contents.version}, newer than this program's {HEAD}",
        "Install a stepd that is as new as the one that wrote it.",
    )


def pulse_finding(contents: Contents, now: int) -> Finding:
    """Whether a daemon that has the database moves at all. `now` in ms."""
    age = now - (contents.service.pulse_at if contents.service else 0)
    if age > PULSE_STALE_MS:
        return wrong(
            "pulse",
            "a daemon has the database and none has moved the pulse for more than 5 s",
            "Look at its log and at the machine's load; it may be stopped, or its store away.",
        )
    return ok("pulse", "the daemons keep time with their database")


def shown_size(count: int) -> str:
    """A number of bytes for a person."""
    if count < MIB:
        return f"{count / 1024:,.0f} KiB"
    return f"{count / MIB:,.0f} MiB" if count < 10 * 1024 * MIB else f"{count / MIB / 1024:,.0f} GiB"
