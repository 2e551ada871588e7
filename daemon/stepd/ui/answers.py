"""Takes apart what the service answers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import msgspec

from stepd.service.base import Answer
from stepd_protocol.problems import Problem


def content(answer: Answer) -> Any:
    """What an answer says, its numbers exact. For answers of which it is known that they are no problem."""
    assert not isinstance(answer, Problem), answer
    return _decode(answer.body)


_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode
