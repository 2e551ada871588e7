"""Owns the lenient reading of usage and spans: what is bad is dropped and named in a warning, never refused."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from stepd_protocol import limits as bounds
from stepd_protocol.leases import Span, Usage
from stepd_protocol.limits import Limits

UNKNOWN_MODEL: Final = "unknown"
"""The model of a span that counts tokens and names none."""

# What each count is called: by the semantic conventions, their current name first, then earlier ones; then by libraries
# that came before them. Cached tokens are part of the input, and reasoning of the output, under any of these names.
_INPUT: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT: Final = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_CACHE_READ: Final = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.cache_read_tokens",
    "gen_ai.usage.cached_tokens",
)
_CACHE_WRITE: Final = (
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "gen_ai.usage.input_tokens.cache_write",
    "gen_ai.usage.details.cache_write_tokens",
    "gen_ai.usage.cache_write_tokens",
)
_REASONING: Final = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.output_tokens.reasoning",
    "gen_ai.usage.details.reasoning_tokens",
)
_MODEL: Final = ("gen_ai.response.model", "gen_ai.request.model")


def read_usage(raw: Raw | UnsetType, limits: Limits) -> tuple[list[Usage] | None, list[str]]:
    """The usage of a call and the warnings about it; never raises.

    None means that none was given: left out, null, or nothing in it could be read. An empty list was given so.
    """
    warnings = _Warnings()
    entries = _read_list(raw, "usage", warnings)
    if entries is None:
        return None, warnings.texts()
    if len(entries) > limits.usage_per_call:
        warnings.add(f"usage: {len(entries)} entries, only the first {limits.usage_per_call} are kept")
    kept = []
    for place, entry in enumerate(entries[: limits.usage_per_call]):
        value = _decode(entry, f"usage[{place}]", warnings)
        usage = None if value is _BAD else _to_usage(value, f"usage[{place}]", warnings)
        if usage is not None:
            kept.append(usage)
    return (None if entries and not kept else kept), warnings.texts()


def read_spans(raw: Raw | UnsetType, limits: Limits) -> tuple[list[Span], list[str]]:
    """The spans of a call, each span id once, the last one winning, and the warnings about them; never raises.

    A span's `usage` comes from its `gen_ai.*` attributes where it has none of its own; None: it counts nothing.
    """
    warnings = _Warnings()
    entries = _read_list(raw, "spans", warnings) or []
    if len(entries) > limits.spans_per_call:
        warnings.add(f"spans: {len(entries)} in one call, only the first {limits.spans_per_call} are kept")
    kept: dict[str, Span] = {}
    for place, entry in enumerate(entries[: limits.spans_per_call]):
        span = _read_span(entry, f"spans[{place}]", limits, warnings)
        if span is not None:
            kept.pop(span.span_id, None)
            kept[span.span_id] = span
    return list(kept.values()), warnings.texts()


def usage_from_attributes(attributes: dict[str, Any]) -> Usage | None:
    """The usage that a span's `gen_ai.*` attributes tell; None where they count nothing.

    By the conventions the input count includes cached tokens and the output count reasoning; both are taken out.
    """
    counts = [_count(attributes, names) for names in (_INPUT, _CACHE_READ, _CACHE_WRITE, _OUTPUT, _REASONING)]
    if all(count is None for count in counts):
        return None
    input_, cache_read, cache_write, output, reasoning = (count or 0 for count in counts)
    return Usage(
        model=_model(attributes),
        input_tokens=max(0, input_ - cache_read - cache_write),
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        output_tokens=max(0, output - reasoning),
        reasoning_tokens=reasoning,
    )


class _Warnings:
    """Collects a bounded number of bounded texts."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._left_out = 0

    def add(self, text: str) -> None:
        if len(self._kept) == bounds.WARNINGS_MAX:
            self._left_out += 1
        elif len(text) > bounds.WARNING_LENGTH_MAX:
            self._kept.append(text[: bounds.WARNING_LENGTH_MAX - 1] + "…")
        else:
            self._kept.append(text)

    def texts(self) -> list[str]:
        more = [f"… and {self._left_out} more"] if self._left_out else []
        return self._kept + more


class _Bad:
    """Stands for a value that could not be decoded; None is a value."""


