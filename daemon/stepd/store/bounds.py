"""The times and amounts that every store keeps to: how long something is kept, and how much is removed at once."""

from __future__ import annotations

from typing import Final

from stepd_protocol.limits import IDEMPOTENCY_KEPT_SECONDS

GRACE_AFTER_MS: Final = 5_000
"""After so long a time without a daemon every lease gets its time anew."""

CLAIMS_KEPT_MS: Final = 600_000
CALLS_KEPT_MS: Final = IDEMPOTENCY_KEPT_SECONDS * 1_000
LIVES_KEPT_MS: Final = 86_400_000
AUDIT_KEPT_MS: Final = 365 * 86_400_000

EXECUTIONS_AT_ONCE: Final = 50
ROWS_AT_ONCE: Final = 500
PAYLOADS_AT_ONCE: Final = 50
"""One may have as many pages as a thousand rows."""
