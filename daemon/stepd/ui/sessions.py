"""Who looks at the page: a key makes a session, and its cookie stands for the key until that is revoked."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stepd.keys import hash_secret
from stepd.service.audit import row_of
from stepd.service.base import Caller, Daemon
from stepd.store.records import SignInRow

SESSION_MS: Final = 12 * 3_600_000
SECRET_LENGTH_MAX: Final = 1_000
NAVIGATION: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("/ui", "Executions", ("read", "execute")),
    ("/ui/queue", "Operator", ("read",)),
    ("/ui/workers", "Workers", ("read",)),
    ("/ui/workflows", "Workflows", ("read",)),
    ("/ui/usage", "Usage", ("read",)),
    ("/ui/keys", "Keys", ("admin",)),
    ("/ui/audit", "Audit", ("admin",)),
)
"""Each page of the navigation, and the scopes of which one must be had."""


class Visitor(Struct, frozen=True):
    """A caller who was let in; every form of his pages bears ``csrf``."""

    caller: Caller
    csrf: str
    is_signed_in: bool
    """False in open mode, where nobody signs in."""

    @property
    def pages(self) -> tuple[tuple[str, str], ...]:
        """The paths and names of the pages that this key may see."""
        may = self.caller.may
        return tuple((path, name) for path, name, scopes in NAVIGATION if any(may(scope) for scope in scopes))


async def sign_in(daemon: Daemon, secret: str, remote: str | None) -> str | None:
    """The cookie's value for the key with this secret; None where there is no such key. Raises StoreUnavailable."""
    caller = daemon.keyring.find(secret) if 0 < len(secret) <= SECRET_LENGTH_MAX else None
    if caller is None or caller.key_id is None:
        return None
    value, now = secrets.token_urlsafe(32), await daemon.store.now()
    row = SignInRow(hash_secret(value), caller.key_id, secrets.token_urlsafe(32), now, now + SESSION_MS)
    who = replace(caller, remote=remote)
    await daemon.store.sign_in(row, row_of(who, now, "session.create", caller.key_id, None))
    return value


async def visitor(daemon: Daemon, cookies: str | None, remote: str | None) -> Visitor | None:
    """Who the cookie stands for now; None where it stands for nobody. Raises StoreUnavailable."""
    value = cookie_in(daemon, cookies)
    row = None if value is None else await daemon.store.signed_in(hash_secret(value))
    if row is None or row.expires_at <= await daemon.store.now():
        return None
    caller = daemon.keyring.of_key(row.key_id)
    if caller is None:
        return None
    return Visitor(replace(caller, remote=remote), row.csrf, True)


async def sign_out(daemon: Daemon, cookies: str | None) -> None:
    """Ends the session. Raises StoreUnavailable."""
    if (value := cookie_in(daemon, cookies)) is not None:
        await daemon.store.sign_out(hash_secret(value))


def cookie_in(daemon: Daemon, cookies: str | None) -> str | None:
    """The session's cookie among those of a request."""
    try:
        morsel = SimpleCookie(cookies or "").get(_name(daemon))
    except CookieError:
        return None
    return None if morsel is None else morsel.value


def set_cookie(daemon: Daemon, value: str, *, secure: bool) -> str:
    """The header that hands the cookie over; an empty value takes it back."""
    ends = "" if value else "; Max-Age=0"
    return f"{_name(daemon)}={value}; Path=/ui; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "") + ends


def _name(daemon: Daemon) -> str:
    """The cookie's name, one a service: those on one host share their cookies, whatever their ports."""
    return f"stepd_{daemon.service_id[-12:]}"
