"""What a hostile client sends: JSON that is none, JSON of odd values, text that wants to be more than text."""

from typing import Final

from tests.support.client import Http, Json, compact

PLACE: Final = "\N{WHITE LARGE SQUARE}here\N{WHITE LARGE SQUARE}"
"""Stands for a value until bytes that are no JSON take its place."""

NO_JSON: Final[dict[str, bytes]] = {
    "lone surrogate": b'"\\ud800"',
    "bad UTF-8": b'"\xff\xfe"',
    "UTF-8 of a surrogate": b'"\xed\xa0\x80"',
    "overlong UTF-8": b'"\xc0\x80"',
    "a bare NUL": b'"\x00"',
    "NaN": b"NaN",
    "-Infinity": b"-Infinity",
    "1e400": b"1e400",
    "20,000 nested arrays": b"[" * 20_000 + b"]" * 20_000,
    "20,000 arrays that never end": b"[" * 20_000,
    "a name twice": b'{"a":1,"a":1}',
    "a name twice, deep down": b'{"a":[{"b":{"c":1,"\\u0063":2}}]}',
}
ODD: Final[dict[str, bytes]] = {
    "NUL": b'"a\\u0000b"',
    "10^40": b"1" + b"0" * 40,
    "2^63": b"9223372036854775808",
    "4,500 digits": b"9" * 4500,
    "-0": b"-0",
    "null": b"null",
    "nothing": b'""',
    "long text": b'"' + b"x" * 5_000 + b'"',
    "a list": b"[1]",
    "an object": b'{"a":1}',
    "an object of NULs": b'{"\\u0000":"\\u0000"}',
    "90 levels": b"[" * 90 + b"]" * 90,
    "non-characters": '"\ufffe\uffff\U0010ffff"'.encode(),
}
TEXTS: Final[dict[str, str]] = {
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(1)>&lt;'\"",
    "ANSI": "\x1b[2J\x1b[31mred\x1b]0;title\x07\x9b1m",
    "RTL marks": "\u202ereversed\u2066\u200f\u061c",
    "NUL": "a\0b",
    "stream": "x\r\n\r\nid: 7\ndata: {}\n\n",
    "template": "{{7*7}} ${7*7} {$cel} %s %n",
    "SQL": "'; drop table executions; --",
    "separators": "\u2028\u2029\u0085",
    "beyond the plane": "\U0001f600\U000e0041",
}


def with_bytes(body: Json, value: bytes) -> bytes:
    """The body as JSON, with these bytes in place of PLACE."""
    written = compact(body)
    assert written.count(compact(PLACE)) == 1, body
    return written.replace(compact(PLACE), value)


def documented(http: Http) -> Json:
    """The daemon's own OpenAPI document."""
    return http.get("/openapi.json").expect(200)
