"""Examines the database's file: whether it can be used, whether it is whole, who has it. Only ever reads."""

import os
import shutil
from pathlib import Path
from typing import Final

from stepd.doctor.database import ANOTHER, MIB, NOBODY, Database, Holding, pulse_finding, schema_finding, shown_size
from stepd.doctor.findings import Finding, ok, warning, wrong
from stepd.settings import Settings
from stepd.starting import StartRefused, sqlite_file
from stepd.store.sqlite.connections import LOG_BYTES
from stepd.store.sqlite.holders import held
from stepd.store.sqlite.inspection import (
    CHECK_BESIDE_SECONDS,
    Unreadable,
    check_integrity,
    is_database,
    log_bytes,
    read_contents,
)
from stepd_migrations import HEAD

FREE_WRONG_BYTES: Final = 100 * MIB
FREE_LOW_BYTES: Final = 1024 * MIB
BESIDE: Final = ("-wal", "-shm", ".lock")

RESTORE: Final = "Stop the daemon and restore a copy, as docs/operations.md says."
BRING_UP: Final = "Serve and stepd migrate bring it up; take a copy before."
RIGHTS: Final = "Look at the owner and mode of file and directory, and at the mount; name another file with --database."


def examine_file(settings: Settings, now: int) -> Database:
    """Every check of the file. `now` in ms."""
    try:
        file = sqlite_file(settings).resolve()
        unusable = _rights(file)
        if unusable is not None:
            return Database([unusable], NOBODY)
        holder, free = _look(file), _free(file)
        if not file.exists() or file.stat().st_size == 0:
            return _empty(file, holder, free)
        if not is_database(file):
            return Database([wrong("database", f"{file} is no SQLite file", ANOTHER), free], holder)
        there = ok("database", f"{file}, {shown_size(file.stat().st_size)}")
    except StartRefused as refusal:
        return Database([wrong("database", str(refusal), "Serve refuses to start with it.")], NOBODY)
    except OSError as fault:
        return Database([wrong("database", f"{settings.database}: {fault.strerror}", RIGHTS)], NOBODY)
    return _whole(file, holder, [there, free, _held(holder)], now)


def _look(file: Path) -> Holding:
    found = held(file)
    return Holding(found.is_held, found.name, found.is_sure)


def _empty(file: Path, holder: Holding, free: Finding) -> Database:
    """No file, or one without anything in it."""
    if holder.is_held:
        return Database(
            [wrong("database", f"{file} is gone or empty, and {holder.name} has it", RESTORE), free], holder
        )
    return Database([ok("database", f"{file} is not there yet; serve makes it"), free], holder, is_new=True)


def _whole(file: Path, holder: Holding, findings: list[Finding], now: int) -> Database:
    """What is in a file that can be read at all. What a damaged one holds is not gone by."""
    try:
        contents = read_contents(file, HEAD, now, is_held=holder.is_held)
        findings = [*findings, schema_finding(contents, file, BRING_UP, by_itself=True)]
        if findings[-1].status == "ok":
            findings += [_log(file, holder), *([pulse_finding(contents, now)] if holder.is_held else ())]
        findings.append(_integrity(file, holder))
    except Unreadable as fault:
        return _settled(file, Database([*findings, _unread(file, fault)], holder))
    return _settled(file, Database(findings, holder, None if findings[-1].status == "wrong" else contents))


def _settled(file: Path, database: Database) -> Database:
    """The same; but what was read while a daemon began to write is not worth much."""
    if database.held.is_held or not (now := _look(file)).is_held:
        return database
    doubt = warning("database", f"{file} was taken by {now.name} while it was read", "Run stepd doctor again.")
    return Database([doubt], now)


def _rights(file: Path) -> Finding | None:
    """What is missing to use the file and those beside it; None where nothing is. Raises OSError."""
    for path in (file, *(file.with_name(f"{file.name}{end}") for end in BESIDE)):
        for mode, word in ((os.R_OK, "read"), (os.W_OK, "written")):
            if path.exists() and not os.access(path, mode):
                return wrong("database", f"{path} can't be {word} by this user", RIGHTS)
    if not os.access(file.parent, os.W_OK | os.X_OK):
        return wrong("database", f"no files can be made by this user in {file.parent}, where the log goes", RIGHTS)
    return None


def _free(file: Path) -> Finding:
    free = shutil.disk_usage(file.parent).free
    said = f"{shown_size(free)} free on the disk of {file.parent}"
    if free < FREE_WRONG_BYTES:
        return wrong("disk", said, "Make room: when nothing is left, every call is answered 503.")
    if free < FREE_LOW_BYTES:
        return warning("disk", said, "Make room, or shorten --retention-seconds.")
    return ok("disk", said)


def _held(holder: Holding) -> Finding:
    if holder.is_held:
        return ok("holder", holder.name)
    if not holder.is_sure:
        return warning(
            "holder",
            f"nobody that can be seen from here; the last one was {holder.name}",
            "Run stepd doctor there: whether it still runs can't be seen from here.",
        )
    return ok("holder", "no daemon has the file")


def _integrity(file: Path, holder: Holding) -> Finding:
    is_free = not holder.is_held and holder.is_sure
    damages = check_integrity(file, is_held=holder.is_held, seconds=None if is_free else CHECK_BESIDE_SECONDS)
    if damages is None:
        return warning(
            "integrity",
            f"no damage seen in {CHECK_BESIDE_SECONDS:g} s, and not everything was looked at, to spare the daemon",
            "Check a copy, or stop the daemon and run stepd doctor again.",
        )
    if damages:
        return wrong("integrity", f"{file} is damaged: {'; '.join(damages)}", RESTORE)
    return ok("integrity", "the file is whole")


def _unread(file: Path, fault: Unreadable) -> Finding:
    if fault.is_damaged:
        return wrong("integrity", f"{file} is damaged: {fault}", RESTORE)
    return warning("database", f"{file} was not looked into: {fault}", "Run stepd doctor again in a moment.")


def _log(file: Path, holder: Holding) -> Finding:
    size = log_bytes(file)
    said = f"the write-ahead log has {shown_size(size)}"
    if size > LOG_BYTES and holder.is_held:
        return warning("log", said, "Something reads the file for very long, such as a shell or a backup: end it.")
    return ok("log", said)
