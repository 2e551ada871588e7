"""Keys made and revoked through the API; those of the settings are listed and revoked here too."""

from __future__ import annotations

import logging
import secrets
from typing import Final, cast

import msgspec

from stepd.ids import new_id
from stepd.keys import hash_secret
from stepd.service.answers import not_good, out_of_reach, reply
from stepd.service.audit import note_refusal, row_of
from stepd.service.base import Answer, Caller, Daemon, Reply
from stepd.service.cursors import decode_cursor, encode_cursor
from stepd.service.decoding import BodyDecoder, invalid_request, shown
from stepd.service.keyring import ALL_TENANTS, read_list
from stepd.service.queries import Query, QueryReader, whole
from stepd.store.records import KeyRow, KeySource
from stepd_protocol.admin import KeyCreated, KeyList, KeyRequest, KeyView
from stepd_protocol.limits import KEY_TENANTS_MAX, PAGE_ITEMS, PAGE_ITEMS_MAX
from stepd_protocol.names import Scope
from stepd_protocol.problems import FieldFault, Problem, make_problem
from stepd_protocol.times import format_time

SECRET_PREFIX: Final = "stepd_"
"""By which people, and programs that look for lost secrets, know one."""
SECRET_BYTES: Final = 32
FROM_API: Final[KeySource] = "api"

_log = logging.getLogger(__name__)


async def create(daemon: Daemon, caller: Caller, body: bytes) -> Answer:
    """Makes a key: 201 with its secret, which is told this once. In open mode it is the first one, and ends that."""
    request = _KEY.decode(body)
    if isinstance(request, Problem):
        return request
    is_first = caller.key_id is None
    if is_first and (faults := _first_faults(request)):
        return invalid_request(faults)
    if not _reaches(caller, request.tenants):
        refusal = out_of_reach(f"this key reaches some tenants only, and can't make one that reaches {_said(request)}")
        return await note_refusal(daemon, caller, "key.create", request.name, None, refusal)
    secret = SECRET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    now = await daemon.store.now()
    row = KeyRow(
        id=new_id(),
        name=request.name,
        secret_hash=hash_secret(secret),
        scopes=msgspec.json.encode(request.scopes),
        tenants=msgspec.json.encode(request.tenants),
        source=FROM_API,
        created_at=now,
        revoked_at=None,
    )
    audit = row_of(caller, now, "key.create", row.id, _tenant_of(row))
    if not await daemon.store.add_key(row, audit, first=is_first):
        return not_good()
    daemon.keyring.learn([row])
    if is_first:
        _log.info("the first key was made, for %s: open mode has ended, every call needs a key now", row.name)
    return reply(201, _created(row, secret))


async def list_all(daemon: Daemon, caller: Caller, query: Query) -> Answer:
    """The keys that there are and were, newest first, without their secrets."""
    asked = QueryReader(query, single={"limit", "cursor"})
    limit = asked.one("limit", whole(1, PAGE_ITEMS_MAX)) or PAGE_ITEMS
    cursor = asked.one("cursor", lambda text: decode_cursor(text, str))
    if asked.problem is not None:
        return asked.problem
    rows = [row for row in await daemon.store.keys() if _reaches(caller, read_list(row.tenants))]
    # Ids are in the order in which they were made.
    rows.sort(key=lambda row: row.id, reverse=True)
    if cursor is not None:
        rows = [row for row in rows if row.id < cursor]
    following = encode_cursor(rows[limit - 1].id) if len(rows) > limit else None
    return reply(200, KeyList(items=[_view(row) for row in rows[:limit]], next=following))


async def revoke(daemon: Daemon, caller: Caller, key_id: str) -> Answer:
    """Revokes a key at once: 204, also where it was revoked before."""
    row = next((row for row in await daemon.store.keys() if row.id == key_id), None)
    if row is None or not _reaches(caller, read_list(row.tenants)):
        return make_problem("not_found", f"there is no key with the id {shown(key_id)} for this key")
    if row.revoked_at is None:
        now = await daemon.store.now()
        audit = row_of(caller, now, "key.revoke", row.id, _tenant_of(row))
        await daemon.store.revoke_key(row.id, FROM_API, audit)
        daemon.keyring.learn([msgspec.structs.replace(row, revoked_at=now, source=FROM_API)])
    return Reply(204, b"")


def _key_faults(request: KeyRequest) -> list[FieldFault]:
    """What the types don't tell."""
    faults = []
    for path, values in (("/scopes", request.scopes), ("/tenants", request.tenants)):
        if len(set(values)) < len(values):
            faults.append(FieldFault(path=path, message="names one twice"))
    if len(request.tenants) > KEY_TENANTS_MAX:
        message = f"has {len(request.tenants)} tenants, {KEY_TENANTS_MAX} are allowed"
        faults.append(FieldFault(path="/tenants", message=message))
    if ALL_TENANTS in request.tenants and len(request.tenants) > 1:
        message = f"{ALL_TENANTS} stands for all tenants, and stands alone"
        faults.append(FieldFault(path="/tenants", message=message))
    return faults


_KEY = BodyDecoder(KeyRequest, _key_faults, {"name": "x", "scopes": ["read"]})


def _first_faults(request: KeyRequest) -> list[FieldFault]:
    """The first key ends open mode for good, so that somebody must be able to make the others with it."""
    faults = []
    if "admin" not in request.scopes:
        message = "must have admin in the first key: it ends open mode, and the others are made with it"
        faults.append(FieldFault(path="/scopes", message=message))
    if request.tenants != [ALL_TENANTS]:
        message = f"must be {ALL_TENANTS}, all tenants, in the first key; leave it out"
        faults.append(FieldFault(path="/tenants", message=message))
    return faults


def _reaches(caller: Caller, tenants: list[str]) -> bool:
    """Whether the caller's key reaches all of these."""
    return caller.tenants is None or set(tenants) <= set(caller.tenants)


def _said(request: KeyRequest) -> str:
    if ALL_TENANTS in request.tenants:
        return "all of them; name tenants that it reaches"
    return ", ".join(shown(tenant) for tenant in request.tenants)


def _tenant_of(row: KeyRow) -> str | None:
    """The one tenant whose matter the key is."""
    tenants = read_list(row.tenants)
    return tenants[0] if len(tenants) == 1 and tenants[0] != ALL_TENANTS else None


def _created(row: KeyRow, secret: str) -> KeyCreated:
    return KeyCreated(secret=secret, **msgspec.structs.asdict(_view(row)))


def _view(row: KeyRow) -> KeyView:
    return KeyView(
        id=row.id,
        name=row.name,
        scopes=cast("list[Scope]", read_list(row.scopes)),
        tenants=read_list(row.tenants),
        created_at=format_time(row.created_at),
        revoked_at=None if row.revoked_at is None else format_time(row.revoked_at),
    )
