"""Reads what only the steps of one kind have: what a wait waits for, how long a sleep lasts."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from stepd.engine.definition_fields import Fields, shown
from stepd.engine.definition_texts import template
from stepd.engine.schemas import Validator
from stepd.engine.scope import ExpressionScope, References
from stepd.engine.templates import Template
from stepd_protocol.limits import SECONDS_MAX, SECONDS_MIN
from stepd_protocol.names import ON_TIMEOUT, OnTimeout
from stepd_protocol.times import parse_time


@dataclass(frozen=True, slots=True)
class CompiledWait:
    """What a wait waits for, and what its time-out does."""

    event: str
    payload_schema: Validator | None
    on_timeout: OnTimeout


@dataclass(frozen=True, slots=True)
class CompiledSleep:
    """How long a sleep lasts: a template of seconds, or one of the time it ends; the other is None."""

    seconds: Template | None
    until: Template | None

    @property
    def references(self) -> References:
        """What its templates read."""
        template = self.seconds or self.until
        return References() if template is None else template.references


def read_wait(fields: Fields) -> CompiledWait:
    """Reads the fields of a wait, with every fault in them."""
    event = fields.required_name("event")
    schema = fields.schema("payload_schema")
    return CompiledWait(event or "", schema, fields.choice("on_timeout", ON_TIMEOUT, "fail"))


def read_sleep(fields: Fields, scope: ExpressionScope) -> CompiledSleep:
    """Reads the fields of a sleep, with every fault in them; what is written out is checked here already."""
    if fields.has("seconds") == fields.has("until"):
        fields.fault(None, "a sleep has either seconds or until")
    seconds = _read_template(fields, "seconds", scope)
    until = _read_template(fields, "until", scope)
    return CompiledSleep(seconds, until)


def _read_template(fields: Fields, field: str, scope: ExpressionScope) -> Template | None:
    if not fields.has(field):
        return None
    faults = len(fields.faults)
    read = template(fields, field, scope)
    if not read.constant or len(fields.faults) > faults:
        return read
    if field == "seconds":
        fields.milliseconds(field, SECONDS_MIN)
        return read
    try:
        time_of(fields.given[field])
    except ValueError as fault:
        fields.fault(field, str(fault))
    return read


def milliseconds_of(seconds: Any) -> int:
    """Computed seconds as milliseconds. Raises ValueError for what is no number from 0 to ``SECONDS_MAX``."""
    is_number = isinstance(seconds, int | float | Decimal) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds <= SECONDS_MAX:
        raise ValueError(f"{shown(seconds)} is no number of seconds from 0 to {SECONDS_MAX:,}")
    return round(float(seconds) * 1_000)


def time_of(until: Any) -> int:
    """An RFC 3339 time with an offset, in milliseconds since the epoch. Raises ValueError for anything else."""
    if not isinstance(until, str):
        raise ValueError(f"{shown(until)} is no time, which is a text like 2026-11-30T12:00:00.000Z")
    try:
        return parse_time(until)
    except ValueError as fault:
        raise ValueError(f"{shown(until)} {fault}") from None
