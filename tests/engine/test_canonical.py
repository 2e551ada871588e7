"""JSON as it is checked, read, written and hashed."""

import json
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepd.engine.canonical import Malformed, canonical, check_json, decode, digest, encode, equal

LONG = "7" * 5_000
ELEMENTS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    ELEMENTS, lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(), below, max_size=4), max_leaves=12
)


def double(bits: str) -> float:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    return float(number)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b' { "b" : [ 1 , true , null ] , "a" : "x" } ', b'{"a":"x","b":[1,true,null]}'),
        (b"-0", b"0"),
        (b"[0,-1,12]", b"[0,-1,12]"),
        (b"123456789012345678901234567890", b"123456789012345678901234567890"),
        (LONG.encode(), LONG.encode()),
        (f"[-{LONG},-0,1.50]".encode(), f"[-{LONG},0,1.5]".encode()),
        (b"1.0", b"1.0"),
        (b"1e2", b"100.0"),
        (b"-0.0", b"0.0"),
        (b"1e20", b"100000000000000000000.0"),
        (b"1e21", b"1e+21"),
        (b"123456789012345680000.0", b"123456789012345680000.0"),
        (b"0.000001", b"0.000001"),
        (b"1E-7", b"1e-7"),
        (b"1.5e-9", b"1.5e-9"),
        (b"1.7976931348623157e308", b"1.7976931348623157e+308"),
        (b"5e-324", b"5e-324"),
        (b"1e-400", b"0.0"),
        (b"0.10000000000000000555", b"0.1"),
        (rb'"\u0008\u0009\u000a\u000c\u000d\u0022\u005c\u002f\u001f\u007f"', b'"\\b\\t\\n\\f\\r\\"\\\\/\\u001f\x7f"'),
        (rb'"\u00e9\u2028\ud83d\ude00\u0000"', '"é\u2028😀\\u0000"'.encode()),
        ('{"\ue000":1,"😀":2,"a":3}'.encode(), '{"a":3,"😀":2,"\ue000":1}'.encode()),
        (
            rb'{"\uf000":1,"\ud83d\ude00":{"\uf000":1.0,"\ud83d\ude00":2}}',
            '{"😀":{"😀":2,"\uf000":1.0},"\uf000":1}'.encode(),
        ),
        (b'{"":1," ":2}', b'{"":1," ":2}'),
    ],
)
def test_the_canonical_form(raw: bytes, expected: bytes) -> None:
    assert canonical(raw) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        ("0000000000000000", "0.0"),
        ("8000000000000000", "0.0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992.0"),
        ("c340000000000000", "-9007199254740992.0"),
        ("4430000000000000", "295147905179352830000.0"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000.0"),
        ("444b1ae4d6e2ef4f", "999999999999999900000.0"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_doubles_as_ecmascript_writes_them(bits: str, expected: str) -> None:
    assert canonical(repr(double(bits)).encode()).decode() == expected


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_keeps_its_value_and_never_looks_like_an_integer(number: float) -> None:
    written = canonical(encode(number)).decode()
    assert float(written) == number
    assert "." in written or "e" in written


def written_slowly(value: Any) -> str:
    """The canonical form put together by hand, from a value whose numbers are the text they came as."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return (
            "{"
            + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{written_slowly(value[name])}" for name in names)
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(written_slowly, value)) + "]"
    if isinstance(value, float):
        return canonical(repr(value).encode()).decode()
    return json.dumps(value, ensure_ascii=False)


@settings(deadline=None)
@given(VALUES)
def test_it_agrees_with_a_form_put_together_by_hand(value: Any) -> None:
    assert canonical(encode(value)).decode() == written_slowly(value)
    assert canonical(json.dumps(value, indent=1).encode()) == canonical(encode(value))


@settings(deadline=None)
@given(VALUES)
def test_a_value_comes_back_as_it_was_with_its_order(value: Any) -> None:
    back = decode(encode(value))
    assert json.dumps(back) == json.dumps(value)
    check_json(encode(value))


@pytest.mark.parametrize(
    "text", ["1", "1.0", "-0.0", "123456789012345678901234567890", LONG, f"-{LONG}", f'["\\u0000",{LONG}]']
)
def test_numbers_and_texts_come_back_as_they_were(text: str) -> None:
    assert encode(decode(text.encode())) == text.encode()


def test_an_integer_longer_than_python_reads_is_a_decimal() -> None:
    assert decode(LONG.encode()) == Decimal(LONG)
    assert isinstance(decode(b"7" * 4_300), int)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }', True),
        (b"1", b"1.0", False),
        (b"1.0", b"1.00", True),
        (b"100.0", b"1e2", True),
        (b"-0", b"0", True),
        (b"9007199254740993", b"9007199254740992", False),
        (b'"\\u0041"', b'"A"', True),
        (b"[1,2]", b"[2,1]", False),
        (LONG.encode(), LONG.encode(), True),
        (b"null", b"null", True),
    ],
)
def test_equal_as_json(one: bytes, other: bytes, same: bool) -> None:
    assert equal(one, other) is same
    assert (digest(one) == digest(other)) is same


def test_the_digest_is_the_sha256_of_the_canonical_form() -> None:
    assert digest(b"{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "no JSON"),
        (b'{"a":1', "no JSON"),
        (b"[1,]", "no JSON"),
        (b"01", "no JSON"),
        (b"1 2", "no JSON"),
        (b'"a\x01"', "no JSON"),
        (b"\xef\xbb\xbf1", "no JSON"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b'"\xff"', "UTF-8"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        (rb'"\ud800"', "surrogate"),
        (rb'["\udc00\ud800"]', "surrogate"),
        (rb'{"\ud800":1}', "surrogate"),
        (b'{"a":1,"a":2}', "'a' stands twice"),
        (rb'{"\u0061":1,"b":"\u003a","a":2}', "'a' stands twice"),
        (b'{"x":[{"a":":::","b":1,"a":":"}]}', "'a' stands twice"),
        (b"1e400", "beyond"),
        (b"[-1.5e999]", "beyond"),
        (b"[1e400," + b"1" * 5_000 + b"]", "beyond"),
        (b"[" + b"1" * 5_000 + rb',"\ud800"]', "surrogate"),
        (b'{"a":' + b"1" * 5_000 + b',"a":1}', "'a' stands twice"),
        (b"[" * 101 + b"]" * 101, "deeper than 100"),
        (b'{"a":' * 101 + b"1" + b"}" * 101, "deeper than 100"),
        (b"[" * 20_000 + b"]" * 20_000, "deeper than 100"),
        (b"[" * 20_000, "deeper than 100"),
    ],
)
def test_what_is_refused_at_the_door(raw: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        check_json(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100 + b"]" * 100,
        b'{"a":' * 100 + b"1" + b"}" * 100,
        b"[" + b"[]," * 500 + b"[]]",
        b'{"a":{"x":1},"b":{"x":1}}',
        b'{"a":"\\u003a\\":\\"","b":":"}',
        rb'"\ud83d\ude00 \u0000"',
        b"1e-400",
        LONG.encode(),
        b" null\n",
    ],
)
def test_what_is_taken_at_the_door(raw: bytes) -> None:
    check_json(raw)


@settings(deadline=None)
@given(
    st.text(alphabet='{}[]",:\\ aeu0123456789.-+\u00e9d8\n')
    | st.binary(max_size=12).map(lambda raw: raw.decode("latin-1"))
)
def test_the_door_takes_no_more_than_another_reader_does(text: str) -> None:
    raw = text.encode("utf-8")
    try:
        check_json(raw)
    except Malformed:
        return
    json.loads(raw)
    assert equal(encode(decode(raw)), raw)
