"""Sums of tokens and money over the log of usage: grouped, filtered, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from stepd.service.answers import reply
from stepd.service.base import Answer, Caller, Daemon
from stepd.service.cursors import StoredInt, decode_cursor, encode_cursor
from stepd.service.decoding import shown
from stepd.service.money import amount
from stepd.service.queries import Query, QueryReader, label, name, short_text, time, whole
from stepd.store.accounts import GROUPS, LABEL, UsageFilter, UsageSum
from stepd_protocol.executions import UsageGroup, UsageList
from stepd_protocol.fields import NULL
from stepd_protocol.limits import PAGE_ITEMS, PAGE_ITEMS_MAX
from stepd_protocol.names import is_name
from stepd_protocol.problems import Problem

SINGLE: Final = frozenset({"group_by", "workflow", "tenant", "model", "after", "before"})
MANY: Final = frozenset({"label"})
GROUPS_MAX: Final = 8
DAY: Final = "day"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Cursor(msgspec.Struct, frozen=True):
    """The group behind which the sums go on, and the parameters that they began with."""

    group: list[StoredInt | str]
    asked: dict[str, list[str]]


class _Asked(msgspec.Struct, frozen=True):
    """One page, as it was asked for."""

    filter: UsageFilter
    limit: int
    texts: dict[str, list[str]]
    """The parameters as they came, for the next cursor."""


async def sums(daemon: Daemon, caller: Caller, query: Query) -> Answer:
    """What attempts of the caller's tenants used, a group each. An execution's children count for themselves."""
    table = daemon.prices.table
    currency = "" if table is None else table.currency
    asked = _read(query, currency)
    if isinstance(asked, Problem):
        return asked
    found = await daemon.store.usage(asked.filter, caller.tenants, asked.limit + 1)
    page = found[: asked.limit]
    following = encode_cursor(_Cursor(list(page[-1].group), asked.texts)) if len(found) > asked.limit else None
    return reply(200, UsageList(items=[_view(asked.filter, one) for one in page], next=following))


def _read(query: Query, currency: str) -> _Asked | Problem:
    asked = QueryReader(query, single=SINGLE | {"cursor", "limit"}, many=MANY)
    limit = asked.one("limit", whole(1, PAGE_ITEMS_MAX)) or PAGE_ITEMS
    cursor = asked.one("cursor", lambda text: decode_cursor(text, _Cursor))
    texts = {parameter: asked.texts(parameter) for parameter in SINGLE | MANY if parameter in asked.given()}
    if cursor is None:
        filter_ = _filter(asked, currency)
        return asked.problem or _Asked(filter_, limit, texts)
    for parameter in texts:
        if texts[parameter] != cursor.asked.get(parameter):
            asked.refuse(parameter, "differs from the list that the cursor goes on with; leave it out, or the cursor")
    pairs = [(parameter, text) for parameter, values in cursor.asked.items() for text in values]
    begun_with = QueryReader(pairs, single=SINGLE, many=MANY)
    filter_ = msgspec.structs.replace(_filter(begun_with, currency), cursor=tuple(cursor.group))
    if [isinstance(value, int) for value in cursor.group] != [one == DAY for one in filter_.group_by]:
        asked.refuse("cursor", "must be a cursor from the next of an earlier answer")
    return asked.problem or begun_with.problem or _Asked(filter_, limit, cursor.asked)


def _filter(asked: QueryReader, currency: str) -> UsageFilter:
    return UsageFilter(
        group_by=asked.one("group_by", _groups) or (),
        workflow=asked.one("workflow", name),
        tenant=asked.one("tenant", short_text),
        model=asked.one("model", short_text),
        labels=tuple(asked.all("label", label)),
        at_from=asked.one("after", time),
        at_before=asked.one("before", time),
        currency=currency,
    )


def _groups(text: str) -> tuple[str, ...]:
    """What is grouped by: words of a closed list and labels, separated by commas."""
    words = tuple(text.split(","))
    for word in words:
        if word not in GROUPS and not (word.startswith(LABEL) and is_name(word.removeprefix(LABEL))):
            raise ValueError(f"must be some of {', '.join(GROUPS)} and {LABEL}<key>, not {shown(word)}")
    if len(set(words)) < len(words):
        raise ValueError("names one twice")
    if len(words) > GROUPS_MAX:
        raise ValueError(f"has {len(words)} words, {GROUPS_MAX} are allowed")
    return words


def _view(filter_: UsageFilter, one: UsageSum) -> UsageGroup:
    input_, cache_read, cache_write, output, reasoning = one.counts
    return UsageGroup(
        **_group(filter_.group_by, one.group),
        input_tokens=input_,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        output_tokens=output,
        reasoning_tokens=reasoning,
        cost=amount(one.cost) if one.is_priced else NULL,
        currency=filter_.currency if one.is_priced else None,
        unpriced_tokens=one.unpriced,
        attempts=one.attempts,
    )


def _group(names: Sequence[str], values: Sequence[int | str]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for word, value in zip(names, values, strict=True):
        if word == DAY:
            members[word] = (EPOCH + timedelta(days=int(value))).date().isoformat()
        elif word.startswith(LABEL):
            members.setdefault("labels", {})[word.removeprefix(LABEL)] = value or None
        else:
            members[word] = value or None
    return members
