"""The table of prices: the newest version at hand for what is reported, shown, and replaced by an operator."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from stepd.engine.pricing import ANY_REST, NANO, Price, PriceTable
from stepd.service.answers import out_of_reach, reply
from stepd.service.audit import note_refusal, row_of
from stepd.service.base import Answer, Caller, Daemon
from stepd.service.decoding import FAULTS_MAX, BodyDecoder, invalid_request, shown
from stepd.service.money import amount
from stepd.service.queries import Query, QueryReader, whole
from stepd.store.accounts import PricesRow
from stepd.store.base import Store
from stepd_protocol import admin as wire
from stepd_protocol.fields import NULL
from stepd_protocol.limits import PRICE_MAX
from stepd_protocol.problems import FieldFault, Problem, make_problem
from stepd_protocol.times import format_time, parse_time

REFRESH_SECONDS: Final = 5.0
VERSION_MAX: Final = 2**63 - 1
ALWAYS: Final = -(2**63)
"""From when on a price counts that names no time."""
KINDS: Final = ("input", "cache_read", "cache_write", "output", "reasoning")
"""The members of a price, in the order of the five counts."""

_NUMBER: Final = re.compile(rb'"?(-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?)"?')
_CURRENCY: Final = re.compile("[A-Z]{3}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_read_body = msgspec.json.Decoder(list[Price]).decode
_write_body = msgspec.json.Encoder().encode


class Prices:
    """A loop that keeps up with the store's table of prices: at each wake, and every five seconds without one.

    Whoever puts a table through this daemon tells it by ``learn``, so that it counts before the call is answered.
    """

    name = "prices"

    def __init__(self, store: Store) -> None:
        self._store = store
        self.table: PriceTable | None = None
        """The newest one that is known here; None while there is none."""
        self.wake = asyncio.Event()

    def learn(self, row: PricesRow) -> None:
        """Takes a version in, unless a newer one is known."""
        if row.version > self._version:
            self.table = PriceTable(row.version, row.currency, _read_body(row.body))

    async def refresh(self) -> None:
        """Notices what others have put. Raises StoreUnavailable."""
        row = await self._store.prices(newer_than=self._version)
        if row is not None:
            self.learn(row)

    async def run_once(self) -> float:
        """One look. Raises StoreUnavailable."""
        await self.refresh()
        return REFRESH_SECONDS

    @property
    def _version(self) -> int:
        return 0 if self.table is None else self.table.version


async def show(daemon: Daemon, query: Query) -> Answer:
    """The newest version of the table, or the one that is asked for; 404 where there is no such one."""
    asked = QueryReader(query, single={"version"})
    version = asked.one("version", whole(1, VERSION_MAX))
    if asked.problem is not None:
        return asked.problem
    row = await daemon.store.prices(version)
    if row is None and version is not None:
        return make_problem("not_found", f"there is no version {version} of the table of prices")
    return reply(200, _view(row))


async def put(daemon: Daemon, caller: Caller, body: bytes) -> Answer:
    """Replaces the table: what is reported from now on is priced by it, and nothing that was reported before."""
    request = _TABLE.decode(body)
    if isinstance(request, Problem):
        return _with_all_faults(request, body)
    if caller.tenants is not None:
        refusal = out_of_reach("prices are the same for all tenants; replacing them needs a key for all of them")
        return await note_refusal(daemon, caller, "prices.put", "", None, refusal)
    now = await daemon.store.now()
    prices = [Price(price.model, _valid_from(price.valid_from), tuple(_rates(price))) for price in request.prices]
    row = PricesRow(0, now, caller.principal, request.currency, _write_body(prices))
    kept = await daemon.store.put_prices(row, row_of(caller, now, "prices.put", "", None))
    if isinstance(kept, str):
        message = (
            f"is {request.currency}, but usage was priced in {kept} already, and sums would mix the two: "
            f"give the prices in {kept}"
        )
        return invalid_request([FieldFault(path="/currency", message=message)])
    daemon.prices.learn(kept)
    return reply(200, _view(kept))


class _Loose(msgspec.Struct):
    """A table of which only the places of its prices are known."""

    prices: list[Raw] = []


def _with_all_faults(problem: Problem, body: bytes) -> Problem:
    """The problem of a table in which some prices are of the wrong shape, with the faults of the others too."""
    try:
        loose = msgspec.json.decode(body, type=_Loose)
    except msgspec.MsgspecError:
        return problem
    faults = [] if isinstance(problem.errors, UnsetType) else list(problem.errors)
    if any(fault.path.startswith("/prices/") for fault in faults):
        faults += _faults_of_prices(_shaped(loose.prices))
    return invalid_request(faults[:FAULTS_MAX])


def _shaped(prices: list[Raw]) -> Iterator[tuple[int, wire.Price]]:
    for place, raw in enumerate(prices):
        try:
            yield place, msgspec.json.decode(raw, type=wire.Price)
        except msgspec.MsgspecError:
            continue


def _table_faults(request: wire.PriceTable) -> list[FieldFault]:
    """What the types don't tell."""
    faults = []
    if not _CURRENCY.fullmatch(request.currency):
        message = f"must be three capital letters, like USD, not {shown(request.currency)}"
        faults.append(FieldFault(path="/currency", message=message))
    return (faults + _faults_of_prices(enumerate(request.prices)))[:FAULTS_MAX]