class _StrictUsage(Usage, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Usage as a worker must send it: a misspelt count would otherwise be 0 without a word."""


_BAD: Final = _Bad()
_FAULTS: Final = (msgspec.MsgspecError, RecursionError, ValueError)
_LIST = msgspec.json.Decoder(list[Raw] | None)
_VALUE = msgspec.json.Decoder(Any)


def _read_list(raw: Raw | UnsetType, name: str, warnings: _Warnings) -> list[Raw] | None:
    if isinstance(raw, UnsetType):
        return None
    try:
        return _LIST.decode(raw)
    except _FAULTS:
        warnings.add(f"{name} was dropped: it must be a list")
        return None


def _decode(raw: Raw, where: str, warnings: _Warnings) -> Any:
    try:
        return _VALUE.decode(raw)
    except _FAULTS as fault:
        warnings.add(f"{where} was dropped: {fault}")
        return _BAD


def _to_usage(value: Any, where: str, warnings: _Warnings) -> Usage | None:
    try:
        usage = msgspec.convert(value, _StrictUsage)
    except _FAULTS as fault:
        warnings.add(f"{where} was dropped: {_plain(fault)}")
        return None
    return Usage(**msgspec.structs.asdict(usage))


def _read_span(entry: Raw, where: str, limits: Limits, warnings: _Warnings) -> Span | None:
    size = len(bytes(entry))
    if size > bounds.SPAN_BYTES_MAX:
        warnings.add(f"{where} was dropped: {size} bytes, the limit is {bounds.SPAN_BYTES_MAX}")
        return None
    value = _decode(entry, where, warnings)
    if value is _BAD:
        return None
    own_usage = value.pop("usage", None) if isinstance(value, dict) else None
    try:
        span = msgspec.convert(value, Span)
        _check_span(span)
    except _FAULTS as fault:
        warnings.add(f"{where} was dropped: {_plain(fault)}")
        return None
    return _finish_span(span, own_usage, where, limits, warnings)


def _check_span(span: Span) -> None:
    if not span.span_id.strip("0"):
        raise ValueError("span_id must not be all zeros")
    if max(int(span.start_unix_nano), int(span.end_unix_nano)) > bounds.UNIX_NANO_MAX:
        raise ValueError("start_unix_nano and end_unix_nano must fit 63 bits")


def _finish_span(span: Span, own_usage: Any, where: str, limits: Limits, warnings: _Warnings) -> Span:
    end = span.end_unix_nano
    if int(end) < int(span.start_unix_nano):
        warnings.add(f"{where} ends before it starts: its end was moved to its start")
        end = span.start_unix_nano
    attributes = {}
    for key, value in span.attributes.items():
        if _is_flat(value):
            attributes[key] = value
        else:
            warnings.add(f"{where}: an attribute was dropped: {key[:64]!r} is nested")
    usage = _span_usage(own_usage, where, limits, warnings)
    if usage is None:
        read = usage_from_attributes(attributes)
        usage = None if read is None else [read]
    return msgspec.structs.replace(
        span,
        span_id=span.span_id.lower(),
        parent_span_id=span.parent_span_id and span.parent_span_id.lower(),
        end_unix_nano=end,
        attributes=attributes,
        usage=usage,
    )


def _span_usage(value: Any, where: str, limits: Limits, warnings: _Warnings) -> list[Usage] | None:
    """A span's own usage, one model's or a list; None where nothing in it can be read."""
    if value is None:
        return None
    entries = value if isinstance(value, list) else [value]
    if len(entries) > limits.usage_per_call:
        warnings.add(f"{where}.usage: only the first {limits.usage_per_call} entries are kept")
    read = (_to_usage(entry, f"{where}.usage", warnings) for entry in entries[: limits.usage_per_call])
    kept = [usage for usage in read if usage is not None]
    return None if entries and not kept else kept


def _is_flat(value: Any) -> bool:
    if isinstance(value, list):
        return not any(isinstance(item, (dict, list)) for item in value)
    return not isinstance(value, dict)


def _count(attributes: dict[str, Any], names: Iterable[str]) -> int | None:
    """The first readable count under one of the names."""
    for name in names:
        count = _whole_number(attributes.get(name))
        if count is not None and 0 <= count <= bounds.TOKENS_MAX:
            return count
    return None


def _whole_number(value: Any) -> int | None:
    """Exporters write a count as a number, as one with `.0`, or as text."""
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if len(value) <= 16 and value.isascii() and value.isdigit():
            return int(value)
        case _:
            return None


def _model(attributes: dict[str, Any]) -> str:
    for name in _MODEL:
        value = attributes.get(name)
        if isinstance(value, str) and 0 < len(value) <= bounds.SHORT_TEXT_LENGTH_MAX:
            return value
    return UNKNOWN_MODEL


def _plain(fault: Exception) -> str:
    """A fault for a person: paths as they stand in the message, without the marks of code."""
    return str(fault).replace("`", "").replace("$.", "")
