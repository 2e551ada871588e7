"""Owns what a daemon checks and does with its store before it serves, and why it may refuse to start."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from stepd.engine import work
from stepd.settings import Settings
from stepd.signals import StopSignals
from stepd.store.base import Store, StoreUnavailable
from stepd.store.postgres.address import is_postgres, without_secrets
from stepd.store.sqlite import SqliteStore

T = TypeVar("T")

RETRY_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class StartRefused(Exception):
    """The daemon can't start with these settings; `str()` of it says why and the way out."""


class StopAsked(Exception):
    """A signal came before the daemon served."""


def make_store(settings: Settings) -> Store:
    """The store that the database's URL names, not yet open. Raises StartRefused."""
    if is_postgres(settings.database):
        # Imported only here: a daemon on a file need not load the driver.
        from stepd.store.postgres.store import PostgresStore

        return PostgresStore(settings.database, _for_engine(settings), allow_owner_role=settings.allow_owner_role)
    return SqliteStore(sqlite_file(settings), _for_engine(settings))


def sqlite_file(settings: Settings) -> Path:
    """The file that the database's URL names, which may not be there yet. Raises StartRefused."""
    scheme, mark, rest = settings.database.partition("://")
    if mark and scheme == "sqlite":
        return _file(rest, settings.database)
    if is_postgres(settings.database):
        raise StartRefused(f"--database {without_secrets(settings.database)}: PostgreSQL is no file.")
    raise StartRefused(
        f"--database {settings.database}: no such kind of database; use sqlite:///relative/file.db, "
        "sqlite:////absolute/file.db or postgresql://user@host/database."
    )


def check_certificate(settings: Settings) -> None:
    """Raises StartRefused where the TLS files can't be used."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password=_no_password)
    except (OSError, ValueError) as fault:
        raise StartRefused(
            f"--tls-certificate {settings.tls_certificate} with --tls-key {settings.tls_key}: {fault}; both must be "
            "PEM files that this user may read, the key without a password and the certificate's own."
        ) from None


async def until_available(signals: StopSignals, what: str, act: Callable[[], Awaitable[T]]) -> T:
    """What `act` answers, tried again while the store is away. Raises StopAsked."""
    while not signals.asked.is_set():
        try:
            return await act()
        except StoreUnavailable as fault:
            _log.warning("%s: the store is away: %s", what, fault)
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await signals.asked.wait()
        except TimeoutError:
            pass
    raise StopAsked


async def share_settings(store: Store, settings: Settings) -> str:
    """Shares the settings with the store's other daemons, and says where theirs differ; answers the service's name.

    The first daemon on a store gives the name. Raises StoreUnavailable.
    """
    ours = settings.shared()
    standing = msgspec.json.decode(await store.share_settings(ours))
    for name, theirs, own in differences(standing, msgspec.json.decode(ours)):
        _log.warning("%s is %s here, and %s in the settings that the store's daemons share", name, own, theirs)
    return str(standing.get("name", settings.name))


def differences(standing: dict[str, Any], ours: dict[str, Any]) -> list[tuple[str, str, str]]:
    """`(name, theirs, ours)` of each setting that differs."""
    found: list[tuple[str, str, str]] = []
    for name in sorted({*standing, *ours}):
        theirs, own = standing.get(name), ours.get(name)
        if isinstance(theirs, dict) and isinstance(own, dict):
            found += differences(theirs, own)
        elif theirs != own:
            found.append((name, _written(theirs), _written(own)))
    return found


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _no_password() -> str:
    """Keeps OpenSSL from asking at the terminal."""
    raise ValueError("the key has a password")


def _file(rest: str, url: str) -> Path:
    path = rest.removeprefix("/")
    if rest == path or not path or "?" in path:
        raise StartRefused(f"--database {url}: name a file, like sqlite:///stepd.db or sqlite:////var/lib/stepd.db.")
    file = Path(path)
    if not file.parent.is_dir():
        raise StartRefused(f"--database {url}: there is no directory {file.parent.absolute()}; make it first.")
    if file.is_dir():
        raise StartRefused(f"--database {url}: {file.absolute()} is a directory; name a file in it.")
    return file


def _for_engine(settings: Settings) -> work.Settings:
    """The part of the settings that the rules depend on, in their units."""
    return work.Settings(
        lease_ms=_ms(settings.lease_seconds),
        heartbeat_ms=_ms(settings.heartbeat_seconds),
        reclaim_ms=_ms(settings.reclaim_seconds),
        retention_ms=_ms(settings.retention_seconds),
        usage_retention_ms=_ms(settings.usage_retention_seconds),
        input_bytes=settings.limits.input_bytes,
        output_bytes=settings.limits.output_bytes,
        state_bytes=settings.limits.state_bytes,
        foreach_outputs_bytes=settings.limits.foreach_outputs_bytes,
        piece_ms=_ms(settings.span_seconds),
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
