"""Owns who is let in: who has a key, or in open mode every program and page of this machine's own."""

from typing import Final

import msgspec

from stepd.http.asgi import Scope, header
from stepd.http.loopback import is_loopback_host, is_own_origin
from stepd.http.problems import Refusal, forbidden, unauthenticated
from stepd.http.table import Route
from stepd.service.answers import not_good
from stepd.service.base import Caller
from stepd.service.keyring import Keyring
from stepd_protocol.names import Scope as KeyScope

ANYBODY: Final = Caller("anonymous", None, frozenset({"admin"}), None)
NOBODY: Final = Caller("anonymous", None, frozenset(), ())


class Door:
    """Admits requests. `loopback`: the daemon listens on the machine's own address only."""

    def __init__(self, keyring: Keyring, *, loopback: bool) -> None:
        self._keyring = keyring
        self._loopback = loopback

    @property
    def is_open(self) -> bool:
        """Open mode: everybody on this machine is served. The first key ends it for good."""
        return self._loopback and not self._keyring.ever

    def admit(self, scope: Scope, route: Route) -> Caller:
        """Who calls, with the scopes that count now. Raises Refusal: 401, or 403 in open mode."""
        if self.is_open:
            _check_own(scope)
            caller = ANYBODY
        elif route.scopes is None:
            caller = NOBODY
        else:
            caller = self._by_key(scope)
        client = scope.get("client")
        return msgspec.structs.replace(caller, remote=client[0] if client else None)

    def confirm(self, caller: Caller) -> None:
        """Looks once more, behind a body that may have taken its time. Raises Refusal (401)."""
        if not self._keyring.is_good(caller):
            raise Refusal(not_good())

    def _by_key(self, scope: Scope) -> Caller:
        secret = _secret(scope)
        caller = self._keyring.find(secret)
        if caller is None:
            raise unauthenticated("this key is not known, or was revoked")
        return caller


def lacks_scope(caller: Caller, route: Route) -> Refusal | None:
    """403 where the caller has none of the route's scopes."""
    if not route.scopes or any(caller.may(scope) for scope in route.scopes):
        return None
    return _lacking(caller, route.scopes[0])


def _lacking(caller: Caller, needed: KeyScope) -> Refusal:
    detail = f"this needs a key with the scope {needed}; {caller.principal}'s has {_listed(caller.scopes)}"
    return forbidden(detail, scope=needed)


def _listed(scopes: frozenset[str]) -> str:
    return ", ".join(sorted(scopes)) or "none"


def _secret(scope: Scope) -> str:
    try:
        value = header(scope["headers"], b"authorization")
    except ValueError as fault:
        raise unauthenticated(str(fault)) from None
    if value is None:
        raise unauthenticated("send a key: Authorization: Bearer <key>")
    scheme, _, secret = value.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise unauthenticated("the header Authorization must be: Bearer <key>")
    return secret.strip()


def _check_own(scope: Scope) -> None:
    """Raises Refusal where a browser was led here by a foreign name, or by a foreign page."""
    try:
        host, origin = header(scope["headers"], b"host"), header(scope["headers"], b"origin")
    except ValueError as fault:
        raise forbidden(f"without keys the daemon answers no request of two minds: {fault}") from None
    if not is_loopback_host(host):
        raise forbidden(
            f"without keys the daemon answers to a name of this machine only, like localhost, not to {host!r}"
        )
    if origin is not None and not is_own_origin(origin, host or ""):
        raise forbidden(f"without keys the daemon doesn't answer to pages of another origin, like {origin!r}")
