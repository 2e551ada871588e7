"""The worker process of the benchmark: bodies that do nothing, by the SDK as a user would write them."""

from __future__ import annotations

import sys
from typing import Any

from stepd_worker import Client, Worker, Workflow


def workflow(steps: int) -> Workflow:
    """``noop-<steps>``: that many sequential steps whose bodies return a small output at once."""
    made = Workflow(f"noop-{steps}")
    for number in range(steps):

        @made.step(id=f"s{number}", effect="read_only")
        async def body(ctx: Any, input: Any) -> dict[str, bool]:
            return {"ok": True}

    return made


def main() -> None:
    """Serves one workflow until it is told to stop."""
    url, steps, concurrency = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    Worker(Client(url), concurrency=concurrency).register(workflow(steps)).serve()


if __name__ == "__main__":
    main()
