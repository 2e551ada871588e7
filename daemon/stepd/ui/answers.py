"""Takes apart what the service answers."""

from __future__ import annotations

from typing import Any

import msgspec

from stepd.service.base import Answer
from stepd_protocol.problems import Problem


def content(answer: Answer) -> Any:
    """What an answer says, decoded. For answers of which it is known that they are no problem."""
    assert not isinstance(answer, Problem), answer
    return msgspec.json.decode(answer.body)
