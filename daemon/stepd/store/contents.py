"""What a database holds, for whoever examines it: the same of every store."""

from __future__ import annotations

from typing import Final

import msgspec

from stepd.store.base import QueueLine
from stepd.store.records import ServiceRow, WorkerRow

OVERDUE_MS: Final = 5_000
WORKERS_MS: Final = 3_600_000


class Contents(msgspec.Struct, kw_only=True):
    """What a database holds. All counts are of one moment or nearly so; times in ms."""

    tables: int
    version: str | None
    """The schema's; None where no table says so."""
    service: ServiceRow | None = None
    keys: int = 0
    """Also revoked ones."""
    admins: int = 0
    reconciliation: int = 0
    orphans: int = 0
    overdue: int = 0
    """What should have been acted upon more than five seconds ago."""
    queue: list[QueueLine] = []
    workers: list[WorkerRow] = []
    """Those heard of within the last hour."""
