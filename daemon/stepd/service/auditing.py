"""The audit log as its readers see it: filters, newest first, and cursors that hold both."""

from __future__ import annotations

from typing import Final, cast, get_args

import msgspec

from stepd.service.answers import reply
from stepd.service.base import Answer, Caller, Daemon
from stepd.service.cursors import StoredInt, decode_cursor, encode_cursor
from stepd.service.queries import Query, QueryReader, choice, short_text, time, whole
from stepd.store.records import AuditFilter, AuditRow
from stepd_protocol.admin import AuditEntry, AuditList, AuditOutcome
from stepd_protocol.limits import PAGE_ITEMS, PAGE_ITEMS_MAX
from stepd_protocol.problems import Problem
from stepd_protocol.times import format_time

FILTERS: Final = frozenset({"principal", "key_id", "action", "target", "tenant", "outcome", "at_after", "at_before"})


class _Cursor(msgspec.Struct, frozen=True):
    """Where the log goes on, and the filters it began with."""

    at: StoredInt
    number: StoredInt
    filters: dict[str, str]


class _Asked(msgspec.Struct, frozen=True):
    """One page, as it was asked for."""

    filter: AuditFilter
    limit: int
    texts: dict[str, str]
    """The filters as they came, for the next cursor."""


async def list_all(daemon: Daemon, caller: Caller, query: Query) -> Answer:
    """Who did what: a page of it, and the cursor of the next. A key of some tenants sees theirs only."""
    asked = _read(query)
    if isinstance(asked, Problem):
        return asked
    found = await daemon.store.audited(asked.filter, caller.tenants, asked.limit + 1)
    page = found[: asked.limit]
    following = None
    if len(found) > asked.limit:
        following = encode_cursor(_Cursor(page[-1].entry.at, page[-1].number, asked.texts))
    return reply(200, AuditList(items=[_view(row) for row in page], next=following))


def _read(query: Query) -> _Asked | Problem:
    asked = QueryReader(query, single=FILTERS | {"limit", "cursor"})
    limit = asked.one("limit", whole(1, PAGE_ITEMS_MAX)) or PAGE_ITEMS
    cursor = asked.one("cursor", lambda text: decode_cursor(text, _Cursor))
    texts = {name: asked.texts(name)[0] for name in FILTERS & asked.given()}
    if cursor is None:
        filter_ = _filter(asked, None)
        return asked.problem or _Asked(filter_, limit, texts)
    for name, text in texts.items():
        if text != cursor.filters.get(name):
            asked.refuse(name, "differs from the list that the cursor goes on with; leave it out, or the cursor")
    begun_with = QueryReader(list(cursor.filters.items()), single=FILTERS)
    filter_ = _filter(begun_with, (cursor.at, cursor.number))
    return asked.problem or begun_with.problem or _Asked(filter_, limit, cursor.filters)


def _filter(asked: QueryReader, cursor: tuple[int, int] | None) -> AuditFilter:
    return AuditFilter(
        principal=asked.one("principal", short_text),
        key_id=asked.one("key_id", short_text),
        action=asked.one("action", short_text),
        object=asked.one("target", short_text),
        tenant=asked.one("tenant", short_text),
        outcome=asked.one("outcome", _outcome),
        at_after=asked.one("at_after", time),
        at_before=asked.one("at_before", time),
        cursor=cursor,
    )


def _outcome(text: str) -> AuditOutcome:
    return cast(AuditOutcome, choice(get_args(AuditOutcome))(text))


def _view(row: AuditRow) -> AuditEntry:
    entry = row.entry
    return AuditEntry(
        id=str(row.number),
        at=format_time(entry.at),
        principal=entry.principal,
        key_id=entry.key_id,
        action=entry.action,
        target=entry.object or None,
        tenant=entry.tenant,
        origin=entry.remote,
        outcome=entry.outcome,
    )
