"""Finds variables of the environment that nothing reads, most of them misspelt; values are never shown."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from stepd.doctor.findings import Finding, ok, warning
from stepd.keys import VARIABLES
from stepd.settings import PREFIX, SETTINGS

OF_CLIENTS: Final = (
    "STEPD_URL",
    "STEPD_KEY",
    "STEPD_WORKER_NAME",
    "STEPD_WORKER_CONCURRENCY",
    "STEPD_WORKER_DRAIN_SECONDS",
)
KNOWN: Final = (*(setting.variable for setting in SETTINGS), *VARIABLES, *OF_CLIENTS)
LIKENESS: Final = 0.75
_ENDS: Final = tuple(name.removeprefix(PREFIX) for name in KNOWN)


def examine_variables(environment: Mapping[str, str]) -> list[Finding]:
    """One finding for each variable that looks like stepd's and is none."""
    names = [name for name in environment if name.upper().startswith(PREFIX)]
    strange = sorted(name for name in names if name not in KNOWN)
    if not strange:
        return [ok("variables", f"every {PREFIX}* variable that is set is known ({len(names)})")]
    return [_finding(name) for name in strange]


def _finding(name: str) -> Finding:
    # Without what all of them begin with, which would make any two alike.
    likely = get_close_matches(name.upper().removeprefix(PREFIX), _ENDS, n=1, cutoff=LIKENESS)
    way_out = (
        f"Did you mean {PREFIX}{likely[0]}?" if likely else "Remove it, or see docs/configuration.md for what there is."
    )
    return warning("variables", f"nothing reads {name}", way_out)
