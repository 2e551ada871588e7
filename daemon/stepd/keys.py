"""Owns keys as settings give them: names, scopes and hashes; a secret is forgotten as soon as it is hashed."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Final

from msgspec import Struct

from stepd_protocol.names import Scope, is_name

VARIABLES: Final[dict[str, Scope]] = {
    "STEPD_ADMIN_KEYS": "admin",
    "STEPD_WRITE_KEYS": "write",
    "STEPD_WORKER_KEYS": "worker",
    "STEPD_EXECUTE_KEYS": "execute",
    "STEPD_READ_KEYS": "read",
    "STEPD_OPERATE_KEYS": "operate",
}


class SettingsKey(Struct, frozen=True):
    """A key that the settings name. Its name is the principal; it reaches every tenant."""

    name: str
    secret_hash: str
    scopes: tuple[Scope, ...]


class KeysRefused(Exception):
    """The variables with keys can't be used; `faults` says why, without the secrets."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def hash_secret(secret: str) -> str:
    """The SHA-256 of a secret, as 64 hex digits: all that is ever kept of it."""
    return sha256(secret.encode()).hexdigest()


def keys_from_environment(environment: Mapping[str, str]) -> tuple[SettingsKey, ...]:
    """The keys of the six variables: entries `name=secret` or `secret`, comma separated.

    A secret without a name gets its variable's scope as name. The same entry in several variables is one key with all
    their scopes. Raises KeysRefused with all faults.
    """
    keys: dict[str, SettingsKey] = {}
    faults: list[str] = []
    for variable, scope in VARIABLES.items():
        for place, entry in _entries(environment.get(variable, "")):
            try:
                _add(keys, *_name_and_secret(entry, scope), scope)
            except ValueError as fault:
                faults.append(f"{variable}, entry {place}: {fault}")
    if faults:
        raise KeysRefused(faults)
    return tuple(keys.values())


def _entries(text: str) -> Iterator[tuple[int, str]]:
    for place, entry in enumerate(text.split(","), start=1):
        if entry.strip():
            yield place, entry.strip()


def _name_and_secret(entry: str, scope: Scope) -> tuple[str, str]:
    """Raises ValueError."""
    name, equals, secret = entry.partition("=")
    _check_sendable(secret if equals else entry)
    if not equals:
        return scope, entry
    if not is_name(name):
        raise ValueError("what stands before `=` is no name; a secret that has `=` in it needs one: name=secret")
    if not secret.strip("="):
        raise ValueError("the key has no secret after its name; write name=secret, also where the secret ends in `=`")
    return name, secret


def _check_sendable(secret: str) -> None:
    """Raises ValueError where no client could show the secret in a header."""
    if not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise ValueError("the secret must be of visible ASCII characters; make one with: openssl rand -hex 32")


def _add(keys: dict[str, SettingsKey], name: str, secret: str, scope: Scope) -> None:
    """Raises ValueError where the secret stands under another name already."""
    secret_hash = hash_secret(secret)
    known = keys.get(secret_hash)
    if known is None:
        keys[secret_hash] = SettingsKey(name, secret_hash, (scope,))
    elif known.name != name:
        raise ValueError(f"the secret of {name!r} is also that of {known.name!r}; give each its own")
    elif scope not in known.scopes:
        keys[secret_hash] = SettingsKey(name, secret_hash, (*known.scopes, scope))
