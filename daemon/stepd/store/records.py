"""The service's own records as they cross the seam to a store: workers' lives, keys, its row, its audit log."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from stepd.engine.model import Audit
from stepd_protocol.admin import AuditOutcome

AUDIT_DONE: Final = "done"
"""How a change went that was made, as its row says; any other word tells why it was refused."""

KeySource: TypeAlias = Literal["settings", "api"]


class WorkerRow(msgspec.Struct):
    """A worker's life as last seen. ``serves`` is the JSON of its last claim."""

    principal: str
    worker: str
    instance: str
    serves: bytes
    tenants: bytes
    last_seen_at: int


class KeyRow(msgspec.Struct):
    """A key; the secret itself is never kept."""

    id: str
    name: str
    secret_hash: str
    scopes: bytes
    """JSON list."""
    tenants: bytes
    """JSON list; ``["*"]`` for all."""
    source: str
    """Who gave it, and once it is revoked who took it: ``settings`` or ``api``."""
    created_at: int
    revoked_at: int | None


class SignInRow(msgspec.Struct):
    """A sign-in to the page: the cookie itself is never kept."""

    id_hash: str
    key_id: str
    """Whose key was shown."""
    csrf: str
    """What each form of the page bears."""
    created_at: int
    expires_at: int


class ServiceRow(msgspec.Struct):
    """The one row of the service: its id, name, and the settings all its daemons share (JSON)."""

    id: str
    name: str
    settings: bytes
    pulse_at: int
    """Moved every second by each serving daemon."""


class AuditRow(msgspec.Struct, frozen=True):
    """One line of the audit log, with the number that the store gave it."""

    number: int
    entry: Audit


class AuditFilter(msgspec.Struct, frozen=True):
    """The filters of the audit log, all optional; times in ms. ``cursor``: ``(at, number)`` exclusive."""

    principal: str | None = None
    key_id: str | None = None
    action: str | None = None
    object: str | None = None
    tenant: str | None = None
    outcome: AuditOutcome | None = None
    at_after: int | None = None
    at_before: int | None = None
    cursor: tuple[int, int] | None = None
