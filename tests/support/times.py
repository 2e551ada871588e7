"""Times as the protocol writes them; only the daemon's own times are compared with each other."""

import re
from datetime import datetime

from tests.support.client import Json

FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def instant(text: Json) -> datetime:
    """A time of an answer, after checking that it is written in UTC with milliseconds."""
    assert isinstance(text, str), f"no time: {text!r}"
    assert FORM.fullmatch(text), f"no time in UTC with milliseconds: {text!r}"
    return datetime.fromisoformat(text)


def seconds(earlier: Json, later: Json) -> float:
    """How many seconds after the first time the second one is."""
    return (instant(later) - instant(earlier)).total_seconds()
