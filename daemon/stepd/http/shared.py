"""Owns what several routes take and give: parameters, headers and answers that mean the same everywhere."""

from typing import Annotated, Final

from msgspec import Meta

from stepd.http.table import Parameter, Success
from stepd_protocol import executions
from stepd_protocol.limits import IDEMPOTENCY_KEY_LENGTH_MAX
from stepd_protocol.problems import ExecutionRef

IDEMPOTENCY: Final = Parameter(
    name="Idempotency-Key",
    place="header",
    type=Annotated[str, Meta(min_length=1, max_length=IDEMPOTENCY_KEY_LENGTH_MAX, pattern=r"^[!-~]+$")],
    about="the same key with an equal body gets the first answer again",
)
REPLAYED: Final = ("Idempotency-Replayed", "`true` where this is the first answer again")
VIEW: Final = Success(
    status=202,
    type=(executions.ExecutionView, ExecutionRef),
    about="done; a key that may not read the execution gets its id and status only",
)