def _faults_of_prices(prices: Iterable[tuple[int, wire.Price]]) -> list[FieldFault]:
    faults: list[FieldFault] = []
    seen: set[tuple[str, int]] = set()
    for place, price in prices:
        path = f"/prices/{place}"
        found = [FieldFault(path=path + where, message=message) for where, message in _price_faults(price)]
        if not found:
            key = (price.model, _valid_from(price.valid_from))
            if key in seen:
                message = f"is the second price of {shown(price.model)} from that time on"
                found.append(FieldFault(path=path, message=message))
            seen.add(key)
        faults += found
    return faults


_TABLE: Final = BodyDecoder(wire.PriceTable, _table_faults, {"currency": "USD", "prices": []})


def _price_faults(price: wire.Price) -> Iterator[tuple[str, str]]:
    if ANY_REST in price.model.removesuffix(ANY_REST):
        yield "/model", f"may have one {ANY_REST}, at its end, for whatever follows"
    try:
        _valid_from(price.valid_from)
    except ValueError as fault:
        yield "/valid_from", f"{fault}, or a date, like 2026-11-30"
    for kind in KINDS:
        try:
            _rate(getattr(price, kind))
        except ValueError as fault:
            yield f"/{kind}", str(fault)


def _valid_from(text: str | None) -> int:
    """Raises ValueError."""
    if text is None:
        return ALWAYS
    return parse_time(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)


def _rates(price: wire.Price) -> Iterator[int | None]:
    for kind in KINDS:
        yield _rate(getattr(price, kind))


def _rate(given: Raw | UnsetType) -> int | None:
    """Nano-units for a million tokens, exactly; None where there is no price. Raises ValueError."""
    if isinstance(given, UnsetType) or bytes(given) == b"null":
        return None
    match = _NUMBER.fullmatch(bytes(given).strip())
    if match is None or (bytes(given).count(b'"') == 1):
        raise ValueError(f"must be a number from 0 to {PRICE_MAX}, or the same as text")
    nano = Fraction(match[1].decode()) * NANO
    if not 0 <= nano <= PRICE_MAX * NANO:
        raise ValueError(f"must be a number from 0 to {PRICE_MAX}, or the same as text")
    if nano.denominator != 1:
        raise ValueError("has more than nine decimals")
    return int(nano)


def _view(row: PricesRow | None) -> wire.PriceTableView:
    if row is None:
        return wire.PriceTableView(version=None, currency=None, created_at=None, principal=None, prices=[])
    return wire.PriceTableView(
        version=row.version,
        currency=row.currency,
        created_at=format_time(row.at),
        principal=row.principal,
        prices=[_price_view(price) for price in _read_body(row.body)],
    )


def _price_view(price: Price) -> wire.PriceView:
    rates: dict[str, Any] = {
        kind: NULL if rate is None else amount(rate) for kind, rate in zip(KINDS, price.rates, strict=True)
    }
    valid_from = None if price.valid_from == ALWAYS else format_time(price.valid_from)
    return wire.PriceView(model=price.model, valid_from=valid_from, **rates)
