"""`make fuzz`: at least so many requests, made from the daemon's document, with a seed that is told."""

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.fuzz.run import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000, help="how many at least")
    parser.add_argument("--examples", type=int, default=150, help="how many per operation and phase in one round")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(2**32), help="the first round's; the next is one more"
    )
    asked = parser.parse_args()
    sent, seed, began = 0, asked.seed, time.monotonic()
    while sent < asked.requests:
        with tempfile.TemporaryDirectory() as folder:
            found = fuzz(Path(folder), examples=asked.examples, seed=seed)
        sent += found.requests
        faults = found.faults()
        _tell(f"seed {seed}: {found.requests} requests, {found.by_status}")
        if faults:
            _tell("\n".join([found.said, found.log[-20_000:], *faults]))
            return 1
        seed += 1
    _tell(f"{sent} requests in {time.monotonic() - began:.0f} s: no 500, no undocumented status or field")
    return 0


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
