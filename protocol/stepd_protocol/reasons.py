"""Owns the closed list of reasons why a worker's call is refused, in the order in which they are looked at."""

from typing import Final, Literal, TypeAlias, get_args

Reason: TypeAlias = Literal["already_settled", "execution_ended", "lease_lost", "lease_expired"]

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
"""The first that holds is given."""
