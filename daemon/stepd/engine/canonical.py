"""JSON as this project reads, checks, writes, compares and hashes it: every value comes back as it was sent.

Decoded values are ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool`` and ``None``. An integer of more than
4,300 digits is a ``decimal.Decimal`` without a fraction, for ``int`` reads and writes such a text in quadratic time.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from hashlib import sha256
from math import isinf
from re import compile as pattern
from typing import Any, NoReturn

import msgspec

from stepd_protocol.limits import JSON_DEPTH_MAX

MAX_INT_DIGITS = 4_300
"""The longest integer, in digits, that is decoded to an ``int``; CPython's own limit for reading one from text."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(decimal_format="number").encode
_encode_by_code_point = msgspec.json.Encoder(order="sorted").encode


class Malformed(ValueError):
    """Bytes that are not JSON as the protocol takes it; ``str()`` of it is a reason fit for a person."""


def decode(raw: bytes) -> Any:
    """Returns the value of `raw`, exact, with the order of keys kept. Raises Malformed.

    It passes over what only `check_json` refuses: deep nesting, and a name that stands twice, of which the last counts.
    """
    try:
        return _decode(raw)
    except msgspec.ValidationError:
        return _read_strictly(raw, _whole_number, _double)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _explained(raw, error) from None


def encode(value: Any) -> bytes:
    """Returns `value` as compact UTF-8 JSON, with the order of keys kept: what `decode` gave comes back equal."""
    return _encode(value)


def canonical(raw: bytes) -> bytes:
    """Returns the canonical form of checked JSON: RFC 8785, except for numbers.

    Object names are ordered by their UTF-16 code units. A number without fraction or exponent keeps its digits (`-0`
    becomes `0`); any other is its shortest double as ECMAScript writes it, with `.0` where that would look like an
    integer.
    """
    try:
        value = _decode_for_hash(raw)
    except msgspec.ValidationError:
        value = _read_strictly(raw, _canonical_integer, _canonical_double)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _explained(raw, error) from None
    if _BEYOND_BMP.search(raw):
        return _encode(_ordered_by_utf16(value))
    return _encode_by_code_point(value)


def digest(raw: bytes) -> str:
    """Returns the SHA-256 of the canonical form of checked JSON, as 64 hex digits."""
    return sha256(canonical(raw)).hexdigest()


def equal(a: bytes, b: bytes) -> bool:
    """Tells whether two checked JSON texts are equal as JSON: whether their canonical forms are the same."""
    return a == b or canonical(a) == canonical(b)


def check_json(raw: bytes) -> None:
    """Raises Malformed unless `raw` is JSON that can pass through unharmed on every store.

    Refused are: bytes that aren't UTF-8, wrong syntax, NaN and Infinity, lone surrogates, more than 100 levels of
    nesting, a name that stands twice in one object, and a number with fraction or exponent beyond a double.
    """
    try:
        value = _decode(raw)
    except msgspec.ValidationError:
        value = _read_strictly(raw, _whole_number, _double)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _explained(raw, error) from None
    else:
        if not _surely_without_duplicates(raw, value):
            _read_strictly(raw, _whole_number, _double)
    if is_too_deep(raw, value):
        raise _too_deep()


def is_too_deep(raw: bytes, value: Any) -> bool:
    """Tells whether a value, also given as its JSON, is nested deeper than one that comes in from outside may be."""
    return raw.count(b"[") + raw.count(b"{") > JSON_DEPTH_MAX and _is_deeper_than(value, JSON_DEPTH_MAX)


# --- numbers ---------------------------------------------------------------------------------------------------------


def _whole_number(text: str) -> int | Decimal:
    return int(text) if len(text) <= MAX_INT_DIGITS else Decimal(text)


def _double(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise Malformed(f"the number {_shortened(text)} is beyond what a double can hold")
    return number


def _canonical_integer(text: str) -> msgspec.Raw:
    return msgspec.Raw(b"0" if text == "-0" else text.encode())


def _canonical_double(text: str) -> msgspec.Raw:
    return msgspec.Raw(_as_ecmascript(_double(text)).encode())


def _as_ecmascript(number: float) -> str:
    """Returns a double as ECMAScript's Number::toString has it, plus `.0` where that has neither point nor exponent."""
    if number == 0:
        return "0.0"
    text = repr(number)
    mantissa, exponent_mark, exponent_text = text.partition("e")
    if not exponent_mark:
        return text
    sign = "-" if mantissa[0] == "-" else ""
    digits = mantissa.lstrip("-").replace(".", "")
    exponent = int(exponent_text)
    if 0 <= exponent < 21:
        return f"{sign}{digits.ljust(exponent + 1, '0')}.0"
    if -7 < exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{exponent:+d}"


_decode_for_hash = msgspec.json.Decoder(float_hook=_canonical_double).decode


# --- names -----------------------------------------------------------------------------------------------------------

_BEYOND_BMP = pattern(rb"[\xf0-\xf4]|\\u[dD]")
"""Finds text where the order of UTF-16 code units may differ from the order of code points."""

_ESCAPED_COLON = b"\\u003"


def _ordered_by_utf16(value: Any) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=_utf16_code_units)
        return {name: _ordered_by_utf16(value[name]) for name in names}
    if isinstance(value, list):
        return [_ordered_by_utf16(item) for item in value]
    return value


def _utf16_code_units(name: str) -> bytes:
    return name.encode("utf-16-be")


def _surely_without_duplicates(raw: bytes, value: Any) -> bool:
    """Tells quickly that no name stood twice: each one dropped on decoding would have taken a colon with it."""
    return _ESCAPED_COLON not in raw and raw.count(b":") == _encode(value).count(b":")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise Malformed(f"the name {_shortened(name)!r} stands twice in one object")
            seen.add(name)
    return members


# --- the strict reader, which is slower and can say what is wrong ----------------------------------------------------


def _read_strictly(raw: bytes, parse_int: Callable[[str], Any], parse_float: Callable[[str], Any]) -> Any:
    reader = json.JSONDecoder(
        parse_int=parse_int,
        parse_float=parse_float,
        parse_constant=_no_constant,
        object_pairs_hook=_without_duplicates,
    )
    try:
        value = reader.decode(raw.decode())
        _encode(value)
    except json.JSONDecodeError as error:
        raise Malformed(f"no JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except UnicodeEncodeError:
        raise Malformed("a text holds half of a surrogate pair") from None
    except RecursionError:
        raise _too_deep() from None
    return value


def _no_constant(text: str) -> NoReturn:
    raise Malformed(f"{text} is no JSON")


def _explained(raw: bytes, error: Exception) -> Malformed:
    try:
        _read_strictly(raw, _whole_number, _double)
    except Malformed as reason:
        return reason
    return Malformed(f"no JSON: {error}")


def _too_deep() -> Malformed:
    return Malformed(f"nested deeper than {JSON_DEPTH_MAX} levels")


def _is_deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [child for parent in level for child in _children(parent) if type(child) in (dict, list)]
        if not level:
            return False
    return True


def _children(parent: Any) -> Any:
    if type(parent) is dict:
        return parent.values()
    return parent if type(parent) is list else ()


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
