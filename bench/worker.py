"""The worker process of the benchmark: bodies that do nothing, by the SDK as a user would write them."""

from __future__ import annotations

import sys
from typing import Any

from stepd_worker import Client, Repeat, Worker, Workflow


def workflow(name: str) -> Workflow:
    """A workflow whose bodies return a small output at once: ``noop-<steps>``, ``fan-out`` or ``rounds``."""
    made = Workflow(name)
    match name.partition("-"):
        case "noop", _, steps:
            _add_steps(made, int(steps))
        case "fan", _, _:
            _add_step(made, "each", foreach="input")
        case _:
            _add_step(made, "round", repeat=Repeat(until="index == input", max=10_000))
    return made


def _add_steps(made: Workflow, steps: int) -> None:
    for number in range(steps):

        @made.step(id=f"s{number}", effect="read_only")
        async def body(ctx: Any, input: Any) -> dict[str, bool]:
            return {"ok": True}


def _add_step(made: Workflow, id_: str, **options: Any) -> None:
    @made.step(id=id_, effect="read_only", **options)
    async def body(ctx: Any, input: Any) -> dict[str, bool]:
        return {"ok": True}


def main() -> None:
    """Serves one workflow until it is told to stop."""
    url, name, concurrency = sys.argv[1], sys.argv[2], int(sys.argv[3])
    Worker(Client(url), concurrency=concurrency).register(workflow(name)).serve()


if __name__ == "__main__":
    main()
