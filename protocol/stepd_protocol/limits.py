"""Owns every bound of the protocol: those an operator may set (`Limits`) and those that are fixed."""

from typing import Final

from msgspec import Struct

KIB: Final = 1024
MIB: Final = 1024 * KIB


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds that are settings, with their defaults; a registration's answer tells them to workers.

    `…_bytes` count UTF-8 JSON as it came; the others count what they name.
    """

    request_bytes: int = 1 * MIB
    input_bytes: int = 256 * KIB
    output_bytes: int = 256 * KIB
    payload_bytes: int = 256 * KIB
    state_bytes: int = 256 * KIB
    foreach_outputs_bytes: int = 16 * MIB
    definition_bytes: int = 256 * KIB
    definition_steps: int = 500
    claim_answer_bytes: int = 8 * MIB
    message_bytes: int = 4 * KIB
    details_bytes: int = 64 * KIB
    progress_bytes: int = 64 * KIB
    labels: int = 64
    spans_per_call: int = 200
    usage_per_call: int = 200


# Text and JSON
JSON_DEPTH_MAX: Final = 100
SHORT_TEXT_LENGTH_MAX: Final = 256  # correlation, tenant, label values, evidence.reference
REASON_LENGTH_MAX: Final = 4_000  # evidence.reason, the reason of a cancel
IDEMPOTENCY_KEY_LENGTH_MAX: Final = 255
IDEMPOTENCY_KEPT_SECONDS: Final = 7 * 86_400

# Definitions
EXPRESSION_LENGTH_MAX: Final = 4_096
SECONDS_MIN: Final = 0.05
SECONDS_MAX: Final = 31_536_000
PRIORITY_MIN: Final = -100
PRIORITY_MAX: Final = 100
ATTEMPTS_MAX: Final = 1_000
REPEAT_ROUNDS_MAX: Final = 10_000
FOREACH_ITEMS_MAX: Final = 10_000
CHILD_DEPTH_MAX: Final = 10
DIGEST_VERSION_LENGTH: Final = 12

# Retry and time-out of a step that names none
RETRY_MAX_ATTEMPTS: Final = 3
RETRY_INITIAL_SECONDS: Final = 2.0
RETRY_FACTOR: Final = 2.0
RETRY_MAX_SECONDS: Final = 60.0
RETRY_AFTER_SECONDS_MAX: Final = 120
STEP_TIMEOUT_SECONDS: Final = 86_400
RETENTION_SECONDS: Final = 604_800
INTERRUPTED_IN_A_ROW_MAX: Final = 20  # this one counts as `retryable`

# Claims and leases
CLAIM_LEASES_MAX: Final = 100
CLAIM_LEASES: Final = 1
CLAIM_SERVES_MAX: Final = 1_000
SERVES_STEPS_MAX: Final = 500
WAIT_SECONDS_MAX: Final = 60
WAIT_SECONDS: Final = 30
LEASE_SECONDS: Final = 30
RECLAIM_SECONDS: Final = 15
HEARTBEAT_SECONDS: Final = 10
CLAIM_KEPT_SECONDS: Final = 600  # a claim id is remembered this long at least
UNSERVABLE_SECONDS: Final = 60  # a refused step is not offered to this instance again for so long
WORKER_LIVE_SECONDS: Final = 90  # a worker is live for so long after its last call
ANCESTOR_OUTPUTS_BYTES: Final = 1 * MIB

# Telemetry
TOKENS_MAX: Final = 2**53
SPAN_BYTES_MAX: Final = 64 * KIB  # of one span, as it came
SPANS_PER_EXPORT_MAX: Final = 2_048  # four of the batches that exporters send unless told otherwise
UNIX_NANO_MAX: Final = 2**63 - 1
WARNINGS_MAX: Final = 20  # of one field; then one more that counts the rest
WARNING_LENGTH_MAX: Final = 200

# Keys
KEY_TENANTS_MAX: Final = 100

# Prices
PRICES_MAX: Final = 10_000
BUDGET_COST_MAX: Final = 1_000_000_000  # units of the currency
PRICE_MAX: Final = 1_000_000_000  # units of the currency for a million tokens

# Reads
PAGE_ITEMS_MAX: Final = 200
PAGE_SPANS_MAX: Final = 1_000  # of GET …/spans, also where no limit is given
PAGE_SPANS_BYTES: Final = 4 * MIB  # a page of spans ends there; the rest is on the next
PAGE_ITEMS: Final = 50
SIGNALS_KEPT_MAX: Final = 1_000
EVENT_STREAM_COMMENT_SECONDS: Final = 15
