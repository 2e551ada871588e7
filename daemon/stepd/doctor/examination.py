"""Owns the examination as a whole: which checks there are, and their order."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stepd.clock import SystemClock
from stepd.doctor.configuration import (
    examine_access,
    examine_address,
    examine_keys,
    examine_settings,
    examine_tls,
)
from stepd.doctor.database import Database
from stepd.doctor.file import examine_file
from stepd.doctor.findings import Finding, warning
from stepd.doctor.queue import examine_queue
from stepd.doctor.running import examine_running
from stepd.doctor.variables import examine_variables
from stepd.settings import Settings
from stepd.starting import differences
from stepd.store.postgres.address import is_postgres

NO_SETTINGS: Final = b"{}"


def examine(
    flags: Mapping[str, Any], environment: Mapping[str, str], url: str | None, key: str | None
) -> list[Finding]:
    """Every finding, in the order in which a person would look. Writes nothing anywhere."""
    now = SystemClock().now()
    settings, findings = examine_settings(flags, environment)
    keys, of_keys = examine_keys(environment)
    database = _database(settings, now)
    now = database.now or now
    findings += [*examine_variables(environment), *of_keys]
    stored = _stored_keys(database)
    if stored is not None and of_keys[0].status == "ok":
        findings += examine_access(settings, keys, stored)
    findings += [*examine_address(settings), *examine_tls(settings), *database.findings]
    contents = database.contents
    findings += _shared(settings, database)
    findings += examine_running(url, key, database.held, contents.service if contents else None)
    if contents is not None and contents.service is not None:
        findings += examine_queue(contents, now, is_held=database.held.is_held)
    return findings


def _database(settings: Settings, now: int) -> Database:
    if not is_postgres(settings.database):
        return examine_file(settings, now)
    # Imported only here: who has a file need not load the driver.
    from stepd.doctor.postgres import examine_postgres

    return examine_postgres(settings, now)


def _stored_keys(database: Database) -> tuple[int, int] | None:
    """How many keys the store has ever held, and how many live ones may administer; None where that isn't known."""
    if database.is_new:
        return 0, 0
    return None if database.contents is None else (database.contents.keys, database.contents.admins)


def _shared(settings: Settings, database: Database) -> list[Finding]:
    """Settings in which this configuration differs from what the store's daemons share."""
    service = None if database.contents is None else database.contents.service
    if service is None or service.settings == NO_SETTINGS:
        return []
    told = differences(msgspec.json.decode(service.settings), msgspec.json.decode(settings.shared()))
    return [
        warning(
            "shared",
            f"{name} is {own} here, and {theirs} in the settings that the store's daemons share",
            "Give all daemons on one store the same.",
        )
        for name, theirs, own in told
    ]
