"""Owns the part of the table of routes that administers: resolutions, keys and the audit log."""

from typing import Final

from msgspec.structs import replace

from stepd.http import handlers
from stepd.http.shared import IDEMPOTENCY, REPLAYED
from stepd.http.table import Parameter, Route, Success
from stepd_protocol import admin, executions
from stepd_protocol.fields import ShortText, Time

_LIMIT = Parameter(name="limit", type=executions.PageLimit, about="how many at most")
_CURSOR = Parameter(name="cursor", type=str, about="`next` of the page before; it holds that page's filters")

_IDEMPOTENCY = replace(
    IDEMPOTENCY,
    required=True,
    about="of this execution, for ever: the same key, body and operator get the first answer again",
)

ADMIN_ROUTES: Final = (
    Route(
        method="POST",
        path="/v1/admin/executions/{id}/resolve",
        name="resolve_execution",
        summary="Say what became of an execution that needs reconciliation: let it go on, or end it",
        handler=handlers.resolve,
        part="admin_api",
        scopes=("operate",),
        action="execution.resolve",
        body=admin.ResolveRequest,
        parameters=(_IDEMPOTENCY,),
        successes=(
            Success(
                status=200,
                type=admin.ResolveAnswer,
                about="done; the ledger has it",
                headers=(REPLAYED,),
            ),
        ),
        problems=("not_found", "idempotency_conflict", "not_resolvable", "invalid_output"),
    ),
    Route(
        method="POST",
        path="/v1/admin/keys",
        name="create_key",
        summary="Make a key",
        handler=handlers.create_key,
        part="admin_api",
        scopes=("admin",),
        action="key.create",
        body=admin.KeyRequest,
        successes=(Success(status=201, type=admin.KeyCreated, about="the key with its secret, shown this once"),),
    ),
    Route(
        method="GET",
        path="/v1/admin/keys",
        name="list_keys",
        summary="List keys, revoked ones too, without their secrets",
        handler=handlers.list_keys,
        part="admin_api",
        scopes=("admin",),
        parameters=(_LIMIT, _CURSOR),
        successes=(Success(status=200, type=admin.KeyList, about="one page, newest first"),),
    ),
    Route(
        method="DELETE",
        path="/v1/admin/keys/{id}",
        name="revoke_key",
        summary="Revoke a key at once",
        handler=handlers.revoke_key,
        part="admin_api",
        scopes=("admin",),
        action="key.revoke",
        successes=(Success(status=204, type=None, about="it is revoked, now or before"),),
        problems=("not_found",),
    ),
    Route(
        method="GET",
        path="/v1/admin/audit",
        name="list_audit",
        summary="Read the audit log",
        handler=handlers.list_audit,
        part="admin_api",
        scopes=("admin",),
        parameters=(
            Parameter(name="principal", type=ShortText, about="what this principal did"),
            Parameter(name="key_id", type=ShortText, about="what was done with this key"),
            Parameter(name="action", type=ShortText, about="only this, such as `key.revoke`"),
            Parameter(name="target", type=ShortText, about="what was done to this, by its id or name"),
            Parameter(name="tenant", type=ShortText, about="what concerns this tenant"),
            Parameter(name="outcome", type=admin.AuditOutcome, about="what was `done`, or what was `refused`"),
            Parameter(name="at_after", type=Time, about="after this time"),
            Parameter(name="at_before", type=Time, about="before this time"),
            _LIMIT,
            _CURSOR,
        ),
        successes=(Success(status=200, type=admin.AuditList, about="one page, newest first"),),
    ),
)
