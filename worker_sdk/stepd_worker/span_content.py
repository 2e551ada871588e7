"""Owns what is told of a span that has ended: OpenTelemetry's form of it, as the wire's."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw
from msgspec.structs import replace
from opentelemetry.trace import Link, SpanContext, SpanKind, Status

from stepd_protocol import names
from stepd_protocol.leases import Span, Usage
from stepd_protocol.limits import KIB, SHORT_TEXT_LENGTH_MAX, UNIX_NANO_MAX
from stepd_worker.values import Unencodable, encode, text_of

EVENTS: Final = "stepd.events"
LINKS: Final = "stepd.links"
DROPPED_ATTRIBUTES: Final = "stepd.dropped_attributes"
LISTED_MAX: Final = 32
"""So many events and links of one span are named."""
EXCEPTION: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
STACK_TRACE: Final = "exception.stacktrace"
"""Never leaves the worker, whoever sets it."""
MODEL_ATTRIBUTES: Final = "gen_ai."
UNNAMED: Final = "unnamed"
LIGHT_VALUE_BYTES: Final = 1 * KIB
LIGHT_BYTES: Final = 32 * KIB
_KINDS: Final[dict[str, names.SpanKind]] = {kind.upper(): kind for kind in names.SPAN_KINDS}
_STATUSES: Final[dict[str, names.SpanStatus]] = {"OK": "ok", "ERROR": "error"}


class Event(Protocol):
    """Something that happened within a span."""

    @property
    def name(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, Any] | None: ...


class Ended(Protocol):
    """A span that has ended, as OpenTelemetry's SDK hands it to a span processor."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> SpanKind: ...
    @property
    def start_time(self) -> int | None: ...
    @property
    def end_time(self) -> int | None: ...
    @property
    def status(self) -> Status: ...
    @property
    def attributes(self) -> Mapping[str, Any] | None: ...
    @property
    def events(self) -> Sequence[Event]: ...
    @property
    def links(self) -> Sequence[Link]: ...


def content_of(
    ended: Ended,
    span_id: int,
    parent_id: str | None,
    *,
    elsewhere: SpanContext | None,
    attributes: Mapping[str, Any],
    usages: list[Usage],
) -> Span:
    """A span as it is sent. `attributes` and `usages` are what was said of it beside OpenTelemetry.

    The wire has no place for events and links: an exception leaves the name of its type, other events and links are
    named in an attribute.
    """
    start = _nanoseconds(ended.start_time)
    told = {**(ended.attributes or {}), **attributes}
    told.pop(STACK_TRACE, None)
    _name_events(told, ended.events)
    _name_links(told, [*([elsewhere] if elsewhere else []), *(link.context for link in ended.links)])
    return Span(
        span_id=f"{span_id:016x}",
        parent_span_id=parent_id,
        name=text_of(ended.name)[:SHORT_TEXT_LENGTH_MAX] or UNNAMED,
        kind=_KINDS.get(ended.kind.name, "internal"),
        start_unix_nano=str(start),
        end_unix_nano=str(max(_nanoseconds(ended.end_time), start)),
        status=_STATUSES.get(ended.status.status_code.name, "unset"),
        attributes=_as_json(told),
        usage=usages or None,
    )


def lightened(span: Span) -> Span:
    """The same span without the attributes that make it too large: what tells of tokens stays first of all."""
    kept: dict[str, Any] = {}
    room = LIGHT_BYTES
    for name in sorted(span.attributes, key=lambda name: not name.startswith(MODEL_ATTRIBUTES)):
        size = len(name) + len(msgspec.json.encode(span.attributes[name]))
        if size <= min(room, LIGHT_VALUE_BYTES):
            kept[name] = span.attributes[name]
            room -= size
    kept[DROPPED_ATTRIBUTES] = len(span.attributes) - len(kept)
    return replace(span, attributes=kept)


def counts_tokens(attributes: Mapping[Any, Any] | None) -> bool:
    """Whether attributes are those of a model's span."""
    return bool(attributes) and any(str(name).startswith(MODEL_ATTRIBUTES) for name in attributes or ())


def type_name(error: BaseException) -> str:
    """The name of an exception's type, with its module."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _name_events(told: dict[str, Any], events: Iterable[Event]) -> None:
    others = []
    for event in events:
        if event.name == EXCEPTION:
            told.setdefault(EXCEPTION_TYPE, (event.attributes or {}).get(EXCEPTION_TYPE))
        else:
            others.append(text_of(event.name)[:SHORT_TEXT_LENGTH_MAX])
    if others:
        told[EVENTS] = others[:LISTED_MAX]


def _name_links(told: dict[str, Any], contexts: Sequence[SpanContext]) -> None:
    if contexts:
        told[LINKS] = [f"{context.trace_id:032x}-{context.span_id:016x}" for context in contexts[:LISTED_MAX]]


def _nanoseconds(given: object) -> int:
    """A time that the wire takes; now, where a program gave one that is none."""
    if not isinstance(given, int | float) or not 0 <= given <= UNIX_NANO_MAX:
        return time.time_ns()
    return int(given)


def _as_json(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that can be sent: what has no JSON becomes text, and so does what is nested, for they are flat."""
    return {text_of(name)[:SHORT_TEXT_LENGTH_MAX]: _json_value(value) for name, value in attributes.items()}


def _json_value(value: Any) -> Any:
    if value is None or value is True or value is False:
        return value
    try:
        content = encode(value)
    except Unencodable:
        return text_of(value)
    return Raw(content) if _is_flat(value) else content.decode()


def _is_flat(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(item is None or isinstance(item, str | int | float) for item in value)
    return isinstance(value, str | int | float)
